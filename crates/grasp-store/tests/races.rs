//! Many submitters, one decision at a time.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;
use grasp_core::lifecycle::{Change, Stage, Standing};
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_store::conformance::{commit, events};
use grasp_store::{CommitError, QueryLimits, Store, StoreConfig, StoreError, View};

use events::{at, event, insert, key, moved, with_content};

fn config() -> StoreConfig {
    StoreConfig {
        map_size: 1 << 30,
        disk_floor: 0,
        ..StoreConfig::default()
    }
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), config()).expect("opens");
    (folder, store)
}

/// The newest version is served, what it replaces goes: what a caller's decision does.
fn replace(view: &View<'_>, event: &VerifiedEvent) -> Result<Vec<Change>, StoreError> {
    let known = view.known(event, at(0))?;
    Ok(match known.served_version {
        _ if known.stage.is_some() => Vec::new(),
        Some(served) if served > event.version() => Vec::new(),
        Some(served) => vec![
            Change::Remove { event: served.id },
            insert(event, Stage::Served),
        ],
        None => vec![insert(event, Stage::Served)],
    })
}

fn of_kind(kind: u16) -> Filter {
    Filter {
        kinds: Some(BTreeSet::from([kind])),
        ..Filter::default()
    }
}

/// Case 42.
#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_versions_at_once_exactly_the_newest_is_served() {
    let (_folder, store) = store();
    let versions: Vec<_> = (0..50)
        .map(|n: u64| {
            event(
                key(1),
                30618,
                100 + n / 5,
                &[&["d", "x"], &["n", &n.to_string()]],
            )
        })
        .collect();
    let submissions: Vec<_> = versions
        .iter()
        .cloned()
        .map(|version| {
            let store = store.clone();
            tokio::spawn(async move {
                store
                    .commit(move |view| Ok((replace(view, &version)?, ())))
                    .await
            })
        })
        .collect();
    for submission in submissions {
        submission.await.expect("runs").expect("commits");
    }
    let newest = versions
        .iter()
        .map(VerifiedEvent::version)
        .max()
        .expect("fifty");
    let mut served = Vec::new();
    let outcome = store.query(
        &[of_kind(30618)],
        QueryLimits::unlimited(at(0)),
        &mut |row| {
            served.push(row.id);
            ControlFlow::Continue(())
        },
    );
    outcome.expect("the query runs");
    assert_eq!(served, [newest.id]);
}

/// Cases 20 and 47: the decision sees the members of its own group.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_event_at_once_is_stored_once() {
    let (_folder, store) = store();
    let it = event(key(1), 1621, 5, &[]);
    let submissions: Vec<_> = (0..20)
        .map(|_| {
            let (store, it) = (store.clone(), it.clone());
            tokio::spawn(async move {
                let decide = move |view: &View<'_>| {
                    let duplicate = view.known(&it, at(0))?.stage.is_some();
                    Ok((vec![insert(&it, Stage::Served)], duplicate))
                };
                store.commit(decide).await.expect("commits")
            })
        })
        .collect();
    let (mut first, mut published) = (0, 0);
    for submission in submissions {
        let done = submission.await.expect("runs");
        first += usize::from(!done.value);
        published += done.served.len();
    }
    assert_eq!((first, published), (1, 1));
}

/// BND-2, BND-3: a member that panics, fails or cannot be written takes nobody along.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_member_of_a_group_fails_alone() {
    let (_folder, store) = store();
    let blocker = block_writer(&store).await;
    let good: Vec<_> = (0..10)
        .map(|n| {
            let (store, it) = (store.clone(), event(key(1), 1621, n, &[]));
            tokio::spawn(async move { commit(&store, vec![insert(&it, Stage::Served)]).await })
        })
        .collect();
    let unknown = event(key(9), 1621, 5, &[]);
    let half = vec![
        insert(&event(key(8), 1621, 5, &[]), Stage::Served),
        moved(&unknown, Stage::Served),
    ];
    let unwritable = tokio::spawn({
        let store = store.clone();
        async move { commit(&store, half).await }
    });
    let panicking = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .commit(|_| -> Result<(Vec<Change>, ()), StoreError> { panic!("a bug") })
                .await
        }
    });
    let failing = tokio::spawn({
        let store = store.clone();
        let refuse = |_: &View<'_>| Err::<(Vec<Change>, ()), _>(StoreError::Decision("no".into()));
        async move { store.commit(refuse).await }
    });
    tokio::task::yield_now().await;
    drop(blocker);
    for submission in good {
        submission.await.expect("runs").expect("commits");
    }
    let failed = unwritable.await.expect("runs").expect_err("fails");
    assert!(
        matches!(failed, CommitError::Store(StoreError::UnknownEvent(id)) if id == unknown.id())
    );
    assert!(matches!(
        panicking.await.expect("runs"),
        Err(CommitError::Panicked)
    ));
    assert!(matches!(
        failing.await.expect("runs"),
        Err(CommitError::Store(StoreError::Decision(_)))
    ));
    assert_eq!(store.count(&[of_kind(1621)], at(0)).expect("counts"), 10);
}

/// Holds the writer in a decision until the result is dropped, so that a group gathers behind it.
async fn block_writer(store: &Store) -> std::sync::mpsc::Sender<()> {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (entered, entering) = tokio::sync::oneshot::channel();
    let mut entered = Some(entered);
    let store = store.clone();
    tokio::spawn(async move {
        let decide = move |_: &View<'_>| {
            if let Some(entered) = entered.take() {
                let _ = entered.send(());
            }
            let _ = released.recv();
            Ok((Vec::new(), ()))
        };
        store.commit(decide).await
    });
    entering.await.expect("the writer is in the decision");
    release
}

/// Whoever sees the new events sees the mark too.
#[tokio::test(flavor = "multi_thread")]
async fn a_repository_is_dirty_before_its_commit_is_visible() {
    let (_folder, store) = store();
    let repository = RepoAddress::Announced(Coordinate::new(key(1), "x".parse().expect("valid")));
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let watcher = std::thread::spawn({
        let (store, repository, stop) = (store.clone(), repository.clone(), stop.clone());
        move || {
            let mut looked = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let snapshot = store.snapshot().expect("a snapshot");
                let seen = snapshot.version();
                let marked = store.dirty().version_of(&repository);
                assert!(
                    marked >= Some(seen).filter(|seen| seen.number() > 0),
                    "{marked:?} {seen:?}"
                );
                looked += 1;
            }
            looked
        }
    });
    for n in 0..200 {
        let it = event(key(1), 30618, n, &[&["d", "x"]]);
        let batch = vec![
            insert(&it, Stage::Served),
            Change::Dirty(repository.clone()),
        ];
        let done = commit(&store, batch).await.expect("commits");
        assert_eq!(done.dirtied, std::slice::from_ref(&repository));
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(watcher.join().expect("the watcher saw no lie") > 0);
}

/// A mark that came after the look stays; the row goes with the next commit, and a restart knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_mark_is_cleared_only_by_a_look_that_saw_it() {
    let (folder, store) = store();
    let repository = RepoAddress::Announced(Coordinate::new(key(1), "x".parse().expect("valid")));
    let other = RepoAddress::Proposals(Coordinate::new(key(1), "x".parse().expect("valid")));
    let mark = || vec![Change::Dirty(repository.clone())];
    let first = commit(&store, mark()).await.expect("commits").version;
    let second = commit(&store, mark()).await.expect("commits").version;
    commit(&store, vec![Change::Dirty(other.clone())])
        .await
        .expect("commits");
    store.clear_dirty(&repository, first);
    assert_eq!(store.dirty().version_of(&repository), Some(second));
    let waiting = tokio::spawn({
        let (store, repository) = (store.clone(), repository.clone());
        async move { store.dirty().wait_clean(&repository).await }
    });
    store.clear_dirty(&repository, second);
    waiting.await.expect("ends once it is clean");
    assert!(!store.dirty().contains(&repository));
    store.close();
    assert!(matches!(
        commit(&store, mark()).await,
        Err(CommitError::Closed)
    ));
    drop(store);
    let store = Store::open(folder.path(), config()).expect("opens again");
    let left: Vec<_> = store
        .dirty()
        .list()
        .into_iter()
        .map(|(repository, _)| repository)
        .collect();
    assert_eq!(left, [other]);
}

/// Idea 4 of the design: a mark that races with a clearing is in the table, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_mark_made_while_an_older_one_is_cleared_survives_a_restart() {
    let (folder, store) = store();
    let repository = RepoAddress::Announced(Coordinate::new(key(1), "x".parse().expect("valid")));
    let mark = vec![Change::Dirty(repository.clone())];
    let first = commit(&store, mark.clone()).await.expect("commits").version;
    let clear_in_between = {
        let (store, repository) = (store.clone(), repository.clone());
        move |_: &View<'_>| {
            store.clear_dirty(&repository, first);
            Ok((mark.clone(), ()))
        }
    };
    store.commit(clear_in_between).await.expect("commits");
    assert!(store.dirty().contains(&repository));
    commit(&store, Vec::new())
        .await
        .expect("takes the clearing along");
    store.close();
    drop(store);
    let store = Store::open(folder.path(), config()).expect("opens again");
    assert!(store.dirty().contains(&repository));
}

/// Case 94: a query ends with what still exists.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_query_survives_that_half_of_it_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(
        folder.path(),
        StoreConfig {
            scan_events_max: 100,
            ..config()
        },
    )
    .expect("opens");
    let all: Vec<_> = (0..2000)
        .map(|n| with_content(key(1), 1621, n, &[], "x"))
        .collect();
    commit(
        &store,
        all.iter().map(|it| insert(it, Stage::Served)).collect(),
    )
    .await
    .expect("commits");
    let gone: BTreeSet<_> = all.iter().step_by(2).map(VerifiedEvent::id).collect();
    let removal = {
        let (store, gone) = (store.clone(), gone.clone());
        tokio::spawn(async move {
            let ids: Vec<_> = gone.into_iter().collect();
            for ids in ids.chunks(20) {
                let batch = ids.iter().map(|id| Change::Remove { event: *id }).collect();
                commit(&store, batch).await.expect("commits");
            }
        })
    };
    let query = tokio::task::spawn_blocking(move || {
        let mut ids = Vec::new();
        let outcome = store.query(
            &[of_kind(1621)],
            QueryLimits::unlimited(at(0)),
            &mut |row| {
                ids.push(row.id);
                ControlFlow::Continue(())
            },
        );
        outcome.map(|_| ids)
    });
    let ids = query.await.expect("runs").expect("the query runs");
    removal.await.expect("runs");
    let distinct: BTreeSet<_> = ids.iter().copied().collect();
    assert_eq!(distinct.len(), ids.len(), "nothing is shown twice");
    let stayed = all
        .iter()
        .map(VerifiedEvent::id)
        .filter(|id| !gone.contains(id));
    assert!(
        stayed.into_iter().all(|id| distinct.contains(&id)),
        "what stays is shown"
    );
}

/// REL-6: the standing is kept through a restart.
#[tokio::test]
async fn what_an_event_may_carry_is_kept() {
    let (folder, store) = store();
    let root = event(key(1), 1621, 5, &[]);
    let standings = [
        Standing::Anchor,
        Standing::Reply {
            root: root.id(),
            counted: true,
        },
        Standing::Reply {
            root: root.id(),
            counted: false,
        },
        Standing::Bare,
    ];
    let events: Vec<_> = (0..4).map(|n| event(key(1), 1111, n, &[])).collect();
    let batch = events
        .iter()
        .zip(standings)
        .map(|(event, standing)| Change::Insert {
            event: event.clone(),
            stage: Stage::Held,
            deadline: Some(at(77)),
            standing,
        })
        .collect();
    commit(&store, batch).await.expect("commits");
    drop(store);
    let store = Store::open(folder.path(), config()).expect("opens again");
    let snapshot = store.snapshot().expect("a snapshot");
    for (event, standing) in events.iter().zip(standings) {
        let stored = snapshot
            .view()
            .event(&event.id())
            .expect("reads")
            .expect("is there");
        assert_eq!((stored.standing, stored.deadline), (standing, Some(at(77))));
        assert_eq!(&stored.event, event);
    }
}
