//! When it is looked for, and how long (HUNT-1 … HUNT-4, G2-4).

use std::time::Duration;

use grasp_sync::hunt::{Output, StoredEntry};

use crate::sim::{START, Sim, dead, group, has, named, oid, secs};

/// Seconds since the start at which an attempt began.
fn looks(sim: &Sim) -> Vec<u64> {
    let looks = sim
        .log
        .iter()
        .filter(|(_, output)| matches!(output, Output::Gather { .. }));
    looks.map(|(at, _)| at.since(START).as_secs()).collect()
}

/// HUNT-2, HUNT-5
#[test]
fn what_came_by_sync_is_fetched_at_once() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1, 2], &["a.example"]);
    sim.behave("a.example", has(&[1, 2], Duration::from_millis(200)));
    sim.enqueue("x");
    let paid = sim.until(secs(10), Sim::is_paid).expect("is found");
    assert!(paid.since(START) < secs(1));
    let (_, order) = sim.orders().next().expect("an order");
    assert_eq!(order.wants, [oid(1), oid(2)]);
    sim.pass(secs(1));
    assert!(sim.hunt.is_empty() && sim.stored.is_empty());
    assert!(matches!(
        sim.log.last(),
        Some((_, Output::Forget { seen: 1, .. }))
    ));
    assert_eq!(sim.hunt.next_deadline(), None);
}

/// HUNT-2
#[test]
fn after_a_clients_event_the_push_has_three_minutes() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example"]);
    sim.enqueue_after("x", secs(180));
    sim.pass(secs(179));
    assert_eq!(looks(&sim), [0; 0]);
    sim.debts.clear();
    sim.pass(secs(2));
    assert_eq!((looks(&sim), sim.hunt.len()), (vec![180], 0));
    assert_eq!(sim.orders().count(), 0);
}

/// HUNT-3, HUNT-4
#[test]
fn when_all_are_dead_the_wait_is_twenty_seconds_and_doubles_to_two_minutes() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example", "b.example"]);
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(600));
    let expected = [0, 20, 60, 140, 260, 380, 500];
    assert_eq!(looks(&sim), expected);
    for host in ["a.example", "b.example"] {
        assert_eq!(sim.asked(host), expected, "{host}");
    }
    let stored = sim.stored[&named("x")];
    assert_eq!((stored.attempt_count, stored.is_parked), (7, false));
}

/// HUNT-3: it is looked for as long as it is owed.
#[test]
fn what_appears_after_an_hour_is_still_found() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example", "b.example"]);
    sim.enqueue("x");
    sim.pass(secs(3_600));
    sim.behave("b.example", has(&[1], secs(1)));
    let from = sim.now;
    let paid = sim.until(secs(600), Sim::is_paid).expect("is found");
    assert!(paid.since(from) <= secs(122));
}

/// HUNT-4
#[test]
fn news_begins_the_waits_anew_and_only_brings_the_next_attempt_forward() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example"]);
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(150)); // the next attempt would be at 260
    sim.enqueue("x");
    sim.pass(secs(60));
    sim.enqueue_after("x", secs(180)); // at 210: would be later than the next
    sim.pass(secs(100));
    assert_eq!(looks(&sim), [0, 20, 60, 140, 150, 170, 210, 230, 270]);
}

/// HUNT-5: news in an attempt belongs to it, or a slow source would make it wait.
#[test]
fn news_during_an_attempt_is_looked_at_in_it() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["slow.example"]);
    sim.behave("slow.example", crate::sim::Behaviour::Trickles(1_000_000));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(10));
    sim.owe("x", 2, &[2], &["b.example"]);
    sim.behave("b.example", has(&[2], secs(1)));
    sim.enqueue("x");
    sim.pass(secs(3));
    assert_eq!(sim.brought.len(), 1);
    assert_eq!(looks(&sim), [0, 10]);
}

/// HUNT-1a
#[test]
fn a_restart_continues_where_it_was() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example"]);
    sim.behave("a.example", dead());
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(100)); // three attempts, the next is due at 140
    sim.restart();
    sim.pass(secs(300));
    assert_eq!(looks(&sim), [0, 20, 60, 140, 260, 380]);
}

/// HUNT-1a: a clock that was wrong does no lasting harm.
#[test]
fn times_are_capped_when_they_are_read_back() {
    for (is_parked, longest) in [(false, 120), (true, 66 * 60)] {
        let mut sim = Sim::new();
        sim.owe("x", 1, &[1], &["a.example"]);
        let stored = StoredEntry {
            next_attempt: START + secs(1_000_000),
            attempt_count: 3,
            is_parked,
        };
        sim.stored.insert(named("x"), stored);
        sim.restart();
        let entry = sim.hunt.entry(&named("x")).expect("an entry");
        assert_eq!(
            (entry.next_attempt, entry.attempt_count),
            (START + secs(longest), 3)
        );
        assert!(!entry.in_progress);
    }
}

/// G2-4, HUNT-13
#[test]
fn what_is_parked_is_looked_for_hourly() {
    let mut sim = Sim::new();
    sim.owe_as("x", group(1), true, &[], &[1], &["a.example"]);
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(24 * 3_600));
    let asked = sim.asked("a.example");
    assert!((22..=27).contains(&asked.len()), "{}", asked.len());
    for pair in asked.windows(2) {
        assert!(
            (54 * 60..=66 * 60).contains(&(pair[1] - pair[0])),
            "{pair:?}"
        );
    }
    let distinct: std::collections::BTreeSet<u64> =
        asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(distinct.len() > 5, "not all at once");
    assert!(sim.stored[&named("x")].is_parked);
    assert!(sim.orders().all(|(_, order)| order.is_parked));
    sim.restart();
    let from = sim.now;
    sim.behave("a.example", has(&[1], secs(1)));
    let paid = sim.until(secs(4_000), Sim::is_paid).expect("is found");
    assert!(paid > from);
    sim.pass(secs(1));
    assert!(sim.hunt.is_empty());
}

/// G2-4: what waits and then is parked is hourly from then on, and what waits beside it is not.
#[test]
fn what_expires_goes_over_to_the_hourly_rate() {
    let mut sim = Sim::new();
    sim.owe_as("x", group(1), true, &[1], &[2], &["a.example"]);
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(1_800));
    let with_parked = sim
        .orders()
        .filter(|(_, order)| order.wants.contains(&oid(2)));
    assert_eq!(with_parked.count(), 1, "only the first");
    assert!(sim.asked("a.example").len() > 15);
    sim.owe_as("x", group(1), true, &[], &[1, 2], &["a.example"]);
    sim.pass(secs(120));
    sim.forget_log();
    sim.pass(secs(3_600));
    assert_eq!(sim.orders().count(), 1);
    sim.owe_as(
        "x",
        group(1),
        true,
        &[],
        &[1, 2],
        &["a.example", "new.example"],
    );
    sim.behave("new.example", has(&[1, 2], secs(1)));
    sim.enqueue("x");
    assert!(
        sim.until(secs(3), Sim::is_paid).is_some(),
        "a new place is news"
    );
    assert_eq!(sim.asked("new.example").len(), 1);
}

/// HUNT-1, HUNT-4: who stands in line twice, parked and with news, is looked at once.
#[test]
fn who_stands_in_line_twice_is_looked_at_once() {
    let mut sim = Sim::new();
    let wants: Vec<u16> = (0..4_000).collect();
    let stored = |next: u64, is_parked| StoredEntry {
        next_attempt: START + secs(next),
        attempt_count: 1,
        is_parked,
    };
    for n in 0..60 {
        let (name, host) = (format!("r{n}"), format!("h{n}.example"));
        sim.owe(&name, 1, &wants, &[&host]);
        sim.behave(&host, crate::sim::Behaviour::Silent);
        sim.stored.insert(named(&name), stored(0, false));
    }
    sim.owe_as("p", group(1), true, &[], &[1], &["dead.example"]);
    sim.stored.insert(named("p"), stored(1, true));
    sim.restart();
    sim.pass(secs(2)); // no room: it waits, as one that is parked
    sim.enqueue_after("p", secs(0)); // and as one that is not
    sim.pass(secs(1_000));
    let is_of_p = |output: &Output| matches!(output, Output::Gather { identifier } if *identifier == named("p"));
    let looks: Vec<_> = sim
        .log
        .iter()
        .filter(|(_, output)| is_of_p(output))
        .collect();
    assert!(!looks.is_empty());
    for pair in looks.windows(2) {
        assert!(pair[1].0.since(pair[0].0) >= secs(20), "{pair:?}");
    }
}
