//! What monitoring reads of looking for git data elsewhere, and that all of it moves (§20).

use std::time::Duration;

use grasp_testkit::wait::eventually_within;
use grasp_testkit::{Behaviour, Event, GitHome, GitHost, Maintainer, Server, ServerBuilder};

use crate::metrics::{Series, scrape, still};

/// Only a test that fails ever waits for so long.
const DEADLINE: Duration = Duration::from_mins(1);
/// The same where half a minute of silence comes first (HUNT-8).
const AFTER_SILENCE: Duration = Duration::from_mins(3);

/// Loopback is no place that a server goes to by itself (NET-2).
fn configured() -> ServerBuilder {
    Server::configured().env("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", true)
}

async fn move_within(
    deadline: Duration,
    server: &Server,
    before: &Series,
    expected: &[(&str, f64)],
) {
    eventually_within(deadline, "every series has moved", async || {
        let after = scrape(server).await;
        let still = still(before, &after, expected);
        if !still.is_empty() {
            eprintln!("{still:#?}");
        }
        still.is_empty()
    })
    .await;
}

async fn moves(server: &Server, before: &Series, series: &str) {
    move_within(DEADLINE, server, before, &[(series, 1.0)]).await;
}

/// A repository with one commit on each of these branches, which have nothing in common. It is pushed nowhere.
async fn repository(server: &Server, identifier: &str, branches: &[&str]) -> Maintainer {
    let alice = Maintainer::new(identifier, server.endpoint()).await;
    for branch in branches {
        alice.work.git(["checkout", "-q", "--orphan", branch]).await;
        alice.commit(branch).await;
    }
    alice
}

/// Announces that it is at these hosts too, and what its branches are.
async fn publish(server: &Server, alice: &Maintainer, branches: &[&str], at: &[&GitHost]) -> Event {
    let identifier = &alice.identifier;
    let urls = at.iter().map(|host| host.url(identifier));
    let clone = ["clone".to_owned(), alice.url()].into_iter().chain(urls);
    let announcement = alice.person.announcement(identifier, server.endpoint());
    let announcement = announcement.without("clone").tag(clone).sign();
    server.publish(&announcement).await.accepted();
    let mut refs = Vec::new();
    for branch in branches {
        refs.push((format!("refs/heads/{branch}"), alice.work.rev(branch).await));
    }
    let state = alice.state(refs.iter().map(|(name, tip)| (name.as_str(), tip)));
    server.publish(&state).await.accepted();
    state
}

/// One branch that is to be found at these hosts, whether they have it or not.
async fn look_for(server: &Server, identifier: &str, at: &[&GitHost]) -> Maintainer {
    let alice = repository(server, identifier, &["main"]).await;
    publish(server, &alice, &["main"], at).await;
    alice
}

/// What looking for git data elsewhere causes.
const HUNTED: &[(&str, f64)] = &[
    ("ngit_purgatory_git_fetch_passes_total", 1.0),
    (
        "ngit_purgatory_git_fetch_oids_total{kind=\"residual_attempted\"}",
        1.0,
    ),
    (
        "ngit_purgatory_git_fetch_oids_total{kind=\"residual_missing\"}",
        3.0,
    ),
    (
        "ngit_purgatory_git_fetch_oids_total{kind=\"advertised_tip\"}",
        1.0,
    ),
    (
        "ngit_purgatory_git_fetch_oids_total{kind=\"residual_skipped\"}",
        2.0,
    ),
    ("ngit_purgatory_git_fetch_oids_total{kind=\"fetched\"}", 3.0),
    (
        "ngit_purgatory_git_subprocess_active{operation=\"fetch\",role=\"primary\"}",
        1.0,
    ),
    (
        "ngit_purgatory_git_subprocess_total{operation=\"fetch\",role=\"primary\",outcome=\"complete\"}",
        1.0,
    ),
    (
        "ngit_purgatory_git_subprocess_total{operation=\"fetch\",role=\"primary\",outcome=\"lacks\"}",
        2.0,
    ),
    (
        "ngit_purgatory_git_subprocess_duration_seconds_count{role=\"primary\"}",
        3.0,
    ),
    (
        "ngit_purgatory_git_subprocess_output_bytes_total{operation=\"fetch\",role=\"primary\",stream=\"stdout\"}",
        1.0,
    ),
];

/// §20, HUNT-5: one host has another history, the next one branch and the old protocol, which gives out only what it lists, and
/// the third has all. A fourth is silent.
#[tokio::test]
async fn what_is_looked_for_elsewhere_is_counted() {
    let server = configured().spawn().await;
    let before = scrape(&server).await;
    let (other, old) = (GitHost::start().await, GitHost::start().await);
    let (good, silent) = (GitHost::start().await, GitHost::start().await);
    old.behave(Behaviour::VersionZero);
    silent.behave(Behaviour::Silent);
    let branches = ["one", "two", "three"];
    let alice = repository(&server, "project", &branches).await;
    let stranger = GitHome::new().init("stranger").await;
    stranger.commit("another history").await;
    other.hold("project", &stranger, &["main"]).await;
    old.hold("project", &alice.work, &["one"]).await;
    good.hold("project", &alice.work, &branches).await;
    look_for(&server, "silent", &[&silent]).await;
    let state = publish(&server, &alice, &branches, &[&other, &old, &good]).await;
    move_within(DEADLINE, &server, &before, HUNTED).await;
    server.eventually_serves(&state).await;
}

/// What it causes that a host is silent.
const HEDGED: &[(&str, f64)] = &[
    (
        "ngit_purgatory_git_subprocess_active{operation=\"fetch\",role=\"hedge\"}",
        1.0,
    ),
    (
        "ngit_purgatory_git_subprocess_total{operation=\"fetch\",role=\"hedge\",outcome=\"complete\"}",
        1.0,
    ),
    (
        "ngit_purgatory_git_subprocess_duration_seconds_count{role=\"hedge\"}",
        1.0,
    ),
    (
        "ngit_purgatory_git_subprocess_output_bytes_total{operation=\"fetch\",role=\"hedge\",stream=\"stdout\"}",
        1.0,
    ),
];

/// §20, HUNT-8: of two repositories at a silent host one is at a good one as well, and the other at one that is silent too.
#[tokio::test]
async fn who_is_asked_beside_a_silent_host_is_counted_apart() {
    let server = configured().spawn().await;
    let before = scrape(&server).await;
    let silent = GitHost::behaving(Behaviour::Silent).await;
    let (too, good) = (
        GitHost::behaving(Behaviour::Silent).await,
        GitHost::start().await,
    );
    let alice = repository(&server, "saved", &["main"]).await;
    good.hold("saved", &alice.work, &["main"]).await;
    publish(&server, &alice, &["main"], &[&silent, &good]).await;
    look_for(&server, "lost", &[&silent, &too]).await;
    move_within(AFTER_SILENCE, &server, &before, HEDGED).await;
}

fn put_off(reason: &str) -> String {
    format!("ngit_purgatory_git_deferred_total{{operation=\"fetch\",reason=\"{reason}\"}}")
}

fn ended(outcome: &str) -> String {
    format!(
        "ngit_purgatory_git_subprocess_total{{operation=\"fetch\",role=\"primary\",outcome=\"{outcome}\"}}"
    )
}

/// §20, HUNT-7, HUNT-11: at each host the first repository causes what the second has to wait for.
#[tokio::test]
async fn what_is_put_off_is_counted_by_its_reason() {
    let server = configured()
        .env("NGIT_HUNT_PROCESSES", 1)
        .env("NGIT_HUNT_PER_DOMAIN", 1)
        .env("NGIT_HUNT_PER_MINUTE", 1)
        .spawn()
        .await;
    let before = scrape(&server).await;
    let broken = Behaviour::Raw(b"SSH-2.0-nothing\r\n".to_vec());
    let overrun = Behaviour::too_many_requests(Some("3600"));
    for (behaviour, outcome, reason) in [
        (broken, "broken", "left_alone"),
        (overrun, "rate_limited", "domain_paused"),
        (Behaviour::status(404), "refused", "domain_rate"),
    ] {
        let host = GitHost::behaving(behaviour).await;
        look_for(&server, &format!("{outcome}-first"), &[&host]).await;
        moves(&server, &before, &ended(outcome)).await;
        look_for(&server, &format!("{outcome}-second"), &[&host]).await;
        moves(&server, &before, &put_off(reason)).await;
    }
    let silent = GitHost::behaving(Behaviour::Silent).await;
    look_for(&server, "silent-first", &[&silent]).await;
    eventually_within(DEADLINE, "it is asked", async || silent.running() > 0).await;
    look_for(&server, "silent-second", &[&silent]).await;
    moves(&server, &before, &put_off("domain_busy")).await;
    let good = GitHost::start().await;
    look_for(&server, "elsewhere", &[&good]).await;
    moves(&server, &before, &put_off("all_busy")).await;
}
