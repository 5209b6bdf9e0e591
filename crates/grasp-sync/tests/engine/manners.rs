//! How the engine behaves towards peers that are slow, small, strict or hostile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use grasp_sync::engine::{
    Counted, DialFailure, HealthState, Input, Output, PeerInfo, Settings, settings,
};

use crate::peer::Peer;
use crate::script::{PLAIN, Script};
use crate::sim::{START, Sim};
use crate::world::{relay, repository, root};

fn connected() -> Script {
    let mut script = Script::new(vec![repository(1, &[1]), root(10, 1)]);
    script.connect(PLAIN);
    script
}

/// Connected, with the first subscription answered: the second live one and the first history are out.
fn asked() -> Script {
    let mut script = connected();
    let first = script.reqs();
    script.eose(&first[0]);
    script.pass_secs(1);
    script
}

fn health(script: &Script) -> HealthState {
    script.engine.reports().next().expect("one").health
}

/// SYNC-21: case 66.
#[test]
fn three_hundred_repositories_fit_ten_subscriptions() {
    let info = PeerInfo {
        max_subscriptions: Some(10),
        ..PLAIN
    };
    let peer = Peer::new(info, 500);
    let mut sim = Sim::new(1, Settings::default(), BTreeMap::from([(relay(1), peer)]));
    let mut notices: Vec<_> = (0..300).map(|n| repository(n, &[1])).collect();
    notices.extend((0..2_500).map(|n| root(1_000 + n, n % 300)));
    sim.start(notices);
    sim.run_until(START + Duration::from_secs(20));
    let number = sim
        .engine
        .relay_sync_index()
        .number(&relay(1))
        .expect("known");
    let live = sim.engine.live(number).expect("connected");
    assert_eq!(
        live.len(),
        7,
        "two unused, one for questions: the simulator counts"
    );
    let (least_live, first_polled) = live.edge();
    assert!(
        first_polled >= least_live,
        "what is dropped is the least important"
    );
    sim.run_until(START + Duration::from_secs(400));
    let report = sim.engine.reports().next().expect("one");
    assert_eq!(
        (report.confirmed, report.missing, report.pending),
        (2_800, 0, 0)
    );
}

/// SYNC-40: only a dial that took too long is told so; one that is given up because nobody needs it is not.
#[test]
fn a_dial_that_takes_too_long_is_counted() {
    let mut script = Script::new(vec![repository(1, &[1])]);
    script.pass_secs(1);
    assert_eq!(script.dials().len(), 1);
    script.pass_secs(5);
    let told = |output: &Output| match output {
        Output::Count { what, .. } => Some(*what),
        _ => None,
    };
    let told: Vec<_> = script.take().iter().filter_map(told).collect();
    assert_eq!(told, [Counted::DialTimedOut]);
}

/// SYNC-22
#[test]
fn dials_are_few_and_apart() {
    let notices = (0..30).map(|n| repository(n, &[n])).collect();
    let mut script = Script::new(notices);
    let mut dialled = Vec::new();
    for _ in 0..40 {
        let now = script.now;
        dialled.extend(script.dials().into_iter().map(|_| now));
        script.pass(Duration::from_millis(250));
    }
    // Nobody answers, so each dial holds its place for five seconds.
    let apart = dialled.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(apart.min().expect("several") >= settings::CONNECT_GAP);
    let within = |from: u64| {
        let start = dialled[0] + Duration::from_secs(from);
        let end = start + Duration::from_secs(5);
        dialled
            .iter()
            .filter(|at| **at >= start && **at < end)
            .count()
    };
    assert_eq!(within(0), settings::CONNECTS_MAX);
    assert_eq!(within(5), settings::CONNECTS_MAX);
}

/// SYNC-22
#[test]
fn a_start_spreads_its_dials_over_ten_seconds() {
    let notices = (0..8).map(|n| repository(n, &[n])).collect();
    let mut engine = grasp_sync::engine::Engine::new(Settings::default(), 3);
    let cursors = Vec::new();
    let mut out = engine.handle(Input::Loaded { notices, cursors }, START);
    let mut at = Vec::new();
    while at.len() < 8 {
        at.extend(
            out.iter()
                .filter(|it| matches!(it, Output::Connect { .. }))
                .map(|_| engine.now()),
        );
        let next = engine.next_deadline().expect("more to come");
        out = engine.handle(Input::Wake, next);
    }
    assert!(
        at[7].since(at[0]) > Duration::from_secs(4)
            && at[7].since(START) <= Duration::from_secs(12)
    );
}

/// SYNC-22: questions about the past are a second apart, one batch at a time and at most five open.
#[test]
fn background_questions_are_a_second_apart() {
    let mut notices = vec![repository(1, &[1])];
    notices.extend((0..900).map(|n| root(100 + n, 1)));
    let mut script = Script::new(notices);
    script.connect(PLAIN);
    let first = script.reqs();
    script.eose(&first[0]);
    let mut times = Vec::new();
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let now = script.now;
        let asked: Vec<_> = script
            .reqs()
            .into_iter()
            .filter(|req| !req.is_live())
            .collect();
        times.extend(asked.iter().map(|_| now));
        waiting.extend(asked);
        if waiting.len() > 1 || script.now.as_millis().is_multiple_of(3) {
            waiting.drain(..).for_each(|req| script.eose(&req));
        }
        script.pass(Duration::from_millis(200));
    }
    let apart = times.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(times.len() > 5 && apart.min().expect("several") >= settings::BACKGROUND_GAP);
}

/// SYNC-22, SYNC-24
#[test]
fn at_most_eight_relays_are_read_back_at_once_and_the_others_wait_their_turn() {
    let notices = (0..12).map(|n| repository(n, &[n])).collect();
    let mut script = Script::new(notices);
    for _ in 0..12 {
        script.connect(PLAIN);
    }
    let mut busy = Vec::new();
    for _ in 0..10 {
        for req in script.reqs() {
            if req.is_live() {
                script.eose(&req);
            } else {
                busy.push(req);
            }
        }
        script.pass_secs(1);
    }
    let connections: BTreeSet<_> = busy.iter().map(|req| req.connection).collect();
    assert_eq!(connections.len(), settings::HISTORIES_MAX);
    script.eose(&busy[0]);
    let next = script.reqs();
    assert!(
        next.iter()
            .any(|req| !connections.contains(&req.connection)),
        "the ninth gets its turn"
    );
    busy.iter()
        .skip(1)
        .chain(&next)
        .for_each(|req| script.eose(req));
    script.answer_all(20);
    assert!((0..12).all(|n| script.books(n) == (1, 0, 0)));
}

/// SYNC-24: case 67.
#[test]
fn a_relay_that_never_answers_delays_no_other() {
    let notices = (0..10).map(|n| repository(n, &[n])).collect();
    let mut script = Script::new(notices);
    let mut silent = None;
    let start = script.now;
    while script.now < start + Duration::from_secs(20) {
        for (connection, url) in script.dials() {
            if url == relay(0) {
                silent = Some(connection);
            } else {
                let peer = PLAIN;
                script.give(Input::Connected { connection, peer });
            }
        }
        for req in script.reqs() {
            script.eose(&req);
        }
        script.pass(Duration::from_millis(100));
    }
    assert!(silent.is_some());
    assert!((1..10).all(|n| script.books(n) == (1, 0, 0)));
    assert_eq!(script.books(0), (0, 0, 1));
}

/// SYNC-24: eight relays that take every question and answer none do not keep the ninth waiting.
#[test]
fn relays_that_keep_us_waiting_make_room_for_others() {
    let notices = (0..9).map(|n| repository(n, &[n])).collect();
    let mut script = Script::new(notices);
    for _ in 0..9 {
        script.connect(PLAIN);
    }
    let mut first_asked = BTreeMap::new();
    let start = script.now;
    for _ in 0..20 {
        for req in script.reqs() {
            if req.is_live() {
                script.eose(&req);
            } else {
                first_asked
                    .entry(req.connection)
                    .or_insert(script.now.since(start).as_secs());
            }
        }
        script.pass_secs(1);
    }
    let times: Vec<_> = first_asked.into_values().collect();
    assert_eq!(times.len(), 9);
    assert!(times.iter().all(|secs| *secs <= 15), "{times:?}");
}

/// SYNC-4, SYNC-23
#[test]
fn a_question_without_an_answer_fails_its_batch_and_is_asked_again() {
    let mut script = asked();
    let held = script.reqs();
    script.pass_secs(121);
    let closed = |script: &Script, req: &crate::script::Req| {
        let is_it = |output: &Output| matches!(output, Output::Unsubscribe { subscription, .. } if *subscription == req.subscription);
        script.out.iter().any(is_it)
    };
    let history: Vec<_> = held.iter().filter(|req| !req.is_live()).collect();
    assert!(!history.is_empty() && history.iter().all(|req| closed(&script, req)));
    assert!(script.counted(Counted::Unanswered) > 0);
    assert_eq!(script.books(1), (0, 2, 0), "nothing is confirmed");
    assert!(script.reqs().is_empty(), "not at once");
    script.pass_secs(66);
    script.answer_all(30);
    assert_eq!(script.books(1), (2, 0, 0));
}

/// SYNC-4: case 58.
#[test]
fn a_lost_connection_is_no_end_of_a_history() {
    let mut script = asked();
    let history = script
        .reqs()
        .into_iter()
        .find(|req| !req.is_live())
        .expect("asked");
    script.deliver(&history, (0..40).map(|n| 1_000 - n));
    let connection = history.connection;
    script.give(Input::Disconnected { connection });
    assert_eq!(script.books(1), (0, 0, 2));
    // What comes late from the old connection changes nothing.
    script.eose(&history);
    assert_eq!(script.books(1), (0, 0, 2));
    script.connect(PLAIN);
    script.answer_all(20);
    assert_eq!(script.books(1), (2, 0, 0));
}

/// SYNC-46, SYNC-5: failed dials are spaced by health, and the relay is kept.
#[test]
fn dials_that_fail_grow_rare() {
    let mut script = Script::new(vec![repository(1, &[1])]);
    let hour = Duration::from_hours(1);
    let first = script.refuse_dials(DialFailure::Unreachable, hour);
    assert!((9..=11).contains(&first), "{first} dials in the first hour");
    let day = script.refuse_dials(DialFailure::Unreachable, hour * 24);
    assert!((20..=26).contains(&day), "{day} dials in the next day");
    let dead = script.refuse_dials(DialFailure::Unreachable, hour * 24 * 7);
    assert!((6..=8).contains(&dead), "{dead} dials in a week");
    assert_eq!(health(&script), HealthState::Dead);
    script.connect(PLAIN);
    script.answer_all(20);
    assert_eq!(script.books(1), (1, 0, 0));
    let mut broken = Script::new(vec![repository(1, &[1])]);
    assert_eq!(broken.refuse_dials(DialFailure::Broken, hour * 11), 1);
}

/// SYNC-27, SYNC-28
#[test]
fn a_full_page_is_followed_by_the_next_and_one_second_by_itself() {
    let mut script = Script::new(vec![repository(1, &[1])]);
    script.connect(PLAIN);
    let first = script.reqs();
    script.eose(&first[0]);
    script.pass_secs(1);
    let mut req = script
        .reqs()
        .into_iter()
        .find(|req| req.shape() == "L1")
        .expect("asked");
    let mut asked = Vec::new();
    for page in [
        vec![9, 8, 7],
        vec![7, 7, 7],
        vec![7, 7, 7],
        vec![6, 5, 4],
        vec![4],
    ] {
        asked.push((req.filters[0].since, req.filters[0].until));
        script.deliver(&req, page);
        script.eose(&req);
        script.pass_secs(1);
        if let Some(next) = script.reqs().into_iter().find(|next| next.shape() == "L1") {
            req = next;
        }
    }
    let expected = [
        (None, None),
        (None, Some(7)),
        (Some(7), Some(7)),
        (None, Some(6)),
        (None, Some(4)),
    ];
    assert_eq!(asked, expected);
    assert!(
        script
            .engine
            .relay_sync_index()
            .get(script.relay(1))
            .expect("known")
            .announcements_synced
    );
}

/// SYNC-27: found by the simulator of servers, seed 140.
#[test]
fn a_page_with_repeats_does_not_make_later_pages_look_short() {
    let mut script = Script::new(vec![repository(1, &[1])]);
    script.connect(PLAIN);
    let first = script.reqs();
    script.eose(&first[0]);
    script.pass_secs(1);
    let mut until = Vec::new();
    for times in [2, 1, 1] {
        let reqs = script.reqs();
        let req = reqs.iter().find(|req| req.shape() == "L1");
        let req = req.expect("the page before was full");
        until.push(req.filters[0].until);
        for _ in 0..times {
            let newest = req.filters[0].until.unwrap_or(9);
            script.deliver(req, [newest, newest - 1, newest - 2]);
        }
        script.eose(req);
        script.pass_secs(1);
    }
    assert_eq!(until, [None, Some(7), Some(5)]);
}

/// SYNC-29
#[test]
fn a_history_is_checked_once_more_after_six_seconds() {
    let mut script = asked();
    let mut ended = None;
    let mut checked = None;
    for _ in 0..200 {
        for req in script.reqs() {
            if req.shape() == "d a A q e E q" {
                let at = script.now;
                match req.filters[0].since {
                    None => ended = Some(at),
                    Some(_) => checked = Some(at),
                }
            }
            script.eose(&req);
        }
        script.pass(Duration::from_millis(100));
    }
    let after = checked.expect("checked").since(ended.expect("ended"));
    assert!(
        after >= settings::RECHECK_AFTER && after < settings::RECHECK_AFTER * 2,
        "{after:?}"
    );
}

/// The table of relays has a brim, and who is over it is not followed.
#[test]
fn no_more_relays_are_known_than_there_is_room_for() {
    let settings = Settings {
        relays_max: 5,
        ..Settings::default()
    };
    let notices = (0..20).map(|n| repository(n, &[n])).collect();
    let script = Script::with(settings, notices);
    assert_eq!(script.engine.reports().count(), 5);
    assert_eq!(script.counted(Counted::RelaysFull), 15);
}
