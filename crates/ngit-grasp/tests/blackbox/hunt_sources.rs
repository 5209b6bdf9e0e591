//! Which source is good for what: histories that lack something, several lines of history, strangers, many at one host (HUNT-*).

use std::time::Duration;

use grasp_testkit::git_host::Behaviour;
use grasp_testkit::wait::eventually_within;
use grasp_testkit::{Event, GitHome, GitHost, Maintainer, Server, ServerBuilder};

/// What is owed must be here within this time. Mostly it takes a second.
const FOUND: Duration = Duration::from_mins(3);

/// Loopback is no place that a server goes to by itself (NET-2).
fn configured() -> ServerBuilder {
    Server::configured().env("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", true)
}

/// An announcement here that names these addresses too.
fn announced_at(alice: &Maintainer, identifier: &str, server: &Server, urls: &[&str]) -> Event {
    let own = alice.url();
    let clone = ["clone", &own].into_iter().chain(urls.iter().copied());
    let announcement = alice.person.announcement(identifier, server.endpoint());
    announcement.without("clone").tag(clone).sign()
}

async fn is_found(server: &Server, event: &Event) {
    let what = format!("kind {} is served", event.kind);
    eventually_within(FOUND, &what, async || server.serves(event).await).await;
}

/// Case 62, HUNT-12: a shallow copy has the commits that are wanted and not what they need. It is not taken for whole, and the other
/// address serves.
#[tokio::test]
async fn a_shallow_copy_is_not_taken_for_the_whole() {
    let (server, good, bad) = (
        configured().spawn().await,
        GitHost::start().await,
        GitHost::start().await,
    );
    let alice = Maintainer::new("project", server.endpoint()).await;
    let first = alice.commit("first").await;
    let tip = alice.commit("second").await;
    good.hold("project", &alice.work, &["main"]).await;
    let whole = format!("file://{}", good.repository("project").display());
    let shallow = GitHome::new();
    let copy = shallow
        .clone_with(&whole, "shallow", &["--bare", "--depth=1"])
        .await;
    std::fs::rename(copy.path(), bad.repository("project")).expect("it can be moved");

    let urls = [bad.url("project"), good.url("project")];
    let urls = urls.each_ref().map(String::as_str);
    let announcement = announced_at(&alice, "project", &server, &urls);
    let state = alice.state([("refs/heads/main", &tip)]);
    server.publish(&announcement).await.accepted();
    server.publish(&state).await.accepted();
    is_found(&server, &state).await;
    assert!(bad.requests() > 0, "the shallow copy was asked first");
    let clone = GitHome::new().clone_of(&alice.url(), "clone").await;
    assert_eq!(
        (clone.rev("HEAD").await, clone.count("HEAD").await),
        (tip, 2)
    );
    assert_eq!(clone.rev("HEAD~1").await, first);
    clone.git(["fsck", "--strict"]).await;
}

/// Case 23, G2-2: a tag may be on a line that no branch is on.
#[tokio::test]
async fn all_lines_of_history_are_fetched() {
    let (server, host) = (configured().spawn().await, GitHost::start().await);
    let alice = Maintainer::new("project", server.endpoint()).await;
    let main = alice.commit("first").await;
    alice.work.git(["checkout", "-q", "--orphan", "old"]).await;
    let old = alice.commit("abandoned").await;
    alice
        .work
        .git(["tag", "-a", "-m", "old", "v0.9", &old])
        .await;
    let tag = alice.work.rev("v0.9").await;
    host.hold("project", &alice.work, &["main", "v0.9"]).await;
    let announcement = announced_at(&alice, "project", &server, &[&host.url("project")]);
    let state = alice.state([("refs/heads/main", &main), ("refs/tags/v0.9", &tag)]);
    server.publish(&announcement).await.accepted();
    server.publish(&state).await.accepted();
    is_found(&server, &state).await;
    let refs = alice.remote_branches_and_tags().await;
    assert_eq!(
        (&refs["refs/heads/main"], &refs["refs/tags/v0.9"]),
        (&main, &tag)
    );
}

/// Case 61, HUNT-5: what one address has is taken from there, and the rest from the other.
#[tokio::test]
async fn what_one_lacks_another_has() {
    let server = configured().spawn().await;
    let (one, other) = (GitHost::start().await, GitHost::start().await);
    let alice = Maintainer::new("project", server.endpoint()).await;
    let mut tips = Vec::new();
    for n in 0..5 {
        let branch = format!("b{n}");
        alice
            .work
            .git(["checkout", "-q", "--orphan", &branch])
            .await;
        tips.push((branch.clone(), alice.commit(&branch).await));
    }
    one.hold("project", &alice.work, &["b1", "b2", "b3", "b4"])
        .await;
    other.hold("project", &alice.work, &["b0"]).await;
    let urls = [one.url("project"), other.url("project")];
    let urls = urls.each_ref().map(String::as_str);
    let announcement = announced_at(&alice, "project", &server, &urls);
    let refs = tips
        .iter()
        .map(|(branch, tip)| (format!("refs/heads/{branch}"), tip));
    let state = alice.state(refs);
    server.publish(&announcement).await.accepted();
    server.publish(&state).await.accepted();
    is_found(&server, &state).await;
    assert_eq!(alice.remote_branches_and_tags().await.len(), 5);
}

/// HUNT-5a: issue 5, "a stranger's slow URL for the same identifier delays nobody".
#[tokio::test]
async fn a_stranger_s_silent_address_delays_nobody() {
    let server = configured().spawn().await;
    let (silent, good) = (
        GitHost::behaving(Behaviour::Silent).await,
        GitHost::start().await,
    );
    let mallory = Maintainer::named("mallory", "project", server.endpoint()).await;
    let never = mallory.commit("never").await;
    let announcement = announced_at(&mallory, "project", &server, &[&silent.url("project")]);
    server.publish(&announcement).await.accepted();
    let state = mallory.state([("refs/heads/main", &never)]);
    server.publish(&state).await.accepted();
    eventually_within(FOUND, "it is asked", async || silent.running() > 0).await;

    let alice = Maintainer::new("project", server.endpoint()).await;
    let tip = alice.commit("first").await;
    good.hold("project", &alice.work, &["main"]).await;
    let announcement = announced_at(&alice, "project", &server, &[&good.url("project")]);
    let state = alice.state([("refs/heads/main", &tip)]);
    server.publish(&announcement).await.accepted();
    server.publish(&state).await.accepted();
    is_found(&server, &state).await;
    assert!(silent.running() > 0, "the stranger's is still waited for");
    for asked in good.asked() {
        assert!(
            !asked.text().contains(&never),
            "nor is it asked for the stranger's objects"
        );
    }
}

/// HUNT-7: a host is not asked by more than five at once, however many repositories wait for it.
#[tokio::test]
async fn many_repositories_at_one_host_are_fetched_five_at_a_time() {
    let (server, host) = (configured().spawn().await, GitHost::start().await);
    let mut states = Vec::new();
    for n in 0..12 {
        let name = format!("project-{n}");
        let alice = Maintainer::new(&name, server.endpoint()).await;
        let tip = alice.commit("first").await;
        host.hold(&name, &alice.work, &["main"]).await;
        let announcement = announced_at(&alice, &name, &server, &[&host.url(&name)]);
        server.publish(&announcement).await.accepted();
        let state = alice.state([("refs/heads/main", &tip)]);
        server.publish(&state).await.accepted();
        states.push(state);
    }
    for state in &states {
        is_found(&server, state).await;
    }
    assert!(host.running_most() <= 5, "{}", host.running_most());
}
