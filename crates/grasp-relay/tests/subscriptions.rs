//! Stored, then live, each event once (RLY-1).

mod support;

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::event::Version;
use grasp_core::lifecycle::Change;
use grasp_testkit::{Person, RelayClient};
use nostr::event::{Event, EventId};
use serde_json::{Value, json};
use support::TestRelay;

const PUBLISHERS: u64 = 4;
const EVENTS_EACH: u64 = 100;

/// RLY-1: subscriptions open at every moment of a storm, and each gets all of it exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_event_is_lost_or_sent_twice_between_stored_and_live() {
    let relay = TestRelay::spawn().await;
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|n| tokio::spawn(publish_many(relay.url.clone(), n)))
        .collect();
    let mut listeners = Vec::new();
    for n in 0..12 {
        listeners.push(tokio::spawn(listen(relay.url.clone(), n)));
        tokio::task::yield_now().await;
    }
    let mut published = BTreeSet::new();
    for publisher in publishers {
        published.extend(publisher.await.expect("no panic"));
    }
    for listener in listeners {
        let seen = listener.await.expect("no panic");
        assert_eq!(seen.keys().copied().collect::<BTreeSet<_>>(), published);
        assert!(
            seen.values().all(|times| *times == 1),
            "an event came twice"
        );
    }
}

async fn publish_many(url: String, publisher: u64) -> Vec<EventId> {
    let person = Person::named(&format!("publisher {publisher}"));
    let mut client = RelayClient::connect(&url).await;
    let mut ids = Vec::new();
    for n in 0..EVENTS_EACH {
        let event = person
            .draft(1)
            .content(&n.to_string())
            .tag(["t", "storm"])
            .sign();
        client.send_event(&event).await;
        ids.push(event.id);
        if n % 10 == 9 {
            client.answer_to(&event.id.to_hex()).await.accepted();
        }
    }
    ids
}

/// Opens and replaces subscriptions until one has to see everything; then counts.
async fn listen(url: String, n: u64) -> BTreeMap<EventId, u32> {
    let mut client = RelayClient::connect(&url).await;
    for round in 0..n {
        client
            .subscribe("storm", &[json!({"#t": ["storm"], "limit": round})])
            .await;
        client
            .expect_where(|m| m[0] == "EOSE" && m[1] == "storm")
            .await;
    }
    client
        .subscribe("all", &[json!({"kinds": [1]}), json!({"#t": ["storm"]})])
        .await;
    let mut seen = BTreeMap::new();
    while seen.len() < usize::try_from(PUBLISHERS * EVENTS_EACH).expect("small") {
        let message = client.expect_where(|m| m[1] == "all").await;
        if message[0] == "EVENT" {
            *seen.entry(id_of(&message)).or_insert(0) += 1;
        }
    }
    for message in client.drain().await {
        if message[0] == "EVENT" && message[1] == "all" {
            *seen.entry(id_of(&message)).or_insert(0) += 1;
        }
    }
    seen
}

fn id_of(message: &Value) -> EventId {
    EventId::from_hex(message[2]["id"].as_str().expect("an id")).expect("an id")
}

/// RLY-1, cases 41 and 77
#[tokio::test]
async fn stored_events_come_newest_first_and_lower_ids_first() {
    let relay = TestRelay::spawn().await;
    let alice = Person::named("alice");
    let mut client = relay.client().await;
    let mut events = Vec::new();
    for n in 0..300_u64 {
        let event = alice
            .draft(1)
            .at(1_000 + n % 3)
            .content(&n.to_string())
            .sign();
        client.send_event(&event).await;
        events.push(event);
    }
    for event in &events {
        client.answer_to(&event.id.to_hex()).await.accepted();
    }
    events.sort_by_key(|event| {
        std::cmp::Reverse(Version {
            created_at: event.created_at,
            id: event.id,
        })
    });
    for limit in [50, 1, 299] {
        let found = client.query(&[json!({"kinds": [1], "limit": limit})]).await;
        assert_eq!(found, events[..limit]);
    }
}

/// Case 77
#[tokio::test]
async fn a_filter_brings_no_more_than_the_advertised_limit() {
    let relay = TestRelay::with(grasp_relay::RelayLimits {
        filter_limit: 20,
        ..support::wide()
    })
    .await;
    relay.fill(60, 1, "x").await;
    let mut client = relay.client().await;
    for filter in [json!({"limit": 999_999}), json!({})] {
        assert_eq!(client.query(&[filter]).await.len(), 20);
    }
    assert_eq!(
        client
            .query(&[json!({"kinds": [1]}), json!({"until": 1_700_000_009_u64})])
            .await
            .len(),
        30
    );
    assert_eq!(client.count(json!({"kinds": [1]})).await, 60);
}

/// RLY-1, case 45
#[tokio::test]
async fn a_limit_of_zero_asks_for_live_events_only() {
    let relay = TestRelay::spawn().await;
    relay.fill(5, 1621, "stored").await;
    let mut client = relay.client().await;
    client
        .subscribe("s", &[json!({"kinds": [1621], "limit": 0})])
        .await;
    assert_eq!(client.stored("s").await, []);
    let event = Person::named("bob").draft(1621).sign();
    client.publish(&event).await.accepted();
    assert_eq!(client.live("s").await, event);
}

/// Case 46
#[tokio::test]
async fn an_empty_list_matches_nothing() {
    let relay = TestRelay::spawn().await;
    relay.fill(3, 1, "x").await;
    let mut client = relay.client().await;
    for (n, filter) in [
        json!({"authors": []}),
        json!({"ids": []}),
        json!({"#e": []}),
        json!({"kinds": []}),
    ]
    .into_iter()
    .enumerate()
    {
        let id = n.to_string();
        client.subscribe(&id, &[filter]).await;
        assert_eq!(client.stored(&id).await, []);
    }
    client.subscribe("everything", &[json!({"limit": 0})]).await;
    let event = Person::named("bob").draft(1).tag(["e", "x"]).sign();
    client.publish(&event).await.accepted();
    client.live("everything").await;
    assert!(client.drain().await.iter().all(|m| m[0] != "EVENT"));
}

/// RLY-1
#[tokio::test]
async fn a_used_id_replaces_and_close_ends() {
    let relay = TestRelay::spawn().await;
    let mut client = relay.client().await;
    client.subscribe("s", &[json!({"kinds": [1]})]).await;
    client.stored("s").await;
    client.subscribe("s", &[json!({"kinds": [2]})]).await;
    client.stored("s").await;
    let bob = Person::named("bob");
    client.publish(&bob.draft(1).sign()).await.accepted();
    let wanted = bob.draft(2).sign();
    client.publish(&wanted).await.accepted();
    assert_eq!(client.live("s").await, wanted);
    assert_eq!(relay.fanout.subscriptions(), 1);
    client.send_json(&json!(["CLOSE", "s"])).await;
    client.send_json(&json!(["CLOSE", "never opened"])).await;
    client.publish(&bob.draft(2).sign()).await.accepted();
    assert!(client.drain().await.is_empty());
    assert_eq!(relay.fanout.subscriptions(), 0);
}

/// Case 47, EV-3
#[tokio::test]
async fn an_event_is_broadcast_once_and_an_ephemeral_one_kept_nowhere() {
    let relay = TestRelay::spawn().await;
    let mut listener = relay.client().await;
    listener.subscribe("s", &[json!({})]).await;
    listener.stored("s").await;
    let (mut one, mut two) = (relay.client().await, relay.client().await);
    let bob = Person::named("bob");
    let event = bob.draft(1).sign();
    one.send_event(&event).await;
    two.send_event(&event).await;
    let answers = [
        one.answer_to(&event.id.to_hex()).await,
        two.answer_to(&event.id.to_hex()).await,
    ];
    let mut messages: Vec<String> = answers
        .into_iter()
        .map(grasp_testkit::Answer::accepted)
        .collect();
    messages.sort();
    assert_eq!(messages[0], "");
    assert!(messages[1].starts_with("duplicate:"));
    let passing = bob.draft(20_001).sign();
    one.publish(&passing).await.accepted();
    assert_eq!(listener.live("s").await, event);
    assert_eq!(listener.live("s").await, passing);
    assert!(listener.drain().await.is_empty());
    assert_eq!(one.query(&[json!({"kinds": [20_001]})]).await, []);
}

/// Cases 48 and 49
#[tokio::test]
async fn content_comes_back_as_it_was_signed() {
    let relay = TestRelay::spawn().await;
    let mut client = relay.client().await;
    let content = "🚀 <&> / \u{2028} \t \u{8} \u{7f} \"quoted\" \\ \u{301} \u{0} \n";
    let sign = |d: &str| {
        Person::named("alice")
            .draft(1)
            .content(content)
            .tag(["d", d, content])
            .sign()
    };
    let events = [sign("re"), sign("repo"), sign("other")];
    for event in &events {
        client.publish(event).await.accepted();
    }
    let mut found = client.query(&[json!({"#d": ["re", "repo"]})]).await;
    found.reverse();
    assert_eq!(found, events[..2]);
}

/// EV-4, case 53
#[tokio::test]
async fn what_expired_is_not_found_any_more() {
    let relay = TestRelay::spawn().await;
    let mut client = relay.client().await;
    let until = relay.now() + 3;
    let event = Person::named("alice")
        .draft(1)
        .tag(["expiration", &until.to_string()])
        .sign();
    client.publish(&event).await.accepted();
    assert_eq!(client.query(&[json!({"kinds": [1]})]).await.len(), 1);
    relay.set_now(until + 1);
    assert_eq!(client.query(&[json!({"kinds": [1]})]).await, []);
    assert_eq!(client.count(json!({"kinds": [1]})).await, 0);
}

/// Answers that are larger than a page come whole and in order.
#[tokio::test]
async fn a_large_answer_comes_in_pages_and_complete() {
    let limits = grasp_relay::RelayLimits {
        outbound_bytes_max: 100_000,
        ..support::wide()
    };
    let relay = TestRelay::with(limits).await;
    let mut events = relay.fill(200, 1, &"x".repeat(3_000)).await;
    events.reverse();
    let mut client = relay.client().await;
    assert_eq!(client.query(&[json!({"kinds": [1]})]).await, events);
    let other: Vec<Event> = client
        .query(&[
            json!({"kinds": [1], "limit": 7}),
            json!({"until": 1_700_000_001_u64}),
        ])
        .await;
    assert_eq!(other.len(), 9);
}

/// Design §8: a new event costs by who wants it; each of them gets the stored bytes.
#[tokio::test]
async fn two_hundred_subscribers_share_one_text_of_the_event() {
    let relay = TestRelay::spawn().await;
    let mut listeners = Vec::new();
    for n in 0..20_u32 {
        let mut client = relay.client().await;
        for s in 0..10_u32 {
            client
                .subscribe(&s.to_string(), &[json!({"kinds": [1 + n % 2], "limit": 0})])
                .await;
            client.stored(&s.to_string()).await;
        }
        listeners.push(client);
    }
    assert_eq!(relay.fanout.subscriptions(), 200);
    let event = Person::named("alice")
        .draft(1)
        .content(&"x".repeat(1_000))
        .sign();
    listeners[0].publish(&event).await.accepted();
    for (n, client) in listeners.iter_mut().enumerate() {
        for s in 0..10 {
            if n % 2 == 0 {
                assert_eq!(client.live(&s.to_string()).await, event);
            }
        }
    }
}

/// Case 94: a long answer ends with what still exists.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_long_answer_survives_the_removal_of_half_of_it() {
    let limits = grasp_relay::RelayLimits {
        outbound_bytes_max: 50_000,
        filter_limit: 10_000,
        ..support::wide()
    };
    let relay = TestRelay::with(limits).await;
    let events = relay.fill(4_000, 1, "x").await;
    let (odd, even): (Vec<_>, Vec<_>) = events.iter().enumerate().partition(|(n, _)| n % 2 == 1);
    let removed: Vec<EventId> = odd.iter().map(|(_, event)| event.id).collect();
    let store = relay.store.clone();
    let removal = tokio::spawn(async move {
        for some in removed.chunks(100) {
            let batch: Vec<Change> = some
                .iter()
                .map(|event| Change::Remove { event: *event })
                .collect();
            store
                .commit(move |_| Ok((batch.clone(), ())))
                .await
                .expect("the store works");
        }
    });
    let mut client = relay.client().await;
    let found = client
        .query(&[json!({"kinds": [1], "limit": 10_000})])
        .await;
    removal.await.expect("no panic");
    assert!(
        found
            .windows(2)
            .all(|pair| pair[0].created_at > pair[1].created_at)
    );
    let found: BTreeSet<EventId> = found.iter().map(|event| event.id).collect();
    assert!(even.iter().all(|(_, event)| found.contains(&event.id)));
    assert_eq!(client.count(json!({"kinds": [1]})).await, 2_000);
}

/// RLY-1: events that become visible by promotion, out of the order of their arrival, while scans that
/// take several snapshots run over them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promotion_during_a_long_scan_sends_each_event_once() {
    let limits = grasp_relay::RelayLimits {
        outbound_bytes_max: 1_000_000,
        filter_limit: 50_000,
        ..support::wide()
    };
    let relay = TestRelay::with(limits).await;
    relay.fill(12_000, 1, "").await;
    let waiting = relay.hold_back(300, 1).await;
    let mut listeners = Vec::new();
    for n in 0..3 {
        listeners.push(tokio::spawn(hear_all(relay.url.clone(), n)));
    }
    for event in &waiting {
        relay.promote(event.id).await;
    }
    let last = relay.hold_back(1, 2).await.remove(0);
    relay.promote(last.id).await;
    for listener in listeners {
        let heard = listener.await.expect("no panic");
        for event in &waiting {
            assert_eq!(heard.get(&event.id), Some(&1));
        }
    }
}

/// Counts what comes for kind 1 until an event of kind 2 tells that this was all.
async fn hear_all(url: String, delay: u32) -> BTreeMap<EventId, u32> {
    let mut client = RelayClient::connect(&url).await;
    for _ in 0..delay {
        client.is_alive().await;
    }
    // So many that more than one snapshot is read for them.
    let filter = json!({"kinds": [1], "limit": 50_000});
    client
        .subscribe("s", &[filter, json!({"kinds": [2]})])
        .await;
    let mut heard = BTreeMap::new();
    loop {
        let message = client.expect_where(|m| m[1] == "s").await;
        assert_ne!(message[0], "CLOSED", "{message}");
        if message[0] == "EOSE" {
            continue;
        }
        if message[2]["kind"] == 2 {
            return heard;
        }
        *heard.entry(id_of(&message)).or_insert(0) += 1;
    }
}

/// NIP-45: an event that several filters match counts once, and limits of filters do not count.
#[tokio::test]
async fn a_count_over_several_filters_is_that_of_their_union() {
    let relay = TestRelay::with(grasp_relay::RelayLimits {
        filter_limit: 5,
        ..support::wide()
    })
    .await;
    relay.fill(30, 1, "x").await;
    relay.fill(20, 2, "x").await;
    let mut client = relay.client().await;
    let mut count = async |filters: &[Value]| {
        let mut request = vec![json!("COUNT"), json!("c")];
        request.extend_from_slice(filters);
        client.send_json(&Value::Array(request)).await;
        let answer = client.expect().await;
        assert_eq!((&answer[0], &answer[1]), (&json!("COUNT"), &json!("c")));
        answer[2]["count"].as_u64().expect("a count")
    };
    let (ones, early) = (json!({"kinds": [1]}), json!({"until": 1_700_000_009_u64}));
    assert_eq!(count(&[ones.clone(), ones.clone()]).await, 30);
    assert_eq!(count(&[ones.clone(), early]).await, 40);
    assert_eq!(count(&[json!({"kinds": [1], "limit": 3})]).await, 30);
    assert_eq!(count(&[json!({"ids": []}), ones]).await, 30);
    assert_eq!(count(&[json!({"kinds": [3]})]).await, 0);
}

/// EV-4: what ends while a slow client still reads is not sent any more.
#[tokio::test]
async fn an_event_that_ends_during_a_long_answer_is_left_out() {
    let limits = grasp_relay::RelayLimits {
        outbound_bytes_max: 300_000,
        ..support::wide()
    };
    let relay = TestRelay::with(limits).await;
    // More than any socket buffers on the way.
    let events = relay.fill(220, 1, &"x".repeat(50_000)).await;
    let end = relay.now() + 100;
    let ending = Person::named("bob")
        .draft(1)
        .at(1)
        .tag(["expiration", &end.to_string()])
        .sign();
    let mut client = relay.client().await;
    client.publish(&ending).await.accepted();
    assert_eq!(client.query(&[json!({"until": 1})]).await, [ending]);
    client.subscribe("s", &[json!({"kinds": [1]})]).await;
    // The answer has begun and has not come to its last event.
    let first = client.live("s").await;
    relay.set_now(end);
    let rest = client.stored("s").await;
    assert_eq!(1 + rest.len(), events.len());
    assert!(rest.iter().all(|event| events.contains(event)) && events.contains(&first));
}
