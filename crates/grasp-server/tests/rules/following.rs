//! Following what the store commits (SYNC-9), also when it was too much to listen to.

use std::sync::Arc;

use grasp_core::filter::Filter;
use grasp_server::Follower;
use grasp_sync::engine::{Input, Notice, SyncLevel};
use grasp_sync::intake;
use grasp_testkit::{Event, Person};
use nostr::key::Keys;

use crate::world::{REPO, World};

const RELAY: &str = "wss://relay.example.com";

fn following(world: &World) -> Follower {
    let owner = Keys::parse(&"01".repeat(32)).expect("a key");
    Follower::new(world.service(), owner, intake::Settings::default(), 10)
}

async fn hears(follower: &Follower, event: &Event) {
    let asked = Arc::from([Filter::default()]);
    let relay = RELAY.parse().expect("a relay");
    follower.hear(&relay, event.as_json(), asked).await;
}

/// SYNC-9, SYNC-32: nothing is lost with the notices: neither what is followed, nor what waited for one of them.
#[tokio::test]
async fn a_listener_that_fell_behind_reads_all_anew() {
    let world = World::adjusted(|settings| settings.store.feed_max = 1);
    let (alice, bob) = (Person::named("alice"), Person::named("bob"));
    let mut follower = following(&world);
    let issue = bob.issue(&alice.coordinate(REPO)).at(world.now().as_secs());
    let issue = issue.sign();
    let reply = alice.comment(&issue).at(world.now().as_secs()).sign();
    hears(&follower, &reply).await;
    assert!(!world.serves(&reply), "it hangs on nothing that is here");
    world.serving(&alice).await;
    world.send(&issue).await.is_stored();
    let heard = follower.heard().expect("readable");
    let [Input::Reloaded { notices }] = heard.as_slice() else {
        panic!("more was committed than the feed holds: {heard:?}");
    };
    let is_repository = |notice: &&Notice| {
        matches!(notice, Notice::Repository { level: SyncLevel::Full, coordinate, .. }
            if coordinate.owner == alice.key())
    };
    let is_root = |notice: &&Notice| matches!(notice, Notice::Root { id, .. } if *id == issue.id);
    assert_eq!(notices.iter().filter(is_repository).count(), 1);
    assert_eq!(notices.iter().filter(is_root).count(), 1);
    follower.pass().await;
    assert!(world.serves(&reply), "it was tried again");
    let again = bob.issue(&alice.coordinate(REPO)).content("another");
    world
        .send(&again.at(world.now().as_secs()).sign())
        .await
        .is_stored();
    let heard = follower.heard().expect("readable");
    assert!(
        matches!(
            heard.last(),
            Some(Input::Noticed(Notice::Root { .. }) | Input::Reloaded { .. })
        ),
        "and it listens again: {heard:?}"
    );
}
