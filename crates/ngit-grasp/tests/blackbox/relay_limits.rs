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

/// N11-1, N11-2, N11-4: each field is read from the setting that is kept.
#[tokio::test]
async fn the_document_announces_the_limits_that_are_kept() {
    let settings = [
        ("NGIT_RELAY_MAX_SUBSCRIPTIONS", "max_subscriptions", 7),
        ("NGIT_RELAY_MAX_FILTERS", "max_filters", 3),
        ("NGIT_RELAY_FILTER_LIMIT", "max_limit", 11),
        ("NGIT_RELAY_FILTER_LIMIT", "default_limit", 11),
        ("NGIT_RELAY_MAX_EVENT_TAGS", "max_event_tags", 4),
        ("NGIT_RELAY_MAX_EVENT_SIZE_BYTES", "max_event_size", 5_000),
        ("NGIT_EVENT_MAX_AHEAD_SECS", "created_at_upper_limit", 600),
    ];
    let configured = settings.iter().fold(
        Server::configured().env("NGIT_RELAY_CONTACT", "mailto:ops@example.com"),
        |server, (name, _, value)| server.env(name, value),
    );
    let server = configured.spawn().await;
    let accept = [("Accept", "application/nostr+json")];
    let document = server.request("GET", "/", &accept).await;
    let document: Value = document.text().parse().expect("JSON");
    assert_eq!(document["contact"], "mailto:ops@example.com");
    for (_, field, value) in settings {
        assert_eq!(document["limitation"][field], value, "{field}");
    }
    for (field, fixed) in [
        ("max_message_length", json!(5_242_880)),
        ("max_subid_length", json!(250)),
        ("restricted_writes", json!(true)),
        ("auth_required", json!(false)),
    ] {
        assert_eq!(document["limitation"][field], fixed, "{field}");
    }
    // The event side of them, kept on the wire (the others: see above).
    let carol = Person::named("carol");
    let list = || carol.draft(10317);
    let tagged = |tags: usize| (0..tags).fold(list(), |draft, _| draft.tag(["g", "wss://x"]));
    let mut relay = server.relay().await;
    relay.publish(&tagged(4).sign()).await.accepted();
    let said = relay.publish(&tagged(5).sign()).await.refused();
    assert_eq!(
        said,
        "blocked: event has 5 tags, the most it may have are 4"
    );
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    relay.publish(&list().at(now + 500).sign()).await.accepted();
    let said = relay.publish(&list().at(now + 700).sign()).await.refused();
    assert!(said.starts_with("invalid: created_at is more than 600 seconds"));
}

/// BND-3: a tag value of any length is found exactly, and hinders no other event.
#[tokio::test]
async fn a_tag_value_of_any_length_is_found_and_hinders_nobody() {
    let server = Server::configured()
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 10_000)
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Person::named("carol");
    let mut relay = server.relay().await;
    let lengths = [1, 255, 256, 500, 510, 511, 512, 513, 1_000, 65_536, 180_000];
    let tagged = |value: &str| {
        let issue = carol.issue(&alice.coordinate());
        issue.tag(["t", value]).sign()
    };
    let issues: Vec<_> = lengths
        .iter()
        .flat_map(|length| {
            let start = "x".repeat(length - 1);
            ["y", "z"].map(|end| {
                let value = format!("{start}{end}");
                (tagged(&value), value)
            })
        })
        .collect();
    // All in flight at once: the long ones share commits with the short ones.
    for (issue, _) in &issues {
        relay.send_event(issue).await;
    }
    for (issue, _) in &issues {
        relay.answer_to(&issue.id.to_hex()).await.accepted();
    }
    for (issue, value) in &issues {
        let filter = json!({"#t": [value]});
        let found = relay.query(std::slice::from_ref(&filter)).await;
        assert_eq!(found, std::slice::from_ref(issue), "{}", value.len());
        assert_eq!(relay.count(filter).await, 1, "{}", value.len());
    }
    let prefix = json!({"#t": ["x".repeat(511)]});
    assert!(relay.query(&[prefix]).await.is_empty());
}
