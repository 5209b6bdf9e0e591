//! Filters: their shapes, and how they are cut to size (protocol.md §15.2, SYNC-20).

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::filter::Filter;
use grasp_core::name::Coordinate;
use grasp_sync::engine::{
    Engine, Input, Notice, Output, Settings, Shape, SyncLevel, build_announcement_filter,
    settings::{FILTER_BYTES_MAX, FILTER_VALUES, REQ_BYTES_MAX},
};
use proptest::prelude::*;

use crate::script::{PLAIN, Req, Script};
use crate::world::{at_level, coordinate, id, relay, repository, root};

/// The kinds of layer 1 are those of protocol.md §15.2.
#[test]
fn layer_1_asks_for_announcements_and_lists_of_servers() {
    assert_eq!(build_announcement_filter().shape(), Shape::Announcements);
    let mut script = Script::new(vec![repository(1, &[1])]);
    script.connect(PLAIN);
    let live = script.reqs().remove(0);
    let kinds: Vec<_> = live.filters[0]
        .kinds
        .clone()
        .expect("kinds")
        .into_iter()
        .collect();
    assert_eq!(kinds, [10_317, 30_617]);
    assert_eq!(live.filters[0].limit, Some(0));
}

/// Protocol.md §15.2: the tags and values of layers 2 and 3.
#[test]
fn layers_2_and_3_ask_by_every_tag_that_can_name_us() {
    let mut script = Script::new(vec![
        repository(1, &[1]),
        root(10, 1),
        at_level(2, &[1], SyncLevel::StateOnly),
    ]);
    script.connect(PLAIN);
    let reqs = script.answer_all(10);
    let history = reqs
        .iter()
        .find(|req| req.shape() == "d a A q d e E q")
        .expect("one REQ");
    let values = |filter: &Filter, letter| filter.tags[&letter].iter().cloned().collect::<Vec<_>>();
    let filters = &history.filters;
    let states = |filter: &Filter| {
        filter
            .kinds
            .as_ref()
            .is_some_and(|kinds| kinds.iter().eq(&[30_618]))
    };
    assert!(states(&filters[0]) && states(&filters[4]));
    assert_eq!(values(&filters[0], 'd'), ["repo-1"]);
    assert_eq!(
        values(&filters[4], 'd'),
        ["repo-2"],
        "in purgatory: states alone"
    );
    for (filter, letter) in filters[1..4].iter().zip(['a', 'A', 'q']) {
        assert_eq!(values(filter, letter), [coordinate(1).address()]);
        assert_eq!(filter.kinds, None);
    }
    for (filter, letter) in filters[5..].iter().zip(['e', 'E', 'q']) {
        assert_eq!(values(filter, letter), [id(10).to_hex()]);
    }
}

fn roots_of(reqs: &[Req]) -> Vec<usize> {
    let lower = |req: &Req| {
        req.filters
            .iter()
            .filter_map(|filter| filter.tags.get(&'e'))
            .map(BTreeSet::len)
            .max()
    };
    reqs.iter()
        .filter(|req| !req.is_live())
        .filter_map(lower)
        .collect()
}

/// SYNC-20
#[test]
fn a_filter_has_a_hundred_values_until_the_peer_took_a_hundred() {
    let mut notices = vec![repository(1, &[1])];
    notices.extend((0..1_000).map(|n| root(100 + n, 1)));
    let mut script = Script::new(notices);
    script.connect(PLAIN);
    let reqs = script.answer_all(20);
    assert_eq!(roots_of(&reqs).iter().max(), Some(&FILTER_VALUES));
    let more = (0..1_000).map(|n| root(5_000 + n, 1));
    more.for_each(|notice| script.give(Input::Noticed(notice)));
    let reqs = script.answer_all(20);
    assert_eq!(
        roots_of(&reqs).iter().max(),
        Some(&489),
        "as many as fit 32 KiB"
    );
    let size = |req: &Req| {
        req.filters
            .iter()
            .map(|it| it.to_json().to_string().len())
            .sum::<usize>()
    };
    assert!(reqs.iter().map(size).max().expect("some") <= REQ_BYTES_MAX + 1_000);
    // A peer that does not like it gets a hundred again.
    let more = (0..1_000).map(|n| root(9_000 + n, 1));
    more.for_each(|notice| script.give(Input::Noticed(notice)));
    let mut sizes = Vec::new();
    for _ in 0..120 {
        for req in script.reqs() {
            let values = req
                .filters
                .iter()
                .flat_map(|filter| filter.tags.values())
                .map(BTreeSet::len)
                .max();
            if values > Some(FILTER_VALUES) && !req.is_live() {
                script.close(&req, "invalid: too many tag values");
            } else {
                sizes.extend(roots_of(std::slice::from_ref(&req)));
                script.eose(&req);
            }
        }
        script.pass_secs(1);
    }
    assert!(sizes.iter().all(|size| *size <= FILTER_VALUES));
    assert_eq!(script.books(1), (3_001, 0, 0));
}

/// A new item is one small REQ: what is full stays as it is.
#[test]
fn a_new_item_does_not_send_full_subscriptions_again() {
    let mut notices = vec![repository(1, &[1])];
    notices.extend((0..2_000).map(|n| root(100 + n, 1)));
    let mut script = Script::new(notices);
    script.connect(PLAIN);
    script.answer_all(20);
    script.give(Input::Noticed(root(9_000, 1)));
    let live: Vec<_> = script
        .answer_all(8)
        .into_iter()
        .filter(Req::is_live)
        .collect();
    assert!((1..=2).contains(&live.len()));
}

/// A filter is never written for what is gone.
#[test]
fn what_went_away_is_left_out_of_what_is_sent_later() {
    let mut script = Script::new(vec![repository(1, &[1]), root(10, 1), root(11, 1)]);
    script.connect(PLAIN);
    script.give(Input::Noticed(Notice::RootGone { id: id(10) }));
    script.pass_secs(6);
    script.answer_all(20);
    assert_eq!(script.books(1), (2, 0, 0));
}

fn identifiers() -> impl Strategy<Value = Vec<String>> {
    let text = prop_oneof![
        "[a-z]{1,12}",
        "[a-z\"]{1,40}",
        "[ -~&&[^/\\\\]]{1,200}",
        "\\PC{1,40}".prop_filter("an identifier", |text| text
            .parse::<grasp_core::name::Identifier>()
            .is_ok()),
    ];
    prop::collection::vec(text, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// SYNC-20: every value is in exactly one filter of its shape, and no filter or REQ is over its bounds.
    #[test]
    fn packing_loses_nothing_and_keeps_its_bounds(names in identifiers(), roots in 0_u32..700) {
        let mut notices = Vec::new();
        for (n, name) in (0..).zip(&names) {
            let Ok(identifier) = name.parse() else { continue };
            let coordinate = Coordinate::new(coordinate(n).owner, identifier);
            notices.push(Notice::Repository {
                coordinate: coordinate.clone(),
                relays: vec![relay(1)],
                level: if n % 3 == 0 { SyncLevel::StateOnly } else { SyncLevel::Full },
            });
            if n == 1 {
                notices.extend((0..roots).map(|n| Notice::Root {
                    id: id(n),
                    repositories: vec![coordinate.clone()],
                }));
            }
        }
        let settings = Settings { startup_jitter: std::time::Duration::ZERO, ..Settings::default() };
        let mut engine = Engine::new(settings, 1);
        let mut now = crate::sim::START;
        let cursors = Vec::new();
        let expected = notices.len();
        let mut out = engine.handle(Input::Loaded { notices, cursors }, now);
        let mut seen: BTreeMap<char, Vec<String>> = BTreeMap::new();
        let mut steps = 0;
        while steps < 2_000 {
            for output in std::mem::take(&mut out) {
                match output {
                    Output::Connect { connection, .. } => {
                        out.extend(engine.handle(Input::Connected { connection, peer: PLAIN }, now));
                    }
                    Output::Subscribe { connection, subscription, filters } => {
                        let json: Vec<_> = filters.iter().map(|filter| filter.to_json().to_string().len()).collect();
                        prop_assert!(filters.len() <= 10);
                        prop_assert!(json.iter().sum::<usize>() <= REQ_BYTES_MAX + 10 * 100);
                        for (filter, size) in filters.iter().zip(json) {
                            prop_assert!(size <= FILTER_BYTES_MAX + 100, "{size}");
                            let is_history = filter.limit.is_none() && filter.since.is_none();
                            for (letter, values) in filter.tags.iter().filter(|_| is_history) {
                                seen.entry(*letter).or_default().extend(values.iter().cloned());
                            }
                        }
                        let message = grasp_sync::engine::PeerMessage::Eose { subscription };
                        out.extend(engine.handle(Input::Received { connection, message }, now));
                    }
                    _ => {}
                }
            }
            if out.is_empty() {
                let is_done = engine.reports().all(|it| it.confirmed > 0 && it.pending + it.missing == 0);
                if is_done {
                    break;
                }
                now = engine.next_deadline().expect("more to come").max(now);
                out = engine.handle(Input::Wake, now);
            }
            steps += 1;
        }
        let addresses = |letter: char| {
            let mut values: Vec<_> = seen.get(&letter).into_iter().flatten().filter(|it| it.contains(':')).cloned().collect();
            let count = values.len();
            values.sort_unstable();
            values.dedup();
            (count, values.len())
        };
        let (count, distinct) = addresses('a');
        prop_assert_eq!(count, distinct, "each once");
        let ids = seen.get(&'e').map_or(0, Vec::len);
        let (repos, known_roots) = engine.repo_sync_index().sizes();
        prop_assert_eq!(ids, known_roots);
        prop_assert!(repos <= expected);
        engine.check();
    }
}
