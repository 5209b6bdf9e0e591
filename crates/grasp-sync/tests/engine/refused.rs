//! What follows when a peer says no: SYNC-36, SYNC-41 … SYNC-45.

use std::collections::BTreeSet;
use std::time::Duration;

use grasp_sync::engine::{Counted, HealthState, Input, Output, PeerInfo, PeerMessage, Refusal};

use crate::script::{PLAIN, Script};
use crate::world::{repository, root};

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

/// Case 60.
#[test]
fn one_closed_subscription_leaves_the_others_and_is_opened_again() {
    let mut script = connected();
    script.answer_all(20);
    for n in 0..12 {
        script.give(Input::Noticed(root(100 + n, 1)));
        script.pass_secs(6);
        script.answer_all(8);
    }
    let relay_1 = script.relay(1);
    let live: Vec<_> = script
        .engine
        .live(relay_1)
        .expect("connected")
        .subscriptions()
        .map(|(id, _)| id)
        .collect();
    assert!(live.len() >= 4);
    let connection = script.engine.connection(relay_1).expect("connected");
    script.take();
    let reason = "error: shutting down idle subscription".to_owned();
    let subscription = live[2];
    script.hear(
        connection,
        PeerMessage::Closed {
            subscription,
            reason,
        },
    );
    assert!(!script.out.iter().any(|output| matches!(
        output,
        Output::Unsubscribe { .. } | Output::Disconnect { .. }
    )));
    script.pass_secs(66);
    let reqs = script.answer_all(5);
    assert_eq!(reqs[0].subscription, subscription);
    assert!(reqs[0].is_live());
    assert!(
        reqs[1..].iter().any(|req| req.filters[0].since.is_some()),
        "and what came meanwhile"
    );
}

/// SYNC-4, SYNC-46: a refusal is no end of a history. It is asked again after a pause, and then again after a longer one.
#[test]
fn a_refused_history_confirms_nothing_and_is_asked_again_later() {
    let mut script = asked();
    for pause in [65, 130] {
        let history: Vec<_> = script
            .reqs()
            .into_iter()
            .filter(|req| !req.is_live())
            .collect();
        assert!(!history.is_empty());
        for req in &history {
            script.close(req, "error: the database is on fire");
        }
        assert_eq!(script.books(1), (0, 2, 0));
        let left_out = |state: &grasp_sync::engine::RelayState| state.announcements_synced;
        assert!(
            !script
                .engine
                .relay_sync_index()
                .get(script.relay(1))
                .is_some_and(left_out)
        );
        script.pass_secs(pause - 3);
        assert!(script.reqs().is_empty(), "not within {pause} s");
        script.pass_secs(4);
    }
    script.answer_all(30);
    assert_eq!(script.books(1), (2, 0, 0));
}

/// SYNC-36
#[test]
fn a_challenge_is_answered_and_the_question_asked_once_more() {
    let mut script = connected();
    let first = script.reqs().remove(0);
    let connection = first.connection;
    let challenge = "c1".to_owned();
    script.hear(connection, PeerMessage::Auth { challenge });
    script.close(&first, "auth-required: who are you");
    let proofs = |script: &mut Script| {
        let out = script.take();
        out.iter()
            .filter(|output| matches!(output, Output::Authenticate { .. }))
            .count()
    };
    assert_eq!(proofs(&mut script), 1);
    assert!(script.reqs().is_empty(), "not before the proof is taken");
    script.give(Input::Authenticated {
        connection,
        accepted: true,
    });
    let again = script.reqs().remove(0);
    assert_eq!(again.subscription, first.subscription);
    // Another challenge within the minute waits.
    let challenge = "c2".to_owned();
    script.hear(connection, PeerMessage::Auth { challenge });
    assert_eq!(proofs(&mut script), 0);
    script.pass_secs(60);
    assert_eq!(proofs(&mut script), 1);
    // Refused again: that is a policy.
    script.close(&again, "auth-required: still not");
    assert_eq!(health(&script), HealthState::PolicyLimited);
}

/// SYNC-41
#[test]
fn a_rate_limit_silences_us_and_the_history_goes_on_where_it_was() {
    let mut script = Script::new(vec![repository(1, &[1])]);
    script.connect(PLAIN);
    let first = script.reqs();
    script.eose(&first[0]);
    script.pass_secs(1);
    let history = script
        .reqs()
        .into_iter()
        .find(|req| req.shape() == "L1")
        .expect("asked");
    script.deliver(&history, (0..50).map(|n| 9_000 - n));
    script.eose(&history);
    script.pass_secs(1);
    let second = script.reqs().remove(0);
    assert_eq!(second.filters[0].until, Some(8_951));
    script.close(&second, "rate-limited: slow down");
    assert_eq!(health(&script), HealthState::RateLimited);
    script.pass_secs(64);
    assert!(script.reqs().is_empty());
    script.pass_secs(2);
    let again = script.reqs().remove(0);
    assert_eq!(again.filters, second.filters);
}

/// SYNC-42: case 65.
#[test]
fn a_relay_that_refuses_all_is_asked_once_and_again_a_day_later() {
    let mut script = Script::new(vec![repository(1, &[1]), root(10, 1)]);
    let mut asked = Vec::new();
    let start = script.now;
    let end = start + Duration::from_hours(50);
    while let Some(at) = script.engine.next_deadline().filter(|at| *at <= end) {
        for (connection, _) in script.dials() {
            let peer = PeerInfo {
                negentropy: Some(true),
                ..PLAIN
            };
            script.give(Input::Connected { connection, peer });
        }
        for req in script.reqs() {
            asked.push(script.now.since(start).as_secs() / 3_600);
            script.close(&req, "restricted: members only");
        }
        script.now = script.now.max(at);
        script.give(Input::Wake);
    }
    assert_eq!(asked, [0, 24, 48]);
    assert!(script.counted(Counted::Refused(Refusal::Policy)) == 3);
}

/// SYNC-42: a peer that takes most of what we ask refuses one shape: only that is left out.
#[test]
fn only_what_is_refused_is_left_out() {
    let mut script = asked();
    let mut refused = 0;
    for _ in 0..60 {
        for req in script.reqs() {
            if req.shape().contains('q') {
                refused += 1;
                script.close(&req, "invalid: no filters by q");
            } else {
                script.eose(&req);
            }
        }
        script.pass_secs(1);
    }
    assert!(refused < 12, "{refused}");
    assert_eq!(script.books(1), (2, 0, 0));
    let live = script.engine.live(script.relay(1)).expect("connected");
    assert_eq!(live.filters(), 6, "L1 d a A e E");
    assert_eq!(health(&script), HealthState::Healthy);
}

/// SYNC-43
#[test]
fn too_many_queries_spaces_all_questions_and_ends_negentropy() {
    let mut script = Script::new(vec![repository(1, &[1]), root(10, 1)]);
    script.connect(PeerInfo {
        negentropy: Some(true),
        ..PLAIN
    });
    let first = script.reqs().remove(0);
    script.close(&first, "rate-limited: too many queries");
    let mut times = Vec::new();
    for _ in 0..300 {
        let now = script.now;
        for req in script.reqs() {
            times.push(now);
            script.eose(&req);
        }
        script.pass(Duration::from_millis(100));
    }
    let apart = times.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(apart.min().expect("several") >= Duration::from_millis(600));
    let reconciles = |output: &Output| matches!(output, Output::GatherLocal { .. });
    assert!(!script.out.iter().any(reconciles));
    assert_eq!(script.books(1), (2, 0, 0));
}

/// SYNC-44
#[test]
fn filters_per_request_go_down_until_the_peer_takes_them() {
    let mut script = asked();
    let mut largest = Vec::new();
    for _ in 0..120 {
        for req in script.reqs() {
            if req.filters.len() > 2 {
                largest.push(req.filters.len());
                script.close(&req, "error: too many filters in subscription");
            } else {
                script.eose(&req);
            }
        }
        script.pass_secs(1);
    }
    assert!(largest.len() < 8, "{largest:?}");
    assert_eq!(script.books(1), (2, 0, 0));
    let live = script.engine.live(script.relay(1)).expect("connected");
    assert_eq!((live.filters(), live.polled().len()), (8, 0));
}

/// SYNC-45
#[test]
fn what_is_too_large_to_follow_live_is_polled_even_after_a_reconnect() {
    let mut notices = vec![repository(1, &[1])];
    notices.extend((0..90).map(|n| root(100 + n, 1)));
    let mut script = Script::new(notices);
    script.connect(PLAIN);
    let refuse_large = |script: &mut Script, rounds: u64| {
        let mut polls = Vec::new();
        for _ in 0..rounds {
            for req in script.reqs() {
                let values: usize = req
                    .filters
                    .iter()
                    .flat_map(|it| it.tags.values())
                    .map(BTreeSet::len)
                    .sum();
                if req.is_live() && values > 150 {
                    script.close(&req, "error: subscription bytes exceed the limit");
                } else {
                    if !req.is_live() && req.filters[0].since.is_some() {
                        polls.push((script.now, req.filters[0].since.expect("some")));
                    }
                    script.eose(&req);
                }
            }
            script.pass_secs(1);
        }
        polls
    };
    refuse_large(&mut script, 60);
    let relay_1 = script.relay(1);
    let polled = |script: &Script| {
        script
            .engine
            .live(relay_1)
            .expect("connected")
            .polled()
            .len()
    };
    assert!(polled(&script) > 0);
    let polls = refuse_large(&mut script, 900);
    let rounds: BTreeSet<_> = polls.iter().map(|(_, since)| *since).collect();
    assert!(
        (2..=4).contains(&rounds.len()),
        "every five minutes: {rounds:?}"
    );
    for (at, since) in polls.iter().skip(polls.len() / 2) {
        let reach = at.as_secs() - since;
        assert!((360..=375).contains(&reach), "a minute of overlap: {reach}");
    }
    let connection = script.engine.connection(relay_1).expect("connected");
    script.give(Input::Disconnected { connection });
    script.connect(PLAIN);
    script.take();
    let before = script.counted(Counted::Refused(Refusal::TooManyBytes));
    refuse_large(&mut script, 30);
    let after = script.counted(Counted::Refused(Refusal::TooManyBytes));
    assert_eq!(before, after, "the size that was learned survives");
    assert!(polled(&script) > 0);
}

/// SYNC-43: a relay may say "too many queries" and mean how many are open. Pauses do not help then: what it does not take
/// live is polled, and the histories are read all the same.
#[test]
fn a_relay_that_always_finds_a_subscription_too_many_is_not_asked_for_ever() {
    let allowed = 3;
    let mut script = connected();
    let mut open = BTreeSet::new();
    let mut answer = |script: &mut Script| {
        let mut refused = 0;
        for output in script.take() {
            match output {
                Output::Unsubscribe { subscription, .. } => {
                    open.remove(&subscription);
                }
                Output::Subscribe {
                    connection,
                    subscription,
                    ..
                } if open.len() >= allowed && !open.contains(&subscription) => {
                    refused += 1;
                    let reason = "rate-limited: too many queries".to_owned();
                    let closed = PeerMessage::Closed {
                        subscription,
                        reason,
                    };
                    script.hear(connection, closed);
                }
                Output::Subscribe {
                    connection,
                    subscription,
                    ..
                } => {
                    open.insert(subscription);
                    script.hear(connection, PeerMessage::Eose { subscription });
                }
                _ => {}
            }
        }
        refused
    };
    let mut pass = |script: &mut Script, secs: u64| {
        let steps = (0..secs * 5).map(|_| {
            script.pass(Duration::from_millis(200));
            answer(script)
        });
        steps.sum::<u32>()
    };
    pass(&mut script, 60);
    for n in 0..12 {
        script.give(Input::Noticed(root(100 + n, 1)));
        pass(&mut script, 30);
    }
    pass(&mut script, 600);
    assert_eq!(script.books(1), (14, 0, 0), "all is confirmed");
    let refused = pass(&mut script, 3_600);
    assert!(refused < 10, "refused {refused} times within an hour");
}
