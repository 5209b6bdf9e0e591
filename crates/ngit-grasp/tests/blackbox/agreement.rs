//! The agreement checker (design §13): while pushes and kills happen, whoever reads the relay and the
//! refs of a repository reads the same story.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use grasp_testkit::git::refs_named_by;
use grasp_testkit::relay::{try_publish, try_query};
use grasp_testkit::wire::{Report, USUAL, ZERO, advertised, info_refs, push_request};
use grasp_testkit::{
    Endpoint, Event, GitHome, HttpConnection, Maintainer, Person, Refs, Server, json,
};
use tokio::task::JoinSet;

const REPOSITORIES: usize = 20;
/// Each lane works on its own repositories, so that pushes of one do not overtake each other.
const LANES: usize = 4;
/// How long one push may need, starts after kills included.
const PATIENCE: Duration = Duration::from_mins(2);

/// What the run is about: half a minute as it is; smaller or larger by environment.
fn scale(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |n| n.parse().expect("a number"))
}

/// A chain of commits and, for each, a pack of all it needs.
struct History {
    tips: Vec<String>,
    packs: Vec<Vec<u8>>,
}

impl History {
    async fn of(length: usize) -> Self {
        let work = GitHome::new().init("work").await;
        let (mut tips, mut packs) = (Vec::new(), Vec::new());
        for n in 0..length {
            let tip = work.commit(&n.to_string()).await;
            packs.push(work.pack(&[&tip]).await);
            tips.push(tip);
        }
        Self { tips, packs }
    }
}

fn identifier(repository: usize) -> String {
    format!("project-{repository}")
}

fn path(owner: &Person, repository: usize) -> String {
    format!("/{}/{}.git", owner.npub(), identifier(repository))
}

async fn served_state(
    server: &Endpoint,
    owner: &Person,
    repository: usize,
) -> Option<Option<Event>> {
    let filter = json!({
        "kinds": [30618], "authors": [owner.hex()], "#d": [identifier(repository)]
    });
    let events = try_query(&server.ws, &filter).await?;
    assert!(events.len() <= 1, "one version is served");
    Some(events.into_iter().next())
}

/// The refs, none if there is no repository yet, or `None` while the server is away or brings the
/// repository in line.
async fn refs(server: &Endpoint, owner: &Person, repository: usize) -> Option<Refs> {
    let mut http = HttpConnection::try_connect(&server.authority).await.ok()?;
    let target = info_refs(&path(owner, repository), "git-upload-pack");
    let answer = http.try_request("GET", &target, &[], b"").await.ok()?;
    match answer.status {
        200 => {
            let (mut refs, _) = advertised(&answer);
            refs.retain(|name, _| name.starts_with("refs/"));
            Some(refs)
        }
        404 => Some(Refs::new()),
        status => {
            assert_eq!(status, 503, "{}", answer.text());
            None
        }
    }
}

/// Reads relay, refs, relay; if the relay says the same twice, the refs must be those of it.
async fn poll(server: Endpoint, stop: Arc<AtomicBool>) -> usize {
    let owner = Person::named("alice");
    let mut compared = 0;
    while !stop.load(Ordering::Relaxed) {
        for repository in 0..REPOSITORIES {
            let Some(before) = served_state(&server, &owner, repository).await else {
                continue;
            };
            let listed = refs(&server, &owner, repository).await;
            let after = served_state(&server, &owner, repository).await;
            let (Some(listed), Some(after)) = (listed, after) else {
                continue;
            };
            if before == after {
                let named = before.as_ref().map(refs_named_by).unwrap_or_default();
                assert_eq!(listed, named, "{} of {before:?}", identifier(repository));
                compared += 1;
            }
        }
        tokio::task::yield_now().await;
    }
    compared
}

/// Publishes an event, again after each crash, until it is taken.
async fn publish_at_last(server: &Endpoint, event: &Event) {
    let begun = Instant::now();
    loop {
        if let Some(answer) = try_publish(&server.ws, event).await
            && answer.accepted
        {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the event is never taken");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Publishes a state and pushes its commit, again after each crash, until git says `ok`.
async fn push_at_last(server: &Endpoint, target: &str, state: &Event, body: &[u8]) {
    let begun = Instant::now();
    loop {
        publish_at_last(server, state).await;
        if let Ok(mut http) = HttpConnection::try_connect(&server.authority).await
            && let Ok(answer) = http.try_request("POST", target, &[], body).await
        {
            let report = Report::of(&answer);
            if report.is_ok() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{report:?}");
        }
        assert!(begun.elapsed() < PATIENCE, "the push is never answered");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Signs and pushes tip after tip until all are served.
async fn push_all(
    server: Endpoint,
    history: Arc<History>,
    repository: usize,
    done: Arc<AtomicUsize>,
) {
    let owner = Person::named("alice");
    let name = identifier(repository);
    let target = path(&owner, repository) + "/git-receive-pack";
    publish_at_last(&server, &owner.announcement(&name, &server).sign()).await;
    for (tip, pack) in history.tips.iter().zip(&history.packs) {
        let state = owner.state(&name, [("refs/heads/main", tip)]).sign();
        let body = push_request(&[(ZERO, tip, "refs/heads/main")], USUAL, pack);
        push_at_last(&server, &target, &state, &body).await;
        // A pair read after the report agrees, at once.
        if let Some(listed) = refs(&server, &owner, repository).await {
            assert_eq!(&listed["refs/heads/main"], tip);
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_pushes_and_kills_happen_relay_and_git_agree() {
    let pushes = scale("GRASP_TEST_PUSHES", 500);
    let kills = scale("GRASP_TEST_KILLS", 50);
    let mut server = Server::configured()
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 1_000_000)
        .spawn()
        .await;
    let history = Arc::new(History::of(pushes.div_ceil(REPOSITORIES)).await);
    let total = history.tips.len() * REPOSITORIES;
    let (done, stop) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let poller = tokio::spawn(poll(server.endpoint().clone(), stop.clone()));
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let (endpoint, history, done) = (server.endpoint().clone(), history.clone(), done.clone());
        lanes.spawn(async move {
            for repository in (lane..REPOSITORIES).step_by(LANES) {
                push_all(endpoint.clone(), history.clone(), repository, done.clone()).await;
            }
        });
    }
    for kill in 1..=kills {
        let enough = total * kill / (kills + 1);
        grasp_testkit::wait::eventually_within(PATIENCE, "pushes go on", async || {
            done.load(Ordering::Relaxed) >= enough || lanes.is_empty()
        })
        .await;
        server.kill9().await;
        server.start_again().await;
    }
    while let Some(lane) = lanes.join_next().await {
        lane.expect("every push succeeds in the end");
    }
    stop.store(true, Ordering::Relaxed);
    let compared = poller.await.expect("every pair agrees");
    assert!(compared > REPOSITORIES, "only {compared} pairs were read");
    let last = history.tips.last().expect("a history");
    let alice = Maintainer::new("project-0", server.endpoint()).await;
    for repository in 0..REPOSITORIES {
        let url = server.clone_url(&alice.person.npub(), &identifier(repository));
        assert_eq!(
            &alice.work.home().ls_remote(&url).await["refs/heads/main"],
            last
        );
    }
}
