//! Servers heal each other: what one holds of a repository, the others that its announcement lists soon hold too
//! (GRASP-02). Git data is not part of it: each server got that by a push of its own.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grasp_testkit::wait::eventually_within;
use grasp_testkit::{
    Draft, Endpoint, Event, FakeRelay, Maintainer, Person, Server, ServerBuilder, Value, json,
};

/// What one server holds the other must hold within this time. Mostly it takes seconds.
const CAUGHT_UP: Duration = Duration::from_mins(3);

/// Loopback is no place that a server dials by itself (NET-2); and one that was away is tried again soon.
fn configured() -> ServerBuilder {
    Server::configured()
        .env("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", true)
        .env("NGIT_SYNC_MAX_BACKOFF_SECS", 5)
}

async fn servers<const N: usize>() -> [Server; N] {
    let mut servers = Vec::new();
    for _ in 0..N {
        servers.push(configured().spawn().await);
    }
    servers.try_into().expect("as many as were spawned")
}

fn endpoints<'a>(servers: &[&'a Server]) -> Vec<&'a Endpoint> {
    servers.iter().map(|server| server.endpoint()).collect()
}

/// A repository that all of them serve.
async fn hosted_by(identifier: &str, servers: &[&Server]) -> Maintainer {
    let alice = Maintainer::new(identifier, servers[0].endpoint()).await;
    let tip = alice.commit("first").await;
    let announcement = alice
        .person
        .announcement_on(identifier, &endpoints(servers));
    let announcement = announcement.sign();
    let state = alice.state([("refs/heads/main", tip)]);
    for server in servers {
        server.publish(&announcement).await.accepted();
        server.publish(&state).await.accepted();
        alice.push_to(server.endpoint()).await.accepted();
        server.eventually_serves(&announcement).await;
        server.eventually_serves(&state).await;
    }
    alice
}

async fn catches_up(server: &Server, events: &[&Event]) {
    for event in events {
        let what = format!("kind {} is served", event.kind);
        eventually_within(CAUGHT_UP, &what, async || server.serves(event).await).await;
    }
}

/// Signs with the present time: a server that was away for minutes asks for what was made since.
fn now(draft: Draft<'_>) -> Event {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since_1970.expect("after 1970").as_secs();
    draft.at(now).sign()
}

/// An issue with a comment, a reply to the comment, and another that names nothing but the comment.
fn conversation(coordinate: &str, topic: &str) -> [Event; 4] {
    let (bob, carol) = (Person::named("bob"), Person::named("carol"));
    let issue = now(bob.issue(coordinate).content(topic));
    let comment = now(carol.comment(&issue));
    let reply = bob.comment(&issue).content("a reply");
    let reply = now(reply.without("e").tag(["e", &comment.id.to_hex()]));
    let aside = carol.draft(1111).tag(["e", &comment.id.to_hex()]);
    let aside = now(aside.tag(["k", "1111"]).content("by the way"));
    [issue, comment, reply, aside]
}

async fn publish_all(server: &Server, events: &[Event]) {
    for event in events {
        server.publish(event).await.accepted();
    }
}

/// G2-1, SYNC-2, SYNC-31, SYNC-35: issue 4, "two servers".
#[tokio::test]
async fn what_was_published_while_a_server_was_down_is_there_after_its_start() {
    let [a, mut b] = servers().await;
    let alice = hosted_by("project", &[&a, &b]).await;
    assert!(b.terminate().await.success());
    let events = conversation(&alice.coordinate(), "news");
    publish_all(&a, &events).await;
    b.start_again().await;
    catches_up(&b, &events.each_ref()).await;
    let live = now(Person::named("carol").issue(&alice.coordinate()));
    a.publish(&live).await.accepted();
    catches_up(&b, &[&live]).await;
    let back = now(Person::named("dave").comment(&live));
    b.publish(&back).await.accepted();
    catches_up(&a, &[&back]).await;
    let status = b.operate(&["sync", "status"]).await.fine();
    assert!(
        status.contains(&a.ws) && !status.contains(&b.ws),
        "{status}"
    );
    let page = b.request("GET", "/metrics", &[]).await;
    let page = page.text();
    let synced = page
        .lines()
        .find_map(|line| line.strip_prefix("ngit_sync_events_synced_total "));
    let synced: usize = synced.and_then(|it| it.parse().ok()).expect("a number");
    assert!(
        synced > events.len(),
        "all of them and the live one: {synced}"
    );
}

/// G2-1: in any order, and without a farewell.
#[tokio::test]
async fn servers_that_are_killed_in_turn_end_with_the_same_events() {
    let [mut a, mut b] = servers().await;
    let alice = hosted_by("project", &[&a, &b]).await;
    let while_b_is_down = conversation(&alice.coordinate(), "b is down");
    b.kill9().await;
    publish_all(&a, &while_b_is_down).await;
    a.kill9().await;
    b.start_again().await;
    let while_a_is_down = conversation(&alice.coordinate(), "a is down");
    publish_all(&b, &while_a_is_down).await;
    a.start_again().await;
    catches_up(&a, &while_a_is_down.each_ref()).await;
    catches_up(&b, &while_b_is_down.each_ref()).await;
    b.kill9().await;
    let last = now(Person::named("dave").comment(&while_a_is_down[0]));
    a.publish(&last).await.accepted();
    b.start_again().await;
    catches_up(&b, &[&last]).await;
}

/// G2-1: what a third server has from the second, the first need not give.
#[tokio::test]
async fn events_reach_a_server_that_never_met_their_author_s() {
    let [mut a, mut b, mut c] = servers().await;
    let alice = hosted_by("project", &[&a, &b, &c]).await;
    b.kill9().await;
    c.kill9().await;
    let events = conversation(&alice.coordinate(), "news");
    publish_all(&a, &events).await;
    b.start_again().await;
    catches_up(&b, &events.each_ref()).await;
    a.kill9().await;
    c.start_again().await;
    catches_up(&c, &events.each_ref()).await;
}

/// SYNC-31: a deletion comes by sync like all else, and what it gates does not come back.
#[tokio::test]
async fn a_deletion_reaches_the_others_and_what_it_deleted_does_not_return() {
    let [mut a, b] = servers().await;
    let alice = hosted_by("project", &[&a, &b]).await;
    let events = conversation(&alice.coordinate(), "news");
    publish_all(&a, &events).await;
    catches_up(&b, &events.each_ref()).await;
    a.kill9().await;
    let [issue, ..] = &events;
    let deletion = now(Person::named("bob").deletion(issue));
    b.publish(&deletion).await.accepted();
    assert!(!b.serves(issue).await);
    a.start_again().await;
    catches_up(&a, &[&deletion]).await;
    eventually_within(CAUGHT_UP, "the issue is gone", async || {
        !a.serves(issue).await
    })
    .await;
    assert!(
        !b.serves(issue).await,
        "and it did not come back from there"
    );
}

/// SYNC-30: nothing is believed but what its author signed, and an event that is not wanted here stays out.
#[tokio::test]
async fn what_a_relay_forges_is_not_served() {
    let [server] = servers().await;
    let here = hosted_by("project", &[&server]).await;
    let issue = now(Person::named("bob").issue(&here.coordinate()));
    let unrelated = now(Person::named("bob").draft(1621).content("elsewhere"));
    let real: Vec<Value> = [&issue, &unrelated].map(serde_json).into();
    let mut forged = serde_json(&now(Person::named("carol").issue(&here.coordinate())));
    forged["sig"] = json!("11".repeat(64));
    let carols = Person::named("carol");
    let altered = carols.issue(&here.coordinate()).content("her words");
    let mut altered = serde_json(&now(altered));
    altered["content"] = json!("something else");
    let events = [&[forged.clone(), altered.clone()], real.as_slice()].concat();
    let relay = FakeRelay::handing_out(events).await;
    let announcement = here.person.announcement_on("project", &[server.endpoint()]);
    let relays = ["relays", &server.ws, &relay.ws];
    let announcement = announcement.without("relays").tag(relays).sign();
    server.publish(&announcement).await.accepted();
    catches_up(&server, &[&issue]).await;
    let bad = [&forged["id"], &altered["id"], &json!(unrelated.id.to_hex())];
    assert_eq!(server.query(json!({"ids": bad})).await, []);
}

/// NET-2, NET-4: a server that was not told to trust its own network dials nobody in it.
#[tokio::test]
async fn nobody_is_dialled_on_a_loopback_address_unless_the_operator_wants_it() {
    let a = configured().spawn().await;
    let b = Server::spawn().await;
    let alice = hosted_by("project", &[&a, &b]).await;
    let to_b = now(Person::named("bob").issue(&alice.coordinate()));
    b.publish(&to_b).await.accepted();
    catches_up(&a, &[&to_b]).await;
    let to_a = now(Person::named("carol").issue(&alice.coordinate()));
    a.publish(&to_a).await.accepted();
    // Whatever B could have asked A it has asked by now: A has had the same time for more.
    let again = now(Person::named("bob").comment(&to_b));
    b.publish(&again).await.accepted();
    catches_up(&a, &[&again]).await;
    assert!(!b.serves(&to_a).await);
}

fn serde_json(event: &Event) -> Value {
    event.as_json().parse().expect("it is JSON")
}

/// SYNC-1, issue 4, "live events cross": a relay that has nothing stored for whoever asks, and tells it only to who follows.
#[tokio::test]
async fn what_happens_elsewhere_comes_by_the_live_subscription() {
    let [server] = servers().await;
    let here = hosted_by("project", &[&server]).await;
    let issue = now(Person::named("bob").issue(&here.coordinate()));
    let relay = FakeRelay::telling_live(vec![serde_json(&issue)]).await;
    let announcement = here.person.announcement_on("project", &[server.endpoint()]);
    let relays = ["relays", &server.ws, &relay.ws];
    let announcement = announcement.without("relays").tag(relays).sign();
    server.publish(&announcement).await.accepted();
    catches_up(&server, &[&issue]).await;
}
