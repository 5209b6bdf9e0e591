//! Whatever a client says is answered, and the connection lives (§5).

mod support;

use grasp_testkit::Person;
use serde_json::{Value, json};
use support::{PROTECTED, SLOW, TestRelay, URL};
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn a_message_that_is_none_gets_a_notice() {
    let relay = TestRelay::spawn().await;
    let mut client = relay.client().await;
    for bad in [
        "",
        "x",
        "[]",
        "{}",
        "null",
        "[1]",
        r#"["NOPE"]"#,
        r#"["EVENT"]"#,
        r#"["EVENT", 5]"#,
        r#"["REQ"]"#,
        r#"["REQ", 5, {}]"#,
        r#"["CLOSE", {}]"#,
        r#"["AUTH", "x"]"#,
        r#"["NEG-OPEN", "x"]"#,
        r#"["COUNT"]"#,
        r#"["EVENT", {"id": "short"}]"#,
        "[\"REQ\",\"a\",{}",
        "\u{0}",
    ] {
        client.send_text(bad).await;
        assert_eq!(
            client.expect().await,
            json!(["NOTICE", "invalid client message"]),
            "{bad}"
        );
    }
    client.send(Message::binary(vec![0xff; 10])).await;
    assert_eq!(
        client.expect().await,
        json!(["NOTICE", "binary messages are not processed by this relay"])
    );
    client.send_text(&"[".repeat(1_000_000)).await;
    assert_eq!(client.expect().await[0], "NOTICE");
    assert!(client.is_alive().await);
}

#[tokio::test]
async fn a_request_with_a_bad_filter_is_closed() {
    let relay = TestRelay::spawn().await;
    let mut client = relay.client().await;
    for bad in [
        json!("x"),
        json!(5),
        json!([]),
        json!({"kinds": ["1"]}),
        json!({"ids": ["abc"]}),
        json!({"since": -1}),
    ] {
        for verb in ["REQ", "COUNT"] {
            client.send_json(&json!([verb, "s", bad])).await;
            let answer = client.expect().await;
            assert_eq!(
                (&answer[0], &answer[1]),
                (&json!("CLOSED"), &json!("s")),
                "{bad}"
            );
            assert!(answer[2].as_str().expect("words").starts_with("invalid: "));
            assert_eq!(client.expect().await[0], "NOTICE");
        }
    }
    client.send_json(&json!(["REQ", "s"])).await;
    assert_eq!(client.expect().await[0], "CLOSED");
    client.send_json(&json!(["REQ", "", {}])).await;
    assert_eq!(client.expect_where(|m| m[0] == "CLOSED").await[1], "");
    assert!(client.is_alive().await);
}

/// Cases 44 and 50
#[tokio::test]
async fn an_event_with_a_readable_id_always_gets_its_ok() {
    let relay = TestRelay::spawn().await;
    let mut client = relay.client().await;
    let event = Person::named("alice").draft(1).content("real").sign();
    let real: Value = serde_json::from_str(&event.as_json()).expect("JSON");
    let stranger = Person::named("bob").hex();
    let altered = |name: &str, value: Value| {
        let mut copy = real.clone();
        copy[name] = value;
        copy
    };
    for bad in [
        altered("content", json!("forged")),
        altered("pubkey", json!(stranger)),
        altered("sig", json!("0".repeat(128))),
        altered("sig", json!("short")),
        altered("kind", json!(70_000)),
        altered("kind", json!("1")),
        altered("tags", json!([[]])),
        altered("tags", json!([["a", 5]])),
        altered("created_at", json!(-5)),
        altered("content", Value::Null),
    ] {
        client.send_json(&json!(["EVENT", bad])).await;
        let refusal = client.answer_to(&event.id.to_hex()).await.refused();
        assert!(refusal.starts_with("invalid: "), "{refusal}");
        assert!(refusal.len() < 300);
    }
    assert_eq!(client.query(&[json!({})]).await, []);
    client.publish(&event).await.accepted();
    assert_eq!(client.query(&[json!({})]).await, [event]);
}

/// EV-7: one event that takes long holds nobody up.
#[tokio::test]
async fn the_reader_goes_on_while_an_event_is_decided() {
    let relay = TestRelay::spawn().await;
    let mut client = relay.client().await;
    let (slow, quick) = (
        Person::named("alice").draft(1).content(SLOW).sign(),
        Person::named("alice").draft(1).content("quick").sign(),
    );
    client.send_event(&slow).await;
    client.publish(&quick).await.accepted();
    assert_eq!(client.query(&[json!({"kinds": [1]})]).await, [quick]);
    relay.shelf.gate.add_permits(1);
    client.answer_to(&slow.id.to_hex()).await.accepted();
}

/// An event is decided to the end although its client has left.
#[tokio::test]
async fn a_client_that_leaves_does_not_undo_its_event() {
    let relay = TestRelay::spawn().await;
    let mut client = relay.client().await;
    let slow = Person::named("alice").draft(1).content(SLOW).sign();
    client.send_event(&slow).await;
    assert!(client.is_alive().await);
    drop(client);
    relay.shelf.gate.add_permits(1);
    let mut other = relay.client().await;
    grasp_testkit::eventually("the event is served", async || {
        !other.query(&[json!({})]).await.is_empty()
    })
    .await;
}

/// §5: the challenge comes first, and who meets it may publish (NIP-42).
#[tokio::test]
async fn a_protected_event_is_asked_for_its_author() {
    let relay = TestRelay::spawn().await;
    let mut client = relay.client().await;
    let alice = Person::named("alice");
    let protected = alice.draft(1).content(PROTECTED).sign();
    client.send_event(&protected).await;
    let challenge = client.expect().await;
    assert_eq!(challenge[0], "AUTH");
    let refusal = client.answer_to(&protected.id.to_hex()).await.refused();
    assert_eq!(refusal, "auth-required: you must auth");
    let answer = |relay: &str| {
        let challenge = challenge[1].as_str().expect("text");
        let at = nostr::types::Timestamp::now().as_secs();
        alice
            .draft(22_242)
            .at(at)
            .tag(["relay", relay])
            .tag(["challenge", challenge])
            .sign()
    };
    let wrong = answer("wss://elsewhere.example.com");
    client
        .send_text(&format!(r#"["AUTH",{}]"#, wrong.as_json()))
        .await;
    let refusal = client.answer_to(&wrong.id.to_hex()).await.refused();
    assert_eq!(refusal, "auth-required: invalid NIP-42 authentication");
    let right = answer(URL);
    client
        .send_text(&format!(r#"["AUTH",{}]"#, right.as_json()))
        .await;
    client.answer_to(&right.id.to_hex()).await.accepted();
    client.publish(&protected).await.accepted();
}

/// CLI-2: what was submitted is answered, then the connection closes.
#[tokio::test]
async fn a_stop_answers_what_was_submitted_and_says_goodbye() {
    let relay = TestRelay::spawn().await;
    let mut client = relay.client().await;
    let slow = Person::named("alice").draft(1).content(SLOW).sign();
    client.send_event(&slow).await;
    assert!(client.is_alive().await);
    relay.shutdown.cancel();
    relay.shelf.gate.add_permits(1);
    client.answer_to(&slow.id.to_hex()).await.accepted();
    assert_eq!(client.next().await, None);
    relay.relay.finish_submissions().await;
}
