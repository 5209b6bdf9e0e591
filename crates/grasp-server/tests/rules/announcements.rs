//! §6 and MNT-9: what a newer announcement does to the older, and to whose states count.

use grasp_core::lifecycle::Stage;
use grasp_testkit::Person;

use crate::history::commit;
use crate::world::{REPO, WAITING, World, announcing, listing, main_at, main_only, maintained};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

/// ANN-3
#[tokio::test]
async fn a_replacement_that_gives_authority_is_released_at_once_where_data_is() {
    let world = World::new();
    let (before, _) = world.serving(&alice()).await;
    let after = listing(&alice(), &[&bob()]).sign();
    world.send(&after).await.is_stored();
    assert!(world.serves(&after) && !world.serves(&before));
    assert_eq!(world.stage(&before), Some(Stage::Superseded));
}

/// ANN-3, MNT-6
#[tokio::test]
async fn a_replacement_that_moves_the_lead_waits_while_the_old_one_is_served() {
    let world = World::new();
    let (before, _) = world.serving(&alice()).await;
    let theirs = announcing(&bob()).tag(["M", &bob().hex()]).sign();
    world.send(&theirs).await.waits();
    let after = announcing(&alice()).tag(["M", &bob().hex()]).sign();
    world.send(&after).await.waits();
    assert!(world.serves(&before) && !world.serves(&after));
    let state = main_at(&bob(), commit(1).await);
    world.send(&state).await.waits();
    world
        .push(&bob(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    for event in [&theirs, &after, &state] {
        assert!(world.serves(event));
    }
    assert!(!world.serves(&before));
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(1).await)));
    }
}

/// ANN-3a
#[tokio::test]
async fn a_removal_of_authority_is_served_at_once() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let after = listing(&alice(), &[]).sign();
    world.send(&after).await.is_stored();
    assert!(world.serves(&after));
    let state = main_at(&bob(), commit(1).await);
    world.send(&state).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .refused();
    world
        .push(&bob(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    assert_eq!(world.refs(&bob()), Some(main_only(commit(1).await)));
}

/// ANN-3a
#[tokio::test]
async fn a_change_of_text_is_served_at_once() {
    let world = World::new();
    let (before, _) = world.serving(&alice()).await;
    let after = announcing(&alice()).tag(["description", "new"]).sign();
    world.send(&after).await.is_stored();
    assert!(world.serves(&after) && !world.serves(&before));
    world.send(&before).await.is_duplicate();
}

/// ANN-3b
#[tokio::test]
async fn a_withdrawal_that_waited_in_vain_gives_nothing_back() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let carol = Person::named("carol");
    let theirs = announcing(&carol).tag(["M", &carol.hex()]).sign();
    world.send(&theirs).await.waits();
    // Takes bob's place away and gives the lead to carol, who has no data yet.
    let after = announcing(&alice()).tag(["M", &carol.hex()]).sign();
    world.send(&after).await.waits();
    world.pass(WAITING).await;
    assert_eq!(world.stage(&after), Some(Stage::Parked));
    assert_eq!(world.left(&after), None, "it ends by no deadline");
    world.pass(90 * 86_400).await;
    assert_eq!(world.stage(&after), Some(Stage::Parked));
    assert!(world.exists(&alice()));
    let state = main_at(&bob(), commit(1).await);
    world.send(&state).await;
    world
        .push(&bob(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
}

/// ANN-4
#[tokio::test]
async fn a_replacement_of_a_waiting_one_begins_anew_with_its_states() {
    let world = World::new();
    let before = announcing(&alice()).sign();
    world.send(&before).await.waits();
    let state = main_at(&alice(), commit(0).await);
    world.send(&state).await.waits();
    world.pass(1000).await;
    let after = announcing(&alice()).sign();
    world.send(&after).await.waits();
    assert_eq!(world.stage(&before), None);
    assert_eq!(world.left(&after), Some(WAITING));
    assert_eq!(world.left(&state), Some(WAITING));
    world.send(&before).await.is_duplicate();
    world
        .push(&alice(), &[("refs/heads/main", commit(0).await)])
        .await
        .accepted();
    assert!(world.serves(&after));
}

/// ANN-5
#[tokio::test]
async fn a_waiting_scope_leaves_when_its_owner_goes_elsewhere() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let state = main_at(&alice(), commit(0).await);
    world.send(&state).await.waits();
    world.send(&elsewhere(&alice())).await.is_refused();
    assert_eq!(world.stage(&announcement), None);
    assert_eq!(world.stage(&state), None);
    assert!(!world.exists(&alice()));
}

/// ANN-5
#[tokio::test]
async fn states_stay_that_another_waiting_announcement_needs() {
    let world = World::new();
    world
        .send(&listing(&alice(), &[&bob()]).sign())
        .await
        .waits();
    let theirs = listing(&bob(), &[&alice()]).sign();
    world.send(&theirs).await.waits();
    let state = main_at(&bob(), commit(0).await);
    world.send(&state).await.waits();
    world.send(&elsewhere(&alice())).await.is_refused();
    assert!(!world.exists(&alice()));
    assert_eq!(world.stage(&theirs), Some(Stage::Waiting));
    assert_eq!(world.stage(&state), Some(Stage::Waiting));
    world
        .push(&bob(), &[("refs/heads/main", commit(0).await)])
        .await
        .accepted();
    assert!(world.serves(&state) && world.serves(&theirs));
}

/// ANN-5
#[tokio::test]
async fn a_served_scope_is_delisted_when_its_owner_goes_elsewhere() {
    let world = World::new();
    let (announcement, state) = world.serving(&alice()).await;
    let old = elsewhere_at(&alice(), announcement.created_at.as_secs() - 1);
    world.send(&old).await.is_refused();
    assert!(world.serves(&announcement), "older than the newest here");
    let moved = elsewhere(&alice());
    world.send(&moved).await.is_refused();
    for event in [&announcement, &state, &moved] {
        assert!(!world.serves(event));
    }
    assert_eq!(world.stage(&announcement), Some(Stage::Held));
    assert!(!world.exists(&alice()));
    assert_eq!(world.advertised(&alice()).await, None);
}

/// ANN-6
#[tokio::test]
async fn a_listed_maintainer_s_announcement_is_served_without_a_repository() {
    let world = World::new();
    let theirs = maintained(elsewhere_draft(&bob()), &[&alice()]).sign();
    world.send(&theirs).await.is_refused();
    world.serving(&alice()).await;
    world.send(&theirs).await.is_refused();
    world
        .send(&listing(&alice(), &[&bob()]).sign())
        .await
        .is_stored();
    world.send(&theirs).await.is_stored();
    assert!(world.serves(&theirs));
    assert!(!world.exists(&bob()), "REF-6: it is hosted elsewhere");
    let state = main_at(&bob(), commit(1).await);
    world.send(&state).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(1).await)));
    world.send(&listing(&alice(), &[]).sign()).await.is_stored();
    assert_eq!(world.stage(&theirs), Some(Stage::Parked));
    assert_eq!(world.left(&theirs), Some(30 * 86_400));
}

/// ANN-6
#[tokio::test]
async fn a_discovered_announcement_waits_and_ends_with_the_one_that_lists_it() {
    let world = World::new();
    let ours = listing(&alice(), &[&bob()]).sign();
    world.send(&ours).await.waits();
    let theirs = maintained(elsewhere_draft(&bob()), &[&alice()]).sign();
    world.send(&theirs).await.waits();
    world.pass(1000).await;
    world
        .send(&main_at(&alice(), commit(0).await))
        .await
        .waits();
    world.pass(1000).await;
    assert_eq!(
        world.stage(&theirs),
        Some(Stage::Waiting),
        "with its sponsor"
    );
    world
        .push(&alice(), &[("refs/heads/main", commit(0).await)])
        .await
        .accepted();
    assert!(world.serves(&ours) && world.serves(&theirs));
}

/// MNT-9, MNT-7
#[tokio::test]
async fn an_acceptance_needs_no_push() {
    let world = World::new();
    world.serving(&alice()).await;
    world
        .send(&listing(&alice(), &[&bob()]).sign())
        .await
        .is_stored();
    world.send(&listing(&bob(), &[]).sign()).await.waits();
    let state = main_at(&bob(), commit(2).await);
    world.send(&state).await.waits();
    world
        .push(&bob(), &[("refs/heads/main", commit(2).await)])
        .await
        .accepted();
    assert_eq!(
        world.refs(&alice()),
        Some(main_only(commit(0).await)),
        "only invited (MNT-8)"
    );
    world
        .send(&listing(&bob(), &[&alice()]).sign())
        .await
        .is_stored();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(2).await)));
}

/// MNT-9, ADR 11: a known state counts for whom it newly concerns, and sending it again does nothing more.
#[tokio::test]
async fn a_known_state_is_applied_without_being_sent_again() {
    let world = World::new();
    let (_, state) = world.serving(&alice()).await;
    let both = listing(&alice(), &[&bob()]).sign();
    world.send(&both).await.is_stored();
    let theirs = listing(&bob(), &[&alice()]).sign();
    world.send(&theirs).await.is_stored();
    assert_eq!(world.refs(&bob()), Some(main_only(commit(0).await)));
    let commits = world.commits();
    let again = world.send(&state).await;
    assert!(again.accepted);
    assert_eq!(again.message, "duplicate: already have this event");
    assert_eq!(world.commits(), commits);
}

/// MNT-9, REF-1
#[tokio::test]
async fn a_removal_needs_no_push() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let state = main_at(&bob(), commit(2).await);
    world.send(&state).await.waits();
    world
        .push(&bob(), &[("refs/heads/main", commit(2).await)])
        .await
        .accepted();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(2).await)));
    world.send(&listing(&alice(), &[]).sign()).await.is_stored();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    assert_eq!(world.refs(&bob()), Some(main_only(commit(2).await)));
}

/// MNT-9, AFTER-2: what a served state names may lie in another's repository.
#[tokio::test]
async fn an_announcement_is_released_by_a_state_whose_objects_a_relative_holds() {
    let world = World::new();
    let (_, state) = world.serving(&alice()).await;
    // Alice follows bob, who names no lead: no set answers for her own repository (MNT-6).
    let following = announcing(&alice()).tag(["M", &bob().hex()]).sign();
    world.send(&following).await.waits();
    let theirs = listing(&bob(), &[&alice()]).sign();
    world.send(&theirs).await.is_stored();
    assert!(world.serves(&theirs) && world.serves(&state));
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(0).await)));
    }
}

/// MNT-9: a state that waits for authority is looked at again.
#[tokio::test]
async fn an_acceptance_wakes_the_states_that_waited_for_it() {
    let world = World::new();
    world.serving(&alice()).await;
    world
        .send(&listing(&alice(), &[&bob()]).sign())
        .await
        .is_stored();
    world.send(&listing(&bob(), &[]).sign()).await.waits();
    let state = main_at(&bob(), commit(0).await);
    world.send(&state).await.waits();
    assert!(
        !world.serves(&state),
        "a stranger's repository is not searched (ST-3)"
    );
    let accepted = listing(&bob(), &[&alice()]).sign();
    world.send(&accepted).await.is_stored();
    assert!(world.serves(&state) && world.serves(&accepted));
    assert_eq!(world.refs(&bob()), Some(main_only(commit(0).await)));
}

fn elsewhere_draft(owner: &Person) -> grasp_testkit::Draft<'_> {
    let url = format!("https://elsewhere.example.org/{}/{REPO}.git", owner.npub());
    owner
        .draft(30617)
        .tag(["d", REPO])
        .tag(["clone", &url])
        .tag(["relays", "wss://elsewhere.example.org"])
}

fn elsewhere(owner: &Person) -> grasp_testkit::Event {
    elsewhere_draft(owner).sign()
}

fn elsewhere_at(owner: &Person, at: u64) -> grasp_testkit::Event {
    elsewhere_draft(owner).at(at).sign()
}
