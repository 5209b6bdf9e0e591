//! DEL-5, DEL-6: what becomes of the git data of a scope that leaves, and how the scope comes back.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use grasp_core::lifecycle::Stage;
use grasp_server::{Ejected, Restored};
use grasp_testkit::{Event, Person};

use crate::history::commit;
use crate::world::{
    REPO, WAITING, World, address, announcing, git, listing, main_at, main_only, proposing, refs_at,
};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

/// A request for everything at the address.
fn deletion_of_scope(owner: &Person) -> Event {
    owner.draft(5).tag(["a", &owner.coordinate(REPO)]).sign()
}

/// What tells a moved folder from a copied one.
fn inode(folder: &Path) -> u64 {
    std::fs::metadata(folder).expect("it is there").ino()
}

/// DEL-5: out of sight, whole, and under the time it left at.
#[tokio::test]
async fn a_deleted_repository_lies_in_the_archive() {
    let world = World::new();
    world.serving(&alice()).await;
    let before = inode(&world.path(&alice()));
    world.send(&deletion_of_scope(&alice())).await.is_stored();
    assert!(!world.exists(&alice()) && world.advertised(&alice()).await.is_none());
    let copies = world.archived(&alice());
    let [copy] = copies.as_slice() else {
        panic!("one copy: {copies:?}");
    };
    let name = format!("project-{}", world.now().as_secs());
    assert!(copy.ends_with(name), "{copy:?}");
    assert_eq!(refs_at(copy), main_only(commit(0).await));
    git(copy, &["fsck", "--strict"]);
    assert_eq!(inode(copy), before, "a rename, not a copy");
}

/// DEL-2: the announcement waits again, and nothing of the deleted state can be fetched.
#[tokio::test]
async fn deleting_the_last_state_archives_git_and_leaves_an_empty_repository() {
    let mut world = World::new();
    let (_, state) = world.serving(&alice()).await;
    world
        .send(&alice().deletion(&state).sign())
        .await
        .is_stored();
    assert_eq!(world.advertised(&alice()).await, Some([].into()));
    let objects = git(&world.path(&alice()), &["count-objects", "-v"]);
    assert!(objects.contains("in-pack: 0\n"), "{objects}");
    assert_eq!(world.archived(&alice()).len(), 1);
    // Nothing is archived twice.
    let again = main_at(&alice(), commit(1).await);
    world.send(&again).await.waits();
    world.restart_after(1).await;
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    world.recheck(&alice()).await;
    assert_eq!(world.refs(&alice()), Some(main_only(commit(1).await)));
}

/// ANN-2, DEL-6: announced again, the scope is back at once: state, refs, proposals, by a rename.
#[tokio::test]
async fn a_scope_that_is_announced_again_is_back_as_it_was() {
    let mut world = World::new();
    let (announcement, state) = world.serving(&alice()).await;
    let proposal = proposing(&bob(), &alice(), commit(1).await);
    world.send(&proposal).await.waits();
    let name = format!("refs/nostr/{}", proposal.id);
    world
        .push(&alice(), &[(&name, commit(1).await)])
        .await
        .accepted();
    let before = world.refs(&alice());
    let folder = inode(&world.path(&alice()));
    world.send(&deletion_of_scope(&alice())).await.is_stored();
    assert!(!world.serves(&state) && !world.exists(&alice()));
    // It was served before: the author of the request cannot bring back what it names.
    world.send(&announcement).await.is_refused();

    world.restart_after(90 * 86_400 - 1).await;
    let again = announcing(&alice()).sign();
    world.send(&again).await.is_stored();
    assert!(world.serves(&again) && world.serves(&state) && world.serves(&proposal));
    assert_eq!(world.stage(&announcement), Some(Stage::Held));
    assert_eq!(world.refs(&alice()), before);
    assert_eq!(inode(&world.path(&alice())), folder, "a rename, not a copy");
    assert!(world.archived(&alice()).is_empty());
    world.recheck(&alice()).await;
    assert_eq!(world.refs(&alice()), before);
}

/// DEL-6: what its author deleted by its own id stays away, and the scope waits for data like a new one.
#[tokio::test]
async fn what_was_deleted_by_its_own_id_does_not_come_back_with_the_scope() {
    let world = World::new();
    let (_, state) = world.serving(&alice()).await;
    let mine = proposing(&bob(), &alice(), commit(1).await);
    world.send(&mine).await.waits();
    let name = format!("refs/nostr/{}", mine.id);
    world
        .push(&alice(), &[(&name, commit(1).await)])
        .await
        .accepted();
    world.send(&bob().deletion(&mine).sign()).await.is_stored();
    let request = alice()
        .draft(5)
        .tag(["a", &alice().coordinate(REPO)])
        .tag(["e", &state.id.to_hex()])
        .sign();
    world.send(&request).await.is_stored();
    let again = announcing(&alice()).sign();
    world.send(&again).await.waits();
    assert_eq!(world.advertised(&alice()).await, Some([].into()));
    assert_eq!(world.archived(&alice()).len(), 1);
    assert_eq!(world.stage(&state), Some(Stage::Held));

    // By promotion: the data that it had comes with it, whatever else was pushed.
    let renewed = main_at(&alice(), commit(2).await);
    world.send(&renewed).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(2).await)])
        .await
        .accepted();
    assert!(world.serves(&again) && world.serves(&renewed));
    assert!(!world.serves(&state) && !world.serves(&mine));
    assert_eq!(world.refs(&alice()), Some(main_only(commit(2).await)));
    assert!(world.archived(&alice()).is_empty());
    let objects = git(
        &world.path(&alice()),
        &["cat-file", "-t", &commit(1).await.oid],
    );
    assert_eq!(objects.trim(), "commit");
}

/// DEL-10, DEL-6: gates set before rest while requests are not respected, and hold nothing back.
#[tokio::test]
async fn where_requests_are_not_respected_all_comes_back_with_the_scope() {
    let mut world = World::new();
    let (announcement, state) = world.serving(&alice()).await;
    let mine = proposing(&bob(), &alice(), commit(1).await);
    world.send(&mine).await.waits();
    let name = format!("refs/nostr/{}", mine.id);
    let refs = [(name.as_str(), commit(1).await)];
    world.push(&alice(), &refs).await.accepted();
    let issue = bob().issue(&alice().coordinate(REPO)).sign();
    world.send(&issue).await.is_stored();
    for event in [&mine, &issue] {
        world.send(&bob().deletion(event).sign()).await.is_stored();
    }
    let request = alice()
        .draft(5)
        .tag(["a", &alice().coordinate(REPO)])
        .tag(["e", &state.id.to_hex()])
        .sign();
    world.send(&request).await.is_stored();
    let scope = address(&alice()).coordinate().clone();
    let service = world.service();
    let restored = service.holding_restore(&scope).await;
    assert_eq!(restored.expect("the store works"), Restored::Requested);

    world
        .restart_as(|policy| policy.requests.respected = false)
        .await;
    let service = world.service();
    let held = service.holding_list().await.expect("readable");
    assert!(held.iter().all(|held| !held.requested) && held.len() == 1);
    let restored = service.holding_restore(&scope).await;
    assert_eq!(restored.expect("the store works"), Restored::Served);
    for event in [&announcement, &state, &mine, &issue] {
        assert!(world.serves(event), "kind {}", event.kind);
    }
}

/// DEL-3: only the announcement was deleted. Its state was served all the time, and shows again.
#[tokio::test]
async fn an_announcement_that_went_alone_comes_back_with_its_repository() {
    let world = World::new();
    let (announcement, state) = world.serving(&alice()).await;
    world
        .send(&alice().deletion(&announcement).sign())
        .await
        .is_stored();
    assert!(world.serves(&state) && !world.exists(&alice()));
    let again = announcing(&alice()).sign();
    world.send(&again).await.is_stored();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
}

/// ANN-5, DEL-6: who moved away may come back; a server that still has the old announcement brings nobody
/// back.
#[tokio::test]
async fn a_scope_that_moved_away_comes_back_by_its_owner_and_not_by_sync() {
    let world = World::new();
    let (announcement, state) = world.serving(&alice()).await;
    let elsewhere = announcing(&alice())
        .without("relays")
        .tag(["relays", "wss://elsewhere.example"])
        .sign();
    world.send(&elsewhere).await.is_refused();
    assert!(!world.serves(&announcement) && !world.exists(&alice()));
    world.sync(&announcement).await.is_duplicate();
    assert!(!world.serves(&announcement) && !world.exists(&alice()));
    let again = announcing(&alice()).sign();
    world.send(&again).await.is_stored();
    assert!(world.serves(&state));
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
}

/// DEL-6, MNT-7: a co-maintainer's states come back with whoever they count for.
#[tokio::test]
async fn states_come_back_with_the_scope_that_they_count_in() {
    let world = World::new();
    let state = world.serving_together(&alice(), &bob()).await;
    for owner in [bob(), alice()] {
        world.send(&deletion_of_scope(&owner)).await.is_stored();
    }
    assert_eq!(world.stage(&state), Some(Stage::Held));
    // Without Alice's word her state does not count.
    world
        .send(&listing(&bob(), &[&alice()]).sign())
        .await
        .waits();
    assert_eq!(world.stage(&state), Some(Stage::Held));
    world
        .send(&listing(&alice(), &[&bob()]).sign())
        .await
        .is_stored();
    assert!(world.serves(&state));
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(0).await)));
    }
}

/// DEL-5, PUR-4: what waited in vain for data leaves the archive alone.
#[tokio::test]
async fn a_return_that_expires_can_be_tried_again() {
    let world = World::new();
    let (_, state) = world.serving(&alice()).await;
    world
        .send(&alice().deletion(&state).sign())
        .await
        .is_stored();
    world.pass(WAITING).await;
    assert!(!world.exists(&alice()));
    assert_eq!(world.archived(&alice()).len(), 1);
}

/// DEL-5: 90 days, and not a second more; events and git data go together.
#[tokio::test]
async fn what_was_deleted_is_kept_90_days_and_then_gone() {
    let mut world = World::new();
    let (announcement, state) = world.serving(&alice()).await;
    world.send(&deletion_of_scope(&alice())).await.is_stored();
    world.pass(90 * 86_400 - 1).await;
    assert_eq!(world.stage(&state), Some(Stage::Held));
    assert_eq!(world.archived(&alice()).len(), 1);
    world.restart_after(1).await;
    assert_eq!(world.stage(&state), None);
    assert_eq!(world.stage(&announcement), None);
    assert!(world.archived(&alice()).is_empty());
    let again = announcing(&alice()).sign();
    world.send(&again).await.waits();
    assert_eq!(world.advertised(&alice()).await, Some([].into()));
    let metrics = world.metrics().await;
    for kept in ["metadata\"} 3", "payload\"} 2", "archive_file\"} 1"] {
        let line = format!("ngit_holding_cleanup_deleted_total{{type=\"{kept}");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
}

/// DEL-5: a copy that no row speaks of is of no use.
#[tokio::test]
async fn a_stray_copy_in_the_archive_goes_with_the_next_clean_up() {
    let world = World::new();
    world.serving(&alice()).await;
    world.send(&deletion_of_scope(&alice())).await.is_stored();
    let [copy] = world.archived(&alice()).try_into().expect("one copy");
    let stray = copy.with_file_name("project-5");
    std::fs::create_dir(&stray).expect("made");
    world.sweep().await;
    assert_eq!(world.archived(&alice()).len(), 1, "{stray:?}");
}

/// DEL-6: what hung on the scope comes back with it, and what its author deleted does not.
#[tokio::test]
async fn a_conversation_comes_back_with_its_repository() {
    let world = World::new();
    let (announcement, _) = world.serving(&alice()).await;
    let carol = Person::named("carol");
    let issue = bob().issue(&alice().coordinate(REPO)).sign();
    let comment = carol.draft(1111).tag(["e", &issue.id.to_hex()]).sign();
    let regretted = carol.draft(1111).tag(["e", &issue.id.to_hex()]).sign();
    let to_it = bob().draft(1111).tag(["e", &regretted.id.to_hex()]).sign();
    for event in [&issue, &comment, &regretted, &to_it] {
        world.send(event).await.is_stored();
    }
    world
        .send(&carol.deletion(&regretted).sign())
        .await
        .is_stored();
    world.send(&deletion_of_scope(&alice())).await.is_stored();
    world.hold([&issue, &comment, &to_it]).await;
    assert!(!world.serves(&issue));

    let again = announcing(&alice()).sign();
    world.send(&again).await.is_stored();
    assert!(world.serves(&issue) && world.serves(&comment));
    assert!(!world.serves(&regretted) && !world.serves(&to_it));
    assert!(!world.serves(&announcement));
    let metrics = world.metrics().await;
    for line in ["attempted\"} 1", "succeeded\"} 1", "failed\"} 0"] {
        let line = format!("ngit_recovery_total{{result=\"{line}");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
}

/// DEL-6: the operator brings back what nobody asked to delete, and ejects the rest.
#[tokio::test]
async fn an_operator_lists_restores_and_ejects_what_is_held() {
    let world = World::new();
    let service = world.service();
    let (announcement, state) = world.serving(&alice()).await;
    let elsewhere = announcing(&alice())
        .without("relays")
        .tag(["relays", "wss://elsewhere.example"])
        .sign();
    let scope = address(&alice()).coordinate().clone();
    let restore = async || {
        service
            .holding_restore(&scope)
            .await
            .expect("the store works")
    };
    assert_eq!(restore().await, Restored::Live);
    world.send(&elsewhere).await.is_refused();
    let held = service.holding_list().await.expect("readable");
    let [one] = held.as_slice() else {
        panic!("one scope: {held:?}");
    };
    assert!(one.scope == scope && !one.requested && one.archive.is_some());
    assert_eq!(restore().await, Restored::Served);
    assert!(world.serves(&announcement) && world.serves(&state));
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    assert!(service.holding_list().await.expect("readable").is_empty());
    let nothing = service
        .holding_eject(&scope)
        .await
        .expect("the store works");
    assert_eq!(nothing, Ejected::default(), "it is here");

    world.send(&deletion_of_scope(&alice())).await.is_stored();
    assert!(service.holding_list().await.expect("readable")[0].requested);
    assert_eq!(restore().await, Restored::Requested);
    let ejected = service
        .holding_eject(&scope)
        .await
        .expect("the store works");
    assert!(ejected.events == 2 && ejected.archive, "{ejected:?}");
    assert_eq!(world.stage(&announcement), None);
    assert!(world.archived(&alice()).is_empty());
    assert_eq!(restore().await, Restored::Gone);
    // What was asked to be deleted stays deleted.
    world.send(&announcement).await.is_refused();
}
