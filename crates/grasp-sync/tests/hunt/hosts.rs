//! How often hosts are asked, and who gets the slots (HUNT-7, HUNT-11, HUNT-13, HUNT-14).

use std::collections::BTreeSet;
use std::time::Duration;

use grasp_sync::hunt::{Broken, FetchOutcome, Host, Output};

use crate::sim::{
    Behaviour, START, Sim, broken, dead, fingerprint, group, has, host, lacks_all, named, oid,
    secs, url,
};

/// So many identifiers, each waiting for one object at the host.
fn crowd(sim: &mut Sim, count: u16, place: &str) {
    for n in 0..count {
        let name = format!("r{n:04}");
        sim.owe(&name, 1, &[n], &[place]);
        sim.enqueue_after(&name, secs(0));
    }
}

fn probes(sim: &Sim) -> usize {
    let probes = sim
        .log
        .iter()
        .filter(|(_, output)| matches!(output, Output::Probe { .. }));
    probes.count()
}

/// HUNT-7
#[test]
fn five_run_at_a_domain_and_the_next_begins_when_one_ends() {
    let mut sim = Sim::new();
    sim.behave("a.example", has(&(0..20).collect::<Vec<_>>(), secs(10)));
    crowd(&mut sim, 20, "a.example");
    sim.pass(secs(5));
    assert_eq!(sim.running.len(), 5);
    sim.pass(secs(36));
    assert_eq!(sim.brought.len(), 20);
    let mut asked = sim.asked("a.example");
    asked.dedup();
    assert_eq!(asked, [0, 10, 20, 30], "woken by a freed slot");
}

/// HUNT-7
#[test]
fn thirty_begin_at_a_domain_in_any_minute() {
    let mut sim = Sim::new();
    sim.behave(
        "a.example",
        has(&(0..100).collect::<Vec<_>>(), Duration::from_millis(100)),
    );
    crowd(&mut sim, 100, "a.example");
    sim.pass(secs(50));
    assert_eq!(sim.brought.len(), 30);
    let deferred = sim.hunt.deferred();
    assert_eq!((deferred.busy, deferred.per_minute), (95, 0));
    sim.owe("late", 1, &[99], &["a.example"]);
    sim.enqueue_after("late", secs(0));
    sim.pass(secs(1));
    assert_eq!(sim.hunt.deferred().per_minute, 1);
    sim.until(secs(200), Sim::is_paid).expect("all are found");
    assert_eq!(sim.busiest_minute(&host("a.example")), 30);
}

/// HUNT-7: a thousand identifiers at one domain that has none of it; everybody gets the same share.
#[test]
fn a_thousand_identifiers_at_one_domain_are_served_in_turn() {
    let mut sim = Sim::new();
    sim.behave("a.example", lacks_all(None));
    crowd(&mut sim, 1_000, "a.example");
    let rounds = 2;
    sim.pass(secs(rounds * 1_000 * 60 / 30 + 300));
    let mut times = std::collections::BTreeMap::<_, u64>::new();
    for (_, order) in sim.orders() {
        *times.entry(order.identifier.clone()).or_default() += 1;
    }
    assert_eq!(times.len(), 1_000);
    let least = times.values().min().copied().unwrap_or_default();
    assert!(least >= rounds - 1, "somebody was asked for {least} times");
    assert!(sim.busiest_minute(&host("a.example")) <= 30);
}

/// HUNT-7: a crowd at one domain delays nobody at another, and whoever has two asks where there is room.
#[test]
fn a_busy_domain_delays_only_who_has_no_other() {
    let mut sim = Sim::new();
    sim.behave("busy.example", lacks_all(None));
    crowd(&mut sim, 500, "busy.example");
    sim.pass(secs(600));
    let from = sim.now;
    sim.owe("x", 1, &[1_000], &["busy.example", "b.example"]);
    sim.behave("b.example", has(&[1_000], secs(1)));
    sim.enqueue("x");
    let found = sim.until(secs(60), |sim| {
        sim.brought.contains_key(&(named("x"), oid(1_000)))
    });
    assert!(found.expect("is found").since(from) < secs(3));
}

/// HUNT-7
#[test]
fn a_host_that_is_asked_too_often_has_its_pause() {
    for (retry_after, pause) in [
        (None, 60),
        (Some(secs(90)), 90),
        (Some(secs(1_000_000)), 3_600),
    ] {
        let mut sim = Sim::new();
        sim.owe("x", 1, &[1], &["a.example"]);
        let limited = FetchOutcome::RateLimited { retry_after };
        sim.behave("a.example", Behaviour::Ends(limited, secs(0)));
        sim.enqueue_after("x", secs(0));
        sim.pass(secs(1));
        sim.behave("a.example", has(&[1], secs(0)));
        let found = sim.until(secs(4_000), Sim::is_paid).expect("is found");
        let waited = found.since(START).as_secs();
        assert!(
            (pause..pause + 130).contains(&waited),
            "{waited} after a pause of {pause}"
        );
        assert!(sim.hunt.deferred().paused > 0);
    }
}

/// HUNT-14
#[test]
fn a_grasp_server_gets_more_once_it_has_said_so() {
    let mut sim = Sim::new();
    sim.grasp_hosts.insert(host("a.example"));
    sim.behave(
        "a.example",
        has(&(0..400).collect::<Vec<_>>(), Duration::from_millis(500)),
    );
    crowd(&mut sim, 400, "a.example");
    sim.pass(secs(59));
    assert_eq!(sim.busiest_minute(&host("a.example")), 300);
    sim.until(secs(60), Sim::is_paid).expect("all are found");
    assert_eq!(sim.busiest_minute(&host("a.example")), 300);
    assert_eq!(probes(&sim), 1);
}

/// HUNT-14: it is asked what it is once a day, and only while its limits hold something up.
#[test]
fn a_host_is_asked_once_a_day_what_it_is() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example"]);
    sim.behave("a.example", lacks_all(None));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(3_600));
    assert_eq!(probes(&sim), 0);
    crowd(&mut sim, 7, "a.example");
    sim.pass(secs(10 * 3_600));
    assert_eq!(probes(&sim), 1);
    sim.pass(secs(14 * 3_600));
    crowd(&mut sim, 7, "a.example");
    sim.pass(secs(3_600));
    assert_eq!(probes(&sim), 2);
}

/// HUNT-14
#[test]
fn a_grasp_server_with_too_much_to_do_gets_half() {
    let busy = [
        FetchOutcome::Unavailable,
        FetchOutcome::RateLimited {
            retry_after: Some(secs(1)),
        },
    ];
    for outcome in busy {
        let mut sim = Sim::new();
        sim.grasp_hosts.insert(host("a.example"));
        sim.behave(
            "a.example",
            Behaviour::Ends(outcome, Duration::from_millis(10)),
        );
        crowd(&mut sim, 400, "a.example");
        sim.pass(secs(3));
        sim.behave("a.example", lacks_all(None));
        sim.pass(secs(60));
        sim.forget_log();
        let halved_until = sim.now + secs(500);
        while sim.now < halved_until {
            sim.pass(secs(5));
            assert!(sim.running.len() <= 4, "half of eight");
        }
        assert!(sim.busiest_minute(&host("a.example")) <= 150);
        sim.pass(secs(120));
        sim.forget_log();
        sim.pass(secs(200));
        assert!(sim.busiest_minute(&host("a.example")) > 150);
    }
}

/// HUNT-11
#[test]
fn a_broken_host_is_left_alone_for_half_a_day() {
    let forbidden = Behaviour::Ends(FetchOutcome::Forbidden, secs(0));
    let protocol = Behaviour::Ends(FetchOutcome::Broken(Broken::Protocol), secs(0));
    for behaviour in [broken(), forbidden, protocol] {
        let mut sim = Sim::new();
        sim.owe("x", 1, &[1], &["a.example", "b.example"]);
        sim.owe("y", 1, &[2], &["a.example"]);
        sim.behave("a.example", behaviour);
        sim.enqueue_after("x", secs(0));
        sim.enqueue_after("y", secs(5));
        sim.pass(secs(12 * 3_600 - 1));
        assert_eq!(sim.asked("a.example"), [0]);
        assert!(sim.asked("b.example").len() > 300);
        assert!(sim.hunt.deferred().naughty > 0);
        sim.pass(secs(150));
        assert_eq!(sim.asked("a.example").len(), 2);
    }
}

/// HUNT-11
#[test]
fn what_a_host_lacked_is_asked_for_again_only_if_something_moved_there() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example"]);
    sim.behave("a.example", lacks_all(Some(fingerprint(1))));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(1_860));
    let unless: Vec<_> = sim.orders().map(|(_, order)| order.unless).collect();
    assert_eq!(unless[0], None);
    let with_listing = unless[1..]
        .iter()
        .take_while(|it| **it == Some(fingerprint(1)));
    assert!(with_listing.count() >= 14);
    assert!(
        unless[1..].contains(&None),
        "after half an hour it is asked again"
    );
    sim.owe("x", 1, &[1, 2], &["a.example"]);
    sim.pass(secs(121));
    let last = sim.orders().last().expect("an order").1;
    assert_eq!(last.unless, None, "something else is wanted");
}

/// HUNT-11: what was sent and is no good costs too much to be sent every two minutes.
#[test]
fn who_sends_what_harms_is_left_alone_and_others_of_that_host_are_not() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example", "a.example:81"]);
    let harmful = FetchOutcome::Harmful {
        reason: "a corrupt pack".to_owned(),
    };
    sim.behave("a.example", Behaviour::Ends(harmful, secs(1)));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(1_790));
    assert_eq!(sim.asked("a.example"), [0]);
    assert!(sim.asked("a.example:81").len() > 10);
    sim.pass(secs(200));
    assert_eq!(sim.asked("a.example").len(), 2);
}

/// HUNT-13
#[test]
fn what_is_parked_waits_behind_what_waits() {
    let mut sim = Sim::new();
    sim.behave("a.example", lacks_all(None));
    for n in 0..60 {
        let name = format!("p{n}");
        sim.owe_as(&name, group(1), true, &[], &[n], &["a.example"]);
        sim.enqueue_after(&name, secs(0));
    }
    crowd(&mut sim, 60, "a.example");
    sim.pass(secs(118));
    let parked = sim.orders().filter(|(_, order)| order.is_parked).count();
    assert_eq!(parked, 5, "who began before anything waited");
    assert_eq!(sim.orders().count(), 60);
    sim.pass(secs(3 * 3_600));
    let asked: BTreeSet<_> = sim
        .orders()
        .filter(|(_, order)| order.is_parked)
        .map(|(_, order)| order.identifier.clone())
        .collect();
    assert_eq!(asked.len(), 60, "its time comes");
}

/// G2-4: of what is parked those come first whose sources answered least lately.
#[test]
fn least_recent_success_comes_first() {
    let mut sim = Sim::new();
    sim.owe_as("a", group(1), true, &[], &[1], &["shared.example"]);
    sim.owe_as(
        "b",
        group(1),
        true,
        &[],
        &[2],
        &["shared.example", "b.example"],
    );
    sim.behave("b.example", lacks_all(None));
    sim.behave(
        "shared.example",
        Behaviour::Ends(FetchOutcome::Refused { status: 403 }, secs(1)),
    );
    for name in ["b", "a"] {
        sim.enqueue_after(name, secs(0));
    }
    sim.pass(secs(60));
    sim.behave(
        "shared.example",
        Behaviour::Ends(
            FetchOutcome::RateLimited {
                retry_after: Some(secs(3_600)),
            },
            secs(0),
        ),
    );
    sim.owe("c", 1, &[3], &["shared.example"]);
    sim.enqueue("c");
    sim.pass(secs(5));
    sim.forget_log();
    sim.behave("shared.example", lacks_all(None));
    sim.pass(secs(3 * 3_600));
    let first = sim
        .orders()
        .find(|(_, order)| order.is_parked && order.source == url("shared.example"));
    assert_eq!(first.expect("an order").1.identifier, named("a"));
}

/// HUNT-7, HUNT-14: whatever hosts do, their limits hold. The simulation checks what runs; this what begins.
#[test]
fn in_a_bad_network_limits_hold_and_all_is_found_in_the_end() {
    for seed in 0..8_u16 {
        let mut sim = Sim::with(grasp_sync::hunt::HuntSettings::default(), u64::from(seed));
        let kinds = [
            has(&(0..200).collect::<Vec<_>>(), secs(u64::from(seed) % 7)),
            dead(),
            Behaviour::Silent,
            Behaviour::Trickles(1_000 * (1 + u64::from(seed) % 9)),
            lacks_all(Some(fingerprint(1))),
            Behaviour::Ends(FetchOutcome::RateLimited { retry_after: None }, secs(1)),
            broken(),
            Behaviour::Ends(FetchOutcome::Refused { status: 404 }, secs(2)),
        ];
        let places: Vec<String> = (0..kinds.len()).map(|n| format!("h{n}.example")).collect();
        for (place, kind) in places.iter().zip(&kinds) {
            sim.behave(place, kind.clone());
        }
        for n in 0..120_u16 {
            let name = format!("r{n}");
            let picks = [seed + n, seed * 3 + n / 8 + 1, 0];
            let hosts = picks.map(|pick| places[usize::from(pick) % places.len()].as_str());
            sim.owe(
                &name,
                u8::try_from(n % 200).unwrap_or_default(),
                &[n],
                &hosts,
            );
            sim.enqueue_after(&name, secs(u64::from(n) % 90));
        }
        let found = sim.until(secs(6 * 3_600), Sim::is_paid);
        assert!(found.is_some(), "replay with seed {seed}");
        for place in &places {
            let most = sim.busiest_minute(&Host::of(&url(place)));
            assert!(most <= 30, "{most} at {place}, replay with seed {seed}");
        }
    }
}

/// G2-4, HUNT-13: who got no slot tries again soon, not in an hour.
#[test]
fn what_is_parked_and_was_left_out_tries_again_soon() {
    let mut sim = Sim::new();
    sim.behave("a.example", Behaviour::Trickles(1_000_000));
    crowd(&mut sim, 30, "a.example");
    sim.pass(secs(1));
    sim.owe_as("p", group(1), true, &[], &[100], &["a.example"]);
    sim.enqueue_after("p", secs(0));
    sim.pass(secs(1_200));
    let of_p = sim
        .orders()
        .filter(|(_, order)| order.identifier == named("p"));
    assert_eq!(of_p.count(), 0);
    let all: Vec<u16> = (0..=100).collect();
    sim.behave("a.example", has(&all, secs(1)));
    let fetches: Vec<_> = sim.running.keys().copied().collect();
    for fetch in fetches {
        sim.end(fetch);
    }
    let from = sim.now;
    let found = sim.until(secs(3_600), Sim::is_paid).expect("all is found");
    assert!(found.since(from) < secs(300), "{:?}", found.since(from));
}
