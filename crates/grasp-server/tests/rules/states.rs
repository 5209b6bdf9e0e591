//! §7, AFTER-*: states, alone and of several maintainers.

use std::sync::Arc;

use grasp_core::EventId;
use grasp_core::lifecycle::Stage;
use grasp_store::Committed;
use grasp_testkit::Person;
use tokio::sync::broadcast;

use crate::history::commit;
use crate::world::{REPO, World, announcing, listing, main_at, main_only};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

/// ST-3
#[tokio::test]
async fn a_state_whose_objects_are_here_is_applied_at_once() {
    let world = World::new();
    world.serving(&alice()).await;
    let upload = format!("refs/nostr/{}", "a".repeat(64));
    world
        .push(&alice(), &[(&upload, commit(3).await)])
        .await
        .accepted();
    let state = alice()
        .state(
            REPO,
            [
                ("refs/heads/main", &commit(3).await.oid),
                ("refs/heads/old", &commit(1).await.oid),
            ],
        )
        .sign();
    world.send(&state).await.is_stored();
    assert!(world.serves(&state));
    let mut expected = main_only(commit(3).await);
    expected.insert("refs/heads/old".to_owned(), commit(1).await.oid.clone());
    expected.insert(upload, commit(3).await.oid.clone());
    assert_eq!(world.refs(&alice()), Some(expected));
}

/// ST-3
#[tokio::test]
async fn a_stranger_s_repository_of_the_same_name_is_not_searched() {
    let world = World::new();
    world.serving(&alice()).await;
    world.send(&announcing(&bob()).sign()).await.waits();
    let state = main_at(&bob(), commit(0).await);
    world.send(&state).await.waits();
    assert!(!world.serves(&state));
}

/// ST-4, PUSH-15
#[tokio::test]
async fn one_push_brings_every_owner_s_repository_in_line() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(0).await)));
    }
    let state = main_at(&bob(), commit(1).await);
    world.send(&state).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    assert!(world.serves(&state));
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(1).await)));
    }
}

/// ST-4: the sets of two owners need not be the same.
#[tokio::test]
async fn each_repository_follows_its_own_maintainers() {
    let world = World::new();
    let carol = Person::named("carol");
    // alice and bob trust each other, bob and carol too; alice reaches carol through bob alone.
    world.serving_together(&alice(), &bob()).await;
    world
        .send(&listing(&bob(), &[&alice(), &carol]).sign())
        .await
        .is_stored();
    let theirs = listing(&carol, &[]).sign();
    world.send(&theirs).await.waits();
    let state = main_at(&carol, commit(1).await);
    world.send(&state).await.waits();
    world
        .push(&carol, &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    assert_eq!(world.refs(&carol), Some(main_only(commit(1).await)));
    assert_eq!(
        world.refs(&bob()),
        Some(main_only(commit(0).await)),
        "carol has not accepted"
    );
    world
        .send(&listing(&carol, &[&bob()]).sign())
        .await
        .is_stored();
    for owner in [alice(), bob(), carol] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(1).await)));
    }
}

/// ST-4: served as an event once complete, no ref moves.
#[tokio::test]
async fn a_complete_state_that_loses_moves_no_ref() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let losing = main_at(&bob(), commit(0).await);
    let winning = main_at(&alice(), commit(1).await);
    world.send(&winning).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    world.send(&losing).await.is_stored();
    assert!(world.serves(&losing) && world.serves(&winning));
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(1).await)));
    }
}

/// ST-6
#[tokio::test]
async fn several_states_of_one_author_wait_side_by_side() {
    let world = World::new();
    world.serving(&alice()).await;
    let second = main_at(&alice(), commit(1).await);
    let third = main_at(&alice(), commit(2).await);
    world.send(&second).await.waits();
    world.send(&third).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    assert!(world.serves(&second));
    assert_eq!(world.stage(&third), Some(Stage::Waiting));
    world
        .push(&alice(), &[("refs/heads/main", commit(2).await)])
        .await
        .accepted();
    assert!(world.serves(&third) && !world.serves(&second));
}

/// ST-6, PUSH-14
#[tokio::test]
async fn a_state_that_loses_to_another_maintainer_waits_but_authorises_nothing() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let losing = main_at(&bob(), commit(2).await);
    let winning = main_at(&alice(), commit(1).await);
    world.send(&winning).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    world.send(&losing).await.waits();
    let told = world
        .push(&bob(), &[("refs/heads/main", commit(2).await)])
        .await
        .refused();
    assert!(told.contains("newer state"), "{told}");
    assert_eq!(world.stage(&losing), Some(Stage::Waiting));
}

/// PUSH-13, REF-1: what a push brought by the way decides too, and is not left behind.
#[tokio::test]
async fn a_push_that_completes_a_state_that_beats_its_own_is_refused_and_releases_both() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let pushed = main_at(&alice(), commit(2).await);
    let newer = main_at(&bob(), commit(1).await);
    world.send(&pushed).await.waits();
    world.send(&newer).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(2).await)])
        .await
        .refused();
    assert!(world.serves(&pushed) && world.serves(&newer));
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(1).await)));
    }
}

/// ST-1
#[tokio::test]
async fn a_state_older_than_the_author_s_served_one_is_not_kept() {
    let world = World::new();
    let older = main_at(&alice(), commit(1).await);
    world.serving(&alice()).await;
    let answer = world.send(&older).await;
    assert_eq!(answer.message, "duplicate: superseded by a newer event");
    assert_eq!(world.stage(&older), None);
}

/// AFTER-2, G1-13
#[tokio::test]
async fn announcement_and_state_become_visible_in_one_commit() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let state = main_at(&alice(), commit(0).await);
    world.send(&state).await.waits();
    let mut changes = world.service().store().changes();
    world
        .push(&alice(), &[("refs/heads/main", commit(0).await)])
        .await
        .accepted();
    let served = first_served(&mut changes).await;
    assert_eq!(served, [announcement.id, state.id]);
}

/// AFTER-3
#[tokio::test]
async fn a_push_releases_what_it_completed_of_other_maintainers_oldest_first() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let theirs = main_at(&bob(), commit(1).await);
    let dropped = main_at(&alice(), commit(1).await);
    let own = main_at(&alice(), commit(2).await);
    for state in [&theirs, &dropped, &own] {
        world.send(state).await.waits();
    }
    let mut changes = world.service().store().changes();
    world
        .push(&alice(), &[("refs/heads/main", commit(2).await)])
        .await
        .accepted();
    let served = first_served(&mut changes).await;
    assert_eq!(
        served,
        [theirs.id, own.id],
        "never one that is replaced in the same breath"
    );
    assert_eq!(world.stage(&dropped), Some(Stage::Superseded));
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(2).await)));
    }
}

/// AFTER-4
#[tokio::test]
async fn an_older_waiting_state_is_rollback_material_if_complete_and_dropped_if_not() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let complete = main_at(&alice(), commit(1).await);
    let hollow = main_at(&alice(), commit(5).await);
    let foreign = main_at(&bob(), commit(6).await);
    let newest = main_at(&alice(), commit(2).await);
    for state in [&complete, &hollow, &foreign, &newest] {
        world.send(state).await.waits();
    }
    world
        .push(&alice(), &[("refs/heads/main", commit(2).await)])
        .await
        .accepted();
    assert_eq!(world.stage(&complete), Some(Stage::Superseded));
    assert_eq!(world.stage(&hollow), None);
    assert_eq!(
        world.stage(&foreign),
        Some(Stage::Waiting),
        "another maintainer's stays"
    );
}

/// KIND-6
#[tokio::test]
async fn the_empty_state_releases_no_announcement() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let empty = alice().draft(30618).tag(["d", REPO]).sign();
    world.send(&empty).await;
    assert!(!world.serves(&announcement));
    assert_eq!(world.refs(&alice()), Some([].into()));
}

/// KIND-6, REF-2
#[tokio::test]
async fn the_empty_state_of_a_served_repository_takes_all_refs() {
    let world = World::new();
    let (announcement, _) = world.serving(&alice()).await;
    let empty = alice().draft(30618).tag(["d", REPO]).sign();
    world.send(&empty).await.is_stored();
    assert!(world.serves(&empty) && world.serves(&announcement));
    assert_eq!(world.refs(&alice()), Some([].into()));
}

/// What the first commit that makes anything visible makes visible.
/// Who waits for a commit may be told a moment before the feed is.
async fn first_served(changes: &mut broadcast::Receiver<Arc<Committed<()>>>) -> Vec<EventId> {
    loop {
        let commit = tokio::time::timeout(grasp_testkit::DEADLINE, changes.recv()).await;
        let commit = commit.expect("something becomes visible").expect("few");
        if !commit.served.is_empty() {
            let served = commit.served.iter();
            return served.map(|served| served.event.id()).collect();
        }
    }
}
