//! DEL-1, DEL-9, DEL-10: how long requests to delete are kept, and what they keep out.

use grasp_core::EventId;
use grasp_core::event::kind;
use grasp_core::lifecycle::{Change, Stage};
use grasp_core::request::Uses;
use grasp_testkit::{Event, Person};

use crate::world::{Answer, REPO, World};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const DELETED: &str = "invalid: this event is deleted";

fn carol() -> Person {
    Person::named("carol")
}

/// An event that is always taken, another one for each second.
fn list(author: &Person, second: u64) -> Event {
    author
        .draft(kind::GRASP_LIST)
        .at(1_700_000_000 + second)
        .sign()
}

/// A request to delete `event`, another one for each second.
fn request(author: &Person, event: &Event, second: u64) -> Event {
    author.deletion(event).at(1_700_001_000 + second).sign()
}

fn uses(world: &World, request: &Event) -> Option<Uses> {
    let snapshot = world.service().store().snapshot().expect("readable");
    snapshot.view().request_uses(&request.id).expect("readable")
}

fn unused(world: &World, author: &Person) -> usize {
    let snapshot = world.service().store().snapshot().expect("readable");
    snapshot
        .view()
        .unused_requests(&author.key())
        .expect("readable")
}

impl Answer {
    #[track_caller]
    fn is_deleted(&self) {
        assert_eq!((self.accepted, self.message.as_str()), (false, DELETED));
    }
}

/// DEL-1, case 52: from clients and from sync, before and after a restart, and for as long as the request is
/// kept, seen or not (DEL-9).
#[tokio::test]
async fn what_was_deleted_comes_back_by_no_way() {
    let mut world = World::new();
    let event = list(&carol(), 0);
    let request = request(&carol(), &event, 0);
    world.send(&event).await.is_stored();
    world.send(&request).await.is_stored();
    for after in [0, DAY, 269 * DAY, 300 * DAY] {
        world.restart_after(after).await;
        world.sync(&event).await.is_deleted();
        world.send(&event).await.is_deleted();
        assert!(!world.serves(&event));
    }
}

/// DEL-1, case 54
#[tokio::test]
async fn a_request_that_names_nothing_of_its_author_s_removes_nothing() {
    let world = World::new();
    let (alice, mallory) = (Person::named("alice"), Person::named("mallory"));
    let (announcement, state) = world.serving(&alice).await;
    let (own, foreign) = (mallory.hex(), alice.hex());
    let draft = || mallory.draft(kind::DELETION);
    let requests = [
        draft(),
        draft().tag(["e", ""]).tag(["a", ""]),
        draft().tag(["e"]).tag(["a"]),
        draft().tag(["a", &alice.coordinate(REPO)]),
        // Hers stands in it, but the repository is Alice's.
        draft().tag(["a", &format!("30617:{foreign}:{own}:{REPO}")]),
        draft().tag(["k", "30617"]).tag(["p", &foreign]),
    ];
    for request in requests {
        world.send(&request.sign()).await.is_stored();
        assert!(world.serves(&announcement) && world.serves(&state));
    }
    // One foreign event refuses all of it, the author's own part too.
    let list = list(&mallory, 0);
    world.send(&list).await.is_stored();
    let mixed = mallory
        .deletion(&list)
        .tag(["e", &state.id.to_hex()])
        .sign();
    let answer = world.send(&mixed).await;
    assert_eq!(
        answer.message,
        "invalid: cannot delete event authored by another pubkey"
    );
    assert!(world.serves(&list) && world.serves(&state) && !world.serves(&mixed));
}

/// DEL-1
#[tokio::test]
async fn a_request_of_too_many_targets_is_refused_behind_any_other_tags() {
    let world = World::new();
    let list = list(&carol(), 0);
    world.send(&list).await.is_stored();
    let author = carol();
    let of = |targets: usize| {
        let filler = (0..100).fold(author.draft(kind::DELETION), |it, _| it.tag(["k", "1"]));
        let empty = (1..targets).fold(filler, |it, _| it.tag(["e"]));
        empty.tag(["e", &list.id.to_hex()]).sign()
    };
    let answer = world.send(&of(2049)).await;
    assert_eq!(answer.message, "invalid: too many deletion targets");
    assert!(world.serves(&list));
    world.send(&of(2048)).await.is_stored();
    assert!(!world.serves(&list));
}

/// DEL-9
#[tokio::test]
async fn a_request_of_no_use_is_served_30_days_and_gates_180_more() {
    let mut world = World::new();
    let event = list(&carol(), 0);
    let request = request(&carol(), &event, 0);
    world.send(&request).await.is_stored();
    assert_eq!(world.left(&request), Some(30 * DAY));
    world.restart_after(30 * DAY - 1).await;
    assert!(world.serves(&request));
    world.send(&request).await.is_duplicate();
    world.pass(1).await;
    assert!(!world.serves(&request));
    assert_eq!(world.stage(&request), Some(Stage::Held));
    // Sent again it is known, and neither shown again nor kept for longer.
    world.send(&request).await.is_duplicate();
    assert!(!world.serves(&request));
    assert_eq!(world.left(&request), Some(180 * DAY));
    world.restart_after(180 * DAY - 1).await;
    assert_eq!(world.stage(&request), Some(Stage::Held));
    world.pass(1).await;
    assert_eq!(world.stage(&request), None);
    assert_eq!(unused(&world, &carol()), 0);
    world.send(&event).await.is_stored();
    // Whoever still has the request may bring it again: then it begins anew.
    world.sync(&request).await.is_stored();
    assert!(!world.serves(&event) && world.serves(&request));
}

/// DEL-9: what removed something counts from there.
#[tokio::test]
async fn a_request_of_use_is_served_270_days_and_gates_90_more() {
    let mut world = World::new();
    let event = list(&carol(), 0);
    let request = request(&carol(), &event, 0);
    world.send(&event).await.is_stored();
    world.send(&request).await.is_stored();
    assert_eq!(world.left(&request), Some(270 * DAY));
    world.restart_after(270 * DAY).await;
    assert!(!world.serves(&request));
    assert_eq!(world.left(&request), Some(90 * DAY));
    world.restart_after(90 * DAY).await;
    assert_eq!(world.stage(&request), None);
    world.send(&event).await.is_stored();
}

/// DEL-9: each use restarts, also out of sight.
#[tokio::test]
async fn keeping_an_event_out_begins_the_time_of_a_request_anew() {
    let world = World::new();
    let event = list(&carol(), 0);
    let request = request(&carol(), &event, 0);
    world.send(&request).await.is_stored();
    world.pass(10 * DAY).await;
    world.sync(&event).await.is_deleted();
    assert_eq!(world.left(&request), Some(270 * DAY));
    world.pass(300 * DAY).await;
    assert!(!world.serves(&request));
    world.send(&event).await.is_deleted();
    assert!(world.serves(&request));
    assert_eq!(world.left(&request), Some(270 * DAY));
}

/// DEL-9: used before unused, then earliest first seen, then lowest id.
#[tokio::test]
async fn one_of_several_requests_is_credited() {
    let world = World::new();
    let event = list(&carol(), 0);
    let [late, early, used] = [1, 2, 3].map(|second| request(&carol(), &event, second));
    let credited = |of: &Event| uses(&world, of).and_then(|uses| uses.last);
    world.send(&early).await.is_stored();
    world.clock().advance(DAY);
    world.send(&late).await.is_stored();
    world.clock().advance(DAY);
    world.send(&event).await.is_deleted();
    assert_eq!(credited(&early), Some(world.now()));
    assert_eq!(credited(&late), None);
    world.send(&used).await.is_stored();
    world.clock().advance(DAY);
    world.send(&event).await.is_deleted();
    assert_eq!(credited(&early), Some(world.now()));
    assert_eq!((credited(&late), credited(&used)), (None, None));
    // The others grow old, and the event stays out.
    world.pass(230 * DAY).await;
    assert_eq!(world.stage(&late), None);
    assert!(world.serves(&early));
    world.send(&event).await.is_deleted();
}

/// DEL-9: of the same moment the lowest id is credited.
#[tokio::test]
async fn of_requests_seen_at_once_the_lowest_id_is_credited() {
    let world = World::new();
    let event = list(&carol(), 0);
    let requests: Vec<_> = (0..5)
        .map(|second| request(&carol(), &event, second))
        .collect();
    for request in &requests {
        world.send(request).await.is_stored();
    }
    world.send(&event).await.is_deleted();
    let credited: Vec<EventId> = requests
        .iter()
        .filter(|request| uses(&world, request).is_some_and(|uses| uses.last.is_some()))
        .map(|request| request.id)
        .collect();
    let lowest = requests.iter().map(|request| request.id).min();
    assert_eq!(credited, Vec::from_iter(lowest));
}

/// EV-1, DEL-9: the gate comes before what an event is, so the refusal of one that is not what its kind
/// promises rests on the request.
#[tokio::test]
async fn keeping_out_what_is_malformed_is_a_use_too() {
    let world = World::new();
    let malformed = carol().draft(kind::ANNOUNCEMENT).at(1_700_000_000).sign();
    world.send(&malformed).await.is_refused();
    assert_ne!(world.send(&malformed).await.message, DELETED);
    let request = request(&carol(), &malformed, 0);
    world.send(&request).await.is_stored();
    world.clock().advance(DAY);
    world.sync(&malformed).await.is_deleted();
    let last = uses(&world, &request).and_then(|uses| uses.last);
    assert_eq!(last, Some(world.now()));
    assert_eq!(world.left(&request), Some(270 * DAY));
    let before = world.commits();
    world.send(&malformed).await.is_deleted();
    assert_eq!(world.commits(), before);
}

/// DEL-9, BND-1: a flood of what is kept out is a flood of refusals, not of commits.
#[tokio::test]
async fn a_flood_of_deleted_events_is_written_down_once_an_hour() {
    let world = World::new();
    let event = list(&carol(), 0);
    let request = request(&carol(), &event, 0);
    world.send(&request).await.is_stored();
    let before = world.commits();
    for _ in 0..20 {
        world.send(&event).await.is_deleted();
    }
    world.clock().advance(HOUR - 1);
    world.sync(&event).await.is_deleted();
    assert_eq!(world.commits(), before + 1);
    world.clock().advance(1);
    world.sync(&event).await.is_deleted();
    assert_eq!(world.commits(), before + 2);
    assert_eq!(world.left(&request), Some(270 * DAY));
}

/// EV-4: a request with an end of its own.
#[tokio::test]
async fn a_request_that_expires_ends_with_its_gates() {
    let world = World::new();
    let event = list(&carol(), 0);
    let end = world.now().as_secs() + DAY;
    let request = carol()
        .deletion(&event)
        .tag(["expiration", &end.to_string()])
        .sign();
    world.send(&request).await.is_stored();
    world.send(&event).await.is_deleted();
    assert_eq!(world.left(&request), Some(DAY));
    world.pass(DAY).await;
    assert_eq!(world.stage(&request), None);
    world.send(&event).await.is_stored();
}

/// DEL-9: the operator's figures hold from the next time that a request is looked at.
#[tokio::test]
async fn a_request_that_shall_be_kept_for_longer_by_now_is() {
    let world = World::new();
    let request = request(&carol(), &list(&carol(), 0), 0);
    world.send(&request).await.is_stored();
    // As if it had come while requests were kept for a day.
    let (id, tomorrow) = (request.id, world.now() + DAY);
    let sooner = Change::Extend {
        event: id,
        deadline: Some(tomorrow),
    };
    let commit = world
        .service()
        .store()
        .commit(move |_| Ok((vec![sooner.clone()], ())));
    commit.await.expect("a commit");
    world.pass(DAY).await;
    assert!(world.serves(&request));
    assert_eq!(world.left(&request), Some(29 * DAY));
    let series = "ngit_deletion_request_cleanup_outcomes_total{outcome=\"extended\"}";
    assert_eq!(world.metric(series).await, 1);
}

/// EV-8: "used" is what a request is now, not what it was on its arrival.
#[tokio::test]
async fn a_request_that_keeps_something_out_outlives_those_of_no_use() {
    let world = World::with(|policy| policy.idle_events = 3);
    let event = list(&carol(), 0);
    let kept = request(&carol(), &event, 0);
    world.send(&kept).await.is_stored();
    world.send(&event).await.is_deleted();
    for n in 0..5 {
        let other = Person::named(&format!("stranger {n}"));
        world.send(&request(&other, &event, n)).await.is_stored();
    }
    assert!(world.serves(&kept));
    world.send(&event).await.is_deleted();
}

/// §16, BND-1
#[tokio::test]
async fn an_author_has_at_most_so_many_requests_of_no_use() {
    let world = World::with(|policy| policy.requests.unused_per_author = 3);
    let lists = [0, 1, 2, 3, 4].map(|second| list(&carol(), second));
    let requests = [0, 1, 2, 3, 4].map(|n| request(&carol(), &lists[n], n as u64));
    for request in &requests[..3] {
        world.send(request).await.is_stored();
    }
    let refused = world.send(&requests[3]).await;
    refused.is_refused();
    assert!(refused.message.starts_with("rate-limited: ") && refused.message.contains(" 3 "));
    let series = "ngit_limit_refusals_total{limit=\"deletions_per_author\"}";
    assert_eq!(world.metric(series).await, 1);
    // It keeps nothing out, then.
    world.send(&lists[3]).await.is_stored();
    // One that removes something always has room, and so has another author.
    world.send(&requests[3]).await.is_stored();
    world
        .send(&request(&Person::named("dave"), &lists[0], 9))
        .await
        .is_stored();
    world.send(&requests[4]).await.is_refused();
    // One of them is of use: there is room for another.
    world.send(&lists[0]).await.is_deleted();
    world.send(&requests[4]).await.is_stored();
    assert_eq!(unused(&world, &carol()), 3);
}

/// DEL-10
#[tokio::test]
async fn a_relay_that_respects_no_requests_stores_and_serves_them() {
    let world = World::with(|policy| policy.requests.respected = false);
    let (there, to_come) = (list(&carol(), 1), list(&carol(), 2));
    world.send(&there).await.is_stored();
    let requests = [request(&carol(), &there, 1), request(&carol(), &to_come, 2)];
    for request in &requests {
        world.send(request).await.is_stored();
        assert!(world.serves(request));
    }
    assert!(world.serves(&there));
    world.send(&to_come).await.is_stored();
    assert_eq!(unused(&world, &carol()), 2);
    world.pass(30 * DAY).await;
    assert!(requests.iter().all(|request| !world.serves(request)));
    assert!(world.serves(&to_come));
}

/// DEL-9, §20
#[tokio::test]
async fn the_clean_up_counts_what_it_did() {
    let world = World::new();
    let cleanup = async |series: &str| {
        let name = format!("ngit_deletion_request_cleanup_{series}");
        world.metric(&name).await
    };
    for second in 0..3 {
        let unknown = list(&carol(), second);
        world
            .send(&request(&carol(), &unknown, second))
            .await
            .is_stored();
    }
    let runs = cleanup("runs_total").await;
    world.pass(30 * DAY).await;
    world.pass(180 * DAY).await;
    assert_eq!(cleanup("runs_total").await, runs + 2);
    assert_eq!(cleanup("outcomes_total{outcome=\"unserved\"}").await, 3);
    assert_eq!(cleanup("outcomes_total{outcome=\"removed\"}").await, 3);
    assert_eq!(cleanup("removed_total{type=\"deletion\"}").await, 3);
    assert_eq!(cleanup("removed_total{type=\"vanish\"}").await, 0);
}
