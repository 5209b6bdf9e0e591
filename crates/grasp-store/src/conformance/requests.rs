//! What requests to delete and to vanish leave behind.

use grasp_core::admission::GATES_MAX;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::{Batch, Change, Stage};
use grasp_core::request::{Asks, Gate, Targets, Uses};
use nostr::event::EventId;

use super::commit;
use super::events::{at, event, insert, keep, key, moved, with_content};
use crate::store::Store;

/// A request by `tags`, in force since its own time.
fn deletion(author: u8, time: u64, tags: &[&[&str]]) -> (VerifiedEvent, Batch) {
    let request = event(key(author), kind::DELETION, time, tags);
    let gates = Targets::of(&request).expect("few").gates(&request);
    let batch = [keep(&request, time), gates].concat();
    (request, batch)
}

fn vanish(author: u8, time: u64) -> (VerifiedEvent, Batch) {
    let request = event(key(author), kind::VANISH, time, &[]);
    let gate = Change::GateAuthor {
        author: key(author),
        until: at(time),
        request: request.id(),
    };
    let batch = [keep(&request, time), vec![gate]].concat();
    (request, batch)
}

fn removed(event: &VerifiedEvent) -> Batch {
    vec![Change::Remove { event: event.id() }]
}

fn gates(store: &Store, event: &VerifiedEvent) -> Vec<Gate> {
    let snapshot = store.snapshot().expect("a snapshot");
    snapshot.view().known(event, at(99)).expect("reads").gates
}

fn asks(store: &Store, event: &VerifiedEvent) -> Vec<Asks> {
    gates(store, event).iter().map(|gate| gate.asks).collect()
}

/// The tables that have other rows than they had.
fn left_behind(store: &Store, empty: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
    let mut rows = store.row_counts().expect("counts");
    rows.retain(|row| !empty.contains(row) && row.0 != "meta");
    rows
}

/// DEL-1
pub async fn a_deletion_request_gates_its_author_s_events_and_versions(store: &Store) {
    let state = |author, time| event(key(author), kind::STATE, time, &[&["d", "x"]]);
    let issue = |author| event(key(author), kind::ISSUE, 80, &[]);
    let (own, foreign) = (issue(1).id().to_hex(), issue(2).id().to_hex());
    let address = state(1, 50).address().expect("has one");
    let tags: &[&[&str]] = &[&["e", &own], &["e", &foreign], &["a", &address]];
    let (_, batch) = deletion(1, 60, tags);
    commit(store, batch).await.expect("commits");
    let deleted = |event: &VerifiedEvent| asks(store, event) == [Asks::Deletion];
    assert!(deleted(&issue(1)), "by its id, whatever its time");
    assert!(deleted(&state(1, 50)) && deleted(&state(1, 60)));
    assert!(!deleted(&state(1, 61)), "made after the request");
    for other in [issue(2), state(2, 50)] {
        assert!(!deleted(&other), "a gate is for its author's events only");
    }
}

/// DEL-8
pub async fn a_request_to_vanish_gates_its_author_up_to_its_time(store: &Store) {
    let empty = store.row_counts().expect("counts");
    let [older, newer] = [vanish(1, 60), vanish(1, 70)];
    let batch = [older.1, newer.1].concat();
    commit(store, batch).await.expect("commits");
    let vanished = |event: &VerifiedEvent| asks(store, event).contains(&Asks::Vanish);
    for kind in [
        kind::ISSUE,
        kind::ANNOUNCEMENT,
        kind::DELETION,
        kind::VANISH,
    ] {
        let made = |author, time| with_content(key(author), kind, time, &[], "another");
        assert!(vanished(&made(1, 1)) && vanished(&made(1, 70)), "{kind}");
        assert!(!vanished(&made(1, 71)) && !vanished(&made(2, 70)), "{kind}");
    }
    assert!(vanished(&older.0), "a newer request covers it");
    assert!(!vanished(&newer.0), "the request itself is known");
    for (left, request) in [(true, &newer.0), (false, &older.0)] {
        commit(store, removed(request)).await.expect("commits");
        assert_eq!(vanished(&event(key(1), kind::ISSUE, 60, &[])), left);
    }
    assert_eq!(left_behind(store, &empty), []);
}

/// DEL-1: NIP-09 has no deletion of deletions.
pub async fn a_request_is_never_deleted(store: &Store) {
    for kind in [kind::DELETION, kind::VANISH] {
        let request = event(key(1), kind, 5, &[]);
        let (_, batch) = deletion(1, 6, &[&["e", &request.id().to_hex()]]);
        commit(store, batch).await.expect("commits");
        assert_eq!(gates(store, &request), [], "{kind}");
    }
}

/// DEL-1, EV-8: or the gates of idle keys would have no bound. Out of sight a request gates on (DEL-9).
pub async fn the_gates_of_a_request_go_with_it_and_no_others(store: &Store) {
    let state = event(key(1), kind::STATE, 5, &[&["d", "x"]]);
    let issue = event(key(1), kind::ISSUE, 5, &[]);
    let (id, address) = (issue.id().to_hex(), state.address().expect("has one"));
    let tags: &[&[&str]] = &[&["e", &id], &["a", &address]];
    let empty = store.row_counts().expect("counts");
    let requests = [6, 7].map(|time| deletion(1, time, tags));
    for (request, batch) in &requests {
        commit(store, batch.clone()).await.expect("commits");
        let held = vec![moved(request, Stage::Held)];
        commit(store, held).await.expect("commits");
    }
    for (left, (request, _)) in [(1, &requests[1]), (0, &requests[0])] {
        commit(store, removed(request)).await.expect("commits");
        for gated in [&state, &issue] {
            assert_eq!(gates(store, gated).len(), left);
        }
    }
    assert_eq!(left_behind(store, &empty), []);
}

/// DEL-9
pub async fn a_gate_tells_since_when_it_is_there_and_its_last_use(store: &Store) {
    let issue = event(key(1), kind::ISSUE, 5, &[]);
    let tags: &[&[&str]] = &[&["e", &issue.id().to_hex()], &["expiration", "500"]];
    let (request, batch) = deletion(1, 6, tags);
    commit(store, batch).await.expect("commits");
    let mut gate = Gate {
        request: request.id(),
        asks: Asks::Deletion,
        uses: Uses {
            first_seen: at(6),
            last: None,
        },
        expiration: Some(at(500)),
    };
    assert_eq!(gates(store, &issue), [gate.clone()]);
    for time in [70, 80] {
        let batch = vec![Change::UseRequest {
            request: request.id(),
            at: at(time),
        }];
        commit(store, batch).await.expect("commits");
        gate.uses.last = Some(at(time));
        assert_eq!(gates(store, &issue), [gate.clone()]);
    }
    let snapshot = store.snapshot().expect("a snapshot");
    let uses = snapshot.view().request_uses(&request.id()).expect("reads");
    assert_eq!(uses, Some(gate.uses));
}

/// §16
pub async fn unused_requests_are_counted_by_author(store: &Store) {
    let unused = |author| {
        let snapshot = store.snapshot().expect("a snapshot");
        snapshot
            .view()
            .unused_requests(&key(author))
            .expect("reads")
    };
    let of_use = |request: &VerifiedEvent, time| Change::UseRequest {
        request: request.id(),
        at: at(time),
    };
    let requests = [1, 2, 3].map(|time| deletion(1, time, &[]));
    for (_, batch) in &requests {
        commit(store, batch.clone()).await.expect("commits");
        // Kept again it is still one.
        commit(store, batch.clone()).await.expect("commits");
    }
    commit(store, deletion(2, 1, &[]).1).await.expect("commits");
    assert_eq!((unused(1), unused(2), unused(3)), (3, 1, 0));
    for time in [50, 60] {
        let batch = vec![of_use(&requests[0].0, time)];
        commit(store, batch).await.expect("commits");
        assert_eq!(unused(1), 2);
    }
    for ((request, _), left) in requests.iter().zip([2, 1, 0]) {
        commit(store, removed(request)).await.expect("commits");
        assert_eq!((unused(1), unused(2)), (left, 1));
    }
}

/// EV-8
pub async fn with_its_use_an_idle_request_goes_after_the_unused(store: &Store) {
    let requests = [1, 2].map(|time| deletion(1, time, &[]));
    for (request, batch) in &requests {
        let counted = Change::Idle {
            event: request.id(),
            used: false,
        };
        let batch = [batch.clone(), vec![counted]].concat();
        commit(store, batch).await.expect("commits");
    }
    let leave = || -> Vec<EventId> {
        let snapshot = store.snapshot().expect("a snapshot");
        let newcomer = event(key(3), kind::GRASP_LIST, 5, &[]);
        let load = snapshot.view().idle_load(&newcomer, 0).expect("reads");
        let load = load.expect("an idle key");
        assert_eq!(load.events, 2);
        load.oldest.iter().map(|it| it.event).collect()
    };
    let [first, second] = requests.map(|(request, _)| request.id());
    assert_eq!(leave(), [first, second]);
    for _ in 0..2 {
        let of_use = Change::UseRequest {
            request: first,
            at: at(9),
        };
        commit(store, vec![of_use]).await.expect("commits");
        assert_eq!(leave(), [second, first]);
    }
}

/// DEL-9
pub async fn of_many_requests_for_one_event_some_are_told(store: &Store) {
    let issue = event(key(1), kind::ISSUE, 5, &[]);
    let id = issue.id().to_hex();
    let mut requests = Vec::new();
    for time in 0..GATES_MAX as u64 + 10 {
        let (request, batch) = deletion(1, time, &[&["e", &id]]);
        commit(store, batch).await.expect("commits");
        requests.push(request.id());
    }
    requests.sort();
    requests.truncate(GATES_MAX);
    let told: Vec<_> = gates(store, &issue).iter().map(|it| it.request).collect();
    assert_eq!(told, requests);
}

/// DEL-1: also behind any number of other tags.
pub async fn all_that_a_request_names_is_looked_at(store: &Store) {
    let own = event(key(1), kind::ISSUE, 5, &[]);
    let foreign = event(key(2), kind::ISSUE, 5, &[]);
    let batch = vec![insert(&own, Stage::Served), insert(&foreign, Stage::Served)];
    commit(store, batch).await.expect("commits");
    let (own, foreign) = (own.id().to_hex(), foreign.id().to_hex());
    let mut tags: Vec<&[&str]> = vec![&["k", "1621"]; 3000];
    let named: [&[&str]; 2] = [&["e", &own], &["e", &foreign]];
    tags.extend(named);
    let request = event(key(1), kind::DELETION, 6, &tags);
    let snapshot = store.snapshot().expect("a snapshot");
    let facts = snapshot.view().deletion_facts(&request).expect("reads");
    assert_eq!(facts.events.len(), 2);
}
