//! Whose states count (MNT-*).

use grasp_testkit::{Event, Maintainer, Person, Server, json};

fn listing(who: &Person, server: &Server, others: &[&Person]) -> Event {
    let mut tag = vec!["maintainers".to_owned()];
    tag.extend(others.iter().map(|other| other.hex()));
    who.announcement("project", server).tag(tag).sign()
}

/// MNT-7, PUSH-15: each may push the other's state, to either URL.
#[tokio::test]
async fn two_who_list_each_other_maintain_both_repositories() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let bob = Maintainer::named("bob", "project", &server).await;
    alice
        .publish(&listing(&alice.person, &server, &[&bob.person]))
        .await
        .accepted();
    bob.publish(&listing(&bob.person, &server, &[&alice.person]))
        .await
        .accepted();

    let (first, state) = alice.advance("first").await;
    assert!(server.serves(&state).await);
    assert_eq!(alice.remote_refs().await["refs/heads/main"], first);
    assert_eq!(
        bob.remote_refs().await["refs/heads/main"],
        first,
        "AFTER-*: Bob's follows"
    );

    // Bob continues on Alice's work, at Alice's URL.
    bob.work.git(["pull", "-q", &alice.url(), "main"]).await;
    let second = bob.commit("second").await;
    let state = bob.publish_state([("refs/heads/main", &second)]).await;
    bob.work.push_to(&alice.url(), &["main"]).await.accepted();
    assert!(server.serves(&state).await);
    for url in [alice.url(), bob.url()] {
        assert_eq!(
            bob.work.home().ls_remote(&url).await["refs/heads/main"],
            second,
            "{url}"
        );
    }
    let served = server
        .query(json!({"kinds": [30617], "#d": ["project"]}))
        .await;
    assert_eq!(served.len(), 2, "both announcements are out of purgatory");
}

/// Cases 91: no repository leans on another.
#[tokio::test]
async fn co_maintainers_repositories_are_each_complete() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let bob = Person::named("bob");
    alice
        .publish(&listing(&alice.person, &server, &[&bob]))
        .await
        .accepted();
    server
        .publish(&listing(&bob, &server, &[&alice.person]))
        .await
        .accepted();
    alice.advance("first").await;
    let (second, _) = alice.advance("second").await;
    std::fs::remove_dir_all(server.repository(&alice.person.npub(), "project")).expect("it exists");
    let theirs = server.repository(&bob.npub(), "project");
    assert!(!theirs.join("objects/info/alternates").exists());
    let home = alice.work.home();
    home.run(&theirs, ["fsck", "--strict", "--full"]).await;
    assert_eq!(home.run(&theirs, ["rev-parse", "main"]).await, second);
}

/// MNT-8: listed is invited, not confirmed.
#[tokio::test]
async fn someone_listed_who_does_not_list_back_has_no_say() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let bob = Maintainer::named("bob", "project", &server).await;
    alice
        .publish(&listing(&alice.person, &server, &[&bob.person]))
        .await
        .accepted();
    let (first, _) = alice.advance("first").await;

    let later = bob.commit("bob's").await;
    let said = bob
        .publish(&bob.state([("refs/heads/main", &later)]))
        .await
        .refused();
    assert_eq!(
        said,
        "restricted: author not authorized for this repository"
    );
    bob.work.push_to(&alice.url(), &["+main"]).await.refused();
    assert_eq!(alice.remote_refs().await["refs/heads/main"], first);
}

/// MNT-8: an unrelated repository of the same name is not taken over by listing its owner.
#[tokio::test]
async fn listing_a_stranger_gives_their_existing_state_no_authority() {
    let server = Server::spawn().await;
    let bob = Maintainer::named_serving("bob", "project", &server).await;
    let alice = Maintainer::new("project", &server).await;
    let first = alice.commit("alice's").await;
    let announcement = listing(&alice.person, &server, &[&bob.person]);
    alice.publish(&announcement).await.accepted();
    alice.publish_state([("refs/heads/main", &first)]).await;
    alice.push().await.accepted();
    assert_eq!(alice.remote_refs().await["refs/heads/main"], first);
    assert_ne!(bob.remote_refs().await["refs/heads/main"], first);
}

/// Cases 29: a circle of listings, and a stranger.
#[tokio::test]
async fn a_circle_of_listings_is_resolved_and_excludes_strangers() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let bob = Maintainer::named("bob", "project", &server).await;
    let carol = Maintainer::named("carol", "project", &server).await;
    let dave = Maintainer::named("dave", "project", &server).await;
    let a = listing(&alice.person, &server, &[&bob.person]);
    let b = listing(&bob.person, &server, &[&alice.person, &carol.person]);
    let c = listing(&carol.person, &server, &[&bob.person]);
    for event in [&a, &b, &c] {
        server.publish(event).await.accepted();
    }
    server
        .publish(&listing(&dave.person, &server, &[&alice.person]))
        .await
        .accepted();

    for (number, who) in [&alice, &bob, &carol].into_iter().enumerate() {
        who.work.git(["checkout", "-q", "-B", "main"]).await;
        let tip = who.commit(&format!("by {number}")).await;
        let state = who.publish_state([("refs/heads/main", &tip)]).await;
        who.work.push_to(&alice.url(), &["+main"]).await.accepted();
        assert!(server.serves(&state).await);
        assert_eq!(alice.remote_refs().await["refs/heads/main"], tip);
    }
    let before = alice.remote_refs().await;
    let tip = dave.commit("dave's").await;
    dave.publish_state([("refs/heads/main", &tip)]).await;
    dave.work.push_to(&alice.url(), &["+main"]).await.refused();
    dave.work.push_to(&dave.url(), &["main"]).await.accepted();
    assert_eq!(alice.remote_refs().await, before);
}

/// MNT-9: an acceptance needs no new push.
#[tokio::test]
async fn accepting_an_invitation_makes_a_waiting_state_count() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let bob = Maintainer::named("bob", "project", &server).await;
    alice
        .publish(&listing(&alice.person, &server, &[&bob.person]))
        .await
        .accepted();
    alice.advance("first").await;
    // Bob's own, unrelated to Alice's so far: he does not list her yet.
    server
        .publish(&listing(&bob.person, &server, &[]))
        .await
        .accepted();
    let tip = bob.commit("bob's").await;
    bob.publish_state([("refs/heads/main", &tip)]).await;
    bob.push().await.accepted();
    assert_ne!(alice.remote_refs().await["refs/heads/main"], tip);

    server
        .publish(&listing(&bob.person, &server, &[&alice.person]))
        .await
        .accepted();
    grasp_testkit::eventually("Alice's repository follows Bob's newer state", async || {
        alice.remote_refs().await["refs/heads/main"] == tip
    })
    .await;
}

/// ANN-3a, cases 32: removal never waits.
#[tokio::test]
async fn a_removed_maintainer_moves_nothing_any_more() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let bob = Maintainer::named("bob", "project", &server).await;
    alice
        .publish(&listing(&alice.person, &server, &[&bob.person]))
        .await
        .accepted();
    bob.publish(&listing(&bob.person, &server, &[&alice.person]))
        .await
        .accepted();
    let (first, _) = alice.advance("first").await;
    bob.work.git(["pull", "-q", &alice.url(), "main"]).await;
    bob.advance("second").await;

    let removal = listing(&alice.person, &server, &[]);
    assert_eq!(alice.publish(&removal).await.accepted(), "");
    assert!(server.serves(&removal).await);
    grasp_testkit::eventually(
        "the newest state of a current maintainer wins",
        async || alice.remote_refs().await["refs/heads/main"] == first,
    )
    .await;
    let third = bob.commit("third").await;
    bob.publish(&bob.state([("refs/heads/main", &third)])).await;
    bob.work.push_to(&alice.url(), &["main"]).await.refused();
    assert_eq!(alice.remote_refs().await["refs/heads/main"], first);
}

/// MNT-1, MNT-2, MNT-6: role tags, mixed with the legacy tag.
#[tokio::test]
async fn a_lead_named_by_role_tags_is_followed() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let bob = Maintainer::named("bob", "project", &server).await;
    // Alice has handed the lead to Bob and is a maintainer of his; Carol's legacy tag is ignored.
    let carol = Person::named("carol");
    let a = alice
        .person
        .announcement("project", &server)
        .tag(["M", &bob.person.hex()])
        .tag(["m", &alice.person.hex()])
        .tag(["maintainers", &carol.hex()])
        .sign();
    let b = bob
        .person
        .announcement("project", &server)
        .tag(["M", &bob.person.hex()])
        .tag(["m", &alice.person.hex()])
        .sign();
    alice.publish(&a).await.accepted();
    bob.publish(&b).await.accepted();
    let tip = bob.commit("bob's").await;
    bob.publish_state([("refs/heads/main", &tip)]).await;
    bob.work.push_to(&alice.url(), &["main"]).await.accepted();
    assert_eq!(alice.remote_refs().await["refs/heads/main"], tip);

    let hers = carol
        .announcement("project", &server)
        .tag(["maintainers", &alice.person.hex()])
        .sign();
    server.publish(&hers).await.accepted();
    let state = carol
        .state("project", [("refs/heads/main", "2".repeat(40))])
        .sign();
    server.publish(&state).await;
    assert_eq!(alice.remote_refs().await["refs/heads/main"], tip);
}

/// MNT-11, N11-4: the published wording, for closed services and the audit tool.
#[tokio::test]
async fn under_the_recursive_rule_a_listing_is_enough() {
    let server = Server::configured()
        .env("NGIT_MAINTAINER_RULE", "recursive")
        .spawn()
        .await;
    assert!(
        server.log().contains("recursive"),
        "the start warns:\n{}",
        server.log()
    );
    let nip11 = server
        .request("GET", "/", &[("Accept", "application/nostr+json")])
        .await;
    assert!(nip11.text().contains("recursive"), "{}", nip11.text());

    let alice = Maintainer::new("project", &server).await;
    let bob = Maintainer::named("bob", "project", &server).await;
    alice
        .publish(&listing(&alice.person, &server, &[&bob.person]))
        .await
        .accepted();
    let tip = bob.commit("bob's").await;
    let state = bob.publish_state([("refs/heads/main", &tip)]).await;
    bob.work.push_to(&alice.url(), &["main"]).await.accepted();
    assert!(server.serves(&state).await);
    assert_eq!(alice.remote_refs().await["refs/heads/main"], tip);
}

/// ANN-6: what the maintainer set needs is kept, without a repository.
#[tokio::test]
async fn a_listed_maintainer_may_announce_elsewhere() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let bob = Person::named("bob");
    let elsewhere = bob
        .draft(30617)
        .tag(["d", "project"])
        .tag(["clone", "https://elsewhere.example.com/project.git"])
        .tag(["relays", "wss://elsewhere.example.com"])
        .tag(["maintainers", &alice.person.hex()])
        .sign();
    let said = server.publish(&elsewhere).await.refused();
    assert!(
        said.contains("'clone' and 'relays'"),
        "a stranger's: {said}"
    );

    alice
        .publish(&listing(&alice.person, &server, &[&bob]))
        .await
        .accepted();
    alice.advance("first").await;
    server.publish(&elsewhere).await.accepted();
    server.eventually_serves(&elsewhere).await;
    assert!(!server.repository(&bob.npub(), "project").exists());

    let state = bob
        .state(
            "project",
            [("refs/heads/main", alice.work.rev("HEAD").await)],
        )
        .sign();
    server.publish(&state).await.accepted();
    assert!(server.serves(&state).await, "Bob is confirmed now");
}
