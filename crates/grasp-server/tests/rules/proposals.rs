//! §8, GRASP-06: proposals and the refs that stand for them.

use grasp_core::lifecycle::Stage;
use grasp_testkit::{Event, Person};

use crate::history::commit;
use crate::world::{REPO, WAITING, World, announcing, main_only, proposing, prs_url, refs_at};

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

/// G6-7, PR-3: what a mirrored ref brings by the way is seen.
#[tokio::test]
async fn a_proposal_is_served_whose_commit_comes_along_with_another_s() {
    let world = World::new();
    world.serving(&alice()).await;
    let older = proposing(&bob(), &alice(), commit(1).await);
    let newer = proposing(&bob(), &alice(), commit(2).await);
    world.send(&older).await.waits();
    world.send(&newer).await.waits();
    world
        .push_to_prs(&bob(), &name(&newer), commit(2).await)
        .await
        .accepted();
    assert!(world.serves(&newer) && world.serves(&older));
    let refs = world.refs(&alice()).expect("served");
    assert_eq!(refs.get(&name(&older)), Some(&commit(1).await.oid));
}

/// PR-3, AFTER-5: its commit comes with an upload for something else, which makes the `/prs/` repository.
#[tokio::test]
async fn a_waiting_proposal_is_served_by_what_another_upload_brings_to_prs() {
    for first in [true, false] {
        let world = World::new();
        let proposal = bob()
            .pull_request(&alice().coordinate(REPO), &commit(0).await.oid)
            .tag(["clone".to_owned(), prs_url(&bob())])
            .sign();
        let upload = format!("refs/nostr/{:064x}", 1);
        if first {
            world.send(&proposal).await.waits();
        }
        let pushed = world.push_to_prs(&bob(), &upload, commit(1).await).await;
        pushed.accepted();
        if !first {
            world.send(&proposal).await.is_stored();
        }
        assert!(world.serves(&proposal));
    }
}

/// REF-3, G6-7: served through `/prs/`, it is shown by its target too.
#[tokio::test]
async fn a_proposal_that_another_upload_to_prs_completes_is_shown_by_its_target() {
    let world = World::new();
    world.serving(&alice()).await;
    let proposal = proposing(&bob(), &alice(), commit(1).await);
    world.send(&proposal).await.waits();
    let upload = format!("refs/nostr/{:064x}", 1);
    let pushed = world.push_to_prs(&bob(), &upload, commit(2).await).await;
    pushed.accepted();
    assert!(world.serves(&proposal));
    let refs = world.refs(&alice()).expect("served");
    assert_eq!(refs.get(&name(&proposal)), Some(&commit(1).await.oid));
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

/// PUSH-4, §16: uploads without an event have a share of the disk.
#[tokio::test]
async fn uploads_beyond_their_share_of_the_disk_are_refused_by_name() {
    let world = World::with(|policy| policy.uploads.disk_percent = 0);
    world.serving(&alice()).await;
    let proposal = proposing(&bob(), &alice(), commit(1).await);
    let push = [(&*name(&proposal), commit(1).await)];
    let told = world.push(&alice(), &push).await.refused();
    assert!(told.contains("0 % of the disk"), "{told}");
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    // A known event is no upload: its commit is taken all the same.
    world.send(&proposal).await.waits();
    world.push(&alice(), &push).await.accepted();
}

/// PUSH-4, §16, NAME-8: one address makes so many uploads in an hour.
#[tokio::test]
async fn an_address_makes_a_bounded_number_of_uploads_an_hour() {
    let mut world = World::new();
    world.serving(&alice()).await;
    world.peer = ([8, 8, 8, 8], 1).into();
    let most = grasp_relay::address::AddressLimits::default().uploads_per_hour;
    for at in 0..most {
        let name = format!("refs/nostr/{at:064x}");
        let pushed = world.push(&alice(), &[(&name, commit(1).await)]).await;
        pushed.accepted();
    }
    let name = format!("refs/nostr/{most:064x}");
    let one_more = world.push(&alice(), &[(&name, commit(1).await)]).await;
    let told = one_more.refused();
    assert!(told.contains("uploads without an event"), "{told}");
}
