//! §8, GRASP-06: proposals and the refs that stand for them.

use grasp_core::lifecycle::Stage;
use grasp_testkit::{Event, Person};

use crate::history::commit;
use crate::world::{REPO, WAITING, World, announcing, main_only, proposing, refs_at};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

fn name(event: &Event) -> String {
    format!("refs/nostr/{}", event.id.to_hex())
}

/// PR-3, PR-2
#[tokio::test]
async fn a_proposal_whose_commit_is_here_is_served_with_its_ref_in_every_target() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let carol = Person::named("carol");
    let proposal = proposing(&carol, &alice(), commit(0).await);
    world.send(&proposal).await.is_stored();
    assert!(world.serves(&proposal));
    let mut expected = main_only(commit(0).await);
    expected.insert(name(&proposal), commit(0).await.oid.clone());
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(expected.clone()));
    }
}

/// PR-3, PR-4
#[tokio::test]
async fn an_upload_of_another_commit_goes_when_its_event_comes() {
    let world = World::new();
    world.serving(&alice()).await;
    let proposal = proposing(&bob(), &alice(), commit(2).await);
    world
        .push(&alice(), &[(&name(&proposal), commit(1).await)])
        .await
        .accepted();
    world.send(&proposal).await.waits();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    world
        .push(&alice(), &[(&name(&proposal), commit(2).await)])
        .await
        .accepted();
    assert!(world.serves(&proposal));
}

/// PR-4
#[tokio::test]
async fn an_upload_waits_for_its_event_and_is_served_with_it() {
    let world = World::new();
    world.serving(&alice()).await;
    let proposal = proposing(&bob(), &alice(), commit(2).await);
    world
        .push(&alice(), &[(&name(&proposal), commit(2).await)])
        .await
        .accepted();
    world
        .push(&alice(), &[(&name(&proposal), commit(2).await)])
        .await
        .accepted();
    world
        .push(&alice(), &[(&name(&proposal), commit(3).await)])
        .await
        .refused();
    world.send(&proposal).await.is_stored();
    world.pass(10 * WAITING).await;
    assert!(world.serves(&proposal));
    let refs = world.refs(&alice()).expect("served");
    assert_eq!(refs.get(&name(&proposal)), Some(&commit(2).await.oid));
}

/// PR-1
#[tokio::test]
async fn a_proposal_to_a_repository_that_waits_is_refused() {
    let world = World::new();
    world.send(&announcing(&alice()).sign()).await.waits();
    let proposal = proposing(&bob(), &alice(), commit(0).await);
    world.send(&proposal).await.is_refused();
}

/// G6-2, G6-4, REF-6
#[tokio::test]
async fn a_prs_repository_lives_as_long_as_something_needs_it() {
    let world = World::new();
    let prs = world
        .service()
        .repositories()
        .root()
        .join("prs")
        .join(bob().hex())
        .join(format!("{REPO}.git"));
    let url = format!("https://grasp.example.com/prs/{}/{REPO}.git", bob().npub());
    let proposal = bob()
        .pull_request(&alice().coordinate(REPO), &commit(1).await.oid)
        .tag(["clone", &url])
        .sign();
    world
        .push_to_prs(&bob(), &name(&proposal), commit(1).await)
        .await
        .accepted();
    assert_eq!(refs_at(&prs).len(), 1);
    world.pass(WAITING).await;
    assert!(!prs.exists(), "its event did not come");
    world.send(&proposal).await.waits();
    assert!(!prs.exists());
    world
        .push_to_prs(&bob(), &name(&proposal), commit(1).await)
        .await
        .accepted();
    assert!(world.serves(&proposal));
    world.pass(10 * WAITING).await;
    assert_eq!(
        refs_at(&prs).get(&name(&proposal)),
        Some(&commit(1).await.oid)
    );
    world
        .send(&bob().deletion(&proposal).sign())
        .await
        .is_stored();
    assert!(!prs.exists());
    assert_ne!(world.stage(&proposal), Some(Stage::Served));
}

/// REF-3
#[tokio::test]
async fn the_ref_of_a_deleted_proposal_goes() {
    let world = World::new();
    world.serving(&alice()).await;
    let proposal = proposing(&bob(), &alice(), commit(0).await);
    world.send(&proposal).await.is_stored();
    assert_eq!(world.refs(&alice()).map(|refs| refs.len()), Some(2));
    world
        .send(&bob().deletion(&proposal).sign())
        .await
        .is_stored();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
}
