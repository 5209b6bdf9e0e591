//! How events live and move.

use grasp_core::clock_step::WaitingDeadline;
use grasp_core::filter::Filter;
use grasp_core::lifecycle::{Archive, Change, MarkReason, Stage, Standing, UploadRecord};
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::oid::Oid;
use nostr::event::EventId;

use super::commit;
use super::events::{at, event, insert, insert_until, key, moved, with_content};
use super::queries::found;
use crate::deadlines::Due;
use crate::error::{CommitError, StoreError};
use crate::store::Store;

const STAGES: [Stage; 5] = [
    Stage::Served,
    Stage::Waiting,
    Stage::Parked,
    Stage::Superseded,
    Stage::Held,
];

fn stage_of(store: &Store, id: EventId) -> Option<Stage> {
    let snapshot = store.snapshot().expect("a snapshot");
    snapshot
        .view()
        .event(&id)
        .expect("reads")
        .map(|stored| stored.stage)
}

/// PUR-12: from each stage to each other one.
pub async fn only_served_events_are_visible(store: &Store) {
    let it = event(key(1), 30617, 5, &[&["d", "x"], &["t", "y"]]);
    commit(store, vec![insert(&it, Stage::Waiting)])
        .await
        .expect("commits");
    for from in STAGES {
        for to in STAGES {
            commit(store, vec![moved(&it, from)])
                .await
                .expect("commits");
            let done = commit(store, vec![moved(&it, to)]).await.expect("commits");
            let visible = found(store, &[Filter::default()]) == [it.id()];
            assert_eq!(visible, to == Stage::Served, "{from:?} to {to:?}");
            assert_eq!(stage_of(store, it.id()), Some(to));
            let becomes_visible = to == Stage::Served && from != Stage::Served;
            assert_eq!(done.served.len(), usize::from(becomes_visible));
        }
    }
}

/// What the feed and the caller hear is in the snapshot of that version, and in none before.
pub async fn a_promotion_makes_an_event_visible_with_its_commit(store: &Store) {
    let mut feed = store.changes();
    let it = event(key(1), 30618, 5, &[&["d", "x"]]);
    commit(store, vec![insert(&it, Stage::Waiting)])
        .await
        .expect("commits");
    let before = store.snapshot().expect("a snapshot");
    let done = commit(store, vec![moved(&it, Stage::Served)])
        .await
        .expect("commits");
    let after = store.snapshot().expect("a snapshot");
    assert!(before.version() < done.version && done.version <= after.version());
    assert_eq!(
        before
            .view()
            .event(&it.id())
            .expect("reads")
            .map(|it| it.stage),
        Some(Stage::Waiting)
    );
    let stored = after
        .view()
        .event(&it.id())
        .expect("reads")
        .expect("is there");
    assert_eq!((stored.stage, &stored.event), (Stage::Served, &it));
    assert_eq!(stored.json, it.event().as_json());
    assert_eq!(done.served[0].json, stored.json);
    assert!(
        feed.recv()
            .await
            .expect("the first commit")
            .served
            .is_empty()
    );
    let news = feed.recv().await.expect("the second commit");
    assert_eq!(
        (news.version, news.served[0].event.id()),
        (done.version, it.id())
    );
}

/// EV-5: a second insert of the same event changes nothing.
pub async fn an_event_has_one_home(store: &Store) {
    let it = event(key(1), 1621, 5, &[]);
    let twice = vec![insert(&it, Stage::Served), insert(&it, Stage::Held)];
    let done = commit(store, twice).await.expect("commits");
    assert_eq!(done.served.len(), 1);
    let again = commit(store, vec![insert(&it, Stage::Served)])
        .await
        .expect("commits");
    assert!(again.served.is_empty());
    assert_eq!(found(store, &[Filter::default()]), [it.id()]);
    let counted = store
        .snapshot()
        .expect("a snapshot")
        .view()
        .stats()
        .expect("reads");
    assert_eq!(counted.events(), 1);
}

/// Every table is as before, whatever stage it is removed from.
pub async fn what_is_removed_leaves_nothing_behind(store: &Store) {
    let target = format!("30617:{}:x", key(2).to_hex());
    let commit_id = "1".repeat(40);
    let events = [
        event(
            key(1),
            30617,
            5,
            &[&["d", "x"], &["maintainers", &key(2).to_hex()]],
        ),
        event(key(1), 30618, 5, &[&["d", "x"], &["t", "t"], &["t", "t"]]),
        event(key(1), 1618, 5, &[&["a", &target], &["c", &commit_id]]),
        event(key(1), 0, 5, &[]),
    ];
    let empty = store.row_counts().expect("counts");
    for stage in STAGES {
        let batch = events
            .iter()
            .map(|it| insert_until(it, stage, 50))
            .collect();
        commit(store, batch).await.expect("commits");
        assert_ne!(store.row_counts().expect("counts"), empty);
        let batch = events
            .iter()
            .map(|it| Change::Remove { event: it.id() })
            .collect();
        commit(store, batch).await.expect("commits");
        let mut left = store.row_counts().expect("counts");
        left.retain(|row| !empty.contains(row) && row.0 != "meta");
        assert!(left.is_empty(), "{left:?} after {stage:?}");
    }
    let gone = vec![Change::Remove {
        event: events[0].id(),
    }];
    commit(store, gone)
        .await
        .expect("what is gone may be removed again");
}

/// A decision made on something else than the transaction's view does not go unnoticed.
pub async fn a_change_of_an_unknown_event_fails_the_commit(store: &Store) {
    let it = event(key(1), 1621, 5, &[]);
    let other = event(key(1), 1621, 6, &[]);
    let failed = commit(
        store,
        vec![insert(&other, Stage::Served), moved(&it, Stage::Served)],
    )
    .await;
    let expected = CommitError::Store(StoreError::UnknownEvent(it.id()));
    assert_eq!(failed.expect_err("fails").to_string(), expected.to_string());
    assert_eq!(stage_of(store, other.id()), None);
}

/// PUR-1
pub async fn deadlines_come_due_in_order(store: &Store) {
    let state = event(key(1), 30618, 5, &[&["d", "x"]]);
    let issue = event(key(2), 1621, 5, &[]);
    let repository = RepoAddress::Announced(Coordinate::new(key(1), "x".parse().expect("valid")));
    let upload = UploadRecord {
        event: issue.id(),
        commit: Oid::from_bytes([1; 20]),
        repository,
        bytes: 7,
        deadline: at(150),
    };
    let batch = vec![
        insert_until(&issue, Stage::Served, 200),
        insert_until(&state, Stage::Waiting, 100),
        Change::Upload(upload.clone()),
        Change::Mark {
            event: issue.id(),
            reason: MarkReason::Expired,
            until: at(300),
        },
    ];
    commit(store, batch).await.expect("commits");
    let due = |now, max| {
        let snapshot = store.snapshot().expect("a snapshot");
        snapshot.view().due(at(now), max).expect("reads")
    };
    assert!(due(99, 10).is_empty());
    let all = due(300, 10);
    assert_eq!(all.len(), 4);
    assert!(
        matches!(&all[0], Due::Event { event, identifier: Some(d), stage: Stage::Waiting, .. }
        if *event == state.id() && d.as_str() == "x")
    );
    assert_eq!(all[1], Due::Upload(upload));
    assert!(matches!(&all[2], Due::Event { event, identifier: None, .. } if *event == issue.id()));
    assert!(matches!(
        &all[3],
        Due::Mark {
            reason: MarkReason::Expired,
            ..
        }
    ));
    assert_eq!(due(300, 2).len(), 2);
    let next = store
        .snapshot()
        .expect("a snapshot")
        .view()
        .next_deadline()
        .expect("reads");
    assert_eq!(next, Some(at(100)));
}

/// PUR-3: one deadline per event, that of its present stage.
pub async fn an_extension_moves_the_deadline(store: &Store) {
    let it = event(key(1), 30618, 5, &[&["d", "x"]]);
    commit(store, vec![insert_until(&it, Stage::Waiting, 100)])
        .await
        .expect("commits");
    let extend = Change::Extend {
        event: it.id(),
        deadline: Some(at(400)),
    };
    commit(store, vec![extend]).await.expect("commits");
    let due = |now| {
        let snapshot = store.snapshot().expect("a snapshot");
        snapshot.view().due(at(now), 10).expect("reads").len()
    };
    assert_eq!((due(399), due(400)), (0, 1));
    commit(store, vec![moved(&it, Stage::Served)])
        .await
        .expect("commits");
    assert_eq!(due(10_000), 0);
}

/// PUR-16: of purgatory alone, uploads included.
pub async fn what_waits_tells_its_deadlines(store: &Store) {
    let state = event(key(1), 30618, 5, &[&["d", "x"], &["expiration", "900"]]);
    let parked = event(key(2), 30618, 5, &[&["d", "x"]]);
    let repository = RepoAddress::Announced(Coordinate::new(key(1), "x".parse().expect("valid")));
    let upload = UploadRecord {
        event: parked.id(),
        commit: Oid::from_bytes([1; 20]),
        repository,
        bytes: 7,
        deadline: at(150),
    };
    let batch = vec![
        insert_until(&state, Stage::Waiting, 100),
        insert_until(&parked, Stage::Parked, 50),
        Change::Upload(upload.clone()),
        Change::Mark {
            event: parked.id(),
            reason: MarkReason::Expired,
            until: at(300),
        },
    ];
    commit(store, batch).await.expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    let waiting = snapshot.view().waiting_deadlines().expect("reads");
    let expected = [
        WaitingDeadline::Event {
            event: state.id(),
            deadline: at(100),
            expiration: Some(at(900)),
        },
        WaitingDeadline::Upload(upload),
    ];
    assert_eq!(waiting, expected);
}

/// PUR-13
pub async fn counters_follow_the_stages(store: &Store) {
    let announcement = event(key(1), 30617, 5, &[&["d", "x"]]);
    let state = event(key(1), 30618, 5, &[&["d", "x"]]);
    let batch = vec![
        insert(&announcement, Stage::Waiting),
        insert(&state, Stage::Waiting),
    ];
    commit(store, batch).await.expect("commits");
    let load = |author| {
        let snapshot = store.snapshot().expect("a snapshot");
        snapshot.view().purgatory_load(&author).expect("reads")
    };
    let full = load(key(1));
    assert_eq!(
        (full.events, full.author_announcements, full.author_events),
        (2, 1, 1)
    );
    assert_eq!(
        full.bytes,
        (announcement.event().as_json().len() + state.event().as_json().len()) as u64
    );
    assert_eq!(load(key(2)).author_announcements, 0);
    commit(
        store,
        vec![
            moved(&state, Stage::Served),
            Change::Remove {
                event: announcement.id(),
            },
        ],
    )
    .await
    .expect("commits");
    let empty = load(key(1));
    assert_eq!(
        (
            empty.events,
            empty.bytes,
            empty.author_announcements,
            empty.author_events
        ),
        (0, 0, 0, 0)
    );
    let counted = store
        .snapshot()
        .expect("a snapshot")
        .view()
        .stats()
        .expect("reads");
    assert_eq!(
        (
            counted.of(Stage::Served).states,
            counted.of(Stage::Waiting).events
        ),
        (1, 0)
    );
}

/// REL-6
pub async fn budgets_count_served_replies(store: &Store) {
    let root = event(key(1), 1621, 5, &[]);
    let reply = |n: u64, counted| {
        let event = with_content(key(2), 1111, n, &[&["e", &root.id().to_hex()]], "");
        let standing = Standing::Reply {
            root: root.id(),
            counted,
        };
        Change::Insert {
            event,
            stage: Stage::Served,
            deadline: None,
            standing,
        }
    };
    let batch = vec![
        insert(&root, Stage::Served),
        reply(6, true),
        reply(7, true),
        reply(8, false),
    ];
    let done = commit(store, batch).await.expect("commits");
    let removed = done.served[1].event.id();
    let budget = || {
        let snapshot = store.snapshot().expect("a snapshot");
        snapshot.view().budget_of(&root.id()).expect("reads")
    };
    assert_eq!(budget().0, 2);
    commit(store, vec![Change::Remove { event: removed }])
        .await
        .expect("commits");
    assert_eq!(budget(), (1, done.served[2].json.len() as u64));
}

/// PUR-8
pub async fn marks_are_remembered(store: &Store) {
    let it = event(key(1), 30618, 50, &[&["d", "x"]]);
    let known = |event, now| {
        let snapshot = store.snapshot().expect("a snapshot");
        snapshot.view().known(event, at(now)).expect("reads")
    };
    let mark = Change::Mark {
        event: it.id(),
        reason: MarkReason::Expired,
        until: at(100),
    };
    commit(store, vec![mark]).await.expect("commits");
    assert!(known(&it, 99).expired_mark && !known(&it, 100).expired_mark);
    let unmark = Change::Unmark {
        event: it.id(),
        reason: MarkReason::Expired,
    };
    commit(store, vec![unmark]).await.expect("commits");
    assert!(!known(&it, 99).expired_mark);
}

/// DEL-5
pub async fn an_archive_is_remembered_until_it_is_dropped(store: &Store) {
    let coordinate = Coordinate::new(key(1), "x".parse().expect("valid"));
    let repository = RepoAddress::Announced(coordinate.clone());
    let archive_of = |repository: &RepoAddress| {
        let snapshot = store.snapshot().expect("a snapshot");
        snapshot.view().archive_of(repository).expect("reads")
    };
    let archive = |since| Change::Archive {
        repository: repository.clone(),
        since: at(since),
        until: at(since + 90),
    };
    let archived = |since, until, returns| {
        Some(Archive {
            since: at(since),
            until: at(until),
            returns,
        })
    };
    let back = Change::Unarchive {
        repository: repository.clone(),
    };
    let gone = Change::DropArchive {
        repository: repository.clone(),
    };
    commit(store, vec![back.clone()]).await.expect("commits");
    assert_eq!(
        archive_of(&repository),
        None,
        "nothing returns from nowhere"
    );
    commit(store, vec![archive(10)]).await.expect("commits");
    assert_eq!(archive_of(&repository), archived(10, 100, false));
    assert_eq!(archive_of(&RepoAddress::Proposals(coordinate)), None);
    commit(store, vec![back]).await.expect("commits");
    assert_eq!(archive_of(&repository), archived(10, 100, true));
    commit(store, vec![archive(10)]).await.expect("commits");
    assert_eq!(
        archive_of(&repository),
        archived(11, 100, false),
        "two of one second have names of their own"
    );
    let all = {
        let snapshot = store.snapshot().expect("a snapshot");
        snapshot.view().archives().expect("reads")
    };
    let only = archived(11, 100, false).map(|it| (repository.clone(), it));
    assert_eq!(all, only.into_iter().collect::<Vec<_>>());
    commit(store, vec![gone.clone(), gone])
        .await
        .expect("commits");
    assert_eq!(archive_of(&repository), None);
}
