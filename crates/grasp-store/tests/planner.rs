//! Whatever the planner picks, the answer is that of a naive filter over all events.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;
use grasp_core::lifecycle::{Change, Stage};
use grasp_store::conformance::events::{at, insert, key, with_content};
use grasp_store::{QueryLimits, Store, StoreConfig};
use nostr::event::EventId;
use proptest::collection::{btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;

const NOW: u64 = 50;
const KINDS: [u16; 5] = [0, 1, 1621, 30617, 30618];
const VALUES: [&str; 5] = [
    "",
    "a",
    "ab",
    "b",
    "0000000000000000000000000000000000000000000000000000000000000001",
];

#[derive(Debug, Clone)]
struct Plain {
    author: u8,
    kind: usize,
    created_at: u64,
    tags: Vec<(bool, usize)>,
    expiration: Option<u64>,
    stage: u8,
}

fn plain() -> impl Strategy<Value = Plain> {
    let tags = vec((any::<bool>(), 0..VALUES.len()), 0..3);
    (
        0..4_u8,
        0..KINDS.len(),
        0..40_u64,
        tags,
        of(40..60_u64),
        0..6_u8,
    )
        .prop_map(
            |(author, kind, created_at, tags, expiration, stage)| Plain {
                author,
                kind,
                created_at,
                tags,
                expiration,
                stage,
            },
        )
}

impl Plain {
    fn event(&self, number: usize) -> VerifiedEvent {
        let expiration = self.expiration.map(|at| at.to_string());
        let mut tags: Vec<Vec<&str>> = self
            .tags
            .iter()
            .map(|(letter, value)| vec![if *letter { "t" } else { "d" }, VALUES[*value], "rest"])
            .collect();
        tags.extend(expiration.as_ref().map(|at| vec!["expiration", at]));
        let tags: Vec<&[&str]> = tags.iter().map(Vec::as_slice).collect();
        let content = number.to_string();
        with_content(
            key(self.author),
            KINDS[self.kind],
            self.created_at,
            &tags,
            &content,
        )
    }

    fn stage(&self) -> Stage {
        match self.stage {
            0 => Stage::Waiting,
            1 => Stage::Superseded,
            _ => Stage::Served,
        }
    }
}

/// A filter; ids are named by the number of an event.
fn filter() -> impl Strategy<Value = (Option<BTreeSet<usize>>, Filter)> {
    let values = || {
        of(btree_set(
            (0..VALUES.len()).prop_map(|at| VALUES[at].to_owned()),
            0..4,
        ))
    };
    let authors = of(btree_set(
        (0..5_u8).prop_map(|number| key(number).to_bytes()),
        0..4,
    ));
    let kinds = of(btree_set((0..KINDS.len()).prop_map(|at| KINDS[at]), 0..4));
    let times = (of(0..45_u64), of(0..45_u64));
    let ids = prop_oneof![4 => Just(None), 1 => btree_set(0..60_usize, 0..9).prop_map(Some)];
    (
        ids,
        authors,
        kinds,
        values(),
        values(),
        times,
        of(0..20_usize),
    )
        .prop_map(|(ids, authors, kinds, t, d, (since, until), limit)| {
            let named = [('t', t), ('d', d)];
            let tags: BTreeMap<_, _> = named
                .into_iter()
                .filter_map(|(letter, values)| Some((letter, values?)))
                .collect();
            (
                ids,
                Filter {
                    ids: None,
                    authors,
                    kinds,
                    tags,
                    since,
                    until,
                    limit,
                },
            )
        })
}

/// The reference: every served event that has not expired, in order, matched one by one.
fn naive(events: &[(Stage, VerifiedEvent)], filters: &[Filter]) -> Vec<EventId> {
    let mut served: Vec<_> = events
        .iter()
        .filter(|(stage, it)| {
            *stage == Stage::Served && it.expiration().is_none_or(|until| until > at(NOW))
        })
        .map(|(_, event)| event)
        .collect();
    served.sort_by_key(|event| std::cmp::Reverse(event.version()));
    let mut chosen = BTreeSet::new();
    for filter in filters {
        let matching = served.iter().filter(|event| filter.matches(event.event()));
        chosen.extend(
            matching
                .take(filter.limit.unwrap_or(usize::MAX))
                .map(|event| event.id()),
        );
    }
    let mut ids: Vec<_> = served.iter().map(|event| event.id()).collect();
    ids.retain(|id| chosen.contains(id));
    ids
}

fn found(store: &Store, filters: &[Filter]) -> Vec<EventId> {
    let mut ids = Vec::new();
    let outcome = store.query(filters, QueryLimits::unlimited(at(NOW)), &mut |row| {
        ids.push(row.id);
        ControlFlow::Continue(())
    });
    outcome.expect("the query runs");
    ids
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// RLY-1, and the planner never changes an answer, whatever events came, moved and went.
    #[test]
    fn a_query_answers_as_a_naive_filter_does(
        plains in vec(plain(), 1..60),
        later in vec(0..8_u8, 60),
        queries in vec(vec(filter(), 1..4), 20),
        scan_events_max in prop_oneof![Just(3_usize), Just(10_000)],
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let config = StoreConfig {
            map_size: 1 << 28,
            disk_floor: 0,
            scan_events_max,
            ..StoreConfig::default()
        };
        let store = Store::open(folder.path(), config).expect("opens");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut events: Vec<_> =
            plains.iter().enumerate().map(|(n, it)| (it.stage(), it.event(n))).collect();
        let mut batch: Vec<_> = events.iter().map(|(stage, event)| insert(event, *stage)).collect();
        let all = events.clone();
        for (at, fate) in later.iter().enumerate().take(events.len()).rev() {
            let event = events[at].1.id();
            let to = match fate {
                0 => Some(Stage::Served),
                1 => Some(Stage::Parked),
                2 => None,
                _ => continue,
            };
            if let Some(stage) = to {
                batch.push(Change::Move { event, stage, deadline: None });
                events[at].0 = stage;
            } else {
                batch.push(Change::Remove { event });
                events.remove(at);
            }
        }
        let committed = runtime.block_on(store.commit(move |_| Ok((batch.clone(), ()))));
        prop_assert!(committed.is_ok());
        for filters in queries {
            let filters: Vec<_> = filters
                .into_iter()
                .map(|(numbers, mut filter)| {
                    filter.ids = numbers.map(|numbers| {
                        let ids = numbers.into_iter().filter_map(|at| all.get(at));
                        ids.map(|(_, event)| event.id().to_bytes()).collect()
                    });
                    filter
                })
                .collect();
            prop_assert_eq!(found(&store, &filters), naive(&events, &filters), "{:?}", filters);
        }
    }
}
