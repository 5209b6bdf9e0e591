//! Whom an attempt asks, in which order, and what a slow address can and cannot do (HUNT-5, HUNT-5a, HUNT-8).

use std::time::Duration;

use grasp_core::oid::Oid;
use grasp_sync::hunt::{FetchOutcome, GroupKey, HuntSettings, Output};

use crate::sim::{Behaviour, START, Sim, dead, group, has, key, named, oid, secs, url};

/// Seconds since the start at which `n` was brought to `name`.
fn brought(sim: &Sim, name: &str, n: u16) -> Option<u64> {
    let at = sim.brought.get(&(named(name), oid(n)))?;
    Some(at.since(START).as_secs())
}

fn wants_at(sim: &Sim, host: &str) -> Vec<Vec<Oid>> {
    let there = sim.orders().filter(|(_, order)| order.source == url(host));
    there.map(|(_, order)| order.wants.clone()).collect()
}

/// HUNT-5
#[test]
fn whoever_is_asked_next_is_asked_for_the_rest() {
    let mut sim = Sim::new();
    sim.owe(
        "x",
        1,
        &[1, 2, 3],
        &["a.example", "b.example", "c.example", "d.example"],
    );
    sim.behave("a.example", has(&[2], secs(1)));
    sim.behave("c.example", has(&[1, 3], secs(1)));
    sim.behave("d.example", has(&[1, 2, 3], secs(1)));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(10));
    assert_eq!(wants_at(&sim, "a.example"), [[1, 2, 3].map(oid)]);
    assert_eq!(wants_at(&sim, "b.example"), [[1, 3].map(oid)]);
    assert_eq!(wants_at(&sim, "c.example"), [[1, 3].map(oid)]);
    assert!(wants_at(&sim, "d.example").is_empty(), "nothing is missing");
    assert!(sim.hunt.is_empty());
}

/// HUNT-5a
#[test]
fn an_address_is_asked_for_its_own_groups_objects_only() {
    let mut sim = Sim::new();
    let erin = GroupKey::Proposer {
        to: key(1),
        author: key(5),
    };
    sim.owe("x", 1, &[1, 7], &["alice.example"]);
    sim.owe("x", 9, &[2], &["mallory.example"]);
    sim.owe_as("x", erin, true, &[7], &[], &["erin.example"]);
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(1));
    assert_eq!(wants_at(&sim, "alice.example"), [[1, 7].map(oid)]);
    assert_eq!(wants_at(&sim, "mallory.example"), [[2].map(oid)]);
    assert_eq!(wants_at(&sim, "erin.example"), [[7].map(oid)]);
}

/// HUNT-8: what a proposer's address brought need not come from the maintainers'.
#[test]
fn what_came_for_one_is_there_for_all_of_the_same_maintainers() {
    let mut sim = Sim::new();
    let erin = GroupKey::Proposer {
        to: key(1),
        author: key(5),
    };
    sim.owe("x", 1, &[7], &["alice.example"]);
    sim.owe("x", 9, &[7], &["mallory.example"]);
    sim.owe_as("x", erin, true, &[7], &[], &["erin.example"]);
    sim.behave("alice.example", Behaviour::Silent);
    sim.behave("mallory.example", Behaviour::Silent);
    sim.behave("erin.example", has(&[7], secs(1)));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(3));
    let running: Vec<_> = sim.running.values().map(|it| &it.order.source).collect();
    assert_eq!(
        running,
        [&url("mallory.example")],
        "a stranger's repository has nothing of it"
    );
}

/// HUNT-5a: what comes for somebody's announced repository is not in the one below `/prs/`.
#[test]
fn what_came_for_a_maintainer_is_not_there_for_the_same_key_s_proposals() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[7], &["alice.example"]);
    let submitter = GroupKey::Submitter(key(1));
    sim.owe_as("x", submitter, false, &[7], &[], &["fork.example"]);
    sim.behave("alice.example", has(&[7], secs(1)));
    sim.behave("fork.example", Behaviour::Silent);
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(3));
    let running: Vec<_> = sim.running.values().map(|it| &it.order.source).collect();
    assert_eq!(running, [&url("fork.example")]);
}

/// HUNT-8
#[test]
fn after_thirty_seconds_without_a_result_another_host_is_asked_as_well() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example", "b.example", "c.example"]);
    sim.behave("a.example", Behaviour::Silent);
    sim.behave("b.example", Behaviour::Silent);
    sim.behave("c.example", has(&[1], secs(1)));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(119));
    assert_eq!(
        (sim.asked("a.example"), sim.asked("b.example")),
        (vec![0], vec![30])
    );
    assert_eq!(sim.asked("c.example"), [0; 0], "one more, not two");
    let hedges: Vec<bool> = sim.orders().map(|(_, order)| order.is_hedge).collect();
    assert_eq!(hedges, [false, true]);
}

/// HUNT-8: the same host would be as slow.
#[test]
fn the_other_host_is_of_another_domain() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example", "a.example:8443", "b.example"]);
    sim.behave("a.example", Behaviour::Silent);
    sim.behave("b.example", has(&[1], secs(1)));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(40));
    assert_eq!(sim.asked("a.example:8443"), [0; 0]);
    assert_eq!(brought(&sim, "x", 1), Some(31));
}

/// HUNT-8: first success wins; the other goes on only if it still has something to bring.
#[test]
fn the_first_success_ends_the_other() {
    for (first_has, goes_on) in [(&[1, 2][..], false), (&[1][..], true)] {
        let mut sim = Sim::new();
        sim.owe("x", 1, &[1, 2], &["a.example", "b.example"]);
        sim.behave("a.example", Behaviour::Trickles(100_000));
        sim.behave("b.example", has(first_has, secs(1)));
        sim.enqueue_after("x", secs(0));
        sim.pass(secs(35));
        assert_eq!(sim.running.len() == 1, goes_on, "{first_has:?}");
        assert_eq!(sim.hunt.is_empty(), !goes_on);
    }
}

/// HUNT-5a, HUNT-9: what moves goes on by itself; the identifier is looked at again as usual, and others are asked meanwhile.
#[test]
fn a_slow_transfer_is_detached_and_holds_up_no_attempt() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["slow.example", "b.example"]);
    sim.behave("slow.example", Behaviour::Trickles(100_000));
    sim.behave("b.example", dead());
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(119));
    assert!(sim.hunt.entry(&named("x")).expect("an entry").in_progress);
    sim.pass(secs(2));
    let entry = sim.hunt.entry(&named("x")).expect("an entry");
    assert_eq!((entry.in_progress, entry.attempt_count), (false, 1));
    assert_eq!(entry.next_attempt.since(START).as_secs(), 140);
    assert_eq!(sim.running.len(), 1, "it goes on");
    sim.pass(secs(180));
    assert_eq!(
        sim.asked("slow.example"),
        [0],
        "not a second time beside itself"
    );
    assert_eq!(sim.asked("b.example"), [30, 140, 180, 260]);
    sim.behave("b.example", has(&[1], secs(1)));
    sim.until(secs(200), Sim::is_paid).expect("is found");
    sim.pass(secs(3));
    assert!(sim.running.is_empty() && sim.hunt.is_empty());
}

/// HUNT-5a
#[test]
fn a_strangers_slow_address_delays_nobody() {
    for slow in [Behaviour::Silent, Behaviour::Trickles(100_000)] {
        let mut sim = Sim::new();
        sim.owe_as(
            "x",
            group(9),
            false,
            &[9],
            &[],
            &["slow.example", "slow2.example"],
        );
        sim.behave("slow.example", slow.clone());
        sim.behave("slow2.example", slow);
        sim.enqueue_after("x", secs(0));
        sim.pass(secs(50));
        sim.owe("x", 1, &[1], &["a.example"]);
        sim.behave("a.example", has(&[1], secs(1)));
        sim.enqueue("x");
        sim.pass(secs(2));
        assert_eq!(brought(&sim, "x", 1), Some(51));
    }
}

/// HUNT-5a: at most four side by side; those with something served get their turn however many strangers there are, and nobody
/// is left out for ever.
#[test]
fn groups_have_their_turns() {
    let mut sim = Sim::new();
    for stranger in 10..30 {
        let host = format!("s{stranger}.example");
        let wants = [u16::from(stranger)];
        sim.owe_as("x", group(stranger), false, &wants, &[], &[&host]);
        sim.behave(&host, Behaviour::Trickles(100_000));
    }
    sim.owe("x", 1, &[1], &["a.example"]);
    sim.behave("a.example", has(&[1], secs(10)));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(5));
    assert_eq!(sim.running.len(), 4);
    sim.pass(secs(6));
    assert_eq!(brought(&sim, "x", 1), Some(10));
    sim.pass(secs(600));
    let asked = (10..30).filter(|n| !sim.asked(&format!("s{n}.example")).is_empty());
    assert_eq!(asked.count(), 16, "as many as may run at all");
    for stranger in 10..30 {
        sim.behave(&format!("s{stranger}.example"), dead());
    }
    sim.forget_log();
    sim.running.clear();
    sim.restart();
    sim.pass(secs(600));
    let asked = (10..30).filter(|n| !sim.asked(&format!("s{n}.example")).is_empty());
    assert_eq!(asked.count(), 20);
}

/// HUNT-5a: newcomers do not push each other out: those who had no turn come first in the next attempt.
#[test]
fn who_had_no_turn_comes_first_in_the_next_attempt() {
    let settings = HuntSettings {
        fetches_max: 64.try_into().expect("not zero"),
        ..HuntSettings::default()
    };
    let mut sim = Sim::with(settings, 1);
    for stranger in 10..30 {
        let host = format!("s{stranger}.example");
        let wants = [u16::from(stranger)];
        sim.owe_as("x", group(stranger), false, &wants, &[], &[&host]);
        sim.behave(&host, Behaviour::Trickles(100_000));
    }
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(5 * 240));
    let asked = (10..30).filter(|n| sim.asked(&format!("s{n}.example")).len() == 1);
    assert_eq!(asked.count(), 20);
}

/// HUNT-5a: so too where the time of an attempt is not enough for all of them.
#[test]
fn who_had_no_turn_comes_before_those_who_failed_slowly() {
    let mut sim = Sim::new();
    for stranger in 10..30 {
        let host = format!("s{stranger}.example");
        let wants = [u16::from(stranger)];
        sim.owe_as("x", group(stranger), false, &wants, &[], &[&host]);
        sim.behave(&host, Behaviour::Ends(FetchOutcome::Unavailable, secs(50)));
    }
    sim.enqueue_after("x", secs(0));
    let asked = |sim: &Sim| {
        let hosts = (10..30).map(|n| format!("s{n}.example"));
        hosts.filter(|host| !sim.asked(host).is_empty()).count()
    };
    sim.pass(secs(139));
    assert_eq!(
        asked(&sim),
        12,
        "four at a time, in an attempt of two minutes"
    );
    sim.pass(secs(100));
    assert_eq!(asked(&sim), 20);
}

/// §16: two at once for one group, whatever it has to ask.
#[test]
fn a_group_has_two_fetches_at_most() {
    let mut sim = Sim::new();
    let hosts: Vec<String> = (0..20).map(|n| format!("h{n}.example")).collect();
    let names: Vec<&str> = hosts.iter().map(String::as_str).collect();
    sim.owe("x", 1, &[1], &names);
    for host in &names {
        sim.behave(host, Behaviour::Trickles(100_000));
    }
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(3_600)); // the simulation counts
    assert_eq!(sim.running.len(), 2);
}

/// HUNT-9: our own trouble is nobody's fault, and no reason to ask everybody else.
#[test]
fn when_we_cannot_take_it_in_nobody_else_is_asked() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example", "b.example"]);
    let full = FetchOutcome::Ours {
        reason: "the disk is full".to_owned(),
    };
    sim.behave("a.example", Behaviour::Ends(full, secs(1)));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(10));
    assert_eq!(
        (sim.asked("a.example"), sim.asked("b.example")),
        (vec![0], vec![])
    );
    sim.behave("a.example", has(&[1], secs(1)));
    assert!(sim.until(secs(30), Sim::is_paid).is_some());
}

/// HUNT-5
#[test]
fn what_was_overtaken_is_wanted_no_more() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example", "b.example"]);
    sim.behave(
        "a.example",
        Behaviour::Ends(FetchOutcome::Overtaken, secs(1)),
    );
    sim.enqueue_after("x", secs(0));
    sim.pass(Duration::from_millis(900));
    sim.debts.clear(); // a push was faster
    sim.pass(secs(1));
    assert_eq!(sim.asked("b.example"), [0; 0]);
    assert!(sim.hunt.is_empty());
}

/// HUNT-4: what is owed no more is fetched no more.
#[test]
fn what_is_deleted_meanwhile_is_given_up() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example"]);
    sim.behave("a.example", Behaviour::Trickles(100_000));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(130));
    sim.debts.clear();
    sim.pass(secs(20));
    assert!(sim.hunt.is_empty() && sim.running.is_empty());
    let stops = sim
        .log
        .iter()
        .filter(|(_, output)| matches!(output, Output::Stop { .. }));
    assert_eq!(stops.count(), 1);
}

/// HUNT-5a: more groups than an attempt has room for have their turns in several.
#[test]
fn any_number_of_groups_has_its_turns() {
    let mut sim = Sim::new();
    for stranger in 0..200 {
        let host = format!("s{stranger}.example");
        let wants = [u16::from(stranger)];
        sim.owe_as("x", group(stranger), false, &wants, &[], &[&host]);
        sim.behave(&host, has(&wants, Duration::from_millis(10)));
    }
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(10));
    assert_eq!(
        sim.brought.len(),
        64 + 64 + 64 + 8,
        "it looks again when all came"
    );
    assert!(sim.hunt.is_empty());
}

/// HUNT-5: whoever was asked in vain in this attempt is asked again only for something else; a new address is asked at once.
#[test]
fn news_of_an_address_asks_that_address() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example", "slow.example"]);
    sim.behave("slow.example", Behaviour::Silent);
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(35));
    sim.owe("x", 1, &[1], &["a.example", "slow.example", "new.example"]);
    sim.enqueue("x");
    sim.pass(secs(2));
    assert_eq!(sim.asked("a.example"), [0]);
    assert_eq!(sim.asked("new.example"), [35]);
    sim.owe(
        "x",
        1,
        &[1, 2],
        &["a.example", "slow.example", "new.example"],
    );
    sim.enqueue("x");
    sim.pass(secs(2));
    assert_eq!(sim.asked("a.example"), [0, 37]);
    assert_eq!(wants_at(&sim, "a.example")[1], [1, 2].map(oid));
}

/// HUNT-5: whoever is to be asked for something else is so also if there is news of other things before its turn comes.
#[test]
fn more_news_does_not_undo_that_somebody_is_asked_again() {
    let mut sim = Sim::new();
    let hosts = ["a.example", "slow.example"];
    sim.owe("x", 1, &[1], &hosts);
    sim.behave("slow.example", Behaviour::Silent);
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(5));
    sim.owe("x", 1, &[1, 2], &hosts);
    sim.enqueue("x");
    sim.pass(secs(2));
    sim.enqueue("x");
    sim.pass(secs(30));
    assert_eq!(sim.asked("a.example"), [0, 30]);
    assert_eq!(wants_at(&sim, "a.example")[1], [1, 2].map(oid));
}

/// HUNT-12: what came while a look was under way is not asked for because the look did not know of it.
#[test]
fn a_look_that_is_out_of_date_asks_for_nothing_that_is_here() {
    use grasp_sync::hunt::{FetchEnd, Input};
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1, 2], &["a.example", "b.example"]);
    sim.behave("a.example", Behaviour::Silent);
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(1));
    let fetch = *sim.running.keys().next().expect("it runs");
    sim.enqueue_after("x", secs(0)); // a look begins, and is answered in a millisecond
    sim.running.remove(&fetch);
    let missing = [oid(2)].into();
    let outcome = FetchOutcome::Lacks {
        missing,
        advertisement: None,
    };
    let end = FetchEnd {
        installed: [oid(1)].into(),
        outcome,
    };
    sim.hand_in(Input::Ended { fetch, end });
    sim.pass(secs(1));
    let asked = wants_at(&sim, "b.example");
    assert_eq!(asked, [[oid(2)]]);
    assert!(
        wants_at(&sim, "a.example").len() == 1,
        "nor is anybody asked twice"
    );
}

/// §16: what all attempts hold is bounded, and everybody has their turn.
#[test]
fn very_many_objects_are_looked_for_a_part_at_a_time() {
    let mut sim = Sim::new();
    let wants: Vec<u16> = (0..4_000).collect();
    for n in 0..120 {
        let (name, host) = (format!("r{n}"), format!("h{n}.example"));
        sim.owe(&name, 1, &wants, &[&host]);
        sim.behave(&host, Behaviour::Silent);
        sim.enqueue_after(&name, secs(0));
    }
    sim.pass(secs(5));
    let begun = |sim: &Sim| {
        let entries = (0..120).filter_map(|n| sim.hunt.entry(&named(&format!("r{n}"))));
        entries.filter(|entry| entry.in_progress).count()
    };
    assert!((50..=54).contains(&begun(&sim)), "{}", begun(&sim));
    for n in 0..120 {
        sim.behave(&format!("h{n}.example"), has(&wants, secs(1)));
    }
    assert!(sim.until(secs(3_600), Sim::is_paid).is_some());
}
