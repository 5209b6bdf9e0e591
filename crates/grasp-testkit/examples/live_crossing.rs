//! How long a live event takes from one server to the other: `cargo run --release -p grasp-testkit --example live_crossing`
//! after `cargo build --release`.
//!
//! Two real servers on loopback that serve the same repository, nothing set but what loopback needs. Issues are published in
//! turn at the one and at the other; the clock runs from the `EVENT` that a client sends to the `EVENT` that a
//! subscriber of the other server gets. Fails if one took longer than [`LIMIT`].

#![allow(
    clippy::print_stdout,
    reason = "a program that measures tells what it saw"
)]

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use grasp_testkit::wait::eventually_within;
use grasp_testkit::{Event, Maintainer, Person, RelayClient, Server, json};

/// Issues that cross.
const CROSSINGS: usize = 200;
/// None may take longer (issue 4).
const LIMIT: Duration = Duration::from_secs(2);
/// In the beginning the servers have to find each other.
const ACQUAINTED: Duration = Duration::from_mins(3);

async fn server() -> Server {
    Server::configured()
        .without_env("NGIT_TEST")
        .env("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", true)
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 100_000)
        .env("NGIT_ADDRESS_EVENTS_PER_MINUTE", 100_000)
        .spawn()
        .await
}

/// A repository that both serve.
async fn hosted_by(a: &Server, b: &Server) -> Maintainer {
    let alice = Maintainer::new("project", a.endpoint()).await;
    let tip = alice.commit("first").await;
    let endpoints = [a.endpoint(), b.endpoint()];
    let announcement = alice.person.announcement_on("project", &endpoints).sign();
    let state = alice.state([("refs/heads/main", tip)]);
    for server in [a, b] {
        server.publish(&announcement).await.accepted();
        server.publish(&state).await.accepted();
        alice.push_to(server.endpoint()).await.accepted();
        server.eventually_serves(&announcement).await;
    }
    alice
}

fn issue(alice: &Maintainer, number: usize) -> Event {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since_1970.expect("after 1970").as_secs();
    let issue = Person::named("bob");
    let issue = issue.issue(&alice.coordinate());
    issue.content(&number.to_string()).at(now).sign()
}

async fn crossed(from: &Server, to: &Server, event: &Event) {
    from.publish(event).await.accepted();
    eventually_within(ACQUAINTED, "the servers know each other", async || {
        to.serves(event).await
    })
    .await;
}

/// A client that publishes at a server, and follows what it serves.
async fn client(server: &Server) -> RelayClient {
    let mut client = server.relay().await;
    let all = json!(["REQ", "live", {"kinds": [1621], "limit": 0}]);
    client.send_json(&all).await;
    client.expect_where(|said| said[0] == "EOSE").await;
    client
}

#[tokio::main]
async fn main() -> ExitCode {
    let (a, b) = (server().await, server().await);
    let alice = hosted_by(&a, &b).await;
    crossed(&a, &b, &issue(&alice, CROSSINGS)).await;
    crossed(&b, &a, &issue(&alice, CROSSINGS + 1)).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    let mut times = Vec::new();
    for number in 0..CROSSINGS {
        let (from, to) = if number % 2 == 0 {
            (&mut at_a, &mut at_b)
        } else {
            (&mut at_b, &mut at_a)
        };
        let event = issue(&alice, number);
        let id = event.id.to_hex();
        let clock = Instant::now();
        from.publish(&event).await.accepted();
        to.expect_where(|said| said[0] == "EVENT" && said[2]["id"] == id.as_str())
            .await;
        times.push(clock.elapsed());
    }
    times.sort_unstable();
    let (half, most) = (times[CROSSINGS / 2], times[CROSSINGS - 1]);
    println!("{CROSSINGS} live events crossed: p50 {half:?}, max {most:?}");
    if most > LIMIT {
        println!("that is more than {LIMIT:?}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
