//! Waiting for the other half (PUR-*, ANN-3, ANN-4, ANN-5). Expiry runs under a test clock beside the
//! code; here is what clients can see of the rest.

use grasp_testkit::maintainer::PURGATORY;
use grasp_testkit::{Maintainer, Person, Server, json};

/// §5
#[tokio::test]
async fn what_waits_already_is_a_duplicate_in_purgatory() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let announcement = alice.person.announcement("project", &server).sign();
    let state = alice.state([("refs/heads/main", "1".repeat(40))]);
    for event in [&announcement, &state] {
        assert_eq!(alice.publish(event).await.accepted(), PURGATORY);
    }
    for event in [&announcement, &state] {
        assert_eq!(
            alice.publish(event).await.accepted(),
            "duplicate: in purgatory"
        );
    }
}

/// ANN-4, cases 34
#[tokio::test]
async fn a_newer_announcement_takes_the_place_of_a_waiting_one() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let older = alice.person.announcement("project", &server).sign();
    let newer = alice
        .person
        .announcement("project", &server)
        .tag(["description", "newer"])
        .sign();
    assert_eq!(alice.publish(&older).await.accepted(), PURGATORY);
    assert_eq!(alice.publish(&newer).await.accepted(), PURGATORY);
    let said = alice.publish(&older).await.accepted();
    assert_eq!(said, "duplicate: superseded by a newer event");
    alice.advance("first").await;
    let served = server.query(json!({"kinds": [30617]})).await;
    assert_eq!(served, [newer]);
}

/// KIND-5, cases 40
#[tokio::test]
async fn of_two_announcements_in_one_second_the_lower_id_is_served() {
    let server = Server::spawn().await;
    let person = Person::named("alice");
    for (identifier, lower_first) in [("one", true), ("two", false)] {
        let at = grasp_testkit::person::next_second();
        let draft = |text| {
            let draft = person.announcement(identifier, &server);
            draft.tag(["description", text]).at(at).sign()
        };
        let mut pair = [draft("a"), draft("b")];
        pair.sort_by_key(|event| event.id);
        let lower = pair[0].clone();
        if !lower_first {
            pair.reverse();
        }
        for event in &pair {
            server.publish(event).await.accepted();
        }
        let alice = Maintainer::new(identifier, &server).await;
        alice.advance("first").await;
        let served = server
            .query(json!({"kinds": [30617], "#d": [identifier]}))
            .await;
        assert_eq!(served, [lower]);
    }
}

/// ANN-5: withdrawn before it was served.
#[tokio::test]
async fn an_announcement_that_no_longer_lists_us_evicts_the_waiting_one() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let directory = server.repository(&alice.person.npub(), "project");
    assert!(directory.exists());
    let elsewhere = alice
        .person
        .draft(30617)
        .tag(["d", "project"])
        .tag(["clone", "https://elsewhere.example.com/project.git"])
        .tag(["relays", "wss://elsewhere.example.com"])
        .sign();
    alice.publish(&elsewhere).await;
    grasp_testkit::eventually("the repository goes", async || !directory.exists()).await;
    let page = server.request("GET", &alice.path(), &[]).await;
    assert_eq!(page.status, 404);
    let state = alice.state([("refs/heads/main", "1".repeat(40))]);
    let said = alice.publish(&state).await.refused();
    assert_eq!(said, "invalid: no announcement exists for this repository");
}

/// ANN-3a
#[tokio::test]
async fn a_replacement_that_adds_nobody_is_served_at_once() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let replacement = alice
        .person
        .announcement("project", &server)
        .tag(["description", "better words"])
        .sign();
    assert_eq!(alice.publish(&replacement).await.accepted(), "");
    let served = server.query(json!({"kinds": [30617]})).await;
    assert_eq!(served, [replacement]);
}

/// ANN-3, MNT-9: with complete data the answer is a plain OK.
#[tokio::test]
async fn a_replacement_that_invites_is_released_at_once_when_data_is_here() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let invitation = alice
        .person
        .announcement("project", &server)
        .tag(["maintainers", &Person::named("bob").hex()])
        .sign();
    assert_eq!(alice.publish(&invitation).await.accepted(), "");
    assert!(server.serves(&invitation).await);
}

/// ST-1
#[tokio::test]
async fn a_state_needs_an_announcement_and_an_authorised_author() {
    let server = Server::spawn().await;
    let commit = "1".repeat(40);
    let dave = Person::named("dave");
    let state = dave.state("project", [("refs/heads/main", &commit)]).sign();
    let said = server.publish(&state).await.refused();
    assert_eq!(said, "invalid: no announcement exists for this repository");
    Maintainer::announcing("project", &server).await;
    let state = dave.state("project", [("refs/heads/main", &commit)]).sign();
    let said = server.publish(&state).await.refused();
    assert_eq!(
        said,
        "restricted: author not authorized for this repository"
    );
}

/// ST-6, AFTER-3: the newest of each author is served, what it overtook is not.
#[tokio::test]
async fn several_states_may_wait_and_the_complete_newest_is_served() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    let second = alice.commit("second").await;
    let older = alice.publish_state([("refs/heads/main", &first)]).await;
    let newer = alice.publish_state([("refs/heads/main", &second)]).await;
    // The first's data alone: the first is served, the second still waits.
    let target = format!("{first}:refs/heads/main");
    alice.push_refs(&[&target]).await.accepted();
    assert!(server.serves(&older).await);
    assert!(!server.serves(&newer).await);
    alice.push().await.accepted();
    assert!(server.serves(&newer).await);
    assert!(!server.serves(&older).await);
}

/// PUR-10
#[tokio::test]
async fn a_deleted_waiting_state_authorises_nothing() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    let by_id = alice.publish_state([("refs/heads/main", &first)]).await;
    alice
        .publish(&alice.person.deletion(&by_id).sign())
        .await
        .accepted();
    alice.push().await.refused();
    alice.publish_state([("refs/heads/main", &first)]).await;
    let address = format!("30618:{}:project", alice.person.hex());
    let by_address = alice.person.draft(5).tag(["a", &address]).sign();
    alice.publish(&by_address).await.accepted();
    alice.push().await.refused();
    assert!(alice.remote_refs().await.is_empty());
    alice.publish_state([("refs/heads/main", &first)]).await;
    alice.push().await.accepted();
}

/// PUR-10: the announcement with its repository.
#[tokio::test]
async fn a_deleted_waiting_announcement_takes_its_repository_along() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let announcement = alice.announce().await;
    let directory = server.repository(&alice.person.npub(), "project");
    assert!(directory.exists());
    alice
        .publish(&alice.person.deletion(&announcement).sign())
        .await
        .accepted();
    grasp_testkit::eventually("the repository goes", async || !directory.exists()).await;
    let said = alice.publish(&announcement).await.refused();
    assert_eq!(said, "invalid: this event is deleted");
}

/// PUR-13: bounded per author, with the standard prefix.
#[tokio::test]
async fn waiting_announcements_are_bounded_per_author() {
    let server = Server::configured()
        .env("NGIT_PURGATORY_AUTHOR_ANNOUNCEMENTS", 3)
        .spawn()
        .await;
    for n in 0..3 {
        Maintainer::announcing(&format!("project-{n}"), &server).await;
    }
    let fourth = Person::named("alice")
        .announcement("project-3", &server)
        .sign();
    let said = server.publish(&fourth).await.refused();
    assert!(said.starts_with("rate-limited:"), "{said}");
    Maintainer::named_announcing("bob", "project", &server).await;
}
