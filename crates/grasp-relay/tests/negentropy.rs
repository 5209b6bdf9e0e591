//! Set reconciliation with a real client (RLY-2, NIP-77).

mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use grasp_relay::{NegentropyLimits, RelayLimits};
use grasp_testkit::{Person, RelayClient};
use negentropy::{Id, Negentropy, NegentropyStorageVector};
use nostr::event::Event;
use serde_json::{Value, json};
use support::{TestRelay, wide};

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("memory takes it");
        hex
    })
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"))
        .collect()
}

/// What the client has and the relay lacks, and the reverse.
async fn reconcile(
    client: &mut RelayClient,
    filter: Value,
    mine: &[Event],
) -> (BTreeSet<[u8; 32]>, BTreeSet<[u8; 32]>) {
    let mut items = NegentropyStorageVector::new();
    for event in mine {
        items
            .insert(
                event.created_at.as_secs(),
                Id::from_byte_array(event.id.to_bytes()),
            )
            .expect("open");
    }
    items.seal().expect("once");
    let mut negentropy = Negentropy::owned(items, 0).expect("no frame limit");
    let first = negentropy.initiate().expect("once");
    client
        .send_json(&json!(["NEG-OPEN", "n", filter, to_hex(&first)]))
        .await;
    let (mut have, mut need) = (Vec::new(), Vec::new());
    loop {
        let answer = client.expect().await;
        assert_eq!(
            (&answer[0], &answer[1]),
            (&json!("NEG-MSG"), &json!("n")),
            "{answer}"
        );
        let message = from_hex(answer[2].as_str().expect("hex"));
        assert!(message.len() <= 60_000);
        match negentropy
            .reconcile_with_ids(&message, &mut have, &mut need)
            .expect("a valid answer")
        {
            Some(next) => {
                client
                    .send_json(&json!(["NEG-MSG", "n", to_hex(&next)]))
                    .await;
            }
            None => break,
        }
    }
    client.send_json(&json!(["NEG-CLOSE", "n"])).await;
    let ids = |ids: Vec<Id>| ids.into_iter().map(Id::to_bytes).collect();
    (ids(have), ids(need))
}

#[tokio::test]
async fn two_sets_are_reconciled() {
    let relay = TestRelay::spawn().await;
    let theirs = relay.fill(3_000, 1, "x").await;
    relay.fill(50, 2, "another kind").await;
    let bob = Person::named("bob");
    let own: Vec<Event> = (0..40)
        .map(|n| bob.draft(1).at(1_700_000_000 + 7 * n).sign())
        .collect();
    let mine: Vec<Event> = theirs.iter().step_by(2).chain(&own).cloned().collect();
    let mut client = relay.client().await;
    let (have, need) = reconcile(&mut client, json!({"kinds": [1]}), &mine).await;
    let ids = |events: &[Event]| {
        events
            .iter()
            .map(|event| event.id.to_bytes())
            .collect::<BTreeSet<_>>()
    };
    let missing: Vec<Event> = theirs.iter().skip(1).step_by(2).cloned().collect();
    assert_eq!((have, need), (ids(&own), ids(&missing)));
    let (have, need) = reconcile(
        &mut client,
        json!({"kinds": [1], "until": 1_700_000_009}),
        &[],
    )
    .await;
    assert_eq!((have.len(), need.len()), (0, 10));
    client.send_json(&json!(["NEG-MSG", "n", "61"])).await;
    assert_eq!(
        client.expect().await,
        json!(["NEG-ERR", "n", "closed: negentropy subscription not found"])
    );
}

/// Case 74: a claim reserves nothing.
#[tokio::test]
async fn hostile_messages_are_refused_and_the_connection_lives() {
    let relay = TestRelay::spawn().await;
    relay.fill(100, 1, "x").await;
    let mut client = relay.client().await;
    for bad in [
        "",
        "zz",
        "6",
        "ff",
        "00",
        "61000002c080808000",
        "610000028080808080808080808001",
        "6100",
        "61ffffffffffffffffffff7f",
        "610021",
        "61000003",
        "610000010000",
    ] {
        client.send_json(&json!(["NEG-OPEN", "n", {}, bad])).await;
        let answer = client.expect().await;
        let refused = answer[0] == "NEG-ERR" && answer[2] == "error: invalid negentropy message";
        // Some of these are short forms that the format allows.
        assert!(refused || answer[0] == "NEG-MSG", "{bad}: {answer}");
        assert!(refused || !bad.contains("c080"), "{bad}: {answer}");
    }
    client
        .send_json(&json!(["NEG-OPEN", "n", {"kinds": "x"}, "61"]))
        .await;
    assert_eq!(client.expect().await[0], "NEG-ERR");
    assert!(client.is_alive().await);
}

/// Case 63
#[tokio::test]
async fn negentropy_that_is_off_says_so() {
    let negentropy = NegentropyLimits {
        enabled: false,
        ..NegentropyLimits::default()
    };
    let relay = TestRelay::with(RelayLimits {
        negentropy,
        ..wide()
    })
    .await;
    let mut client = relay.client().await;
    client.send_json(&json!(["NEG-OPEN", "n", {}, "61"])).await;
    assert_eq!(
        client.expect().await,
        json!(["NEG-ERR", "n", "blocked: negentropy is not offered here"])
    );
    assert!(client.is_alive().await);
}

/// EV-4: a set that sessions share is as long as what it holds is served.
#[tokio::test]
async fn what_has_ended_is_not_reconciled_any_more() {
    let relay = TestRelay::spawn().await;
    relay.fill(5, 1, "x").await;
    let mut client = relay.client().await;
    let end = relay.now() + 10;
    let ending = Person::named("alice")
        .draft(1)
        .tag(["expiration", &end.to_string()])
        .sign();
    client.publish(&ending).await.accepted();
    let all = json!({"kinds": [1]});
    let mut other = relay.client().await;
    let open = json!(["NEG-OPEN", "n", all, "6100000200"]);
    other.send_json(&open).await;
    assert_eq!(other.expect().await[0], "NEG-MSG", "the set stays in use");
    let (_, need) = reconcile(&mut client, all.clone(), &[]).await;
    assert!(need.contains(&ending.id.to_bytes()) && need.len() == 6);
    relay.set_now(end);
    let (_, need) = reconcile(&mut client, all, &[]).await;
    assert!(!need.contains(&ending.id.to_bytes()) && need.len() == 5);
}
