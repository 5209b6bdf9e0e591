//! NIP-01 and its neighbours, exactly (EV-*, RLY-*).

use grasp_testkit::{Event, Maintainer, Person, RelayClient, Server, Value, json};
use tokio::task::JoinSet;

/// A server with a served repository, to hang events on.
async fn with_repository() -> (Server, Maintainer) {
    let server = Server::configured()
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 1_000_000)
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    (server, alice)
}

/// Newest first, lower id first within a second.
fn is_ordered(events: &[Event]) -> bool {
    events.is_sorted_by(|a, b| {
        (b.created_at, a.id) <= (a.created_at, b.id) && (a.created_at, b.id) != (b.created_at, a.id)
            || a.created_at > b.created_at
    })
}

/// RLY-1, cases 41
#[tokio::test]
async fn stored_events_come_newest_first_and_ties_by_lower_id() {
    let (server, alice) = with_repository().await;
    let mut relay = server.relay().await;
    let start = grasp_testkit::person::next_second();
    let mut issues = Vec::new();
    for n in 0..120_u64 {
        let issue = Person::named("carol")
            .issue(&alice.coordinate())
            .content(&format!("{n}"))
            .at(start + n % 3)
            .sign();
        relay.publish(&issue).await.accepted();
        issues.push(issue);
    }
    issues.sort_by(|a, b| b.created_at.cmp(&a.created_at).then(a.id.cmp(&b.id)));
    for _ in 0..3 {
        let answer = relay.query(&[json!({"kinds": [1621], "limit": 50})]).await;
        assert_eq!(answer, issues[..50]);
    }
    let all = relay.query(&[json!({"kinds": [1621]})]).await;
    assert!(is_ordered(&all));
    assert_eq!(all, issues);
}

/// RLY-1, cases 45
#[tokio::test]
async fn a_limit_of_zero_is_live_only() {
    let (server, alice) = with_repository().await;
    let carol = Person::named("carol");
    server
        .publish(&carol.issue(&alice.coordinate()).sign())
        .await
        .accepted();
    let mut relay = server.relay().await;
    relay
        .subscribe("s", &[json!({"kinds": [1621], "limit": 0})])
        .await;
    assert!(relay.stored("s").await.is_empty());
    let live = carol.issue(&alice.coordinate()).sign();
    server.publish(&live).await.accepted();
    assert_eq!(relay.live("s").await, live);
}

/// RLY-1: no event lost or sent twice between the stored and the live part.
#[tokio::test]
async fn between_stored_and_live_nothing_is_lost_or_doubled() {
    let (server, alice) = with_repository().await;
    let issues: Vec<_> = (0..150)
        .map(|_| Person::named("carol").issue(&alice.coordinate()).sign())
        .collect();
    let mut watchers = JoinSet::new();
    let (url, sent) = (server.ws.clone(), issues.clone());
    let publisher = tokio::spawn(async move {
        let mut relay = RelayClient::connect(&url).await;
        for issue in &sent {
            relay.publish(issue).await.accepted();
        }
    });
    for _ in 0..4 {
        let url = server.ws.clone();
        let count = issues.len();
        watchers.spawn(async move {
            let mut seen = Vec::new();
            let mut relay = RelayClient::connect(&url).await;
            relay.subscribe("s", &[json!({"kinds": [1621]})]).await;
            while seen.len() < count {
                let message = relay.expect().await;
                if message[0] == "EVENT" {
                    seen.push(message[2]["id"].as_str().expect("an id").to_owned());
                }
            }
            assert!(relay.drain().await.iter().all(|m| m[0] != "EVENT"));
            seen
        });
    }
    publisher.await.expect("all are accepted");
    let mut expected: Vec<_> = issues.iter().map(|issue| issue.id.to_hex()).collect();
    expected.sort();
    for mut seen in watchers.join_all().await {
        seen.sort();
        assert_eq!(seen, expected);
    }
}

/// RLY-1
#[tokio::test]
async fn a_used_subscription_id_is_replaced_and_close_ends_it() {
    let (server, alice) = with_repository().await;
    let carol = Person::named("carol");
    let mut relay = server.relay().await;
    relay
        .subscribe("s", &[json!({"kinds": [1621], "limit": 0})])
        .await;
    relay.stored("s").await;
    relay
        .subscribe("s", &[json!({"kinds": [1622], "limit": 0})])
        .await;
    relay.stored("s").await;
    server
        .publish(&carol.issue(&alice.coordinate()).sign())
        .await
        .accepted();
    assert!(relay.is_alive().await);
    assert!(relay.drain().await.is_empty(), "the old filter is gone");
    relay
        .subscribe("t", &[json!({"kinds": [1621], "limit": 0})])
        .await;
    relay.stored("t").await;
    relay.send_json(&json!(["CLOSE", "t"])).await;
    assert!(relay.is_alive().await);
    server
        .publish(&carol.issue(&alice.coordinate()).sign())
        .await
        .accepted();
    assert!(
        relay.drain().await.iter().all(|m| m[0] != "EVENT"),
        "closed"
    );
}

/// Cases 46 and 48, NIP-01: every field of a filter.
#[tokio::test]
async fn filters_match_what_nip_01_says() {
    let (server, alice) = with_repository().await;
    let second = Maintainer::named_serving("bob", "re", &server).await;
    let mut relay = server.relay().await;
    let (carol, dave) = (Person::named("carol"), Person::named("dave"));
    let start = grasp_testkit::person::next_second() + 1_000;
    let one = carol
        .issue(&alice.coordinate())
        .tag(["t", "bug"])
        .at(start)
        .sign();
    let two = dave
        .issue(&alice.coordinate())
        .tag(["t", "wish"])
        .at(start + 10)
        .sign();
    let long = "x".repeat(700);
    let three = dave
        .issue(&second.coordinate())
        .tag(["t", &long])
        .at(start + 20)
        .sign();
    for issue in [&one, &two, &three] {
        relay.publish(issue).await.accepted();
    }
    let (a, b) = (alice.coordinate(), second.coordinate());
    let (c, d) = (carol.hex(), dave.hex());
    let id = one.id.to_hex();
    let cases: Vec<(Value, Vec<&Event>)> = vec![
        (json!({"ids": [id]}), vec![&one]),
        (json!({"ids": [id], "kinds": [1]}), vec![]),
        (json!({"authors": [c], "kinds": [1621]}), vec![&one]),
        (
            json!({"authors": [c, d], "kinds": [1621]}),
            vec![&three, &two, &one],
        ),
        (
            json!({"kinds": [1621], "#t": ["bug", "wish"]}),
            vec![&two, &one],
        ),
        (
            json!({"kinds": [1621], "#t": ["bug"], "#a": [a]}),
            vec![&one],
        ),
        (json!({"kinds": [1621], "#t": ["bug"], "#a": [b]}), vec![]),
        (json!({"#t": [long]}), vec![&three]),
        (json!({"#a": [b], "kinds": [1621]}), vec![&three]),
        (
            json!({"kinds": [1621], "since": start + 10}),
            vec![&three, &two],
        ),
        (
            json!({"kinds": [1621], "until": start + 10}),
            vec![&two, &one],
        ),
        (
            json!({"kinds": [1621], "since": start + 1, "until": start + 19}),
            vec![&two],
        ),
        (
            json!({"kinds": [1621], "since": start + 11, "until": start + 9}),
            vec![],
        ),
        (json!({"kinds": [1621], "limit": 1}), vec![&three]),
        (json!({"authors": []}), vec![]),
        (json!({"ids": []}), vec![]),
        (json!({"kinds": []}), vec![]),
        (json!({"#e": []}), vec![]),
        (json!({"#t": ["bu"]}), vec![]),
        (json!({"#T": ["bug"]}), vec![]),
    ];
    for (filter, expected) in cases {
        let expected: Vec<_> = expected.into_iter().cloned().collect();
        assert_eq!(
            relay.query(std::slice::from_ref(&filter)).await,
            expected,
            "{filter}"
        );
        let all = filter.get("limit").is_none();
        if all {
            assert_eq!(
                relay.count(filter.clone()).await,
                expected.len() as u64,
                "RLY-2 {filter}"
            );
        }
    }
    let both = relay
        .query(&[json!({"kinds": [30617], "#d": ["re", "project"]})])
        .await;
    assert_eq!(both.len(), 2);
    // Several filters are a union, each event once.
    let union = [
        json!({"#t": ["bug"]}),
        json!({"authors": [c], "kinds": [1621]}),
        json!({"#t": ["wish"]}),
    ];
    assert_eq!(relay.query(&union).await, [two, one]);
}

/// Cases 49
#[tokio::test]
async fn any_text_comes_back_as_it_was_signed() {
    let (server, alice) = with_repository().await;
    let text = "🦀 <&> / \u{2028} \t \u{8} \u{7f} \" ' \\ \u{301} \r\n \u{0} end";
    let issue = Person::named("carol")
        .issue(&alice.coordinate())
        .tag(["t", text])
        .content(text)
        .sign();
    server.publish(&issue).await.accepted();
    let back = server.query(json!({"#t": [text]})).await;
    assert_eq!(back, [issue]);
}

/// EV-1, cases 50
#[tokio::test]
async fn a_forgery_is_refused_and_does_not_hinder_the_real_one() {
    let (server, alice) = with_repository().await;
    let real = Person::named("carol")
        .issue(&alice.coordinate())
        .content("real")
        .sign();
    let json: Value = serde_json_of(&real);
    let changed = |field: &str, value: Value| {
        let mut forged = json.clone();
        forged[field] = value;
        forged
    };
    let mut relay = server.relay().await;
    let other = Person::named("dave").issue(&alice.coordinate()).sign();
    let forgeries = [
        (
            changed("content", json!("forged")),
            "invalid: invalid event ID",
        ),
        (changed("created_at", json!(1)), "invalid: invalid event ID"),
        (
            changed("pubkey", json!(Person::named("dave").hex())),
            "invalid: invalid event ID",
        ),
        (
            changed("sig", json!(serde_json_of(&other)["sig"])),
            "invalid: invalid event signature",
        ),
    ];
    for (forged, expected) in forgeries {
        relay.send_json(&json!(["EVENT", forged])).await;
        assert_eq!(relay.answer_to(&real.id.to_hex()).await.refused(), expected);
    }
    assert_eq!(relay.publish(&real).await.accepted(), "");
    assert_eq!(
        relay.publish(&real).await.accepted(),
        "duplicate: already have this event"
    );
}

fn serde_json_of(event: &Event) -> Value {
    event.as_json().parse().expect("an event is JSON")
}

/// §5: malformed messages are answered and the connection stays.
#[tokio::test]
async fn malformed_messages_are_answered_and_the_connection_kept() {
    let (server, alice) = with_repository().await;
    let mut relay = server.relay().await;
    for text in [
        "",
        " ",
        "nonsense",
        "{}",
        "[]",
        "[1]",
        "[null]",
        r#"["NOTHING"]"#,
        r#"["EVENT"]"#,
        r#"["EVENT",1]"#,
        r#"["EVENT",{}]"#,
        r#"["EVENT",[]]"#,
        r#"["REQ"]"#,
        r#"["REQ",1,{}]"#,
        r#"["REQ","s",1]"#,
        r#"["CLOSE"]"#,
        r#"["COUNT"]"#,
        r#"["CLOSE",{}]"#,
        "[\"REQ\",\"s\",{}",
        r#"["REQ","s",{"kinds":"x"}]"#,
        r#"["REQ","s",{"ids":["xyz"]}]"#,
        r#"["REQ","s",{"since":-1}]"#,
        r#"["REQ","s",{"limit":"many"}]"#,
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    ] {
        relay.send_text(text).await;
        assert!(relay.is_alive().await, "{text:?} ends the connection");
        let said = relay.heard();
        let answers = ["NOTICE", "CLOSED", "OK"];
        assert!(
            said.iter()
                .any(|m| answers.iter().any(|answer| m[0] == *answer)),
            "{text:?} is not answered: {said:?}"
        );
    }
    let binary = tokio_tungstenite_message(b"\x00\x01\x02");
    relay.send(binary).await;
    let said = relay.expect().await;
    assert_eq!(
        said,
        json!(["NOTICE", "binary messages are not processed by this relay"])
    );
    let issue = Person::named("carol").issue(&alice.coordinate()).sign();
    relay.publish(&issue).await.accepted();
}

fn tokio_tungstenite_message(bytes: &'static [u8]) -> grasp_testkit::relay::Frame {
    grasp_testkit::relay::Frame::binary(bytes)
}

/// EV-1: what is JSON and has an id is answered by that id.
#[tokio::test]
async fn a_malformed_event_is_refused_by_its_id() {
    let (server, alice) = with_repository().await;
    let real = serde_json_of(&Person::named("carol").issue(&alice.coordinate()).sign());
    let id = real["id"].as_str().expect("an id").to_owned();
    let mut relay = server.relay().await;
    for (field, value) in [
        ("kind", json!(70_000)),
        ("kind", json!(-1)),
        ("kind", json!("1")),
        ("tags", json!([[]])),
        ("tags", json!("x")),
        ("tags", json!([[1]])),
        ("content", json!(null)),
        ("pubkey", json!("00")),
        ("sig", json!("zz")),
        ("created_at", json!("now")),
    ] {
        let mut broken = real.clone();
        broken[field] = value.clone();
        relay.send_json(&json!(["EVENT", broken])).await;
        let said = relay.answer_to(&id).await.refused();
        assert!(said.starts_with("invalid:"), "{field}={value}: {said}");
    }
    assert!(relay.query(&[json!({"ids": [id]})]).await.is_empty());
}

/// EV-3
#[tokio::test]
async fn ephemeral_events_are_broadcast_and_forgotten() {
    let (server, alice) = with_repository().await;
    let mut watcher = server.relay().await;
    watcher.subscribe("s", &[json!({"kinds": [29846]})]).await;
    watcher.stored("s").await;
    let event = Person::named("carol")
        .draft(29_846)
        .tag(["a", &alice.coordinate()])
        .sign();
    server.publish(&event).await.accepted();
    assert_eq!(watcher.live("s").await, event);
    assert!(!server.serves(&event).await);
    let orphan = Person::named("carol").draft(29_846).sign();
    server.publish(&orphan).await.refused();
}

/// G1-4, REL-2, REL-3, REL-4, cases 43: acceptance is transitive; orphans and waiting repositories anchor nothing.
#[tokio::test]
async fn related_events_are_accepted_and_orphans_refused() {
    let (server, alice) = with_repository().await;
    let carol = Person::named("carol");
    let refusal = "must reference an accepted repository or accepted event";
    let orphan = carol.draft(1).content("hello").sign();
    assert!(server.publish(&orphan).await.refused().contains(refusal));
    let other = Person::named("bob").coordinate("project");
    let elsewhere = carol.issue(&other).sign();
    assert!(
        server.publish(&elsewhere).await.refused().contains(refusal),
        "REL-3: exact author"
    );
    let waiting = Maintainer::named_announcing("bob", "waiting", &server).await;
    let early = carol.issue(&waiting.coordinate()).sign();
    assert!(
        server.publish(&early).await.refused().contains(refusal),
        "REL-4"
    );

    let old_patch = carol
        .draft(1617)
        .tag(["a", &alice.coordinate()])
        .content("diff")
        .at(1_550_000_000)
        .sign();
    assert_eq!(
        server.publish(&old_patch).await.accepted(),
        "",
        "age is no reason"
    );
    let issue = carol.issue(&alice.coordinate()).sign();
    server.publish(&issue).await.accepted();
    let comment = Person::named("dave").comment(&issue).sign();
    server.publish(&comment).await.accepted();
    let reply = Person::named("erin")
        .draft(1)
        .tag(["e", &comment.id.to_hex()])
        .content("+1")
        .sign();
    server.publish(&reply).await.accepted();
    let quote = Person::named("erin")
        .draft(1)
        .tag(["q", &alice.coordinate()])
        .sign();
    server.publish(&quote).await.accepted();
    let status = alice
        .person
        .draft(1632)
        .tag(["e", &issue.id.to_hex()])
        .sign();
    server.publish(&status).await.accepted();
    for event in [&old_patch, &issue, &comment, &reply, &quote, &status] {
        assert!(server.serves(event).await);
    }
}

/// REL-2: named by a served event, before or after.
#[tokio::test]
async fn what_a_served_event_names_may_come_later() {
    let (server, alice) = with_repository().await;
    let named = Person::named("dave").draft(1).content("named").sign();
    server.publish(&named).await.refused();
    let issue = Person::named("carol")
        .issue(&alice.coordinate())
        .tag(["q", &named.id.to_hex()])
        .sign();
    server.publish(&issue).await.accepted();
    server.publish(&named).await.accepted();
    // REL-6: it anchors nothing further.
    let reply = Person::named("erin")
        .draft(1)
        .tag(["e", &named.id.to_hex()])
        .sign();
    server.publish(&reply).await.refused();
}

/// EV-2: lists of users, and profiles of those who take part.
#[tokio::test]
async fn profiles_are_for_participants_and_grasp_lists_for_all() {
    let (server, alice) = with_repository().await;
    let stranger = Person::named("zoe");
    let list = stranger.draft(10317).tag(["g", &server.ws]).sign();
    server.publish(&list).await.accepted();
    let profile = |who: &Person| who.draft(0).content("{}").sign();
    let said = server.publish(&profile(&stranger)).await.refused();
    assert!(said.contains("author must participate"), "{said}");
    server.publish(&profile(&alice.person)).await.accepted();
    // REL-5: such events anchor nothing.
    let reply = Person::named("dave")
        .draft(1)
        .tag(["e", &list.id.to_hex()])
        .sign();
    server.publish(&reply).await.refused();
}

/// KIND-7
#[tokio::test]
async fn an_event_of_the_far_future_is_refused() {
    let (server, alice) = with_repository().await;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    let early = Person::named("carol")
        .issue(&alice.coordinate())
        .at(now + 300)
        .sign();
    server.publish(&early).await.accepted();
    let state = alice
        .person
        .state(
            "project",
            [("refs/heads/main", alice.work.rev("HEAD").await)],
        )
        .at(now + 3_600)
        .sign();
    assert!(
        server
            .publish(&state)
            .await
            .refused()
            .starts_with("invalid:")
    );
}

/// G1-2, NAME-5, cases 71: this service in both tags, by parts and never by substring.
#[tokio::test]
async fn an_announcement_must_list_this_service_in_both_tags() {
    let server = Server::spawn().await;
    let alice = Person::named("alice");
    let npub = alice.npub();
    let clone = server.clone_url(&npub, "project");
    let relay = server.ws.clone();
    let port = server.authority.rsplit_once(':').expect("a port").1;
    let elsewhere = format!(
        "https://attacker.example/{}/{npub}/project.git",
        server.authority
    );
    let longer = clone.replace("127.0.0.1", "127.0.0.1.attacker.example");
    let userinfo = clone.replace("http://", "http://x@");
    let other_port = clone.replace(port, "1");
    let other_owner = server.clone_url(&Person::named("bob").npub(), "project");
    let other_name = server.clone_url(&npub, "other");
    let other_relay = format!("{relay}/x");
    for (clone, relay) in [
        ("", relay.as_str()),
        (clone.as_str(), ""),
        (&elsewhere, &relay),
        (&longer, &relay),
        (&userinfo, &relay),
        (&other_port, &relay),
        (&other_owner, &relay),
        (&other_name, &relay),
        (&clone, "ws://attacker.example"),
        (&clone, &other_relay),
    ] {
        let draft = alice.draft(30617).tag(["d", "project"]);
        let announcement = draft.tag(["clone", clone]).tag(["relays", relay]).sign();
        let said = server.publish(&announcement).await.refused();
        assert!(
            said.starts_with(
                "invalid: Announcement must list service in both 'clone' and 'relays' tags"
            ),
            "{clone} {relay}: {said}"
        );
    }
    assert!(!server.git_dir().join(&npub).exists());
    // KIND-4: several tags, several values, other servers beside us.
    let several = alice
        .draft(30617)
        .tag(["d", "project"])
        .tag(["clone", "https://a.example/x.git"])
        .tag(["clone", "https://b.example/x.git", &clone])
        .tag(["relays", "wss://a.example", &format!("{relay}/")])
        .sign();
    server.publish(&several).await.accepted();
}
