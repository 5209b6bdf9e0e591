//! What subscribers are answered.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use grasp_core::filter::Filter;
use grasp_core::lifecycle::Stage;
use nostr::event::EventId;

use super::commit;
use super::events::{at, event, insert, key, moved, with_content, with_id};
use crate::query::{Budget, QueryLimits};
use crate::store::Store;

const NOW: u64 = 1_000_000;

/// The ids that `filters` find, in order.
pub fn found(store: &Store, filters: &[Filter]) -> Vec<EventId> {
    found_at(store, filters, NOW)
}

fn found_at(store: &Store, filters: &[Filter], now: u64) -> Vec<EventId> {
    let mut ids = Vec::new();
    let limits = QueryLimits::unlimited(at(now));
    let snapshot = store.snapshot().expect("a snapshot");
    let outcome = snapshot.view().query(filters, limits, &mut |row| {
        ids.push(row.id);
        ControlFlow::Continue(())
    });
    outcome.expect("the query runs");
    ids
}

/// Events of one kind.
pub fn of_kind(kind: u16) -> Filter {
    Filter {
        kinds: Some(BTreeSet::from([kind])),
        ..Filter::default()
    }
}

/// Events with one tag.
pub fn tagged(letter: char, value: &str) -> Filter {
    let mut filter = Filter::default();
    filter
        .tags
        .insert(letter, BTreeSet::from([value.to_owned()]));
    filter
}

/// RLY-1, cases 40 and 41.
pub async fn answers_come_newest_first_and_lower_id_first_within_a_second(store: &Store) {
    let events: Vec<_> = (0..300)
        .map(|n| with_content(key(1), 1621, 100 + n % 3, &[], &n.to_string()))
        .collect();
    for event in events.iter().rev() {
        commit(store, vec![insert(event, Stage::Served)])
            .await
            .expect("commits");
    }
    let mut expected: Vec<_> = events
        .iter()
        .map(|it| (u64::MAX - it.created_at().as_secs(), it.id()))
        .collect();
    expected.sort();
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(found(store, &[Filter::default()]), expected);
    for _ in 0..3 {
        let filter = Filter {
            limit: Some(50),
            ..of_kind(1621)
        };
        assert_eq!(found(store, &[filter]), expected[..50]);
    }
}

/// KIND-5: ids that agree in their first bytes are ordered by the rest, everywhere.
pub async fn ids_that_nearly_agree_are_told_apart(store: &Store) {
    let near = |last: u8, created_at| {
        let mut id = [0xab; 32];
        id[5] = last;
        let tags: &[&[&str]] = &[&["d", "x"], &["t", "t"], &["t", "u"]];
        with_id(&event(key(1), 30618, created_at, tags), id)
    };
    let events: Vec<_> = [9, 3, 7, 1, 5].map(|last| near(last, 100)).into();
    let future: Vec<_> = [4, 2]
        .map(|last| near(last, u64::MAX - u64::from(last)))
        .into();
    for event in events.iter().chain(&future) {
        commit(store, vec![insert(event, Stage::Served)])
            .await
            .expect("commits");
    }
    let mut both = tagged('t', "t");
    both.tags
        .insert('t', BTreeSet::from(["t".to_owned(), "u".to_owned()]));
    let expected = [2, 4, 1, 3, 5, 7, 9].map(|last| near(last, 0).id());
    for filter in [Filter::default(), of_kind(30618), tagged('t', "u"), both] {
        assert_eq!(
            found(store, std::slice::from_ref(&filter)),
            expected,
            "{filter:?}"
        );
        let few = Filter {
            limit: Some(4),
            ..filter
        };
        assert_eq!(found(store, &[few]), expected[..4]);
    }
    let batch = future.iter().map(|it| moved(it, Stage::Held)).collect();
    commit(store, batch).await.expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    let known = snapshot.view().known(&near(2, 50), at(0)).expect("reads");
    assert_eq!(known.served_version.map(|it| it.id), Some(near(1, 0).id()));
}

/// §16: events per filter are counted for each filter, the union shows each event once.
pub async fn a_limit_is_each_filters_own_and_repeats_count_once(store: &Store) {
    let mut batch = Vec::new();
    for n in 0..10 {
        batch.push(insert(
            &event(key(1), 1621, n, &[&["t", "x"]]),
            Stage::Served,
        ));
        batch.push(insert(&event(key(2), 1617, 100 + n, &[]), Stage::Served));
    }
    commit(store, batch).await.expect("commits");
    let issues = Filter {
        limit: Some(3),
        ..of_kind(1621)
    };
    let same = Filter {
        limit: Some(4),
        ..tagged('t', "x")
    };
    let patches = Filter {
        limit: Some(2),
        ..of_kind(1617)
    };
    let live = Filter {
        limit: Some(0),
        ..of_kind(1617)
    };
    assert_eq!(found(store, &[issues, same, patches, live]).len(), 4 + 2);
    let limits = QueryLimits {
        default_limit: 5,
        max_limit: 7,
        now: at(NOW),
    };
    for (limit, count) in [(None, 5), (Some(999_999), 7)] {
        let mut seen = 0;
        let filter = Filter {
            limit,
            ..of_kind(1621)
        };
        let snapshot = store.snapshot().expect("a snapshot");
        let outcome = snapshot.view().query(&[filter], limits, &mut |_| {
            seen += 1;
            ControlFlow::Continue(())
        });
        outcome.expect("the query runs");
        assert_eq!(seen, count);
    }
}

/// BND-3
pub async fn a_tag_value_of_any_length_is_found(store: &Store) {
    let values: Vec<String> = [0, 1, 63, 64, 65, 500, 511, 512, 5000, 100_000]
        .map(|len| "a".repeat(len))
        .into_iter()
        .chain(["é🚀".repeat(300), "f".repeat(64), "F".repeat(64)])
        .collect();
    for value in &values {
        let it = event(key(1), 1621, 5, &[&["t", value], &["é", value]]);
        commit(store, vec![insert(&it, Stage::Served)])
            .await
            .expect("commits");
        assert_eq!(found(store, &[tagged('t', value)]), [it.id()]);
        assert_eq!(found(store, &[tagged('é', value)]), [it.id()]);
        assert!(found(store, &[tagged('t', &format!("{value}b"))]).is_empty());
    }
}

/// Case 46.
pub async fn an_empty_list_matches_nothing(store: &Store) {
    commit(
        store,
        vec![insert(&event(key(1), 1621, 5, &[]), Stage::Served)],
    )
    .await
    .expect("commits");
    let nobody = Filter {
        authors: Some(BTreeSet::new()),
        ..Filter::default()
    };
    let nothing = Filter {
        ids: Some(BTreeSet::new()),
        ..Filter::default()
    };
    let mut untagged = Filter::default();
    untagged.tags.insert('e', BTreeSet::new());
    assert!(found(store, &[nobody, nothing, untagged]).is_empty());
}

/// EV-4
pub async fn expired_events_are_not_shown(store: &Store) {
    let it = event(key(1), 1621, 5, &[&["expiration", "100"]]);
    commit(store, vec![insert(&it, Stage::Served)])
        .await
        .expect("commits");
    assert_eq!(found_at(store, &[of_kind(1621)], 99), [it.id()]);
    assert!(found_at(store, &[of_kind(1621)], 100).is_empty());
    assert_eq!(store.count(&[of_kind(1621)], at(99)).expect("counts"), 1);
    assert_eq!(store.count(&[of_kind(1621)], at(101)).expect("counts"), 0);
}

/// Case 48: a value is no prefix.
pub async fn values_are_compared_whole(store: &Store) {
    let short = event(key(1), 30617, 5, &[&["d", "re"]]);
    let long = event(key(1), 30617, 6, &[&["d", "repo"]]);
    commit(
        store,
        vec![insert(&short, Stage::Served), insert(&long, Stage::Served)],
    )
    .await
    .expect("commits");
    assert_eq!(found(store, &[tagged('d', "re")]), [short.id()]);
    let mut both = Filter::default();
    both.tags
        .insert('d', BTreeSet::from(["re".to_owned(), "repo".to_owned()]));
    assert_eq!(found(store, &[both]), [long.id(), short.id()]);
}

/// RLY-2
pub async fn negentropy_items_rise_by_time_and_id(store: &Store) {
    let events: Vec<_> = (0..50)
        .map(|n| with_content(key(1), 1621, n % 5, &[], &n.to_string()))
        .collect();
    let batch = events
        .iter()
        .map(|event| insert(event, Stage::Served))
        .collect();
    commit(store, batch).await.expect("commits");
    let mut expected: Vec<_> = events
        .iter()
        .map(|it| (it.created_at().as_secs(), it.id().to_bytes()))
        .collect();
    expected.sort_unstable();
    let items = |max| {
        store
            .negentropy_items(&of_kind(1621), at(NOW), max)
            .expect("lists")
    };
    assert_eq!(items(50), Some(expected));
    assert_eq!(items(49), None);
}

/// Long scans go on from a cursor: nothing is lost or shown twice, limits hold across the parts.
pub async fn a_scan_over_several_snapshots_loses_nothing(store: &Store) {
    let batch = (0..200)
        .map(|n| {
            let tags: &[&[&str]] = if n % 3 == 0 { &[&["t", "x"]] } else { &[] };
            insert(
                &with_content(key(1), 1620 + (n % 2) as u16, n / 4, tags, &n.to_string()),
                Stage::Served,
            )
        })
        .collect();
    commit(store, batch).await.expect("commits");
    let filters = [
        Filter {
            limit: Some(30),
            ..tagged('t', "x")
        },
        Filter {
            limit: Some(90),
            ..of_kind(1621)
        },
    ];
    let whole = found(store, &filters);
    let limits = QueryLimits::unlimited(at(NOW));
    for events in [1, 2, 7, 50] {
        let budget = Budget {
            events,
            ..Budget::NONE
        };
        let (mut ids, mut cursor, mut parts) = (Vec::new(), None, 0);
        loop {
            let snapshot = store.snapshot().expect("a snapshot");
            let part =
                snapshot
                    .view()
                    .query_part(&filters, limits, cursor.as_ref(), budget, &mut |row| {
                        ids.push(row.id);
                        ControlFlow::Continue(())
                    });
            cursor = part.expect("the part runs");
            parts += 1;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(ids, whole, "with a budget of {events}");
        assert!(parts > 1);
    }
}
