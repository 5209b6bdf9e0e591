//! EV-8: what keys that take part in nothing here may store.

use grasp_core::event::kind;
use grasp_core::lifecycle::Stage;
use grasp_testkit::{Event, Person};

use crate::world::World;

const BOUND: usize = 3;

fn world() -> World {
    World::with(|policy| policy.idle_events = BOUND)
}

fn list_of(name: &str) -> Event {
    Person::named(name).draft(kind::GRASP_LIST).sign()
}

/// A request for something that is not here, `n` tells which.
fn request(name: &str, n: u8) -> Event {
    let unknown = format!("{n:02x}").repeat(32);
    let person = Person::named(name);
    person.draft(kind::DELETION).tag(["e", &unknown]).sign()
}

fn idle_events(world: &World) -> usize {
    let snapshot = world.service().store().snapshot().expect("readable");
    snapshot.view().idle_events().expect("readable")
}

/// EV-8
#[tokio::test]
async fn the_events_of_idle_keys_never_pass_their_bound() {
    let world = world();
    let strangers: Vec<_> = (0..5)
        .flat_map(|n| [list_of(&format!("stranger {n}")), request("mallory", n)])
        .collect();
    for (sent, event) in strangers.iter().enumerate() {
        world.send(event).await.is_stored();
        assert!(world.serves(event));
        assert_eq!(idle_events(&world), BOUND.min(sent + 1));
    }
    let (gone, left) = strangers.split_at(strangers.len() - BOUND);
    assert!(gone.iter().all(|event| world.stage(event).is_none()));
    assert!(left.iter().all(|event| world.serves(event)));
}

/// EV-2, EV-8
#[tokio::test]
async fn those_who_take_part_are_not_counted_and_not_pushed_out() {
    let world = world();
    let (alice, bob) = (Person::named("alice"), Person::named("bob"));
    // Bob was nobody when his list came.
    let early = bob.draft(kind::GRASP_LIST).sign();
    world.send(&early).await.is_stored();
    world.serving(&alice).await;
    world.serving(&bob).await;
    let kept = [list_of("alice"), request("alice", 1), request("alice", 2)];
    for event in &kept {
        world.send(event).await.is_stored();
    }
    assert_eq!(idle_events(&world), 1);
    for n in 0..5 {
        world.send(&request("mallory", n)).await.is_stored();
    }
    assert_eq!(idle_events(&world), BOUND);
    assert!(kept.iter().chain([&early]).all(|it| world.serves(it)));
}

/// EV-8, DEL-1
#[tokio::test]
async fn a_request_that_deleted_something_outlives_those_that_did_not() {
    let world = world();
    let list = list_of("carol");
    let used = Person::named("carol").deletion(&list).sign();
    world.send(&list).await.is_stored();
    world.send(&used).await.is_stored();
    assert_eq!(world.stage(&list), Some(Stage::Held));
    for n in 0..4 {
        world.send(&request("mallory", n)).await.is_stored();
    }
    assert_eq!(world.stage(&list), None);
    assert!(world.serves(&used));
    world.send(&list).await.is_refused();
}
