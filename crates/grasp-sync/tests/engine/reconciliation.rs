//! Set reconciliation (NIP-77) from our side: SYNC-25, SYNC-26.

use std::time::Duration;

use grasp_core::EventId;
use grasp_sync::engine::{
    ConnectionId, Counted, Delivery, DialFailure, Input, Output, PeerInfo, PeerMessage,
    SubscriptionId, settings,
};

use crate::script::{PLAIN, Req, Script};
use crate::world::{id, repository, root};

const WITH_NEGENTROPY: PeerInfo = PeerInfo {
    negentropy: Some(true),
    ..PLAIN
};

fn connected() -> Script {
    let mut script = Script::new(vec![repository(1, &[1])]);
    script.connect(WITH_NEGENTROPY);
    let first = script.reqs();
    script.eose(&first[0]);
    script
}

/// Answers requests for our own set until a reconciliation is asked for.
fn next_reconciliation(script: &mut Script) -> Option<(ConnectionId, SubscriptionId)> {
    for _ in 0..10 {
        let out = script.take();
        let mut found = None;
        for output in out {
            match output {
                Output::GatherLocal {
                    connection,
                    subscription,
                    ..
                } => script.give(Input::LocalGathered {
                    connection,
                    subscription,
                }),
                Output::Reconcile {
                    connection,
                    subscription,
                    ..
                } => found = Some((connection, subscription)),
                other => script.out.push(other),
            }
        }
        if found.is_some() {
            return found;
        }
        let is_asked = |output: &Output| matches!(output, Output::Reconcile { .. });
        if !script.out.iter().any(is_asked) {
            script.pass_secs(1);
        }
    }
    None
}

fn name(script: &mut Script, missing: Vec<EventId>) {
    let (connection, subscription) = next_reconciliation(script).expect("asked for");
    script.give(Input::Reconciled {
        connection,
        subscription,
        missing,
    });
}

fn give(script: &mut Script, req: &Req, ids: impl Iterator<Item = EventId>) {
    for id in ids {
        let delivery = Delivery::Genuine { id, created_at: 5 };
        let subscription = req.subscription;
        script.hear(
            req.connection,
            PeerMessage::Event {
                subscription,
                delivery,
            },
        );
    }
}

fn next_req(script: &mut Script) -> Req {
    for _ in 0..10 {
        if let Some(req) = script.reqs().into_iter().find(|req| !req.is_live()) {
            return req;
        }
        script.pass_secs(1);
    }
    panic!("nothing is asked");
}

/// SYNC-25, SYNC-26, SYNC-4
#[test]
fn what_the_peer_names_is_fetched_by_id_before_anything_is_confirmed() {
    let mut script = connected();
    name(&mut script, Vec::new()); // layer 1: nothing is missing
    // Four filters of the repository; the first lacks 700 events.
    name(&mut script, (0..700).map(id).collect());
    let mut sizes = Vec::new();
    for _ in 0..3 {
        let req = next_req(&mut script);
        assert_eq!(req.shape(), "ids");
        let ids = req.filters[0].ids.clone().expect("by id");
        sizes.push(ids.len());
        give(
            &mut script,
            &req,
            ids.into_iter().map(EventId::from_byte_array),
        );
        script.eose(&req);
        assert_eq!(script.books(1), (0, 1, 0));
    }
    assert_eq!(sizes, [300, 300, 100]);
    for _ in 0..3 {
        name(&mut script, Vec::new());
    }
    assert_eq!(script.books(1), (1, 0, 0));
    assert_eq!(script.engine.reports().next().expect("one").undelivered, 0);
}

/// SYNC-25: case 56. Whatever way it fails, the history is read by REQ, soon, and it is told once.
#[test]
fn a_peer_without_negentropy_is_read_page_by_page() {
    type Refuse = fn(&mut Script, ConnectionId, SubscriptionId);
    let ways: [(u64, Refuse); 4] = [
        (2, |script, connection, _| {
            let text = "ERROR: unknown cmd NEG-OPEN".to_owned();
            script.hear(connection, PeerMessage::Notice { text });
        }),
        (2, |script, connection, subscription| {
            let reason = "blah".to_owned();
            script.hear(
                connection,
                PeerMessage::Closed {
                    subscription,
                    reason,
                },
            );
        }),
        (17, |_, _, _| {}), // silence
        (2, |script, connection, subscription| {
            script.hear(connection, PeerMessage::Eose { subscription });
        }),
    ];
    for (within, refuse) in ways {
        let mut script = connected();
        let (connection, subscription) = next_reconciliation(&mut script).expect("asked for");
        let asked_at = script.now;
        refuse(&mut script, connection, subscription);
        let mut reqs = Vec::new();
        while reqs.is_empty() {
            script.pass(Duration::from_millis(500));
            reqs = script
                .reqs()
                .into_iter()
                .filter(|req| !req.is_live())
                .collect();
        }
        assert!(script.now.since(asked_at) <= Duration::from_secs(within));
        assert_eq!(
            (reqs[0].shape().as_str(), reqs[0].filters[0].since),
            ("L1", None)
        );
        for req in &reqs {
            script.eose(req);
        }
        let rest = script.answer_all(20);
        assert!(rest.iter().any(|req| req.shape() == "d a A q"));
        assert_eq!(script.books(1), (1, 0, 0));
        assert_eq!(script.counted(Counted::NegentropyUnsupported), 1);
    }
}

/// SYNC-25: case 56. It would break off after every reconnect, so it is read page by page for a week.
#[test]
fn a_peer_that_breaks_off_meanwhile_is_read_page_by_page_from_then_on() {
    let mut script = connected();
    let (connection, _) = next_reconciliation(&mut script).expect("asked for");
    script.give(Input::Disconnected { connection });
    assert_eq!(script.counted(Counted::NegentropyUnsupported), 1);
    let gathers = |script: &Script| {
        let gathers = |output: &&Output| matches!(output, Output::GatherLocal { .. });
        script.out.iter().filter(gathers).count()
    };
    script.connect(WITH_NEGENTROPY);
    script.answer_all(20);
    assert_eq!(script.books(1), (1, 0, 0));
    // Also when all is asked for again.
    let connection = script
        .engine
        .connection(script.relay(1))
        .expect("connected");
    script.give(Input::Disconnected { connection });
    script.refuse_dials(DialFailure::Unreachable, Duration::from_mins(20));
    script.connect(WITH_NEGENTROPY);
    script.answer_all(20);
    assert_eq!((script.books(1), gathers(&script)), ((1, 0, 0), 0));
}

/// SYNC-25
#[test]
fn at_most_four_reconciliations_run_at_once() {
    let notices = (0..10).map(|n| repository(n, &[n])).collect();
    let mut script = Script::new(notices);
    for _ in 0..10 {
        script.connect(WITH_NEGENTROPY);
    }
    let mut running = Vec::new();
    for _ in 0..20 {
        for req in script.reqs() {
            script.eose(&req);
        }
        for output in script.take() {
            if let Output::GatherLocal {
                connection,
                subscription,
                ..
            } = output
            {
                running.push((connection, subscription));
            }
        }
        script.pass_secs(1);
    }
    assert_eq!(running.len(), settings::RECONCILIATIONS_MAX);
    let (connection, subscription) = running[0];
    script.give(Input::Reconciled {
        connection,
        subscription,
        missing: Vec::new(),
    });
    let more = |output: &&Output| matches!(output, Output::GatherLocal { .. });
    assert_eq!(
        script.out.iter().filter(more).count(),
        1,
        "the next has its turn"
    );
}

/// SYNC-26
#[test]
fn ids_that_do_not_come_are_asked_for_again() {
    let mut script = connected();
    name(&mut script, (0..10).map(id).collect());
    let req = next_req(&mut script);
    give(&mut script, &req, (0..7).map(id));
    script.eose(&req);
    assert_eq!(script.engine.reports().next().expect("one").undelivered, 3);
    for _ in 0..4 {
        name(&mut script, Vec::new());
    }
    let asked_for = |script: &mut Script, secs: u64| {
        let mut found = Vec::new();
        for _ in 0..secs {
            for req in script.reqs() {
                if let Some(ids) = &req.filters[0].ids {
                    found.push(ids.len());
                }
                script.eose(&req);
            }
            script.pass_secs(1);
        }
        found
    };
    assert_eq!(asked_for(&mut script, 40), [3], "after half a minute");
    assert_eq!(asked_for(&mut script, 70), [3], "and a minute after that");
    // They are remembered over a lost connection: a quick reconnect asks since, and these are old.
    let connection = script
        .engine
        .connection(script.relay(1))
        .expect("connected");
    script.give(Input::Disconnected { connection });
    script.connect(PLAIN);
    script.answer_all(10);
    assert_eq!(
        asked_for(&mut script, 150),
        [3],
        "and asked for again on the next one"
    );
}

/// SYNC-26
#[test]
fn a_peer_that_names_in_vain_is_asked_by_the_filter() {
    let mut script = connected();
    name(&mut script, (0..650).map(id).collect());
    let req = next_req(&mut script);
    give(&mut script, &req, (0..30).map(id));
    script.eose(&req);
    let req = next_req(&mut script);
    assert_eq!(req.shape(), "L1", "once, and the other ids are let go");
    script.eose(&req);
    assert_eq!(script.engine.reports().next().expect("one").undelivered, 0);
}

/// A peer that claims to have no end is read page by page, which has one.
#[test]
fn an_absurd_difference_is_not_believed() {
    let mut script = connected();
    name(&mut script, vec![id(1); settings::DIFFERENCE_MAX + 1]);
    assert_eq!(next_req(&mut script).shape(), "L1");
}

/// SYNC-25: full syncs only. Of what is new we have nothing, so there is nothing to reconcile.
#[test]
fn what_is_new_is_read_page_by_page() {
    let mut script = connected();
    for _ in 0..5 {
        name(&mut script, Vec::new());
    }
    script.give(Input::Noticed(root(10, 1)));
    let mut new = None;
    for _ in 0..20 {
        script.pass_secs(1);
        for req in script.reqs() {
            script.eose(&req);
            new = new.or(Some(req).filter(|req| req.shape() == "e E q" && !req.is_live()));
        }
    }
    assert_eq!(new.expect("asked for").filters[0].since, None);
    let gathers = |output: &Output| matches!(output, Output::GatherLocal { .. });
    assert!(!script.out.iter().any(gathers));
}

/// SYNC-25: that our own store cannot be read is no fault of the peer: this filter is read page by page, and negentropy
/// goes on.
#[test]
fn what_we_cannot_gather_ourselves_is_read_page_by_page() {
    let mut script = connected();
    let mut gathering = None;
    for _ in 0..10 {
        gathering = script.take().into_iter().find_map(|output| match output {
            Output::GatherLocal {
                connection,
                subscription,
                filter,
            } => Some((connection, subscription, filter)),
            _ => None,
        });
        if gathering.is_some() {
            break;
        }
        script.pass_secs(1);
    }
    let (connection, subscription, filter) = gathering.expect("our own set is asked for");
    script.give(Input::LocalNotGathered {
        connection,
        subscription,
    });
    script.pass_secs(2);
    let reqs = script.reqs();
    let page = reqs.iter().find(|req| req.filters == [filter.clone()]);
    script.eose(page.expect("it is read instead"));
    let is_refusal = |output: &Output| {
        matches!(
            output,
            Output::Count {
                what: Counted::Refused(_) | Counted::NegentropyUnsupported,
                ..
            }
        )
    };
    assert!(!script.out.iter().any(is_refusal));
    assert!(
        next_reconciliation(&mut script).is_some(),
        "of what comes next"
    );
}
