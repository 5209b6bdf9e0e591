//! Bounds of the relay, and the words that name them (§16, N11-2).

use grasp_testkit::relay::Frame;
use grasp_testkit::{Maintainer, Person, Server, Value, json};

/// Cases 77
#[tokio::test]
async fn no_query_brings_more_than_the_advertised_limit() {
    let server = Server::configured()
        .env("NGIT_RELAY_FILTER_LIMIT", 20)
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 10_000)
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    let mut relay = server.relay().await;
    for _ in 0..30 {
        let issue = Person::named("carol").issue(&alice.coordinate()).sign();
        relay.publish(&issue).await.accepted();
    }
    let nip11 = server
        .request("GET", "/", &[("Accept", "application/nostr+json")])
        .await;
    let nip11: Value = nip11.text().parse().expect("JSON");
    assert_eq!(nip11["limitation"]["max_limit"], 20);
    for filter in [
        json!({"kinds": [1621]}),
        json!({"kinds": [1621], "limit": 999_999}),
    ] {
        assert_eq!(relay.query(&[filter]).await.len(), 20);
    }
    assert_eq!(relay.count(json!({"kinds": [1621]})).await, 30);
}

/// Cases 78
#[tokio::test]
async fn an_event_that_is_too_large_is_named_so() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Person::named("carol");
    let patch = |size| {
        let draft = carol.draft(1617).tag(["a", &alice.coordinate()]);
        draft.content(&"x".repeat(size)).sign()
    };
    let mut relay = server.relay().await;
    relay.publish(&patch(150_000)).await.accepted();
    let large = patch(500_000);
    let said = relay.publish(&large).await.refused();
    let size = large.as_json().len();
    assert!(said.starts_with("blocked: event size ("), "{said}");
    assert!(
        said.ends_with("bytes) exceeds maximum allowed size (196608 bytes)"),
        "{said}, {size}"
    );
    assert!(relay.is_alive().await);
}

/// Cases 44
#[tokio::test]
async fn events_over_the_rate_are_refused_by_id() {
    let server = Server::configured()
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 5)
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    let mut relay = server.relay().await;
    let mut refused = 0;
    for _ in 0..12 {
        let issue = Person::named("carol").issue(&alice.coordinate()).sign();
        let answer = relay.publish(&issue).await;
        if !answer.accepted {
            let said = answer.message;
            assert!(said.starts_with("rate-limited: slow down"), "{said}");
            refused += 1;
        }
    }
    assert!(refused >= 6, "{refused}");
    assert!(relay.is_alive().await);
    let mut other = server.relay().await;
    let issue = Person::named("carol").issue(&alice.coordinate()).sign();
    other.publish(&issue).await.accepted();
}

/// §5: the words of `CLOSED`.
#[tokio::test]
async fn requests_over_a_bound_are_closed_with_its_name() {
    let server = Server::configured()
        .env("NGIT_RELAY_MAX_SUBSCRIPTIONS", 3)
        .env("NGIT_RELAY_MAX_FILTERS", 2)
        .spawn()
        .await;
    let mut relay = server.relay().await;
    let closed = |id: &'static str| move |m: &Value| m[0] == "CLOSED" && m[1] == id;
    let filter = json!({"kinds": [1]});
    relay
        .subscribe("f", &[filter.clone(), filter.clone(), filter.clone()])
        .await;
    let said = relay.expect_where(closed("f")).await;
    assert_eq!(said[2], "rate-limited: REQ exceeds max filter count 2");
    for id in ["a", "b", "c"] {
        relay.subscribe(id, std::slice::from_ref(&filter)).await;
        relay.stored(id).await;
    }
    relay.subscribe("d", std::slice::from_ref(&filter)).await;
    let said = relay.expect_where(closed("d")).await;
    assert_eq!(said[2], "rate-limited: too many REQs");
    // Replacing one of the three is not a fourth.
    relay.subscribe("a", std::slice::from_ref(&filter)).await;
    relay.stored("a").await;
    let long = "x".repeat(251);
    relay.send_json(&json!(["REQ", long, filter])).await;
    let said = relay.expect().await;
    assert!(
        said.to_string()
            .contains("blocked: subscription ID exceeds max length 250"),
        "{said}"
    );
}

/// N11-2: the largest message ends only its own connection.
#[tokio::test]
async fn a_message_beyond_the_bound_ends_its_connection_alone() {
    let server = Server::spawn().await;
    let mut other = server.relay().await;
    let mut relay = server.relay().await;
    let huge = format!(r#"["EVENT",{{"content":"{}"}}]"#, "x".repeat(6 << 20));
    // The server may hang up before it has read all of it.
    let _ = relay.try_send(Frame::text(huge)).await;
    while relay.next().await.is_some() {}
    assert!(other.is_alive().await);
}

/// Cases 98: a page load and a push are nothing special.
#[tokio::test]
async fn thirty_connections_with_three_hundred_messages_are_served() {
    let server = Server::spawn().await;
    let mut connections = Vec::new();
    for _ in 0..30 {
        connections.push(server.relay().await);
    }
    for _ in 0..10 {
        for relay in &mut connections {
            relay.query(&[json!({"kinds": [30617], "limit": 1})]).await;
        }
    }
    for relay in &mut connections {
        assert!(relay.is_alive().await);
    }
}

/// RLY-3: who does not read is let go; nobody else waits for them.
#[tokio::test]
async fn a_client_that_does_not_read_hinders_nobody() {
    let server = Server::configured()
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 100_000)
        .env("NGIT_RELAY_OUTBOUND_BYTES", 200_000)
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    let mut deaf = server.relay().await;
    deaf.subscribe("s", &[json!({"kinds": [1617], "limit": 0})])
        .await;
    deaf.stored("s").await;
    let mut relay = server.relay().await;
    let carol = Person::named("carol");
    for n in 0..150 {
        let draft = carol.draft(1617).tag(["a", &alice.coordinate()]);
        let patch = draft.content(&format!("{n}{}", "x".repeat(100_000))).sign();
        relay.publish(&patch).await.accepted();
    }
    // What was lost is said: CLOSED, or the connection's end; never silence.
    let mut events = 0;
    let told = loop {
        match deaf.next().await {
            Some(message) if message[0] == "EVENT" => events += 1,
            Some(message) if message[0] == "CLOSED" => {
                break message[2]
                    == "error: live event buffer overflow; resubscribe to recover stored events";
            }
            Some(_) => {}
            None => break true,
        }
        if events == 150 {
            break true;
        }
    };
    assert!(told, "after {events} events");
}

/// Cases 94: a long answer brings what still exists, each once, while half of it goes away.
#[tokio::test]
async fn a_long_query_ends_while_events_are_deleted() {
    let server = Server::configured()
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 1_000_000)
        .env("NGIT_RELAY_FILTER_LIMIT", 5_000)
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Person::named("carol");
    let mut relay = server.relay().await;
    let issues: Vec<_> = (0..600)
        .map(|_| carol.issue(&alice.coordinate()).sign())
        .collect();
    for issue in &issues {
        relay.send_event(issue).await;
    }
    for issue in &issues {
        relay.answer_to(&issue.id.to_hex()).await.accepted();
    }
    let deleted: Vec<_> = issues.iter().step_by(2).collect();
    let deletion = deleted.iter().fold(carol.draft(5), |draft, issue| {
        draft.tag(["e", &issue.id.to_hex()])
    });
    let deletion = deletion.sign();
    let mut reader = server.relay().await;
    let filter = [json!({"kinds": [1621]})];
    let (during, answer) = tokio::join!(reader.query(&filter), relay.publish(&deletion));
    answer.accepted();
    let mut ids: Vec<_> = during.iter().map(|event| event.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), during.len(), "each once");
    assert!(during.len() >= issues.len() - deleted.len());
    assert_eq!(
        reader.query(&filter).await.len(),
        issues.len() - deleted.len()
    );
}

/// Cases 74: a claim without content reserves nothing.
#[tokio::test]
async fn a_hostile_negentropy_message_is_refused() {
    let server = Server::spawn().await;
    let mut relay = server.relay().await;
    for message in [
        // Version, then a range whose id list claims 2^40 entries.
        "6100000202a08080808080",
        "61",
        "",
        "zz",
        "6",
        "ff",
    ] {
        relay
            .send_json(&json!(["NEG-OPEN", "n", {"kinds": [1]}, message]))
            .await;
        assert!(relay.is_alive().await, "{message}");
        relay.send_json(&json!(["NEG-CLOSE", "n"])).await;
    }
    let memory = grasp_testkit::process::private_memory(server.pid());
    assert!(memory < 100 << 20, "{memory} bytes");
}

/// Cases 82, ANN-8: long lists are stored; the rest of them is never used.
#[tokio::test]
async fn an_announcement_with_very_many_urls_is_taken() {
    let server = Server::spawn().await;
    let alice = Person::named("alice");
    let many = |scheme: &'static str| {
        (0..1_000).map(move |n| format!("{scheme}://host-{n}.example.com/x.git"))
    };
    let clone = [server.clone_url(&alice.npub(), "x")];
    let clone = ["clone".to_owned()]
        .into_iter()
        .chain(clone)
        .chain(many("https"));
    let relays = ["relays".to_owned(), server.ws.clone()];
    let relays = relays.into_iter().chain(many("wss"));
    let announcement = alice
        .draft(30617)
        .tag(["d", "x"])
        .tag(clone)
        .tag(relays)
        .sign();
    server.publish(&announcement).await.accepted();
}
