//! Who a connection says it is (NIP-42), and events that only their author brings (NIP-70).

use grasp_testkit::person::next_second;
use grasp_testkit::{Event, Maintainer, Person, RelayClient, Server, json};

const INVALID: &str = "auth-required: invalid NIP-42 authentication";

/// A server, a served repository, and a protected issue by Carol.
async fn with_protected() -> (Server, Maintainer, Event) {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Person::named("carol");
    let issue = carol.issue(&alice.coordinate()).tag(["-"]).sign();
    (server, alice, issue)
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

fn proof(who: &str, relay: &str, challenge: &str, at: u64) -> Event {
    let person = Person::named(who);
    let draft = person.draft(22_242).tag(["relay", relay]);
    draft.tag(["challenge", challenge]).at(at).sign()
}

/// Sends what needs its author, and takes the challenge that comes back.
async fn challenged(relay: &mut RelayClient, protected: &Event) -> String {
    relay.send_event(protected).await;
    let asked = relay.expect().await;
    assert_eq!(asked[0], "AUTH", "the challenge goes out first: {asked}");
    let refusal = relay.answer_to(&protected.id.to_hex()).await.refused();
    assert_eq!(refusal, "auth-required: you must auth");
    asked[1].as_str().expect("text").to_owned()
}

/// NIP-42: a public relay asks nobody who needs nothing.
#[tokio::test]
async fn nobody_is_asked_before_it_matters() {
    let (server, _, protected) = with_protected().await;
    let mut relay = server.relay().await;
    relay.query(&[json!({"kinds": [30617]})]).await;
    relay
        .publish(&Person::named("carol").draft(10317).sign())
        .await
        .accepted();
    assert!(relay.drain().await.is_empty());
    challenged(&mut relay, &protected).await;
}

/// NIP-70, EV-1
#[tokio::test]
async fn a_protected_event_is_taken_from_its_author_alone_and_served_to_all() {
    let (server, _, protected) = with_protected().await;
    let mut relay = server.relay().await;
    let challenge = challenged(&mut relay, &protected).await;
    let other = proof("dave", &server.ws, &challenge, now());
    relay.authenticate(&other).await.accepted();
    assert_eq!(
        relay.publish(&protected).await.refused(),
        "blocked: this event may only be published by its author"
    );
    let right = proof("carol", &server.ws, &challenge, now());
    assert_eq!(relay.authenticate(&right).await.accepted(), "");
    assert_eq!(relay.publish(&protected).await.accepted(), "");
    assert!(server.serves(&protected).await, "to somebody unknown");
    // Somebody else's connection is not Carol's.
    server.publish(&protected).await.refused();
}

/// NIP-42: relay, challenge and time of an answer have to be right.
#[tokio::test]
async fn an_answer_has_to_meet_the_challenge() {
    let (server, _, protected) = with_protected().await;
    let (mut relay, mut other) = (server.relay().await, server.relay().await);
    let early = proof("carol", &server.ws, "", now());
    assert_eq!(relay.authenticate(&early).await.refused(), INVALID);
    let challenge = challenged(&mut relay, &protected).await;
    let of_other = challenged(&mut other, &protected).await;
    assert_ne!(challenge, of_other);
    let elsewhere = server.ws.replace("127.0.0.1", "relay.example.com");
    for wrong in [
        proof("carol", &server.ws, &of_other, now()),
        proof("carol", &server.ws, "", now()),
        proof("carol", &elsewhere, &challenge, now()),
        proof("carol", &format!("{}/other", server.ws), &challenge, now()),
        proof("carol", &server.http, &challenge, now()),
        proof("carol", &server.ws, &challenge, now() - 140),
        proof("carol", &server.ws, &challenge, now() + 140),
    ] {
        assert_eq!(relay.authenticate(&wrong).await.refused(), INVALID);
    }
    relay.publish(&protected).await.refused();
    let slash = proof("carol", &format!("{}/", server.ws), &challenge, now() - 100);
    relay.authenticate(&slash).await.accepted();
    relay.publish(&protected).await.accepted();
}

/// NIP-42: several people may share one connection.
#[tokio::test]
async fn a_connection_may_be_several_people() {
    let (server, alice, protected) = with_protected().await;
    let mut relay = server.relay().await;
    let challenge = challenged(&mut relay, &protected).await;
    for who in ["carol", "dave", "erin", "carol"] {
        let proof = proof(who, &server.ws, &challenge, now());
        relay.authenticate(&proof).await.accepted();
    }
    for who in ["erin", "carol", "dave"] {
        let person = Person::named(who);
        let issue = person.issue(&alice.coordinate()).tag(["-"]).sign();
        relay.publish(&issue).await.accepted();
    }
}

/// EV-1, NIP-18, NIP-59, NIP-42: what is refused for what it is, whoever brings it.
#[tokio::test]
async fn reposts_of_protected_events_gift_wraps_and_proofs_are_looked_into() {
    let (server, alice, protected) = with_protected().await;
    let carol = Person::named("carol");
    let about = |kind| carol.draft(kind).tag(["a", &alice.coordinate()]);
    let mut relay = server.relay().await;
    for kind in [6, 16] {
        let repost = about(kind).content(&protected.as_json()).sign();
        assert_eq!(
            relay.publish(&repost).await.refused(),
            "blocked: repost of a protected event"
        );
    }
    let open = carol.issue(&alice.coordinate()).sign();
    let repost = about(16).content(&open.as_json()).sign();
    relay.publish(&repost).await.accepted();
    let one_recipient = "blocked: GiftWrap must contain exactly one recipient public key";
    let wrap = || about(1059).content("sealed");
    let to = alice.person.hex();
    for wrong in [wrap(), wrap().tag(["p", &to]).tag(["p", &carol.hex()])] {
        assert_eq!(relay.publish(&wrong.sign()).await.refused(), one_recipient);
    }
    relay
        .publish(&wrap().tag(["p", &to]).sign())
        .await
        .accepted();
    let proof = about(22_242).at(next_second()).sign();
    let said = relay.publish(&proof).await.refused();
    assert!(said.starts_with("invalid: kind 22242"), "{said}");
}
