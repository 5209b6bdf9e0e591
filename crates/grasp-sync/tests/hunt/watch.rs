//! Progress counts, never the time in all (HUNT-9).

use grasp_sync::hunt::Output;

use crate::sim::{Behaviour, START, Sim, has, lacks_all, secs};

fn at(sim: &Sim, is: impl Fn(&Output) -> bool) -> Vec<u64> {
    let such = sim.log.iter().filter(|(_, output)| is(output));
    such.map(|(at, _)| at.since(START).as_secs()).collect()
}

fn is_stop(output: &Output) -> bool {
    matches!(output, Output::Stop { .. })
}

fn is_warning(output: &Output) -> bool {
    matches!(output, Output::Silent { .. })
}

fn one(behaviour: Behaviour) -> Sim {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example"]);
    sim.behave("a.example", behaviour);
    sim.enqueue_after("x", secs(0));
    sim
}

/// HUNT-9
#[test]
fn a_minute_of_silence_is_worth_a_warning_and_five_are_the_end() {
    let mut sim = one(Behaviour::Silent);
    sim.pass(secs(310));
    assert_eq!(
        (at(&sim, is_warning), at(&sim, is_stop)),
        (vec![60], vec![300])
    );
    assert!(sim.running.is_empty());
    sim.pass(secs(120));
    assert_eq!(
        sim.asked("a.example").len(),
        2,
        "and is asked again in its turn"
    );
}

/// HUNT-9
#[test]
fn what_moves_has_all_the_time_it_needs() {
    let mut sim = one(Behaviour::Trickles(10));
    sim.pass(secs(24 * 3_600));
    assert_eq!((at(&sim, is_warning), at(&sim, is_stop)), (vec![], vec![]));
    assert_eq!(sim.asked("a.example").len(), 1);
}

/// HUNT-9: a count that does not rise is silence.
#[test]
fn the_same_count_again_is_no_progress() {
    let mut sim = one(Behaviour::Trickles(0));
    sim.pass(secs(310));
    assert_eq!(at(&sim, is_stop), [300]);
}

/// HUNT-9
#[test]
fn who_is_slow_makes_room_only_for_others() {
    for (rate, stopped) in [(4_000, true), (5_000, false)] {
        let mut sim = one(Behaviour::Trickles(rate));
        for n in 2..9 {
            let name = format!("r{n}");
            sim.owe(&name, 1, &[n], &["a.example"]);
            sim.enqueue_after(&name, secs(0));
        }
        sim.pass(secs(610));
        assert_eq!(!at(&sim, is_stop).is_empty(), stopped, "{rate}");
    }
}

/// HUNT-9: for the last of all slots too, and for those of a group.
#[test]
fn a_slow_one_makes_room_at_other_hosts_when_all_slots_are_taken() {
    let mut sim = Sim::new();
    for n in 0..16 {
        let (name, host) = (format!("r{n}"), format!("h{n}.example"));
        sim.owe(&name, 1, &[n], &[&host]);
        sim.behave(&host, Behaviour::Trickles(1_000));
        sim.enqueue_after(&name, secs(0));
    }
    sim.pass(secs(700));
    assert_eq!(at(&sim, is_stop), [0; 0]);
    sim.owe("x", 1, &[100], &["a.example"]);
    sim.behave("a.example", has(&[100], secs(1)));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(70));
    assert!(!sim.hunt.deferred().slots.eq(&0));
    assert_eq!(sim.asked("a.example").len(), 1);

    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example", "b.example", "c.example"]);
    for host in ["a.example", "b.example"] {
        sim.behave(host, Behaviour::Trickles(1_000));
    }
    sim.behave("c.example", lacks_all(None));
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(900));
    assert!(!sim.asked("c.example").is_empty());
}

/// HUNT-9: if both of a group are slow and there is nobody else, what has come so far is worth more than a new start.
#[test]
fn who_is_in_nobodys_way_may_be_slow() {
    let mut sim = Sim::new();
    sim.owe("x", 1, &[1], &["a.example", "b.example"]);
    for host in ["a.example", "b.example"] {
        sim.behave(host, Behaviour::Trickles(1_000));
    }
    sim.enqueue_after("x", secs(0));
    sim.pass(secs(3_600));
    assert_eq!(at(&sim, is_stop), [0; 0]);
    assert_eq!(sim.running.len(), 2);
}
