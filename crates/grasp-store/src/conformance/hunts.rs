//! What is remembered of looking for git data (§14).

use grasp_core::lifecycle::Change;
use grasp_core::name::Identifier;

use super::commit;
use crate::hunts::Hunt;
use crate::store::Store;
use crate::version::CommitVersion;

fn named(name: &str) -> Identifier {
    name.parse().expect("a valid identifier")
}

fn ask(name: &str, not_before_ms: u64) -> Change {
    Change::Hunt {
        identifier: named(name),
        not_before_ms,
    }
}

fn later(next_attempt_ms: u64, attempt_count: u32, is_parked: bool) -> Change {
    Change::HuntLater {
        identifier: named("x"),
        next_attempt_ms,
        attempt_count,
        is_parked,
    }
}

fn over(seen: CommitVersion) -> Change {
    Change::HuntOver {
        identifier: named("x"),
        seen: seen.number(),
    }
}

async fn done(store: &Store, change: Change) -> CommitVersion {
    let committed = commit(store, vec![change]).await.expect("commits");
    committed.version
}

fn all(store: &Store) -> Vec<Hunt> {
    let snapshot = store.snapshot().expect("a snapshot");
    snapshot.view().hunts(None, 10).expect("reads")
}

/// The only entry: when, the attempts so far, and whether it is hourly.
fn only(store: &Store) -> (u64, u32, bool) {
    let hunts = all(store);
    let [hunt] = hunts.as_slice() else {
        panic!("one entry, not {hunts:?}");
    };
    (hunt.next_attempt_ms, hunt.attempt_count, hunt.is_parked)
}

/// HUNT-4
pub async fn a_hunt_may_only_move_earlier(store: &Store) {
    for (asked, expected) in [(500, 500), (900, 500), (200, 200)] {
        let version = done(store, ask("x", asked)).await;
        assert_eq!(only(store), (expected, 0, false));
        assert_eq!(all(store)[0].asked_in, version);
    }
}

/// HUNT-1a, HUNT-4: what an attempt leaves is kept, and news begins anew.
pub async fn attempts_are_remembered_until_there_is_news(store: &Store) {
    let asked = done(store, ask("x", 500)).await;
    done(store, later(20_500, 1, false)).await;
    assert_eq!(only(store), (20_500, 1, false));
    done(store, later(90_000, 7, true)).await;
    assert_eq!(only(store), (90_000, 7, true));
    assert_eq!(all(store)[0].asked_in, asked);
    done(store, ask("x", 95_000)).await;
    assert_eq!(only(store), (90_000, 0, false));
}

/// HUNT-4: an entry goes when nothing is owed, unless that was seen before the last news.
pub async fn a_hunt_is_over_only_if_nothing_was_asked_for_since(store: &Store) {
    let first = done(store, ask("x", 500)).await;
    let second = done(store, ask("x", 900)).await;
    done(store, over(first)).await;
    assert_eq!(only(store), (500, 0, false));
    done(store, later(20_500, 1, false)).await;
    done(store, over(second)).await;
    assert_eq!(all(store), []);
    done(store, over(second)).await;
    done(store, later(20_500, 1, false)).await;
    done(store, over(CommitVersion::default())).await;
    assert_eq!(all(store), [], "nobody asked for it");
}

/// HUNT-1a: all of them are found again, in portions.
pub async fn hunts_are_told_by_name(store: &Store) {
    for name in ["c", "a", "b"] {
        done(store, ask(name, 500)).await;
    }
    let snapshot = store.snapshot().expect("a snapshot");
    let from = |after: Option<&Identifier>, max| -> Vec<String> {
        let hunts = snapshot.view().hunts(after, max).expect("reads");
        hunts
            .iter()
            .map(|hunt| hunt.identifier.to_string())
            .collect()
    };
    assert_eq!(from(None, 2), ["a", "b"]);
    assert_eq!(from(Some(&named("b")), 2), ["c"]);
    assert_eq!(from(Some(&named("aa")), 9), ["b", "c"]);
    assert_eq!(from(Some(&named("c")), 9), [""; 0]);
}

/// HUNT-2: who listens learns of it with the commit.
pub async fn the_feed_tells_what_is_hunted(store: &Store) {
    let mut feed = store.changes();
    let asked = ask("x", 500);
    let version = done(store, asked.clone()).await;
    let told = feed.recv().await.expect("told");
    assert_eq!((told.version, &told.batch), (version, &vec![asked]));
}
