//! Peers that lie, break the rules, or break off.

use std::time::Duration;

use futures_util::SinkExt;
use grasp_sync::client::Patience;
use grasp_sync::home::Verdict;
use grasp_testkit::{Event, Person, json};
use tokio_tungstenite::tungstenite::Message;

use crate::home::{Following, MemoryHome};
use crate::peer::Peer;

fn announcement(name: &str) -> Event {
    Person::named("alice").draft(30_617).tag(["d", name]).sign()
}

/// SYNC-30: nothing forged, changed or unasked has an effect; what is right among it has.
#[tokio::test]
async fn only_what_is_genuine_and_was_asked_for_gets_in() {
    let (good, other) = (announcement("good"), announcement("other"));
    let unasked = Person::named("alice").draft(1).content("a note").sign();
    let json_of =
        |event: &Event| serde_json::from_str::<grasp_testkit::Value>(&event.as_json()).unwrap();
    let mut badly_signed = json_of(&good);
    badly_signed["sig"] = json_of(&other)["sig"].clone();
    let mut changed = json_of(&good);
    changed["content"] = json!("changed");
    let mut peer = Peer::plain().await;
    let running = Following::new()
        .bootstrap(&peer.url)
        .start(MemoryHome::new());
    let mut visitor = peer.visitor().await;
    let history = visitor.history().await;
    for lie in [
        badly_signed,
        changed,
        json_of(&unasked),
        json!({"id": 1}),
        json!([]),
    ] {
        visitor
            .say(json!(["EVENT", history.subscription, lie]))
            .await;
    }
    visitor
        .say(json!(["EVENT", "nobody's", json_of(&other)]))
        .await;
    visitor
        .say(json!(["EVENT", "999999", json_of(&other)]))
        .await;
    visitor.deliver(&history, &good).await;
    running.home.eventually_has(&good).await;
    running.home.eventually_judges(Verdict::Junk, 5).await;
    assert_eq!(running.home.len(), 1);
}

/// What is no message is passed over; too much of it ends the connection, and the relay is dialled again.
#[tokio::test]
async fn nonsense_is_passed_over_up_to_a_point() {
    let good = announcement("good");
    let mut peer = Peer::plain().await;
    let running = Following::new()
        .bootstrap(&peer.url)
        .start(MemoryHome::new());
    let mut visitor = peer.visitor().await;
    let history = visitor.history().await;
    for nonsense in ["", "{", "[]", "[\"NOPE\"]", "[\"EVENT\"]"] {
        visitor.socket.send(Message::text(nonsense)).await.unwrap();
    }
    visitor
        .socket
        .send(Message::binary(vec![0; 10]))
        .await
        .unwrap();
    visitor.deliver(&history, &good).await;
    running.home.eventually_has(&good).await;
    let _ = visitor.socket.feed(Message::text("")).await;
    for _ in 0..200 {
        // The other end may have left already.
        let _ = visitor.socket.send(Message::text("{")).await;
    }
    peer.visitor().await;
}

/// A message that is too long ends the connection, before all of it was read.
#[tokio::test]
async fn an_oversized_message_ends_the_connection() {
    let mut peer = Peer::plain().await;
    let _running = Following::new()
        .bootstrap(&peer.url)
        .start(MemoryHome::new());
    let mut visitor = peer.visitor().await;
    let long = "x".repeat(6 * 1_024 * 1_024);
    let _ = visitor.socket.send(Message::text(long)).await;
    let mut again = peer.visitor().await;
    assert!(again.asked().await.is_live());
}

/// A peer that is gone without a word is noticed.
#[tokio::test]
async fn a_peer_that_gives_no_sign_of_life_is_left() {
    let mut peer = Peer::plain().await;
    let mut following = Following::new().bootstrap(&peer.url);
    following.patience = Patience {
        ping_after: Duration::from_millis(50),
        silence_max: Duration::from_millis(200),
        ..Patience::default()
    };
    let _running = following.start(MemoryHome::new());
    // It holds the connection and never reads, so it does not answer a ping either.
    let _silent = peer.visitor().await;
    let _again = peer.visitor().await;
}

/// A peer that lives and has nothing to say is kept: it answers pings.
#[tokio::test]
async fn a_peer_that_answers_pings_is_kept() {
    let (event, mut peer) = (announcement("late"), Peer::plain().await);
    let mut following = Following::new().bootstrap(&peer.url);
    following.patience.ping_after = Duration::from_millis(1);
    let running = following.start(MemoryHome::new());
    let mut visitor = peer.visitor().await;
    let history = visitor.history().await;
    let mut pings = 0;
    while pings < 20 {
        let frame = futures_util::StreamExt::next(&mut visitor.socket).await;
        pings += usize::from(matches!(frame.unwrap().unwrap(), Message::Ping(_)));
    }
    visitor.deliver(&history, &event).await;
    running.home.eventually_has(&event).await;
}

/// SYNC-4, SYNC-5: wherever a connection breaks off, all is there in the end.
#[tokio::test]
async fn a_peer_that_breaks_off_anywhere_is_read_to_the_end() {
    let events: Vec<_> = (0..20).map(|n| announcement(&format!("n{n}"))).collect();
    for mut peer in [Peer::plain().await, Peer::with_negentropy().await] {
        let running = Following::new()
            .bootstrap(&peer.url)
            .start(MemoryHome::new());
        for patience in 0..6 {
            peer.visitor().await.serve(&events, patience).await;
        }
        let visitor = peer.visitor().await;
        let served = events.clone();
        let serving = tokio::spawn(async move { visitor.serve(&served, usize::MAX).await });
        for event in &events {
            running.home.eventually_has(event).await;
        }
        running.handle.stop().await;
        serving.await.unwrap();
    }
}
