//! What keys that take part in nothing may store.

use grasp_core::admission::IdleLoad;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::{Batch, Change, Stage, Standing};
use nostr::event::EventId;

use super::commit;
use super::events::{event, insert, key, moved, with_content};
use crate::store::Store;

fn list(author: u8) -> VerifiedEvent {
    event(key(author), kind::GRASP_LIST, 5, &[])
}

fn bare(event: &VerifiedEvent) -> Change {
    Change::Insert {
        event: event.clone(),
        stage: Stage::Served,
        deadline: None,
        standing: Standing::Bare,
    }
}

/// Stores `event` as one of an idle key.
fn idle(event: &VerifiedEvent, used: bool) -> Batch {
    let counted = Change::Idle {
        event: event.id(),
        used,
    };
    vec![bare(event), counted]
}

fn load(store: &Store, newcomer: &VerifiedEvent, bound: usize) -> Option<IdleLoad> {
    let snapshot = store.snapshot().expect("a snapshot");
    snapshot.view().idle_load(newcomer, bound).expect("reads")
}

fn oldest(store: &Store, newcomer: &VerifiedEvent, bound: usize) -> Vec<EventId> {
    let load = load(store, newcomer, bound).expect("an idle key");
    load.oldest.iter().map(|it| it.event).collect()
}

/// EV-8
pub async fn idle_events_leave_unused_first_and_in_their_order(store: &Store) {
    let request = with_content(key(1), kind::DELETION, 1, &[], "used");
    let (first, second) = (list(2), list(3));
    let batch = [
        idle(&request, true),
        idle(&first, false),
        idle(&second, false),
    ];
    commit(store, batch.concat()).await.expect("commits");
    let all = [first.id(), second.id(), request.id()];
    for (bound, leave) in [(9, 0), (4, 0), (3, 1), (2, 2), (1, 3), (0, 3)] {
        assert_eq!(oldest(store, &list(4), bound), all[..leave], "{bound}");
    }
    // What is held takes room as well, until it is removed.
    let batch = vec![moved(&first, Stage::Held)];
    commit(store, batch).await.expect("commits");
    assert_eq!(oldest(store, &list(4), 3), [first.id()]);
    let batch = vec![Change::Remove { event: first.id() }];
    commit(store, batch).await.expect("commits");
    assert_eq!(load(store, &list(4), 3).map(|it| it.events), Some(2));
    assert_eq!(oldest(store, &list(4), 2), [second.id()]);
}

/// EV-2, EV-8
pub async fn participants_events_are_not_idle(store: &Store) {
    commit(store, idle(&list(1), false)).await.expect("commits");
    let announcement = event(key(1), kind::ANNOUNCEMENT, 5, &[&["d", "x"]]);
    let batch = vec![insert(&announcement, Stage::Served)];
    commit(store, batch).await.expect("commits");
    let newer = event(key(1), kind::GRASP_LIST, 6, &[]);
    let issue = event(key(2), kind::ISSUE, 6, &[]);
    assert_eq!(load(store, &newer, 1), None);
    assert_eq!(load(store, &issue, 1), None);
    let there = load(store, &list(2), 1).expect("an idle key");
    assert!(there.oldest[0].participates);
    let released = Change::NotIdle {
        event: list(1).id(),
    };
    commit(store, vec![released]).await.expect("commits");
    assert_eq!(load(store, &list(2), 1), Some(IdleLoad::default()));
}

/// EV-8: at the bound a newer list pushes out the older one of its key, and no other.
pub async fn what_takes_anothers_place_needs_no_room(store: &Store) {
    let batch = [idle(&list(1), false), idle(&list(2), false)];
    commit(store, batch.concat()).await.expect("commits");
    let newer = event(key(1), kind::GRASP_LIST, 6, &[]);
    for newcomer in [newer, list(1)] {
        let load = load(store, &newcomer, 2).expect("an idle key");
        assert_eq!((load.events, load.oldest.len()), (1, 0));
    }
}
