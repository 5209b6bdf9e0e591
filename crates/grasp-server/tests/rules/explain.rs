//! `explain`: the reasons that only a whole service has, refusals and the disk.

use grasp_core::explain::{Condition, StateWhy};
use grasp_core::name::Coordinate;
use grasp_server::{Explained, Refused};
use grasp_testkit::Person;

use crate::history::commit;
use crate::world::{REPO, World, announcing, listing, main_at, main_only};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

async fn explained(world: &World, owner: &Person) -> Explained {
    let repo = Coordinate::new(owner.key(), REPO.parse().expect("valid"));
    world.service().explain(&repo).await.expect("readable")
}

/// PUSH-10: who asks why a push was refused finds what git printed, and when.
#[tokio::test]
async fn refused_events_and_pushes_are_remembered() {
    let world = World::new();
    world.serving(&alice()).await;
    let stranger = main_at(&bob(), commit(1).await);
    world.send(&stranger).await.is_refused();
    world.clock().advance(60);
    let printed = world
        .push(&alice(), &[("refs/heads/main", commit(2).await)])
        .await
        .refused();
    let refusals = explained(&world, &alice()).await.refusals;
    assert_eq!(refusals.len(), 1, "a stranger's scope is another's");
    assert_eq!(refusals[0].at, world.now());
    assert!(printed.contains(&refusals[0].reason), "{printed}");
    let Refused::Push { refs, .. } = &refusals[0].what else {
        panic!("a push was refused");
    };
    assert_eq!(refs, &["refs/heads/main"]);
    let refusals = explained(&world, &bob()).await.refusals;
    let Refused::Event { event, .. } = refusals[0].what else {
        panic!("an event was refused");
    };
    assert_eq!(event, stranger.id);
    // What a co-maintainer was refused belongs to both.
    world
        .send(&listing(&alice(), &[&bob()]).sign())
        .await
        .is_stored();
    let refusals = explained(&world, &alice()).await.refusals;
    assert_eq!(refusals.len(), 2);
}

/// ST-3, PUR-12
#[tokio::test]
async fn a_waiting_state_is_explained_by_the_objects_it_lacks() {
    let world = World::new();
    world.serving(&alice()).await;
    let state = main_at(&alice(), commit(2).await);
    world.send(&state).await.waits();
    let explanation = explained(&world, &alice()).await.explanation;
    let waiting = &explanation.states[0];
    assert_eq!(waiting.event.event, state.id);
    let StateWhy::Lacks {
        missing, would_win, ..
    } = &waiting.why
    else {
        panic!("its commit is not here: {:?}", waiting.why);
    };
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    assert_eq!(missing, [commit(2).await.oid.clone()]);
    assert!(would_win);
    assert_eq!(explanation.states[1].why, StateWhy::Wins);
}

/// REF-5
#[tokio::test]
async fn a_frozen_repository_is_explained() {
    let world = World::new();
    let both = listing(&alice(), &[&bob()]).sign();
    world.send(&both).await.waits();
    let theirs = listing(&bob(), &[&alice()]).sign();
    world.send(&theirs).await.waits();
    let state = main_at(&bob(), commit(1).await);
    world.send(&state).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    world.send(&announcing(&alice()).sign()).await.is_stored();
    let explanation = explained(&world, &alice()).await.explanation;
    assert_eq!(explanation.refs.condition, Condition::Frozen);
    assert_eq!(explanation.refs.differences, []);
    assert_eq!(explanation.states[0].why, StateWhy::NoSay);
}

/// REF-8
#[tokio::test]
async fn a_degraded_repository_is_explained_with_what_is_gone() {
    let mut world = World::new();
    world.serving(&alice()).await;
    world.stop().await;
    for entry in std::fs::read_dir(world.path(&alice()).join("objects/pack")).expect("a folder") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("ours");
    }
    world.start().await;
    world.recheck(&alice()).await;
    let refs = explained(&world, &alice()).await.explanation.refs;
    let missing: Vec<String> = refs.missing.iter().map(ToString::to_string).collect();
    assert_eq!(missing, [commit(0).await.oid.clone()]);
    assert_eq!(refs.differences, []);
    world
        .push(&alice(), &[("refs/heads/main", commit(0).await)])
        .await
        .accepted();
    let refs = explained(&world, &alice()).await.explanation.refs;
    assert_eq!((refs.missing.len(), refs.shown), (0, 1));
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
}

/// REF-6
#[tokio::test]
async fn what_was_never_here_is_explained_as_absent() {
    let world = World::new();
    let it = explained(&world, &alice()).await;
    assert_eq!(it.explanation.refs.condition, Condition::Absent);
    assert!(!it.explanation.refs.wanted && !it.explanation.refs.exists);
    assert_eq!(it.refusals, []);
}
