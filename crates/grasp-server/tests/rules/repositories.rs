//! REF-*: directory, refs and HEAD are a function of events, upload records and objects.

use grasp_core::lifecycle::Stage;
use grasp_testkit::Person;

use crate::history::commit;
use crate::world::{REPO, World, announcing, git, listing, main_at, main_only, proposing};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

/// REF-2, REF-3
#[tokio::test]
async fn refs_are_the_winner_s_and_the_proposals_and_nothing_else() {
    let world = World::new();
    world.serving(&alice()).await;
    let proposal = proposing(&bob(), &alice(), commit(0).await);
    world.send(&proposal).await.is_stored();
    let upload = format!("refs/nostr/{}", "c".repeat(64));
    world
        .push(&alice(), &[(&upload, commit(2).await)])
        .await
        .accepted();
    let state = alice()
        .state(
            REPO,
            [
                ("refs/heads/dev", &commit(1).await.oid),
                ("refs/tags/v1", &commit(0).await.oid),
            ],
        )
        .sign();
    world.send(&state).await.is_stored();
    let expected = [
        ("refs/heads/dev", commit(1).await),
        ("refs/tags/v1", commit(0).await),
        (&upload, commit(2).await),
        (
            &format!("refs/nostr/{}", proposal.id.to_hex()),
            commit(0).await,
        ),
    ];
    let expected = expected.map(|(name, commit)| (name.to_owned(), commit.oid.clone()));
    assert_eq!(world.refs(&alice()), Some(expected.clone().into()));
    assert_eq!(world.advertised(&alice()).await, Some(expected.into()));
}

/// REF-4
#[tokio::test]
async fn head_is_the_declared_branch_else_main_else_master_else_the_first() {
    let world = World::new();
    world.serving(&alice()).await;
    let oid = &commit(0).await.oid;
    let cases: [(&str, &[&str], &str); 6] = [
        ("refs/heads/dev", &["dev", "main"], "refs/heads/dev"),
        (
            "refs/heads/gone",
            &["dev", "main", "master"],
            "refs/heads/main",
        ),
        ("refs/heads/gone", &["dev", "master"], "refs/heads/master"),
        ("refs/heads/gone", &["zeta", "dev"], "refs/heads/dev"),
        ("refs/heads/gone", &[], "refs/heads/gone"),
        ("refs/heads/main", &["main"], "refs/heads/main"),
    ];
    for (declared, branches, expected) in cases {
        let owner = alice();
        let draft = owner
            .draft(30618)
            .tag(["d", REPO])
            .tag(["HEAD".to_owned(), format!("ref: {declared}")]);
        let state = branches
            .iter()
            .fold(draft, |draft, branch| {
                draft.tag([format!("refs/heads/{branch}"), oid.clone()])
            })
            .sign();
        world.send(&state).await.is_stored();
        assert_eq!(world.head(&alice()), expected, "{declared} of {branches:?}");
    }
}

/// REF-5
#[tokio::test]
async fn a_repository_whose_winner_lost_authority_is_frozen() {
    let mut world = World::new();
    world
        .send(&listing(&alice(), &[&bob()]).sign())
        .await
        .waits();
    world
        .send(&listing(&bob(), &[&alice()]).sign())
        .await
        .waits();
    let state = main_at(&bob(), commit(1).await);
    world.send(&state).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    let alone = listing(&alice(), &[]).sign();
    world.send(&alone).await.is_stored();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(1).await)));
    world
        .push_deletions(&alice(), &["refs/heads/main"])
        .await
        .refused();
    world
        .push(&alice(), &[("refs/heads/main", commit(2).await)])
        .await
        .refused();
    world.restart_after(86_400).await;
    assert_eq!(world.refs(&alice()), Some(main_only(commit(1).await)));
    assert!(world.serves(&alone));
    // A later state of bob's moves his own repository only.
    let theirs = main_at(&bob(), commit(2).await);
    world.send(&theirs).await.waits();
    world
        .push(&bob(), &[("refs/heads/main", commit(2).await)])
        .await
        .accepted();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(1).await)));
    // And alice's own thaws hers.
    let own = main_at(&alice(), commit(3).await);
    world.send(&own).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(3).await)])
        .await
        .accepted();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(3).await)));
}

/// REF-6
#[tokio::test]
async fn a_directory_that_no_event_asks_for_is_not_there() {
    let mut world = World::new();
    world.serving(&alice()).await;
    world.send(&announcing(&bob()).sign()).await.waits();
    assert!(world.exists(&alice()) && world.exists(&bob()));
    let request = alice()
        .draft(5)
        .tag(["a", &alice().coordinate(REPO)])
        .sign();
    world.send(&request).await.is_stored();
    assert!(!world.exists(&alice()) && world.exists(&bob()));
    world.restart_after(60).await;
    assert!(!world.exists(&alice()) && world.exists(&bob()));
    assert_eq!(world.advertised(&alice()).await, None);
}

/// REF-8, PUSH-9
#[tokio::test]
async fn a_repository_that_lost_its_objects_is_degraded_until_a_push_refills_it() {
    let mut world = World::new();
    let (announcement, state) = world.serving(&alice()).await;
    world.stop().await;
    for entry in std::fs::read_dir(world.path(&alice()).join("objects/pack")).expect("a folder") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("ours");
    }
    world.start().await;
    world.recheck(&alice()).await;
    assert_eq!(
        world.refs(&alice()),
        Some([].into()),
        "what is gone is not shown"
    );
    assert!(world.serves(&announcement) && world.serves(&state));
    assert_eq!(world.advertised(&alice()).await, Some([].into()));
    world
        .push(&alice(), &[("refs/heads/main", commit(0).await)])
        .await
        .accepted();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    git(&world.path(&alice()), &["fsck", "--full", "--strict"]);
}

/// REF-8: a relative that has them gives them back.
#[tokio::test]
async fn a_repository_that_lost_its_objects_takes_them_from_a_co_maintainer_s() {
    let mut world = World::new();
    world.serving_together(&alice(), &bob()).await;
    world.stop().await;
    std::fs::remove_dir_all(world.path(&bob())).expect("ours");
    world.start().await;
    assert!(!world.exists(&bob()));
    world.recheck(&bob()).await;
    assert_eq!(world.refs(&bob()), Some(main_only(commit(0).await)));
    git(&world.path(&bob()), &["fsck", "--full", "--strict"]);
}

/// REF-1: what waits shows nothing.
#[tokio::test]
async fn a_waiting_state_moves_no_ref_before_all_its_objects_are_here() {
    let world = World::new();
    world.serving(&alice()).await;
    let state = alice()
        .state(
            REPO,
            [
                ("refs/heads/dev", &commit(2).await.oid),
                ("refs/heads/main", &commit(0).await.oid),
            ],
        )
        .sign();
    world.send(&state).await.waits();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    assert_eq!(world.stage(&state), Some(Stage::Waiting));
}

/// AFTER-6, GIT-13: a push that is committed is reported as done. A repository that cannot follow is not shown
/// as it was, and follows later.
#[tokio::test]
async fn a_repository_that_cannot_follow_is_not_shown_until_it_did() {
    let world = World::new();
    world.serving(&alice()).await;
    let second = commit(1).await;
    let state = main_at(&alice(), second);
    world.send(&state).await.waits();
    // Where the fresh list of refs is written first.
    let obstacle = world.path(&alice()).join("packed-refs.new");
    std::fs::create_dir(&obstacle).expect("writable");
    world
        .push(&alice(), &[("refs/heads/main", second)])
        .await
        .accepted();
    assert!(world.serves(&state), "the commit decides");
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    assert_eq!(
        world.advertisement(&alice()).await.0,
        http::StatusCode::SERVICE_UNAVAILABLE
    );
    std::fs::remove_dir(&obstacle).expect("it is there");
    world.service().retry_marked().await;
    assert_eq!(
        world.advertised(&alice()).await,
        Some(main_only(second)),
        "tried again"
    );
}
