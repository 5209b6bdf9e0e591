//! PUR-16: somebody sets the wall clock.

use grasp_core::Timestamp;
use grasp_core::lifecycle::Stage;
use grasp_testkit::Person;

use crate::history::commit;
use crate::world::{WAITING, World, announcing, main_at};

/// Sets the clock without letting time pass, and lets the server notice.
async fn step(world: &World, secs: i64) {
    let wall = world.now().as_secs().saturating_add_signed(secs);
    world.clock().set(Timestamp::from_secs(wall));
    let service = world.service();
    service.notice_clock_step().await.expect("a commit");
    world.sweep().await;
}

/// PUR-16
#[tokio::test]
async fn what_waits_keeps_its_time_when_the_clock_is_set() {
    let alice = Person::named("alice");
    for secs in [-86_400, -301, 301, 86_400] {
        let world = World::new();
        let announcement = announcing(&alice).sign();
        world.send(&announcement).await.waits();
        let state = main_at(&alice, commit(2).await);
        world.send(&state).await.waits();
        let upload = format!("refs/nostr/{}", "a".repeat(64));
        world
            .push(&alice, &[(&upload, commit(1).await)])
            .await
            .accepted();
        // A while later, and seconds after the last look.
        world.pass(WAITING / 2).await;
        world
            .service()
            .notice_clock_step()
            .await
            .expect("nothing to do");
        step(&world, secs).await;
        assert_eq!(world.left(&announcement), Some(WAITING / 2), "{secs}");
        assert_eq!(world.left(&state), Some(WAITING / 2), "{secs}");
        world.pass(WAITING / 2 - 1).await;
        assert_eq!(world.stage(&announcement), Some(Stage::Waiting), "{secs}");
        assert!(
            world
                .refs(&alice)
                .is_some_and(|refs| refs.contains_key(&upload))
        );
        world.pass(1).await;
        assert_eq!(world.stage(&announcement), Some(Stage::Parked), "{secs}");
        assert!(!world.exists(&alice));
    }
}

/// PUR-16: what is not in purgatory goes by the calendar.
#[tokio::test]
async fn what_is_parked_is_not_shifted() {
    let alice = Person::named("alice");
    let world = World::new();
    let announcement = announcing(&alice).sign();
    world.send(&announcement).await.waits();
    world.pass(WAITING).await;
    world
        .service()
        .notice_clock_step()
        .await
        .expect("nothing to do");
    step(&world, 3600).await;
    assert_eq!(world.left(&announcement), Some(86_400 - 3600));
}

/// PUR-16: thirty minutes are no jump if they passed.
#[tokio::test]
async fn time_that_passes_shifts_nothing() {
    let alice = Person::named("alice");
    let world = World::new();
    let announcement = announcing(&alice).sign();
    world.send(&announcement).await.waits();
    world.clock().advance(WAITING - 10);
    world
        .service()
        .notice_clock_step()
        .await
        .expect("nothing to do");
    assert_eq!(world.left(&announcement), Some(10));
    step(&world, 300).await;
    assert_eq!(world.stage(&announcement), Some(Stage::Parked), "drift");
}
