//! Who runs the relay is known here from the start, and where people look for it as soon as that answers (IDN-2).

use grasp_testkit::{Event, FakeRelay, Person, Server, Value, eventually, json};

/// Index relays of these tests are on loopback, where a server does not go by itself (NET-2).
async fn known_at(owner: &Person, index: &[&str]) -> Server {
    Server::configured()
        .env("NGIT_RELAY_OWNER_NSEC", owner.secret_hex())
        .env("NGIT_RELAY_NAME", "The Forge")
        .env("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", true)
        .env("NGIT_USER_INDEX_RELAYS", index.join(","))
        .spawn()
        .await
}

async fn card(server: &Server, owner: &Person, kind: u16) -> Event {
    let filter = json!({"authors": [owner.hex()], "kinds": [kind]});
    let mut events = server.query(filter).await;
    assert_eq!(events.len(), 1, "kind {kind}: {events:?}");
    events.remove(0)
}

fn as_json(event: &Event) -> Value {
    event.as_json().parse().expect("JSON")
}

/// IDN-2: nobody else is needed for it.
#[tokio::test]
async fn the_owner_is_introduced_at_the_start_without_any_network() {
    let owner = Person::named("owner");
    let mut server = known_at(&owner, &["ws://127.0.0.1:1"]).await;
    let profile = card(&server, &owner, 0).await;
    let said: Value = profile.content.parse().expect("JSON");
    assert_eq!(
        (&said["name"], &said["bot"]),
        (&json!("The Forge"), &json!(true))
    );
    let host = server.ws.trim_start_matches("ws://");
    assert_eq!(said["nip05"], json!(format!("_@{host}")));
    let relays = card(&server, &owner, 10002).await;
    assert_eq!(as_json(&relays)["tags"], json!([["r", server.ws]]));
    server.restart().await;
    assert_eq!(
        card(&server, &owner, 0).await,
        profile,
        "it is there already"
    );
}

/// IDN-2: what the owner wrote counts, however old; and who lacks it gets it.
#[tokio::test]
async fn what_the_owner_published_elsewhere_is_taken_in_and_passed_on() {
    let owner = Person::named("owner");
    let profile = owner.draft(0).content(r#"{"name":"Olivia"}"#);
    let profile = profile.at(1_700_000_000).sign();
    let knows = FakeRelay::keeping(vec![as_json(&profile)]).await;
    let lacks = FakeRelay::keeping(Vec::new()).await;
    let server = known_at(&owner, &[&knows.ws, &lacks.ws]).await;
    eventually("the profile is taken in", async || {
        card(&server, &owner, 0).await == profile
    })
    .await;
    eventually(
        "the other relay has it too, and where the owner is",
        async || lacks.kept().len() == 2 && knows.kept().len() == 2,
    )
    .await;
    assert!(lacks.kept().contains(&as_json(&profile)));
    let relays = card(&server, &owner, 10002).await;
    assert!(lacks.kept().contains(&as_json(&relays)));
    assert!(knows.kept().contains(&as_json(&relays)));
}

/// IDN-2: a relay that does not answer may hold what the owner wrote, so nothing that was made up goes out before.
#[tokio::test]
async fn nothing_made_up_is_published_while_an_index_relay_is_silent() {
    let owner = Person::named("owner");
    let profile = owner
        .draft(0)
        .content(r#"{"name":"Olivia"}"#)
        .at(1_700_000_000);
    let profile = profile.sign();
    let knows = FakeRelay::keeping(vec![as_json(&profile)]).await;
    let lacks = FakeRelay::keeping(Vec::new()).await;
    let server = known_at(&owner, &[&knows.ws, &lacks.ws, "ws://127.0.0.1:1"]).await;
    eventually("what is known is passed on", async || {
        lacks.kept() == [as_json(&profile)]
    })
    .await;
    // The relay list was settled in the same round, before or after: it stays at home.
    eventually("the round is over", async || {
        server.log().contains("an index relay was not told")
    })
    .await;
    assert_eq!(knows.kept(), [as_json(&profile)]);
}
