//! What following other servers reads and remembers.

use std::collections::BTreeSet;

use grasp_core::filter::Filter;
use grasp_core::lifecycle::{Change, MarkReason, Stage};
use grasp_core::name::Coordinate;

use super::commit;
use super::events::{at, event, insert, insert_until, key, moved, with_content};
use crate::store::{Passage, Store};

fn scope(owner: u8, d: &str) -> Coordinate {
    Coordinate::new(key(owner), d.parse().expect("an identifier"))
}

fn keep(relay: &str, cursor: Option<&[u8]>) -> Change {
    Change::KeepCursor {
        relay: relay.to_owned(),
        cursor: cursor.map(<[u8]>::to_vec),
    }
}

/// SYNC-11
pub async fn cursors_are_remembered_until_they_are_forgotten(store: &Store) {
    let long = format!("wss://a.example/{}", "x".repeat(2_000));
    let batch = vec![
        keep("wss://a.example", Some(b"old")),
        keep("wss://a.example", Some(b"new")),
        keep("wss://b.example", Some(b"")),
        keep(&long, Some(b"far")),
        keep("wss://unknown.example", None),
    ];
    commit(store, batch).await.expect("commits");
    commit(store, vec![keep("wss://b.example", None)])
        .await
        .expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    let mut cursors = snapshot.view().cursors().expect("reads");
    cursors.sort();
    let a = ("wss://a.example".to_owned(), b"new".to_vec());
    assert_eq!(cursors, [a, (long, b"far".to_vec())]);
}

/// SYNC-9, SYNC-34: whoever listens hears of every change of stage, and of no other change.
pub async fn the_feed_tells_what_changed_its_stage(store: &Store) {
    let mut feed = store.changes();
    let announcement = event(key(1), 30617, 5, &[&["d", "x"]]);
    let issue = event(key(2), 1621, 6, &[]);
    let batches = [
        vec![
            insert(&announcement, Stage::Waiting),
            insert(&issue, Stage::Served),
            insert(&issue, Stage::Held),
        ],
        vec![
            moved(&announcement, Stage::Served),
            moved(&issue, Stage::Served),
        ],
        vec![
            Change::Remove { event: issue.id() },
            Change::Remove { event: issue.id() },
        ],
    ];
    for batch in batches {
        commit(store, batch).await.expect("commits");
    }
    let of_announcement = |stage| Passage {
        event: announcement.id(),
        kind: 30617,
        announces: Some(scope(1, "x")),
        proposes: BTreeSet::new(),
        stage: Some(stage),
    };
    let of_issue = |stage| Passage {
        event: issue.id(),
        kind: 1621,
        announces: None,
        proposes: BTreeSet::new(),
        stage,
    };
    for expected in [
        vec![
            of_announcement(Stage::Waiting),
            of_issue(Some(Stage::Served)),
        ],
        vec![of_announcement(Stage::Served)],
        vec![of_issue(None)],
    ] {
        assert_eq!(feed.recv().await.expect("a commit").moved, expected);
    }
}

/// G2-3, G6-4: the feed and a look at the store tell the same of proposals that wait or are parked.
pub async fn pending_proposals_are_told_with_what_they_name(store: &Store) {
    let (x, y) = (scope(1, "x").address(), scope(1, "y").address());
    let commit_tag = ["c", &"1".repeat(40)];
    let tags: [&[&str]; 4] = [
        &["a", &x],
        &["a", &scope(2, "x").address()],
        &["a", &y],
        &commit_tag,
    ];
    let proposal = |n: u64, kind| event(key(3), kind, n, &tags);
    let [waiting, parked, served, issue] =
        [(1, 1618), (2, 1619), (3, 1618), (4, 1621)].map(|(n, kind)| proposal(n, kind));
    let mut feed = store.changes();
    let batch = vec![
        insert_until(&waiting, Stage::Waiting, 100),
        insert_until(&parked, Stage::Parked, 90),
        insert_until(&served, Stage::Served, 80),
        insert_until(&issue, Stage::Waiting, 70),
    ];
    commit(store, batch).await.expect("commits");
    let told = feed.recv().await.expect("a commit").moved.clone();
    let named: Vec<_> = told.iter().map(|it| it.proposes.clone()).collect();
    let both = BTreeSet::from(["x", "y"].map(|name| name.parse().expect("an identifier")));
    assert_eq!(named, [both.clone(), both.clone(), both, BTreeSet::new()]);
    let pending = |store: &Store| {
        let snapshot = store.snapshot().expect("a snapshot");
        snapshot.view().pending_proposals().expect("reads")
    };
    assert_eq!(pending(store), [told[1].clone(), told[0].clone()]);
    let batch = vec![
        moved(&waiting, Stage::Served),
        Change::Remove { event: parked.id() },
    ];
    commit(store, batch).await.expect("commits");
    assert_eq!(pending(store), []);
}

/// SYNC-2: what was replaced or deleted does not count.
pub async fn living_announcements_are_told_newest_first(store: &Store) {
    let version = |created_at| event(key(1), 30617, created_at, &[&["d", "x"]]);
    let stages = [
        Stage::Superseded,
        Stage::Served,
        Stage::Parked,
        Stage::Waiting,
        Stage::Held,
    ];
    let batch = (1..).zip(stages);
    let batch = batch.map(|(created_at, stage)| insert(&version(created_at), stage));
    commit(store, batch.collect()).await.expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    let view = snapshot.view();
    let living = view.living_announcements(&scope(1, "x")).expect("reads");
    let told: Vec<_> = living
        .iter()
        .map(|(stage, it)| (*stage, it.event().created_at().as_secs()))
        .collect();
    assert_eq!(
        told,
        [(Stage::Waiting, 4), (Stage::Parked, 3), (Stage::Served, 2)]
    );
    assert!(
        view.living_announcements(&scope(2, "x"))
            .expect("reads")
            .is_empty()
    );
}

/// SYNC-2: in several steps, each served root once, with the repositories that it names.
pub async fn all_served_roots_are_told_with_their_repositories(store: &Store) {
    let (x, y) = (scope(1, "x").address(), scope(1, "y").address());
    let tags: [&[&str]; 4] = [&["a", &x], &["a", &x], &["a", &y], &["a", "30618:zz:x"]];
    let issue = |n: u64| with_content(key(2), 1621, n, &tags, "");
    let issues: Vec<_> = (1..=1_500).map(issue).collect();
    let mut batch: Vec<_> = issues.iter().map(|it| insert(it, Stage::Served)).collect();
    let waiting = event(key(2), 1618, 1, &[&["a", &x]]);
    batch.push(insert(&waiting, Stage::Waiting));
    commit(store, batch).await.expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    let view = snapshot.view();
    let (mut roots, mut next) = view.followed_roots(1621, None).expect("reads");
    while let Some(cursor) = next {
        let (more, after) = view.followed_roots(1621, Some(&cursor)).expect("reads");
        roots.extend(more);
        next = after;
    }
    assert_eq!(roots.len(), issues.len());
    let both = [scope(1, "x"), scope(1, "y")];
    assert!(
        roots
            .iter()
            .all(|root| root.repositories == both.clone().into())
    );
    let of_issue = view.followed_root(&issues[0].id()).expect("reads");
    assert_eq!(of_issue.expect("served").repositories, both.into());
    assert_eq!(view.followed_root(&waiting.id()).expect("reads"), None);
    assert_eq!(view.followed_roots(1618, None).expect("reads").0, []);
}

/// SYNC-25, PUR-14
pub async fn what_is_unseen_is_here_and_what_is_marked_is_not(store: &Store) {
    let state = |n| event(key(1), 30618, n, &[&["d", "x"]]);
    let [served, waiting, parked, unknown, marked] = [1, 2, 3, 4, 5].map(state);
    let batch = vec![
        insert_until(&served, Stage::Served, 100),
        insert_until(&waiting, Stage::Waiting, 100),
        insert_until(&parked, Stage::Parked, 100),
        Change::Mark {
            event: marked.id(),
            reason: MarkReason::Expired,
            until: at(100),
        },
    ];
    commit(store, batch).await.expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    let view = snapshot.view();
    let states = Filter {
        kinds: Some([30618].into()),
        ..Filter::default()
    };
    let items = view.unseen_items(&states).expect("reads");
    let expected = [&waiting, &parked].map(|it| (it.created_at().as_secs(), it.id().to_bytes()));
    assert_eq!(items, expected);
    let other = Filter {
        kinds: Some([1].into()),
        ..Filter::default()
    };
    assert_eq!(view.unseen_items(&other).expect("reads"), []);
    let here = [&served, &waiting, &parked, &unknown, &marked];
    let here = here.map(|it| view.is_here(&it.id()).expect("reads"));
    assert_eq!(here, [true, true, true, false, false]);
}
