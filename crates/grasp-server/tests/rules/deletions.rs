//! DEL-2, DEL-3: what a deletion brings back, and what it does not.

use grasp_core::lifecycle::Stage;
use grasp_testkit::Person;

use crate::history::commit;
use crate::world::{WAITING, World, listing, main_at, main_only};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

/// DEL-2
#[tokio::test]
async fn deleting_the_winning_state_rolls_back_to_the_one_before() {
    let world = World::new();
    let (announcement, first) = world.serving(&alice()).await;
    let second = main_at(&alice(), commit(1).await);
    world.send(&second).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    assert_eq!(world.stage(&first), Some(Stage::Superseded));
    world
        .send(&alice().deletion(&second).sign())
        .await
        .is_stored();
    assert!(world.serves(&first) && world.serves(&announcement));
    assert_eq!(world.stage(&second), Some(Stage::Held));
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    world.send(&second).await.is_refused();
}

/// DEL-2, G1-11
#[tokio::test]
async fn deleting_the_last_state_sends_the_announcement_back_to_purgatory() {
    let world = World::new();
    let (announcement, state) = world.serving(&alice()).await;
    world
        .send(&alice().deletion(&state).sign())
        .await
        .is_stored();
    assert!(!world.serves(&announcement) && !world.serves(&state));
    assert_eq!(world.stage(&announcement), Some(Stage::Waiting));
    assert_eq!(world.left(&announcement), Some(WAITING));
    assert_eq!(world.advertised(&alice()).await, Some([].into()));
    let again = main_at(&alice(), commit(0).await);
    world.send(&again).await;
    world
        .push(&alice(), &[("refs/heads/main", commit(0).await)])
        .await
        .accepted();
    assert!(world.serves(&announcement) && world.serves(&again));
}

/// DEL-2: another maintainer's served state wins then.
#[tokio::test]
async fn deleting_a_state_lets_the_next_newest_of_the_set_win() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let theirs = main_at(&bob(), commit(1).await);
    world.send(&theirs).await.waits();
    world
        .push(&bob(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    world
        .send(&bob().deletion(&theirs).sign())
        .await
        .is_stored();
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(0).await)));
    }
}

/// DEL-3
#[tokio::test]
async fn a_restored_announcement_gives_no_authority_back() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let alone = listing(&alice(), &[]).sign();
    world.send(&alone).await.is_stored();
    world
        .send(&alice().deletion(&alone).sign())
        .await
        .is_stored();
    let theirs = main_at(&bob(), commit(1).await);
    world.send(&theirs).await;
    world
        .push(&bob(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    assert_eq!(world.refs(&bob()), Some(main_only(commit(1).await)));
}
