//! What is asked, and what becomes of what comes.

use grasp_sync::home::{Phase, Tally, Verdict};
use grasp_testkit::{Person, eventually, json};

use crate::home::{Following, MemoryHome};
use crate::peer::Peer;

/// SYNC-1, SYNC-30: stored and live events find their way in.
#[tokio::test]
async fn what_a_relay_has_and_what_it_gets_arrives() {
    let alice = Person::named("alice");
    let (old, new) = (
        alice.draft(30_617).tag(["d", "a"]).sign(),
        alice.draft(30_617).tag(["d", "b"]).sign(),
    );
    let mut peer = Peer::plain().await;
    let running = Following::new()
        .bootstrap(&peer.url)
        .start(MemoryHome::new());
    let mut visitor = peer.visitor().await;
    let live = visitor.asked().await;
    assert!(live.is_live(), "live comes first");
    visitor.end(&live).await;
    let history = visitor.asked().await;
    visitor.deliver(&history, &old).await;
    visitor.end(&history).await;
    running.home.eventually_has(&old).await;
    visitor.deliver(&live, &new).await;
    running.home.eventually_has(&new).await;
    for phase in [Phase::Historic, Phase::Live] {
        let fresh = Tally::Delivered(phase, Verdict::Fresh);
        eventually("it is counted", async || running.home.counted(fresh) == 1).await;
    }
}

/// What is known is counted for the page, and neither checked nor taken in again (SYNC-30).
#[tokio::test]
async fn what_is_known_is_not_taken_in_again() {
    let known = Person::named("alice").draft(30_617).tag(["d", "a"]).sign();
    let mut peer = Peer::plain().await;
    let home = MemoryHome::new().with(&[&known]);
    let running = Following::new().bootstrap(&peer.url).start(home);
    let mut visitor = peer.visitor().await;
    let history = visitor.history().await;
    visitor.deliver(&history, &known).await;
    running.home.eventually_judges(Verdict::Known, 1).await;
    running.home.eventually_judges(Verdict::Fresh, 0).await;
}

/// SYNC-36: the proof names the relay as we dialled it, and questions that waited for it are asked again.
#[tokio::test]
async fn a_relay_that_wants_to_know_who_we_are_is_told() {
    let owner = Person::named("operator");
    let event = Person::named("alice").draft(30_617).tag(["d", "a"]).sign();
    let mut peer = Peer::plain().await;
    let home = MemoryHome::new().owned_by(&owner);
    let running = Following::new().bootstrap(&peer.url).start(home);
    let mut visitor = peer.visitor().await;
    visitor.say(json!(["AUTH", "a challenge"])).await;
    let refused = visitor.asked().await;
    visitor
        .say(json!([
            "CLOSED",
            refused.subscription,
            "auth-required: who are you?"
        ]))
        .await;
    let proof = &visitor.hear("AUTH").await[1];
    assert_eq!(proof["pubkey"], json!(owner.hex()));
    assert_eq!(
        proof["tags"],
        json!([["relay", peer.url.as_str()], ["challenge", "a challenge"]])
    );
    visitor.say(json!(["OK", proof["id"], true, ""])).await;
    let history = visitor.history().await;
    visitor.deliver(&history, &event).await;
    running.home.eventually_has(&event).await;
}

/// SYNC-24: one relay whose events find no room delays no other.
#[tokio::test]
async fn a_relay_that_is_stuck_delays_no_other() {
    let alice = Person::named("alice");
    let draft = |name: String| {
        alice
            .draft(30_617)
            .tag(["d", &name])
            .content(&"x".repeat(20_000))
            .sign()
    };
    let flood: Vec<_> = (0..200).map(|n| draft(format!("flood-{n}"))).collect();
    let event = draft("event".to_owned());
    let (mut stuck, mut other) = (Peer::plain().await, Peer::plain().await);
    let home = MemoryHome::new().closed_for(&stuck.url);
    let running = Following::new().bootstrap(&stuck.url).start(home);
    let mut visitor = stuck.visitor().await;
    let history = visitor.history().await;
    // More than is held for it: the rest waits at its own end.
    let flooding = tokio::spawn(async move {
        for event in &flood {
            visitor.deliver(&history, event).await;
        }
        visitor.end(&history).await;
        (visitor, flood)
    });
    running
        .handle
        .notice(crate::dialling::announcement("alice", &[&other.url]))
        .await;
    let mut visitor = other.visitor().await;
    let history = visitor.history().await;
    visitor.deliver(&history, &event).await;
    visitor.end(&history).await;
    running.home.eventually_has(&event).await;
    assert_eq!(running.home.len(), 1);
    running.home.open();
    let (_visitor, flood) = flooding.await.unwrap();
    eventually("all of it arrives once there is room", async || {
        flood.iter().all(|event| running.home.has(event))
    })
    .await;
}
