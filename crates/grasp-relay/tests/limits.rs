//! Each bound refuses in words that name it, and is counted (§16, BND-1).

mod support;

use grasp_relay::address::AddressLimits;
use grasp_relay::limits::Limit;
use grasp_relay::{NegentropyLimits, RelayLimits};
use grasp_testkit::{Person, RelayClient};
use serde_json::{Value, json};
use support::{TestRelay, wide};
use tokio_tungstenite::tungstenite::Message;

async fn closed(client: &mut RelayClient, request: &Value) -> String {
    client.send_json(request).await;
    let answer = client.expect_where(|m| m[0] == "CLOSED").await;
    assert_eq!(answer[1], request[1]);
    answer[2].as_str().expect("words").to_owned()
}

/// Cases 44 and 98
#[tokio::test]
async fn events_of_one_connection_are_rated() {
    let relay = TestRelay::with(RelayLimits {
        events_per_minute: 3,
        ..wide()
    })
    .await;
    let mut client = relay.client().await;
    let alice = Person::named("alice");
    for _ in 0..3 {
        client.publish(&alice.draft(1).sign()).await.accepted();
    }
    let refusal = client.publish(&alice.draft(1).sign()).await.refused();
    assert_eq!(refusal, "rate-limited: slow down");
    assert_eq!(relay.refusals(Limit::Events), 1);
    assert!(client.is_alive().await);
    relay
        .client()
        .await
        .publish(&alice.draft(1).sign())
        .await
        .accepted();
}

/// NAME-8
#[tokio::test]
async fn events_queries_and_connections_of_one_address_are_bounded() {
    let address = AddressLimits {
        connections_max: 2,
        events_per_minute: 2,
        queries_per_minute: 2,
        ..AddressLimits::default()
    };
    let relay = TestRelay::with_both(wide(), address).await;
    let alice = Person::named("alice");
    let (mut one, mut two) = (
        relay.client_from("1.2.3.4").await,
        relay.client_from("1.2.3.4").await,
    );
    one.publish(&alice.draft(1).sign()).await.accepted();
    two.publish(&alice.draft(1).sign()).await.accepted();
    let refusal = one.publish(&alice.draft(1).sign()).await.refused();
    assert_eq!(refusal, "rate-limited: slow down");
    one.query(&[json!({"kinds": [1]})]).await;
    assert_eq!(two.count(json!({"kinds": [1]})).await, 2);
    let refusal = closed(&mut two, &json!(["REQ", "s", {}])).await;
    assert_eq!(refusal, "rate-limited: too many queries");
    let mut third = relay.client_from("1.2.3.4").await;
    let notice = third.expect().await;
    assert!(
        notice[1]
            .as_str()
            .expect("words")
            .starts_with("rate-limited: "),
        "{notice}"
    );
    assert_eq!(third.next().await, None);
    for limit in [
        Limit::AddressEvents,
        Limit::AddressQueries,
        Limit::AddressConnections,
    ] {
        assert_eq!(relay.refusals(limit), 1, "{limit:?}");
    }
    relay
        .client_from("1.2.3.5")
        .await
        .publish(&alice.draft(1).sign())
        .await
        .accepted();
    drop(one);
    grasp_testkit::eventually("a place is free again", async || {
        let mut again = relay.client_from("1.2.3.4").await;
        again.try_send(Message::text("x")).await.is_ok()
            && again.next().await == Some(json!(["NOTICE", "invalid client message"]))
    })
    .await;
}

#[tokio::test]
async fn connections_in_all_are_bounded() {
    let relay = TestRelay::with(RelayLimits {
        connections_max: Some(1),
        ..wide()
    })
    .await;
    let mut first = relay.client().await;
    assert!(first.is_alive().await);
    let mut second = relay.client().await;
    assert_eq!(second.expect().await[0], "NOTICE");
    assert_eq!(second.next().await, None);
    assert_eq!(relay.refusals(Limit::Connections), 1);
    assert!(first.is_alive().await);
}

#[tokio::test]
async fn queries_of_one_connection_are_rated() {
    let relay = TestRelay::with(RelayLimits {
        queries_per_minute: 2,
        ..wide()
    })
    .await;
    let mut client = relay.client().await;
    client.query(&[json!({"kinds": [1]})]).await;
    client.count(json!({"kinds": [1]})).await;
    assert_eq!(
        closed(&mut client, &json!(["REQ", "s", {}])).await,
        "rate-limited: too many queries"
    );
    assert_eq!(
        closed(&mut client, &json!(["COUNT", "s", {}])).await,
        "rate-limited: too many queries"
    );
    assert_eq!(relay.refusals(Limit::Queries), 2);
}

#[tokio::test]
async fn messages_of_one_connection_are_rated() {
    let relay = TestRelay::with(RelayLimits {
        messages_per_minute: 1,
        ..wide()
    })
    .await;
    let mut client = relay.client().await;
    client.send_text("x").await;
    assert_eq!(client.expect().await[1], "invalid client message");
    client.send_text("x").await;
    assert_eq!(
        client.expect().await,
        json!(["NOTICE", "rate-limited: too many messages"])
    );
    let event = Person::named("alice").draft(1).sign();
    let refusal = client.publish(&event).await.refused();
    assert!(refusal.starts_with("rate-limited: slow down"));
    assert_eq!(
        closed(&mut client, &json!(["REQ", "s", {}])).await,
        "rate-limited: too many messages"
    );
    assert_eq!(relay.refusals(Limit::Messages), 3);
}

/// Case 78
#[tokio::test]
async fn an_event_may_weigh_so_much_and_no_more() {
    let relay = TestRelay::spawn().await;
    let mut client = relay.client().await;
    let patch = |size: usize| {
        Person::named("alice")
            .draft(1617)
            .content(&"x".repeat(size))
            .sign()
    };
    client.publish(&patch(150_000)).await.accepted();
    let large = patch(5_000_000);
    let refusal = client.publish(&large).await.refused();
    let expected = format!(
        "blocked: event size ({} bytes) exceeds maximum allowed size (196608 bytes)",
        large.as_json().len()
    );
    assert_eq!(refusal, expected);
    assert_eq!(relay.refusals(Limit::EventBytes), 1);
    assert!(client.is_alive().await);
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_its_connection_only() {
    let relay = TestRelay::with(RelayLimits {
        message_bytes_max: 10_000,
        ..wide()
    })
    .await;
    let (mut client, mut other) = (relay.client().await, relay.client().await);
    client.send_text(&"x".repeat(20_000)).await;
    assert_eq!(client.next().await, None);
    assert!(other.is_alive().await);
    grasp_testkit::eventually("the refusal is counted", async || {
        relay.refusals(Limit::MessageBytes) == 1
    })
    .await;
}

#[tokio::test]
async fn an_event_may_have_so_many_tags() {
    let relay = TestRelay::with(RelayLimits {
        event_tags_max: 3,
        ..wide()
    })
    .await;
    let alice = Person::named("alice");
    let tagged = |count| {
        (0..count)
            .fold(alice.draft(1), |draft, _| draft.tag(["t", "x"]))
            .sign()
    };
    let mut client = relay.client().await;
    client.publish(&tagged(3)).await.accepted();
    let refusal = client.publish(&tagged(4)).await.refused();
    assert_eq!(
        refusal,
        "blocked: event has 4 tags, the most it may have are 3"
    );
    assert_eq!(relay.refusals(Limit::EventTags), 1);
}

#[tokio::test]
async fn requests_are_bounded_in_name_filters_number_and_weight() {
    let limits = RelayLimits {
        subscriptions_max: 2,
        subscription_bytes_max: 2_000,
        ..wide()
    };
    let relay = TestRelay::with(limits).await;
    let mut client = relay.client().await;
    let long = "x".repeat(251);
    assert_eq!(
        closed(&mut client, &json!(["REQ", long, {}])).await,
        "blocked: subscription ID exceeds max length 250"
    );
    let mut many = vec![json!("REQ"), json!("s")];
    many.resize(23, json!({}));
    assert_eq!(
        closed(&mut client, &Value::Array(many)).await,
        "rate-limited: REQ exceeds max filter count 20"
    );
    for id in ["a", "b"] {
        client.subscribe(id, &[json!({"kinds": [1]})]).await;
        client.stored(id).await;
    }
    assert_eq!(
        closed(&mut client, &json!(["REQ", "c", {}])).await,
        "rate-limited: too many REQs"
    );
    let heavy = json!({"#t": [("x".repeat(2_000))]});
    let refusal = closed(&mut client, &json!(["REQ", "b", heavy])).await;
    assert_eq!(
        refusal,
        "rate-limited: active subscriptions exceed max size 2000 bytes"
    );
    for limit in [
        Limit::SubscriptionId,
        Limit::Filters,
        Limit::Subscriptions,
        Limit::SubscriptionBytes,
    ] {
        assert_eq!(relay.refusals(limit), 1, "{limit:?}");
    }
    client.subscribe("c", &[json!({"kinds": [1]})]).await;
    client.stored("c").await;
}

#[tokio::test]
async fn authentication_attempts_are_rated() {
    let relay = TestRelay::with(RelayLimits {
        auth_per_minute: 1,
        ..wide()
    })
    .await;
    let mut client = relay.client().await;
    let attempt = Person::named("alice").draft(22_242).sign();
    let text = format!(r#"["AUTH",{}]"#, attempt.as_json());
    client.send_text(&text).await;
    client.answer_to(&attempt.id.to_hex()).await.refused();
    client.send_text(&text).await;
    let refusal = client.answer_to(&attempt.id.to_hex()).await.refused();
    assert_eq!(refusal, "rate-limited: too many authentication attempts");
    assert_eq!(relay.refusals(Limit::Auth), 1);
}

#[tokio::test]
async fn negentropy_is_bounded_in_sessions_items_and_messages() {
    let negentropy = NegentropyLimits {
        sessions_max: 1,
        items_max: 10,
        items_shared_max: 20,
        items_total_max: 20,
        messages_per_minute: 6,
        ..NegentropyLimits::default()
    };
    let relay = TestRelay::with(RelayLimits {
        negentropy,
        ..wide()
    })
    .await;
    relay.fill(15, 1, "x").await;
    relay.fill(25, 2, "x").await;
    let (mut client, mut other) = (relay.client().await, relay.client().await);
    let open = async |client: &mut RelayClient, id: &str, filter: Value| {
        client
            .send_json(&json!(["NEG-OPEN", id, filter, "6100000200"]))
            .await;
        let answer = client.expect().await;
        assert_eq!(answer[1], id);
        answer[2].as_str().expect("text").to_owned()
    };
    let too_many = "rate-limited: too many negentropy items";
    assert_eq!(
        open(&mut client, "a", json!({"kinds": [1], "since": 1})).await,
        too_many
    );
    assert_eq!(
        open(&mut client, "a", json!({"kinds": [2]})).await,
        too_many
    );
    assert!(
        open(&mut client, "a", json!({"kinds": [1]}))
            .await
            .starts_with("61")
    );
    assert_eq!(
        open(&mut client, "b", json!({"kinds": [1]})).await,
        "rate-limited: too many negentropy subscriptions"
    );
    assert!(
        open(&mut other, "a", json!({"kinds": [1]}))
            .await
            .starts_with("61"),
        "the same set is shared"
    );
    relay.fill(1, 3, "x").await;
    assert!(
        open(&mut other, "a", json!({"kinds": [3]}))
            .await
            .starts_with("61")
    );
    assert_eq!(
        open(&mut other, "a", json!({"until": 1_700_000_003_u64})).await,
        "rate-limited: too many negentropy items"
    );
    for _ in 0..2 {
        client.send_json(&json!(["NEG-MSG", "gone", "61"])).await;
        assert_eq!(
            client.expect().await[2],
            "closed: negentropy subscription not found"
        );
    }
    client.send_json(&json!(["NEG-MSG", "a", "61"])).await;
    assert_eq!(
        client.expect().await[2],
        "rate-limited: too many negentropy messages"
    );
    assert_eq!(relay.refusals(Limit::NegentropySessions), 1);
    assert_eq!(relay.refusals(Limit::Negentropy), 1);
    assert_eq!(relay.refusals(Limit::NegentropyItems), 2);
    assert_eq!(relay.refusals(Limit::NegentropyItemsTotal), 1);
}

/// Case 98: what an ordinary client does at once is served.
#[tokio::test]
async fn thirty_connections_with_three_hundred_messages_are_served() {
    let relay = TestRelay::with(RelayLimits::default()).await;
    let mut clients = Vec::new();
    for _ in 0..30 {
        clients.push(relay.client_from("1.2.3.4").await);
    }
    for client in &mut clients {
        for n in 0..10 {
            assert_eq!(client.query(&[json!({"kinds": [n]})]).await, []);
        }
    }
}

/// EV-1: rates, then sizes, then the shape; the first failure answers.
#[tokio::test]
async fn an_event_is_rated_weighed_and_read_in_this_order() {
    let relay = TestRelay::with(RelayLimits {
        messages_per_minute: 5,
        events_per_minute: 3,
        event_bytes_max: 1_000,
        event_tags_max: 1,
        ..wide()
    })
    .await;
    let mut client = relay.client().await;
    let id = "ab".repeat(32);
    let heavy = json!({"id": id, "content": "x".repeat(1_000), "kind": "malformed"});
    let malformed = json!({"id": id, "tags": [["a"], ["b"]], "kind": "malformed"});
    let tagged = Person::named("alice").draft(1).tag(["a"]).tag(["b"]).sign();
    let tagged: Value = serde_json::from_str(&tagged.as_json()).expect("JSON");
    for (event, words) in [
        (&heavy, "blocked: event size ("),
        (&malformed, "invalid: malformed event"),
        (&tagged, "blocked: event has 2 tags"),
        (&heavy, "rate-limited: slow down"), // the rate of events
        (&malformed, "rate-limited: slow down"),
        (&heavy, "rate-limited: slow down"), // the rate of messages
    ] {
        client.send_json(&json!(["EVENT", event])).await;
        let id = event["id"].as_str().expect("an id");
        let said = client.answer_to(id).await.refused();
        assert!(said.starts_with(words), "{words}: {said}");
    }
    assert_eq!(relay.refusals(Limit::Events), 2);
    assert_eq!(relay.refusals(Limit::Messages), 1);
    assert_eq!(relay.refusals(Limit::EventBytes), 1);
    assert_eq!(relay.refusals(Limit::EventTags), 1);
}

/// NIP-42
#[tokio::test]
async fn a_connection_authenticates_as_so_many_keys() {
    let relay = TestRelay::with(RelayLimits {
        auth_keys_max: 2,
        ..wide()
    })
    .await;
    let mut client = relay.client().await;
    let challenge = relay.challenge(&mut client).await;
    for who in ["alice", "bob"] {
        let proof = support::proof(who, &challenge);
        client.authenticate(&proof).await.accepted();
    }
    let proof = support::proof("carol", &challenge);
    let refusal = client.authenticate(&proof).await.refused();
    assert_eq!(
        refusal,
        "rate-limited: a connection may authenticate as at most 2 keys"
    );
    assert_eq!(relay.refusals(Limit::AuthKeys), 1);
    let again = support::proof("alice", &challenge);
    client.authenticate(&again).await.accepted();
}
