//! What monitoring reads, and that all of it moves (§20).

#![expect(
    clippy::float_cmp,
    reason = "counts are whole numbers, and a page is written from them"
)]

use std::collections::{BTreeMap, BTreeSet};

use grasp_testkit::wait::eventually;
use grasp_testkit::{GitHome, HttpConnection, HttpResponse, Maintainer, Person, Server, json};

/// Each series with its labels, and its value.
pub(crate) type Series = BTreeMap<String, f64>;

/// Reads a page as a scraper does: every line is a comment or a series, and none is there twice.
fn parse(page: &HttpResponse) -> Series {
    assert_eq!(page.status, 200);
    let kind = page.header("content-type");
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let mut series = Series::new();
    let mut typed = String::new();
    for line in page.text().lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            rest.split_once(' ')
                .expect("a name and a type")
                .0
                .clone_into(&mut typed);
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            assert!(name.starts_with(&typed), "{line} belongs to no type");
            let value = value.parse().expect("a number");
            assert!(
                series.insert(name.to_owned(), value).is_none(),
                "{line} is there twice"
            );
        }
    }
    series
}

pub(crate) async fn scrape(server: &Server) -> Series {
    parse(&server.request("GET", "/metrics", &[]).await)
}

/// What did not grow by at least so much.
pub(crate) fn still(before: &Series, after: &Series, expected: &[(&str, f64)]) -> Vec<String> {
    let value = |series: &Series, name: &str| series.get(name).copied();
    expected
        .iter()
        .filter(|(name, growth)| {
            let grown = value(after, name).zip(value(before, name));
            grown.is_none_or(|(after, before)| after - before < *growth)
        })
        .map(|(name, _)| {
            format!(
                "{name}: {:?} -> {:?}",
                value(before, name),
                value(after, name)
            )
        })
        .collect()
}

/// What one project causes: at least so much of each, by the end of the next test.
const MOVED: &[(&str, f64)] = &[
    ("ngit_websocket_connections_total", 4.0),
    ("ngit_websocket_connection_duration_seconds_count", 4.0),
    (
        "ngit_websocket_connection_duration_seconds_bucket{le=\"3600\"}",
        4.0,
    ),
    (
        "ngit_websocket_messages_received_total{type=\"event\"}",
        5.0,
    ),
    ("ngit_websocket_messages_received_total{type=\"req\"}", 1.0),
    ("ngit_websocket_messages_sent_total{type=\"ok\"}", 5.0),
    ("ngit_websocket_messages_sent_total{type=\"eose\"}", 1.0),
    ("ngit_websocket_messages_sent_total{type=\"event\"}", 1.0),
    ("ngit_events_received_total{kind=\"30617\"}", 1.0),
    ("ngit_events_received_total{kind=\"30618\"}", 3.0),
    ("ngit_events_received_total{kind=\"other\"}", 1.0),
    ("ngit_events_stored_total{kind=\"30617\"}", 1.0),
    ("ngit_events_stored_total{kind=\"30618\"}", 2.0),
    (
        "ngit_events_rejected_total{kind=\"other\",reason=\"unrelated\"}",
        1.0,
    ),
    (
        "ngit_events_rejected_total{kind=\"30618\",reason=\"unauthorised\"}",
        1.0,
    ),
    (
        "ngit_git_operations_total{operation=\"clone\",status=\"success\"}",
        1.0,
    ),
    (
        "ngit_git_operations_total{operation=\"fetch\",status=\"success\"}",
        1.0,
    ),
    (
        "ngit_git_operations_total{operation=\"push\",status=\"success\"}",
        2.0,
    ),
    (
        "ngit_git_operations_total{operation=\"push\",status=\"error\"}",
        1.0,
    ),
    (
        "ngit_git_operation_duration_seconds_count{operation=\"clone\"}",
        1.0,
    ),
    (
        "ngit_git_operation_duration_seconds_count{operation=\"fetch\"}",
        1.0,
    ),
    (
        "ngit_git_operation_duration_seconds_count{operation=\"push\"}",
        3.0,
    ),
    (
        "ngit_git_operation_duration_seconds_sum{operation=\"push\"}",
        0.001,
    ),
    ("ngit_git_bytes_total{direction=\"in\"}", 500.0),
    ("ngit_git_bytes_total{direction=\"out\"}", 500.0),
    ("ngit_git_push_authorization_total{result=\"allowed\"}", 2.0),
    ("ngit_git_push_authorization_total{result=\"denied\"}", 1.0),
    ("ngit_repositories_total", 1.0),
    ("ngit_fanout_lag_seconds_count", 2.0),
    ("ngit_store_commit_duration_seconds_count", 4.0),
    ("ngit_store_commit_members_sum", 4.0),
    ("ngit_store_events{stage=\"served\"}", 2.0),
    ("ngit_store_bytes{stage=\"served\"}", 500.0),
    ("ngit_store_events{stage=\"superseded\"}", 1.0),
    ("ngit_uptime_seconds", 0.01),
];

/// §20: the peer defines some of these and never moves them.
#[tokio::test]
async fn every_series_moves_when_what_it_counts_happens() {
    let server = Server::spawn().await;
    let before = scrape(&server).await;

    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    alice.push().await.refused();
    alice.publish_state([("refs/heads/main", &first)]).await;
    let mut watcher = server.relay().await;
    watcher
        .subscribe("live", &[json!({"kinds": [30618]})])
        .await;
    watcher.stored("live").await;
    // The clients before have hung up, and the server hears of it in its own time.
    let mut open = scrape(&server).await;
    eventually("only the watcher is connected", async || {
        open = scrape(&server).await;
        open["ngit_websocket_connections_active"] == 1.0
    })
    .await;
    for name in ["ngit_websocket_unique_ips", "ngit_websocket_subscriptions"] {
        assert_eq!(open[name], 1.0, "{name}");
    }
    assert_eq!(open["ngit_websocket_flagged_abusers"], 0.0);
    alice.push().await.accepted();
    watcher.live("live").await;
    drop(watcher);

    let home = GitHome::new();
    let clone = home.clone_of(&alice.url(), "clone").await;
    alice.advance("second").await;
    clone.git(["pull"]).await;
    let stranger = Person::named("stranger");
    let unrelated = stranger.draft(1).content("hello").sign();
    server.publish(&unrelated).await.refused();
    let state = stranger.state("project", [("refs/heads/main", &first)]);
    server.publish(&state.sign()).await.refused();

    eventually("every series has moved", async || {
        let after = scrape(&server).await;
        let still = still(&before, &after, MOVED);
        if !still.is_empty() {
            eprintln!("{still:#?}");
        }
        still.is_empty()
    })
    .await;
}

/// PUR-1, §20
#[tokio::test]
async fn what_waits_is_counted_by_its_sort() {
    let server = Server::configured();
    let server = server.env("NGIT_HUNT_DELAY_MS", 180_000).spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    alice.publish_state([("refs/heads/main", &first)]).await;
    let waiting = scrape(&server).await;
    for sort in ["announcement", "state"] {
        let name = format!("ngit_purgatory_events{{type=\"{sort}\"}}");
        assert_eq!(waiting[&name], 1.0, "{name}");
    }
    assert!(waiting["ngit_purgatory_bytes"] > 0.0);
    assert_eq!(waiting["ngit_store_events{stage=\"waiting\"}"], 2.0);
    assert_eq!(waiting["ngit_purgatory_hunts"], 1.0);
    assert_eq!(waiting["ngit_purgatory_uploads"], 0.0);
    let other = Maintainer::named_serving("bob", "other", &server).await;
    let upload = format!("main:refs/nostr/{}", "a5".repeat(32));
    other.push_refs(&[&upload]).await.accepted();
    let seen = scrape(&server).await;
    assert_eq!(seen["ngit_purgatory_uploads"], 1.0);
    let longest = "ngit_purgatory_longest_wait_seconds";
    assert!(waiting.contains_key(longest) && seen[longest] < 1800.0);
}

/// §20
#[tokio::test]
async fn the_process_is_described_as_everywhere() {
    let server = Server::spawn().await;
    let seen = scrape(&server).await;
    for name in [
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_threads",
        "process_start_time_seconds",
    ] {
        assert!(seen[name] > 0.0, "{name}");
    }
    assert!(seen.contains_key("process_cpu_seconds_total"));
    let build: Vec<_> = seen
        .keys()
        .filter(|name| name.starts_with("ngit_build_info"))
        .collect();
    let [build] = build.as_slice() else {
        panic!("one build: {build:?}");
    };
    assert!(
        build.contains("version=\"") && build.contains("commit=\""),
        "{build}"
    );
}

/// BND-1: what refuses is documented, and what is documented refuses.
#[tokio::test]
async fn the_table_of_limits_has_every_series_and_no_other() {
    let seen = scrape(&Server::spawn().await).await;
    let shown: BTreeSet<&str> = seen
        .keys()
        .filter_map(|name| name.strip_prefix("ngit_limit_refusals_total{limit=\""))
        .filter_map(|rest| rest.strip_suffix("\"}"))
        .collect();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/features/limits.md");
    let page = std::fs::read_to_string(page).expect("readable");
    let documented: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with("| "))
        .filter_map(|line| line.split('|').map(str::trim).nth(6))
        .filter_map(|series| series.strip_prefix('`')?.strip_suffix('`'))
        .collect();
    assert_eq!(documented, shown);
}

/// BND-1: the series of a limit says which one it was.
#[tokio::test]
async fn a_refusal_by_a_limit_moves_the_series_of_that_limit_alone() {
    let server = Server::configured()
        .env("NGIT_RELAY_MAX_FILTERS", 1)
        .env("NGIT_PURGATORY_AUTHOR_ANNOUNCEMENTS", 1)
        .env("NGIT_METRICS_CONNECTION_PER_IP_ABUSE_THRESHOLD", 1)
        .spawn()
        .await;
    let before = scrape(&server).await;
    let (mut one, _other) = (server.relay().await, server.relay().await);
    one.send_json(&json!(["REQ", "two", {"kinds": [1]}, {"kinds": [2]}]))
        .await;
    one.expect_where(|message| message[0] == "CLOSED").await;
    let alice = Person::named("alice");
    for name in ["a", "b"] {
        let announcement = alice.announcement(name, server.endpoint()).sign();
        one.publish(&announcement).await;
    }
    let after = scrape(&server).await;
    assert_eq!(after["ngit_websocket_flagged_abusers"], 1.0);
    let moved: Vec<&str> = after
        .iter()
        .filter(|(name, _)| name.starts_with("ngit_limit_refusals_total"))
        .filter(|(name, count)| before[*name] != **count)
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(
        moved,
        [
            "ngit_limit_refusals_total{limit=\"filters\"}",
            "ngit_limit_refusals_total{limit=\"purgatory_author_announcements\"}"
        ]
    );
}

/// The relay that a series is about; `None` for `other` and what is about none.
fn relay_of(series: &str) -> Option<&str> {
    let (_, relay) = series.split_once("{relay=\"")?;
    let (relay, _) = relay.split_once('"')?;
    Some(relay).filter(|relay| *relay != "other")
}

/// cases 80, §20: of the relays that clients name a few have series of their own.
#[tokio::test]
async fn the_number_of_series_does_not_depend_on_what_clients_send() {
    let server = Server::configured()
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 100_000)
        .env("NGIT_RELAY_MESSAGES_PER_MINUTE", 100_000)
        .env("NGIT_PURGATORY_AUTHOR_ANNOUNCEMENTS", 100_000)
        .env("NGIT_METRICS_TOP_N_RELAYS", 7)
        .spawn()
        .await;
    let before: Vec<String> = scrape(&server).await.into_keys().collect();
    let alice = Person::named("alice");
    let mut relay = server.relay().await;
    let mut sent = Vec::new();
    for at in 0..5_000 {
        let (identifier, elsewhere) = (format!("project-{at}"), format!("relay-{at}.example.com"));
        let announcement = alice
            .announcement(&identifier, server.endpoint())
            .without("relays")
            .tag(["relays", &server.ws, &format!("wss://{elsewhere}")])
            .sign();
        relay.send_event(&announcement).await;
        sent.push(announcement.id.to_hex());
        // As many in flight as a client may have without waiting.
        if sent.len() == 50 {
            for id in sent.drain(..) {
                relay.answer_to(&id).await.accepted();
            }
        }
    }
    let odd = alice.draft(54_321).content("a kind nobody knows").sign();
    relay.publish(&odd).await.refused();
    let after = scrape(&server).await;
    assert_eq!(
        after["ngit_purgatory_events{type=\"announcement\"}"],
        5_000.0
    );
    let (of_relays, others): (Vec<String>, Vec<String>) =
        after.into_keys().partition(|name| relay_of(name).is_some());
    assert_eq!(others, before);
    let relays: BTreeSet<_> = of_relays.iter().filter_map(|name| relay_of(name)).collect();
    assert!(relays.len() <= 7, "{relays:?}");
}

/// §12, §20
#[tokio::test]
async fn switched_off_the_page_is_not_found() {
    let server = Server::configured()
        .env("NGIT_METRICS_ENABLED", "false")
        .spawn()
        .await;
    assert_eq!(server.request("GET", "/metrics", &[]).await.status, 404);
}

/// §20
#[tokio::test]
async fn an_address_of_its_own_has_the_page_and_the_public_one_has_not() {
    let own = free_address();
    let server = Server::configured()
        .env("NGIT_METRICS_BIND_ADDRESS", &own)
        .env("NGIT_BASE_PATH", "/grasp")
        .spawn()
        .await;
    assert_eq!(
        server.request("GET", "/grasp/metrics", &[]).await.status,
        404
    );
    let mut connection = HttpConnection::connect(&own).await;
    let seen = parse(&connection.request("GET", "/metrics", &[]).await);
    assert!(seen.contains_key("ngit_uptime_seconds"));
    let head = connection.request("HEAD", "/metrics", &[]).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    for other in ["/", "/healthz", "/grasp/metrics"] {
        assert_eq!(
            connection.request("GET", other, &[]).await.status,
            404,
            "{other}"
        );
    }
}

/// HTTP-2
#[tokio::test]
async fn the_page_is_below_the_base_path_and_answers_head() {
    let server = Server::configured()
        .env("NGIT_BASE_PATH", "/grasp")
        .spawn()
        .await;
    assert_eq!(server.request("GET", "/metrics", &[]).await.status, 404);
    let head = server.request("HEAD", "/grasp/metrics", &[]).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert!(!head.header("content-length").is_empty());
}

/// An address that nobody listens on.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").to_string()
}
