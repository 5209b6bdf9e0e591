//! §10: how long things wait, and what becomes of them.

use grasp_core::lifecycle::Stage;
use grasp_testkit::Person;

use crate::history::commit;
use crate::world::{
    SOFT_EXPIRED, WAITING, World, address, announcing, listing, main_at, main_only, proposing,
};

const PARKED: u64 = 30 * 86_400;

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

/// PUR-1, PUR-4
#[tokio::test]
async fn an_announcement_waits_1800_seconds_and_not_one_more() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    assert!(world.exists(&alice()), "clients poll its URL (ANN-2)");
    world.pass(WAITING - 1).await;
    assert_eq!(world.stage(&announcement), Some(Stage::Waiting));
    assert!(world.exists(&alice()));
    world.pass(1).await;
    assert_eq!(world.stage(&announcement), Some(Stage::Parked));
    assert_eq!(world.left(&announcement), Some(SOFT_EXPIRED));
    assert!(!world.exists(&alice()));
    assert!(!world.is_marked(&announcement));
}

/// PUR-1, PUR-8
#[tokio::test]
async fn a_state_waits_1800_seconds_and_not_one_more() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    world.pass(1000).await;
    let state = main_at(&alice(), commit(0).await);
    world.send(&state).await.waits();
    world.pass(WAITING - 1).await;
    assert_eq!(world.stage(&state), Some(Stage::Waiting));
    world.pass(1).await;
    assert_eq!(world.stage(&state), None);
    assert!(world.is_marked(&state));
}

/// PUR-1: a proposal that no served repository is owed is gone.
#[tokio::test]
async fn a_proposal_waits_1800_seconds_and_not_one_more() {
    let world = World::new();
    let url = format!("https://grasp.example.com/prs/{}/project.git", bob().npub());
    let proposal = bob()
        .pull_request(&alice().coordinate("project"), &commit(0).await.oid)
        .tag(["clone", &url])
        .sign();
    world.send(&proposal).await.waits();
    world.pass(WAITING - 1).await;
    assert_eq!(world.stage(&proposal), Some(Stage::Waiting));
    world.pass(1).await;
    assert_eq!(world.stage(&proposal), None);
    assert!(world.is_marked(&proposal));
}

/// PUR-1, PUR-9
#[tokio::test]
async fn an_upload_waits_1800_seconds_and_not_one_more() {
    let world = World::new();
    world.serving(&alice()).await;
    let (early, late) = (proposal_ref('a'), proposal_ref('b'));
    let (one, two) = (commit(1).await, commit(2).await);
    world.push(&alice(), &[(&early, one)]).await.accepted();
    world.pass(1).await;
    world.push(&alice(), &[(&late, two)]).await.accepted();
    world.pass(WAITING - 2).await;
    let mut expected = main_only(commit(0).await);
    expected.insert(early, one.oid.clone());
    expected.insert(late.clone(), two.oid.clone());
    assert_eq!(world.refs(&alice()), Some(expected));
    world.pass(1).await;
    let mut expected = main_only(commit(0).await);
    expected.insert(late, two.oid.clone());
    assert_eq!(
        world.refs(&alice()),
        Some(expected),
        "exactly what it recorded"
    );
    world.pass(1).await;
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
}

/// PUR-3, ST-2
#[tokio::test]
async fn a_state_gives_its_announcement_the_whole_time_again() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    world.pass(1000).await;
    assert_eq!(world.left(&announcement), Some(WAITING - 1000));
    let state = main_at(&alice(), commit(0).await);
    world.send(&state).await.waits();
    assert_eq!(world.left(&announcement), Some(WAITING));
}

/// PUR-3, PUSH-12: also when its pack turns out to be of no use.
#[tokio::test]
async fn an_authorised_push_gives_the_announcement_the_whole_time_again() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let state = main_at(&alice(), commit(1).await);
    world.send(&state).await.waits();
    world.pass(1000).await;
    let mut broken = commit(1).await.clone();
    broken.pack.truncate(broken.pack.len() - 30);
    world
        .push(&alice(), &[("refs/heads/main", &broken)])
        .await
        .refused();
    assert_eq!(world.left(&announcement), Some(WAITING));
    world.pass(100).await;
    world
        .push(&alice(), &[("refs/heads/main", commit(2).await)])
        .await
        .refused();
    assert_eq!(
        world.left(&announcement),
        Some(WAITING - 100),
        "that was not authorised"
    );
}

/// PUR-5, PUR-4
#[tokio::test]
async fn an_authorised_state_revives_a_parked_announcement() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let upload = proposal_ref('a');
    world
        .push(&alice(), &[(&upload, commit(1).await)])
        .await
        .accepted();
    world.pass(WAITING).await;
    assert!(!world.exists(&alice()));
    assert_eq!(world.advertised(&alice()).await, None);
    world.pass(SOFT_EXPIRED - 1).await;
    let state = main_at(&alice(), commit(0).await);
    world.send(&state).await.waits();
    assert_eq!(world.stage(&announcement), Some(Stage::Waiting));
    assert_eq!(world.left(&announcement), Some(WAITING));
    let refs = world.refs(&alice()).expect("a fresh repository");
    assert!(refs.is_empty(), "{refs:?}");
    assert!(
        !has_objects(&world, &alice()),
        "nothing of the old one is in it"
    );
    world
        .push(&alice(), &[("refs/heads/main", commit(0).await)])
        .await
        .accepted();
    assert!(world.serves(&announcement) && world.serves(&state));
}

/// PUR-6, PUR-8
#[tokio::test]
async fn a_parked_announcement_is_gone_after_a_day_and_sync_may_not_bring_it_back() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    world.pass(WAITING).await;
    world.pass(SOFT_EXPIRED - 1).await;
    assert_eq!(world.stage(&announcement), Some(Stage::Parked));
    world.pass(1).await;
    assert_eq!(world.stage(&announcement), None);
    assert!(world.is_marked(&announcement));
    let answer = world.sync(&announcement).await;
    assert_eq!(
        answer.message,
        "invalid: previously expired from purgatory without git data"
    );
    world.send(&announcement).await.waits();
    assert!(world.exists(&alice()));
}

/// PUR-8
#[tokio::test]
async fn the_mark_of_an_expired_state_binds_sync_for_seven_days_and_clients_never() {
    let world = World::new();
    world.serving(&alice()).await;
    world.send(&listing(&bob(), &[]).sign()).await.waits();
    let state = main_at(&bob(), commit(1).await);
    world.send(&state).await.waits();
    world.pass(WAITING).await;
    assert!(world.is_marked(&state), "no served repository is owed it");
    world.sync(&state).await.is_refused();
    world.pass(7 * 86_400 - 1).await;
    world.sync(&state).await.is_refused();
    world.send(&listing(&bob(), &[]).sign()).await.waits();
    world.send(&state).await.waits();
    world.pass(WAITING).await;
    world.pass(7 * 86_400).await;
    assert!(!world.is_marked(&state));
    world.send(&listing(&bob(), &[]).sign()).await.waits();
    world.sync(&state).await.waits();
}

/// PUR-7, REF-7
#[tokio::test]
async fn a_leased_repository_is_left_alone_until_the_next_sweep() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let lease = world.service().repositories().lease(&address(&alice()));
    world.pass(WAITING).await;
    assert_eq!(world.stage(&announcement), Some(Stage::Waiting));
    assert!(world.exists(&alice()));
    drop(lease);
    world.sweep().await;
    assert_eq!(world.stage(&announcement), Some(Stage::Parked));
    assert!(!world.exists(&alice()));
}

/// PUR-2: nobody can hold on for ever.
#[tokio::test]
async fn a_lease_protects_for_a_day_at_most() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let _lease = world.service().repositories().lease(&address(&alice()));
    world.pass(WAITING + 86_399).await;
    assert_eq!(world.stage(&announcement), Some(Stage::Waiting));
    world.pass(1).await;
    assert_eq!(world.stage(&announcement), Some(Stage::Parked));
}

/// PUR-7
#[tokio::test]
async fn a_repository_that_is_served_outlives_a_replacement_that_expires() {
    let world = World::new();
    let (announcement, _) = world.serving(&alice()).await;
    world.send(&announcing(&bob()).sign()).await.waits();
    let replacement = announcing(&alice()).tag(["M", &bob().hex()]).sign();
    world.send(&replacement).await.waits();
    world.pass(WAITING).await;
    assert!(world.serves(&announcement) && !world.serves(&replacement));
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
}

/// PUR-10
#[tokio::test]
async fn a_deletion_by_id_removes_what_waits_with_its_repository() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let state = main_at(&alice(), commit(0).await);
    world.send(&state).await.waits();
    world
        .send(&alice().deletion(&state).sign())
        .await
        .is_stored();
    assert_ne!(world.stage(&state), Some(Stage::Waiting));
    world.send(&state).await.is_refused();
    world
        .send(&bob().deletion(&announcement).sign())
        .await
        .is_refused();
    assert!(world.exists(&alice()), "somebody else's wish");
    world
        .send(&alice().deletion(&announcement).sign())
        .await
        .is_stored();
    assert_ne!(world.stage(&announcement), Some(Stage::Waiting));
    assert!(!world.exists(&alice()));
    world.send(&announcement).await.is_refused();
}

/// PUR-10
#[tokio::test]
async fn a_deletion_by_address_removes_what_is_parked() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    world.pass(WAITING).await;
    assert_eq!(world.stage(&announcement), Some(Stage::Parked));
    let request = alice()
        .draft(5)
        .tag(["a", &alice().coordinate("project")])
        .sign();
    world.send(&request).await.is_stored();
    assert_ne!(world.stage(&announcement), Some(Stage::Parked));
    world.send(&announcement).await.is_refused();
}

/// PUR-11
#[tokio::test]
async fn what_waits_survives_a_restart_and_downtime_counts() {
    let mut world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let state = main_at(&alice(), commit(2).await);
    world.send(&state).await.waits();
    let upload = proposal_ref('a');
    world
        .push(&alice(), &[(&upload, commit(1).await)])
        .await
        .accepted();
    world.restart_after(WAITING - 1).await;
    assert_eq!(world.stage(&announcement), Some(Stage::Waiting));
    assert_eq!(world.stage(&state), Some(Stage::Waiting));
    assert_eq!(world.refs(&alice()).map(|refs| refs.len()), Some(1));
    world.restart_after(1).await;
    assert_eq!(world.stage(&announcement), Some(Stage::Parked));
    assert_eq!(world.stage(&state), None);
    assert!(!world.exists(&alice()));
    world.restart_after(SOFT_EXPIRED - 1).await;
    assert_eq!(
        world.stage(&announcement),
        Some(Stage::Parked),
        "soft-expired ones too"
    );
    world.restart_after(1).await;
    assert_eq!(world.stage(&announcement), None);
}

/// PUR-11
#[tokio::test]
async fn a_push_completes_after_a_restart_what_was_announced_before() {
    let mut world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let state = main_at(&alice(), commit(0).await);
    world.send(&state).await.waits();
    world.restart_after(60).await;
    world
        .push(&alice(), &[("refs/heads/main", commit(0).await)])
        .await
        .accepted();
    assert!(world.serves(&announcement) && world.serves(&state));
    world.restart_after(10 * WAITING).await;
    assert!(world.serves(&announcement) && world.serves(&state));
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
}

/// PUR-12, G1-11
#[tokio::test]
async fn what_waits_is_invisible_to_subscribers_but_git_answers() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let state = main_at(&alice(), commit(2).await);
    world.send(&state).await.waits();
    assert!(!world.serves(&announcement) && !world.serves(&state));
    assert_eq!(world.advertised(&alice()).await, Some([].into()));
    let upload = proposal_ref('a');
    world
        .push(&alice(), &[(&upload, commit(1).await)])
        .await
        .accepted();
    let expected = [(upload, commit(1).await.oid.clone())].into();
    assert_eq!(world.advertised(&alice()).await, Some(expected));
    world.pass(WAITING).await;
    assert!(!world.serves(&announcement), "parked");
    assert_eq!(world.advertised(&alice()).await, None);
}

/// PUR-13
#[tokio::test]
async fn an_author_has_a_bounded_number_of_waiting_announcements() {
    let world = World::with(|policy| policy.purgatory.author_announcements = 2);
    let named = |owner: &Person, name: &str| {
        let url = format!("https://grasp.example.com/{}/{name}.git", owner.npub());
        owner
            .draft(30617)
            .tag(["d", name])
            .tag(["clone", &url])
            .tag(["relays", "wss://grasp.example.com"])
            .sign()
    };
    let first = named(&alice(), "one");
    world.send(&first).await.waits();
    world.send(&named(&alice(), "two")).await.waits();
    let over = world.send(&named(&alice(), "three")).await;
    assert!(
        !over.accepted && over.message.starts_with("rate-limited:"),
        "{over:?}"
    );
    assert_eq!(
        world.stage(&first),
        Some(Stage::Waiting),
        "nobody is evicted"
    );
    world.send(&named(&bob(), "three")).await.waits();
    world.pass(WAITING).await;
    world.send(&named(&alice(), "three")).await.waits();
}

/// PUR-13
#[tokio::test]
async fn an_author_has_a_bounded_number_of_waiting_states_and_proposals() {
    let world = World::with(|policy| policy.purgatory.author_events = 2);
    world.send(&announcing(&alice()).sign()).await.waits();
    for number in 0..2 {
        let state = main_at(&alice(), commit(number).await);
        world.send(&state).await.waits();
    }
    let over = world.send(&main_at(&alice(), commit(2).await)).await;
    assert!(
        !over.accepted && over.message.starts_with("rate-limited:"),
        "{over:?}"
    );
}

/// PUR-13
#[tokio::test]
async fn purgatory_is_bounded_in_all() {
    let world = World::with(|policy| policy.purgatory.events = 2);
    world.send(&announcing(&alice()).sign()).await.waits();
    world
        .send(&main_at(&alice(), commit(0).await))
        .await
        .waits();
    let over = world.send(&announcing(&bob()).sign()).await;
    assert!(
        !over.accepted && over.message.starts_with("rate-limited:"),
        "{over:?}"
    );
    assert!(!world.exists(&bob()));
}

/// PUR-15
#[tokio::test]
async fn the_newest_state_of_a_served_scope_is_parked_and_authorises_a_push() {
    let world = World::new();
    let (_, first) = world.serving(&alice()).await;
    let older = main_at(&alice(), commit(1).await);
    let newest = main_at(&alice(), commit(2).await);
    world.send(&older).await.waits();
    world.send(&newest).await.waits();
    world.pass(WAITING).await;
    assert_eq!(world.stage(&older), None, "of one author the newest only");
    assert_eq!(world.stage(&newest), Some(Stage::Parked));
    assert_eq!(world.left(&newest), Some(PARKED));
    assert!(!world.is_marked(&newest) && !world.serves(&newest));
    world.pass(PARKED - 1).await;
    world
        .push(&alice(), &[("refs/heads/main", commit(2).await)])
        .await
        .accepted();
    assert!(world.serves(&newest) && !world.serves(&first));
    assert_eq!(world.refs(&alice()), Some(main_only(commit(2).await)));
}

/// PUR-15, PUR-6
#[tokio::test]
async fn what_is_parked_ends_after_30_days_with_a_mark() {
    let world = World::new();
    world.serving(&alice()).await;
    let state = main_at(&alice(), commit(1).await);
    world.send(&state).await.waits();
    world.pass(WAITING).await;
    world.pass(PARKED).await;
    assert_eq!(world.stage(&state), None);
    assert!(world.is_marked(&state));
}

/// PUR-15
#[tokio::test]
async fn a_client_makes_a_parked_event_wait_again_and_sync_does_not() {
    let world = World::new();
    world.serving(&alice()).await;
    let state = main_at(&alice(), commit(1).await);
    let proposal = proposing(&bob(), &alice(), commit(2).await);
    world.send(&state).await.waits();
    world.send(&proposal).await.waits();
    world.pass(WAITING).await;
    for event in [&state, &proposal] {
        assert_eq!(world.stage(event), Some(Stage::Parked));
        world.sync(event).await.is_duplicate();
        assert_eq!(world.stage(event), Some(Stage::Parked));
        world.send(event).await.waits();
        assert_eq!(world.stage(event), Some(Stage::Waiting));
        assert_eq!(world.left(event), Some(WAITING));
    }
}

/// PUR-15
#[tokio::test]
async fn a_parked_announcement_sent_again_gets_its_repository_again() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    world.pass(WAITING).await;
    assert!(!world.exists(&alice()));
    world.send(&announcement).await.waits();
    assert_eq!(world.left(&announcement), Some(WAITING));
    assert_eq!(world.advertised(&alice()).await, Some([].into()));
}

/// PUR-15
#[tokio::test]
async fn an_open_proposal_of_a_served_scope_is_parked_and_completed_by_a_push() {
    let world = World::new();
    world.serving(&alice()).await;
    let proposal = proposing(&bob(), &alice(), commit(2).await);
    world.send(&proposal).await.waits();
    world.pass(WAITING).await;
    assert_eq!(world.stage(&proposal), Some(Stage::Parked));
    let name = format!("refs/nostr/{}", proposal.id.to_hex());
    world
        .push(&alice(), &[(&name, commit(3).await)])
        .await
        .refused();
    world
        .push(&alice(), &[(&name, commit(2).await)])
        .await
        .accepted();
    assert!(world.serves(&proposal));
}

fn proposal_ref(digit: char) -> String {
    format!("refs/nostr/{}", String::from(digit).repeat(64))
}

fn has_objects(world: &World, owner: &Person) -> bool {
    std::fs::read_dir(world.path(owner).join("objects/pack"))
        .is_ok_and(|mut entries| entries.next().is_some())
}

/// PUR-4, REF-6, case 39: the mark stays until the directory is gone.
#[tokio::test]
async fn a_repository_that_cannot_be_removed_is_tried_again() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let path = world.path(&alice());
    let git = path.ancestors().nth(2).expect("below the git folder");
    let trash = git.join(".grasp/trash");
    std::fs::remove_dir_all(&trash).expect("it is there");
    std::fs::write(&trash, "in the way").expect("writable");
    world.pass(WAITING).await;
    assert_eq!(world.stage(&announcement), Some(Stage::Parked));
    assert!(world.exists(&alice()), "it could not be removed");
    assert_eq!(world.service().store().dirty().list().len(), 1);
    std::fs::remove_file(&trash).expect("it is there");
    std::fs::create_dir(&trash).expect("writable");
    world.service().retry_marked().await;
    assert!(!world.exists(&alice()), "tried again");
    assert!(world.service().store().dirty().list().is_empty());
}
