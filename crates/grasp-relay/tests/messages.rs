//! Whatever a client says is answered, and the connection lives (§5).

mod support;

use grasp_relay::RelayLimits;
use grasp_testkit::Person;
use serde_json::{Value, json};
use support::{PROTECTED, SLOW, TestRelay, URL, proof, wide};
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
    assert_eq!(challenge[0], "AUTH", "the challenge goes out first");
    let refusal = client.answer_to(&protected.id.to_hex()).await.refused();
    assert_eq!(refusal, "auth-required: you must auth");
    let challenge = challenge[1].as_str().expect("text");
    client
        .authenticate(&proof("alice", challenge))
        .await
        .accepted();
    client.publish(&protected).await.accepted();
    // Bob is here, too, and Alice still.
    client
        .authenticate(&proof("bob", challenge))
        .await
        .accepted();
    for who in ["alice", "bob"] {
        let protected = Person::named(who).draft(2).content(PROTECTED).sign();
        client.publish(&protected).await.accepted();
    }
}

/// NIP-42: a challenge belongs to its connection, and an answer to its challenge, its relay and its time.
#[tokio::test]
async fn an_answer_that_does_not_meet_the_challenge_is_refused() {
    let relay = TestRelay::spawn().await;
    let (mut client, mut other) = (relay.client().await, relay.client().await);
    let unasked = proof("alice", "");
    client.authenticate(&unasked).await.refused();
    let challenge = relay.challenge(&mut client).await;
    let of_other = relay.challenge(&mut other).await;
    assert_ne!(challenge, of_other);
    let alice = Person::named("alice");
    let draft = |kind, relay: &str, challenge: &str| {
        let draft = alice.draft(kind).tag(["relay", relay]);
        draft.tag(["challenge", challenge])
    };
    let now = relay.now();
    let forged = {
        let mut forged: Value =
            serde_json::from_str(&proof("alice", &challenge).as_json()).expect("JSON");
        forged["sig"] = json!("0".repeat(128));
        nostr::event::Event::from_json(forged.to_string()).expect("an event's shape")
    };
    for wrong in [
        proof("alice", &of_other),
        proof("alice", "made up"),
        draft(22_242, "wss://elsewhere.example.com", &challenge)
            .at(now)
            .sign(),
        draft(22_242, URL, &challenge).at(now - 130).sign(),
        draft(22_242, URL, &challenge).at(now + 130).sign(),
        draft(22_243, URL, &challenge).at(now).sign(),
        alice
            .draft(22_242)
            .at(now)
            .tag(["challenge", &challenge])
            .sign(),
        alice.draft(22_242).at(now).tag(["relay", URL]).sign(),
        forged,
    ] {
        let refusal = client.authenticate(&wrong).await.refused();
        assert_eq!(refusal, "auth-required: invalid NIP-42 authentication");
    }
    let protected = alice.draft(1).content(PROTECTED).sign();
    client.publish(&protected).await.refused();
    client
        .authenticate(&proof("alice", &challenge))
        .await
        .accepted();
    client.publish(&protected).await.accepted();
}

/// Case 44: what finds no place to be decided waits for one, and is answered like the others.
#[tokio::test]
async fn events_that_find_the_queue_full_are_answered_all_the_same() {
    let relay = TestRelay::with(RelayLimits {
        submissions_max: 2,
        submissions_total_max: 3,
        ..wide()
    })
    .await;
    let mut clients = [relay.client().await, relay.client().await];
    let alice = Person::named("alice");
    let events: Vec<_> = (0..20)
        .map(|n| {
            alice
                .draft(1)
                .tag(["n", &n.to_string()])
                .content(SLOW)
                .sign()
        })
        .collect();
    for (n, event) in events.iter().enumerate() {
        clients[n % 2].send_event(event).await;
    }
    relay.shelf.gate.add_permits(events.len());
    for (n, event) in events.iter().enumerate() {
        let answer = clients[n % 2].answer_to(&event.id.to_hex()).await;
        assert_eq!(answer.accepted(), "");
    }
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
