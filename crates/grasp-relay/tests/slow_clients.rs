//! Clients that do not read (RLY-3).

mod support;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use grasp_relay::RelayLimits;
use grasp_relay::limits::Limit;
use grasp_testkit::Person;
use serde_json::json;
use support::{TestRelay, wide};

/// More than any socket buffers on the way.
const FLOOD: u64 = 220;

fn narrow() -> RelayLimits {
    RelayLimits {
        outbound_bytes_max: 300_000,
        ..wide()
    }
}

/// §16: one slow socket among many, and all of them together.
#[tokio::test]
async fn a_socket_that_takes_the_room_of_all_loses_its_subscription() {
    let limits = RelayLimits {
        outbound_bytes_max: 100_000_000,
        outbound_total_bytes_max: 300_000,
        ..wide()
    };
    let relay = TestRelay::with(limits).await;
    overflows(&relay, Limit::OutboundTotal).await;
    assert_eq!(relay.refusals(Limit::Outbound), 0);
}

/// RLY-3: the subscription goes, the answers stay.
#[tokio::test]
async fn a_subscription_that_overflows_is_closed_and_answers_still_come() {
    let relay = TestRelay::with(narrow()).await;
    overflows(&relay, Limit::Outbound).await;
    assert_eq!(relay.refusals(Limit::OutboundTotal), 0);
}

async fn overflows(relay: &TestRelay, limit: Limit) {
    let mut slow = relay.client().await;
    for id in ["flooded", "calm"] {
        let kind = if id == "calm" { 2 } else { 1 };
        slow.subscribe(id, &[json!({"kinds": [kind], "limit": 0})])
            .await;
        slow.stored(id).await;
    }
    relay.fill(FLOOD, 1, &"x".repeat(50_000)).await;
    assert_eq!(relay.refusals(limit), 1);
    assert_eq!(relay.fanout.subscriptions(), 1);
    let (own, calm) = (
        Person::named("bob").draft(3).sign(),
        Person::named("bob").draft(2).sign(),
    );
    slow.send_event(&own).await;
    let closed = slow.expect_where(|m| m[0] == "CLOSED").await;
    assert_eq!(
        closed,
        json!([
            "CLOSED",
            "flooded",
            "error: live event buffer overflow; resubscribe to recover stored events"
        ])
    );
    slow.answer_to(&own.id.to_hex()).await.accepted();
    slow.publish(&calm).await.accepted();
    assert_eq!(slow.live("calm").await, calm);
    slow.subscribe("flooded", &[json!({"kinds": [1], "limit": 1})])
        .await;
    let frames = slow
        .expect_where(|m| m[0] == "EOSE" && m[1] == "flooded")
        .await;
    assert_eq!(frames[1], "flooded");
}

/// §16: what waits for one socket is bounded, whatever it asked for.
#[tokio::test]
async fn stored_events_wait_in_the_store_for_a_client_that_does_not_read() {
    let relay = TestRelay::with(narrow()).await;
    relay.fill(FLOOD, 1, &"x".repeat(50_000)).await;
    let mut slow = relay.client().await;
    for n in 0..50 {
        slow.subscribe(&n.to_string(), &[json!({"kinds": [1]})])
            .await;
    }
    let mut other = relay.client().await;
    for _ in 0..20 {
        assert_eq!(
            other
                .query(&[json!({"kinds": [1], "limit": 2})])
                .await
                .len(),
            2
        );
        let waiting = relay.metrics.outbound_bytes.load(Relaxed);
        assert!(waiting < 600_000, "{waiting} bytes wait");
    }
    assert_eq!(slow.stored("0").await.len() as u64, FLOOD);
}

/// RLY-3
#[tokio::test]
async fn a_socket_that_takes_nothing_is_closed() {
    let limits = RelayLimits {
        slow_reader_timeout: Duration::from_millis(200),
        ..narrow()
    };
    let relay = TestRelay::with(limits).await;
    relay.fill(FLOOD, 1, &"x".repeat(50_000)).await;
    let mut stuck = relay.client().await;
    stuck.subscribe("s", &[json!({"kinds": [1]})]).await;
    grasp_testkit::eventually("the socket is closed", async || {
        relay.metrics.connections_active.load(Relaxed) == 0
    })
    .await;
    assert_eq!(relay.refusals(Limit::SlowReader), 1);
    assert_eq!(relay.metrics.outbound_bytes.load(Relaxed), 0);
    assert_eq!(relay.fanout.subscriptions(), 0);
}

/// A client that is gone without a word is noticed.
#[tokio::test]
async fn a_client_that_answers_no_ping_is_gone() {
    let limits = RelayLimits {
        ping_interval: Duration::from_millis(250),
        ..wide()
    };
    let relay = TestRelay::with(limits).await;
    let mut alive = relay.client().await;
    // Its websocket is never polled again, so no pong is sent.
    let mut silent = relay.client().await;
    assert!(silent.is_alive().await);
    for _ in 0..20 {
        assert!(alive.is_alive().await);
        alive.drain().await;
        if relay.metrics.connections_active.load(Relaxed) == 1 {
            return;
        }
    }
    panic!("the silent client is still there");
}
