//! ANN-1, DEL-7: the operator's lists.

use grasp_core::curation::{Curation, RepositoryList};
use grasp_testkit::Person;

use crate::history::commit;
use crate::world::{REPO, World, announcing, listing, main_at, maintained};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

fn list(entries: &[&str]) -> RepositoryList {
    let entries = entries.iter().map(|entry| entry.parse().expect("valid"));
    entries.collect()
}

fn world(curation: Curation) -> World {
    World::with(|policy| policy.curation = curation)
}

/// ANN-1: an owner, a repository, a name; each is told which.
#[tokio::test]
async fn what_the_blacklist_names_is_refused() {
    for (entry, word) in [
        (alice().npub(), "owner"),
        (format!("{}/{REPO}", alice().npub()), "repository"),
        (REPO.to_owned(), "identifier"),
    ] {
        let world = world(Curation {
            blacklist: list(&[&entry]),
            ..Curation::default()
        });
        let answer = world.send(&announcing(&alice()).sign()).await;
        assert_eq!(
            (answer.accepted, answer.message),
            (false, format!("invalid: this {word} is blacklisted"))
        );
        assert!(!world.exists(&alice()));
        let other = world.send(&announcing(&bob()).sign()).await;
        assert_eq!(other.accepted, word != "identifier", "{entry}");
    }
}

/// ANN-1, G1-3
#[tokio::test]
async fn with_a_whitelist_nothing_else_is_hosted() {
    let world = world(Curation {
        whitelist: Some(list(&[&alice().npub()])),
        ..Curation::default()
    });
    world.serving(&alice()).await;
    let answer = world.send(&announcing(&bob()).sign()).await;
    assert_eq!(
        (answer.accepted, answer.message.as_str()),
        (
            false,
            "restricted: only whitelisted repositories are hosted here"
        )
    );
    // ANN-6: who only tells that he is a maintainer asks for no place.
    world.send(&listing(&alice(), &[&bob()]).sign()).await;
    let elsewhere = maintained(announcing(&bob()), &[&alice()])
        .without("clone")
        .tag(["clone", "https://elsewhere.example/bob.git"])
        .sign();
    assert!(world.send(&elsewhere).await.accepted);
}

/// ANN-1: both lists at once.
#[tokio::test]
async fn the_blacklist_comes_before_the_whitelist() {
    let world = world(Curation {
        whitelist: Some(list(&[&alice().npub()])),
        blacklist: list(&[REPO]),
        ..Curation::default()
    });
    let answer = world.send(&announcing(&alice()).sign()).await;
    assert_eq!(answer.message, "invalid: this identifier is blacklisted");
}

/// EV-1: events of an author, from clients and from sync; the relay's own key is exempt.
#[tokio::test]
async fn a_blacklisted_author_s_events_are_refused() {
    let owner = Person::named("the relay owner");
    let world = world(Curation {
        authors: [bob().key(), owner.key()].into(),
        ..Curation::default()
    });
    world.serving(&alice()).await;
    let issue = bob().issue(&alice().coordinate(REPO)).sign();
    for answer in [world.send(&issue).await, world.sync(&issue).await] {
        assert_eq!(
            (answer.accepted, answer.message.as_str()),
            (false, "blocked: this author is blacklisted")
        );
    }
    world.send(&owner.draft(0).sign()).await.is_stored();
    assert!(!world.send(&main_at(&bob(), commit(0).await)).await.accepted);
}

/// DEL-7: at the start the blacklist takes away what it names, and gives it back if the operator wants that.
#[tokio::test]
async fn at_the_start_the_blacklist_takes_away_and_gives_back() {
    let mut world = World::new();
    let (announcement, state) = world.serving(&alice()).await;
    let (theirs, _) = world.serving(&bob()).await;
    let issue = bob().issue(&alice().coordinate(REPO)).sign();
    world.send(&issue).await.is_stored();
    let refs = world.refs(&alice());
    let black = |restores| Curation {
        blacklist: list(&[&alice().npub()]),
        blacklist_restores: restores,
        ..Curation::default()
    };
    world.restart_with(black(false)).await;
    assert!(!world.serves(&announcement) && !world.serves(&issue) && !world.exists(&alice()));
    assert!(world.serves(&theirs) && world.exists(&bob()));
    let nothing_more = |restores| Curation {
        blacklist_restores: restores,
        ..Curation::default()
    };
    world.restart_with(nothing_more(false)).await;
    assert!(
        !world.serves(&announcement),
        "only if the operator wants it"
    );
    world.restart_with(nothing_more(true)).await;
    assert!(world.serves(&announcement) && world.serves(&state) && world.serves(&issue));
    assert_eq!(world.refs(&alice()), refs);
    let metrics = world.metrics().await;
    let line = "ngit_blacklist_startup_restore_total{result=\"succeeded\",reason=\"none\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

/// DEL-7: what the whitelist does not name leaves, and comes back as soon as it does.
#[tokio::test]
async fn at_the_start_the_whitelist_takes_away_and_always_gives_back() {
    let mut world = World::new();
    let (announcement, _) = world.serving(&alice()).await;
    let (theirs, _) = world.serving(&bob()).await;
    let white = |entries: &[&str]| Curation {
        whitelist: Some(list(entries)),
        ..Curation::default()
    };
    world.restart_with(white(&[&bob().npub()])).await;
    assert!(!world.serves(&announcement) && world.serves(&theirs));
    // Its owner deletes it meanwhile: nobody else brings it back.
    let mut gone = World::new();
    gone.serving(&alice()).await;
    gone.restart_with(white(&[&bob().npub()])).await;
    let deletion = alice();
    let deletion = deletion.draft(5).tag(["a", &alice().coordinate(REPO)]);
    gone.send(&deletion.sign()).await.is_stored();
    gone.restart_with(white(&[REPO])).await;
    assert!(!gone.exists(&alice()));

    world.restart_with(white(&[REPO])).await;
    assert!(world.serves(&announcement) && world.serves(&theirs));
}

/// DEL-7: lists that were carried out before are not carried out again.
#[tokio::test]
async fn lists_that_did_not_change_cost_nothing() {
    let mut world = World::new();
    world.serving(&alice()).await;
    let black = Curation {
        blacklist: list(&["spam"]),
        ..Curation::default()
    };
    let version = |world: &World| {
        let snapshot = world.service().store().snapshot();
        snapshot.expect("readable").version()
    };
    world.restart_with(black.clone()).await;
    let before = version(&world);
    world.restart_with(black).await;
    assert_eq!(version(&world), before);
    world.service().apply_lists().await.expect("nothing to do");
    assert_eq!(version(&world), before);
}

/// DEL-7, ANN-6: whoever had a place before, and moved elsewhere.
#[tokio::test]
async fn who_only_tells_who_is_a_maintainer_has_no_place_to_lose() {
    let mut world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let (author, now) = (alice(), world.now().as_secs());
    let elsewhere = listing(&author, &[])
        .without("clone")
        .tag(["clone", "https://elsewhere.example/alice.git"])
        .at(now + 1)
        .sign();
    world.send(&elsewhere).await.is_stored();
    let whitelist = Some(list(&[&bob().npub()]));
    let curation = Curation {
        whitelist,
        ..Curation::default()
    };
    world.restart_with(curation).await;
    assert!(world.serves(&elsewhere));
}
