//! Following a relay that we did not write: what it has, what it gets, and with its limits set low.

#![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

#[allow(dead_code, reason = "shared with the tests of grasp-sync")]
#[path = "../../crates/grasp-sync/tests/driver/home.rs"]
mod home;

use std::time::Duration;

use grasp_core::name::Coordinate;
use grasp_sync::engine::{Counted, Notice, SyncLevel};
use grasp_sync::home::{Phase, Tally, Verdict};
use grasp_sync::relay_url::RelayUrl;
use grasp_testkit::relay::publish;
use grasp_testkit::wait::eventually_within;
use grasp_testkit::{Event, Person};
use home::{Following, MemoryHome, Running};
use nostr_relay_builder::LocalRelay;
use nostr_relay_builder::builder::{
    RateLimit, RelayBuilder, RelayBuilderNip42, RelayBuilderNip42Mode,
};

struct Foreign {
    relay: LocalRelay,
    url: RelayUrl,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.relay.shutdown();
    }
}

impl Foreign {
    async fn start(builder: RelayBuilder) -> Self {
        let relay = LocalRelay::new(builder);
        relay.run().await.unwrap();
        let url = relay.url().await.to_string().parse().unwrap();
        Self { relay, url }
    }

    async fn has(&self, events: &[Event]) {
        for event in events {
            publish(self.url.as_str(), event).await.accepted();
        }
    }
}

fn announcements(range: std::ops::Range<u32>) -> Vec<Event> {
    let alice = Person::named("alice");
    let sign = |n| {
        alice
            .draft(30_617)
            .tag(["d", &format!("project-{n}")])
            .sign()
    };
    range.map(sign).collect()
}

/// Questions are a second apart, so small pages take their time.
async fn has_all(running: &Running, events: &[Event]) {
    let has_all = async || events.iter().all(|event| running.home.has(event));
    eventually_within(Duration::from_secs(120), "all of it is here", has_all).await;
}

/// SYNC-1, SYNC-25, SYNC-26
#[tokio::test]
async fn the_difference_is_found_and_what_comes_later_arrives() {
    let foreign = Foreign::start(RelayBuilder::default()).await;
    let old = announcements(0..60);
    foreign.has(&old).await;
    let known: Vec<_> = old.iter().step_by(2).collect();
    let running = Following::new()
        .bootstrap(&foreign.url)
        .start(MemoryHome::new().with(&known));
    has_all(&running, &old).await;
    let counted = |what| running.home.counted(what);
    assert_eq!(counted(Tally::Noted(Counted::NegentropyUnsupported)), 0);
    assert_eq!(
        counted(Tally::Delivered(Phase::Historic, Verdict::Known)),
        0,
        "only the difference came"
    );
    let new = announcements(60..62);
    foreign.has(&new).await;
    has_all(&running, &new).await;
    assert_eq!(counted(Tally::Delivered(Phase::Live, Verdict::Fresh)), 2);
    running.handle.stop().await;
}

/// SYNC-20 … SYNC-28: few subscriptions, small pages, no differences.
#[tokio::test]
async fn with_its_limits_set_low_all_arrives() {
    let few = RateLimit {
        max_reqs: 4,
        ..RateLimit::default()
    };
    let builder = RelayBuilder::default().rate_limit(few);
    let foreign = Foreign::start(builder.max_filter_limit(7).default_filter_limit(7)).await;
    let (alice, bob) = (Person::named("alice"), Person::named("bob"));
    let announced = announcements(0..20);
    let coordinate = alice.coordinate("project-0");
    let issues: Vec<_> = (0..20).map(|_| bob.issue(&coordinate).sign()).collect();
    let comments: Vec<_> = issues
        .iter()
        .map(|issue| alice.comment(issue).sign())
        .collect();
    for events in [&announced, &issues, &comments] {
        foreign.has(events).await;
    }
    let mut following = Following::new().bootstrap(&foreign.url);
    following.settings.negentropy = false;
    let running = following.start(MemoryHome::new());
    let project = Coordinate::new(alice.key(), "project-0".parse().unwrap());
    let repository = Notice::Repository {
        coordinate: project.clone(),
        relays: vec![foreign.url.clone()],
        level: SyncLevel::Full,
    };
    running.handle.notice(repository).await;
    has_all(&running, &announced).await;
    has_all(&running, &issues).await;
    for issue in &issues {
        let root = Notice::Root {
            id: issue.id,
            repositories: vec![project.clone()],
        };
        running.handle.notice(root).await;
    }
    has_all(&running, &comments).await;
    running.handle.stop().await;
}

/// SYNC-36
#[tokio::test]
async fn a_relay_that_asks_who_we_are_is_read() {
    let mode = RelayBuilderNip42Mode::Read;
    let foreign = Foreign::start(RelayBuilder::default().nip42(RelayBuilderNip42 { mode })).await;
    let events = announcements(0..3);
    foreign.has(&events).await;
    let home = MemoryHome::new().owned_by(&Person::named("operator"));
    let running = Following::new().bootstrap(&foreign.url).start(home);
    has_all(&running, &events).await;
    running.handle.stop().await;
}
