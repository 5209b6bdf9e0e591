//! The incremental books agree with the definition: after every step, whatever happened.

use std::time::Duration;

use grasp_sync::engine::{
    Input, Notice, RelaySyncNeeds, Settings, SyncLevel, derive_relay_targets,
};
use proptest::prelude::*;

use crate::script::{PLAIN, Script};
use crate::world::{at_level, coordinate, id};

/// One step of a life.
#[derive(Debug, Clone)]
enum Step {
    Announce(u32, Vec<u32>, SyncLevel),
    Withdraw(u32),
    Root(u32, Vec<u32>),
    RootGone(u32),
    Connect,
    Lose(u8),
    Answer(u8),
    Refuse(u8),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let level = prop_oneof![Just(SyncLevel::StateOnly), Just(SyncLevel::Full)];
    let relays = prop::collection::vec(0_u32..4, 0..4);
    let repositories = prop::collection::vec(0_u32..5, 1..3);
    let step = prop_oneof![
        4 => (0_u32..5, relays, level).prop_map(|(n, relays, level)| Step::Announce(n, relays, level)),
        1 => (0_u32..5).prop_map(Step::Withdraw),
        4 => (0_u32..9, repositories).prop_map(|(n, of)| Step::Root(n, of)),
        2 => (0_u32..9).prop_map(Step::RootGone),
        3 => Just(Step::Connect),
        1 => any::<u8>().prop_map(Step::Lose),
        6 => any::<u8>().prop_map(Step::Answer),
        1 => any::<u8>().prop_map(Step::Refuse),
        4 => (0_u64..90).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..60)
}

fn notice(step: &Step) -> Option<Notice> {
    match step {
        Step::Announce(n, relays, level) => Some(at_level(*n, relays, *level)),
        Step::Withdraw(n) => Some(Notice::RepositoryGone {
            coordinate: coordinate(*n),
        }),
        Step::Root(n, repositories) => Some(Notice::Root {
            id: id(*n),
            repositories: repositories.iter().copied().map(coordinate).collect(),
        }),
        Step::RootGone(n) => Some(Notice::RootGone { id: id(*n) }),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// SYNC-2, SYNC-3: `Script::give` compares after every input.
    #[test]
    fn what_is_wanted_is_missing_in_flight_or_confirmed(steps in steps()) {
        let settings = Settings { batch_window: Duration::ZERO, ..Settings::default() };
        let mut script = Script::with(settings, Vec::new());
        let mut open = Vec::new();
        for step in steps {
            if let Some(notice) = notice(&step) {
                script.give(Input::Noticed(notice));
                continue;
            }
            match step {
                Step::Connect => {
                    for (connection, _) in script.dials() {
                        script.give(Input::Connected { connection, peer: PLAIN });
                    }
                }
                Step::Lose(n) => {
                    let all: Vec<_> = script.engine.relay_sync_index().iter().map(|(relay, ..)| relay).collect();
                    let connections: Vec<_> = all.into_iter().filter_map(|relay| script.engine.connection(relay)).collect();
                    if let Some(connection) = connections.get(usize::from(n) % connections.len().max(1)) {
                        script.give(Input::Disconnected { connection: *connection });
                    }
                }
                Step::Answer(n) | Step::Refuse(n) if !open.is_empty() => {
                    let req = open.remove(usize::from(n) % open.len());
                    match step {
                        Step::Refuse(_) => script.close(&req, "error: no"),
                        _ => script.eose(&req),
                    }
                }
                Step::Pass(secs) => script.pass_secs(secs),
                _ => {}
            }
            open.extend(script.reqs());
        }
    }
}

/// SYNC-2
#[test]
fn targets_are_repositories_turned_round() {
    let notices = vec![
        at_level(1, &[1, 2], SyncLevel::Full),
        at_level(2, &[2], SyncLevel::StateOnly),
        Notice::Root {
            id: id(10),
            repositories: vec![coordinate(1), coordinate(2)],
        },
    ];
    let script = Script::new(notices);
    let targets = derive_relay_targets(script.engine.repo_sync_index());
    let sizes = |needs: &RelaySyncNeeds| (needs.repos.len(), needs.root_events.len());
    assert_eq!(sizes(&targets[&script.relay(1)]), (1, 1));
    assert_eq!(sizes(&targets[&script.relay(2)]), (2, 1));
    let levels: Vec<_> = targets[&script.relay(2)].repos.values().copied().collect();
    assert_eq!(levels, [SyncLevel::Full, SyncLevel::StateOnly]);
}
