//! Git data that other servers have is found there (GRASP-02, HUNT-*): plain git servers with every fault, and
//! servers of our own.

use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grasp_testkit::git_host::Behaviour;
use grasp_testkit::wait::eventually_within;
use grasp_testkit::{Draft, Event, GitHome, GitHost, Maintainer, Person, Server, ServerBuilder};
use tokio::task::{JoinSet, LocalSet};

/// What is owed must be here within this time. Mostly it takes a second, half a minute where a host is silent.
const FOUND: Duration = Duration::from_mins(3);

/// Loopback is no place that a server goes to by itself (NET-2).
fn configured() -> ServerBuilder {
    Server::configured()
        .env("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", true)
        .env("NGIT_SYNC_MAX_BACKOFF_SECS", 5)
}

async fn is_found(server: &Server, event: &Event) {
    let what = format!("kind {} is served", event.kind);
    eventually_within(FOUND, &what, async || server.serves(event).await).await;
}

/// Signs with the present time: a server that was away for a moment asks for what was made since.
fn now(draft: Draft<'_>) -> Event {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    draft.at(since_1970.expect("after 1970").as_secs()).sign()
}

/// A repository whose announcement names `urls` beside the server's own, with one commit that was pushed nowhere.
struct Elsewhere {
    alice: Maintainer,
    announcement: Event,
    state: Event,
    tip: String,
}

impl Elsewhere {
    async fn new(identifier: &str, server: &Server, urls: &[&str]) -> Self {
        Self::of("alice", identifier, server, urls).await
    }

    async fn of(name: &str, identifier: &str, server: &Server, urls: &[&str]) -> Self {
        let alice = Maintainer::named(name, identifier, server.endpoint()).await;
        let tip = alice.commit(&format!("first of {name}")).await;
        let own = alice.url();
        let clone = ["clone", &own].into_iter().chain(urls.iter().copied());
        let announcement = alice.person.announcement(identifier, server.endpoint());
        let announcement = announcement.without("clone").tag(clone).sign();
        let state = alice.state([("refs/heads/main", &tip)]);
        Self {
            alice,
            announcement,
            state,
            tip,
        }
    }

    async fn publish(&self, server: &Server) {
        server.publish(&self.announcement).await.accepted();
        server.publish(&self.state).await.accepted();
    }

    /// Both events are served, and the branch is there.
    async fn is_found(&self, server: &Server) {
        is_found(server, &self.state).await;
        is_found(server, &self.announcement).await;
        assert_eq!(self.alice.remote_refs().await["refs/heads/main"], self.tip);
    }
}

/// Two addresses of one repository: a host with this fault, then the good one.
async fn is_made_up_for(server: &Server, good: &GitHost, name: &str, fault: Behaviour) {
    let bad = GitHost::start().await;
    let urls = [bad.url(name), good.url(name)];
    let there = Elsewhere::new(name, server, &urls.each_ref().map(String::as_str)).await;
    for host in [&bad, good] {
        host.hold(name, &there.alice.work, &["main"]).await;
    }
    bad.behave(fault);
    there.publish(server).await;
    there.is_found(server).await;
    assert!(bad.requests() > 0, "{name} was asked");
}

/// All at once, each for a repository of its own.
async fn each_is_made_up_for<const N: usize>(
    server: Server,
    good: GitHost,
    faults: [(&'static str, Behaviour); N],
) {
    let (server, good) = (Rc::new(server), Rc::new(good));
    let side_by_side = LocalSet::new();
    let mut tried = JoinSet::new();
    for (name, fault) in faults {
        let (server, good) = (Rc::clone(&server), Rc::clone(&good));
        let trying = async move { is_made_up_for(&server, &good, name, fault).await };
        tried.spawn_local_on(trying, &side_by_side);
    }
    side_by_side.run_until(tried.join_all()).await;
}

/// G2-2, HUNT-2, HUNT-6, HUNT-12: issue 5, "state first, data elsewhere".
#[tokio::test]
async fn what_only_a_plain_git_server_has_is_found_there() {
    let (server, host) = (configured().spawn().await, GitHost::start().await);
    let there = Elsewhere::new("project", &server, &[&host.url("project")]).await;
    host.hold("project", &there.alice.work, &["main"]).await;
    there.publish(&server).await;
    there.is_found(&server).await;
    let copy = GitHome::new().clone_of(&there.alice.url(), "copy").await;
    assert_eq!(copy.rev("HEAD").await, there.tip);
    copy.git(["fsck", "--strict"]).await;
}

/// HUNT-5, HUNT-7, HUNT-11, HUNT-12, NET-3, GIT-9: whatever the first address does, the second serves.
#[tokio::test]
async fn whatever_the_first_address_does_the_second_serves() {
    let server = configured()
        .env("NGIT_GIT_PACK_MAX_BYTES", 1 << 20)
        .spawn()
        .await;
    let good = GitHost::start().await;
    let elsewhere = server.endpoint().http.clone();
    let faults = [
        ("unauthorised", Behaviour::status(401)),
        ("not-found", Behaviour::status(404)),
        ("too-many", Behaviour::too_many_requests(Some("60"))),
        ("broken-server", Behaviour::status(500)),
        ("redirect", Behaviour::redirect(&elsewhere)),
        ("dumb", Behaviour::Dumb),
        ("corrupt", Behaviour::CorruptPack),
        ("endless-pack", Behaviour::EndlessPack),
        ("endless-refs", Behaviour::EndlessRefs),
        ("web-page", Behaviour::WrongType),
        ("breaks-off", Behaviour::BreaksAfter(30)),
        ("no-http", Behaviour::Raw(b"SSH-2.0-nothing\r\n".to_vec())),
    ];
    each_is_made_up_for(server, good, faults).await;
}

/// HUNT-5, HUNT-12: so too if nobody is there, it has another history, or lacks the tip.
#[tokio::test]
async fn an_address_without_the_data_delays_nobody() {
    let (server, good) = (configured().spawn().await, GitHost::start().await);
    let dead = GitHost::dead_url("dead").await;
    let there = Elsewhere::new("dead", &server, &[&dead, &good.url("dead")]).await;
    good.hold("dead", &there.alice.work, &["main"]).await;
    there.publish(&server).await;
    there.is_found(&server).await;

    let bad = GitHost::start().await;
    let urls = [bad.url("other"), good.url("other")];
    let there = Elsewhere::new("other", &server, &urls.each_ref().map(String::as_str)).await;
    let other = GitHome::new().init("other").await;
    other.commit("another history").await;
    bad.hold("other", &other, &["main"]).await;
    good.hold("other", &there.alice.work, &["main"]).await;
    there.publish(&server).await;
    there.is_found(&server).await;

    let urls = [bad.url("older"), good.url("older")];
    let there = Elsewhere::new("older", &server, &urls.each_ref().map(String::as_str)).await;
    bad.hold("older", &there.alice.work, &["main"]).await;
    let tip = there.alice.commit("second").await;
    let state = there.alice.state([("refs/heads/main", &tip)]);
    good.hold("older", &there.alice.work, &["main"]).await;
    server.publish(&there.announcement).await.accepted();
    server.publish(&state).await.accepted();
    is_found(&server, &state).await;
}

/// HUNT-8, HUNT-9: after half a minute of silence another host is asked.
#[tokio::test]
async fn a_silent_address_is_overtaken_by_another() {
    let (server, good) = (configured().spawn().await, GitHost::start().await);
    let slow = Behaviour::Slow {
        bytes: 1,
        pause: Duration::from_secs(2),
    };
    let faults = [
        ("silent", Behaviour::Silent),
        ("stalls", Behaviour::StallsAfter(30)),
        ("slow", slow),
    ];
    each_is_made_up_for(server, good, faults).await;
}

/// HUNT-5a: a stranger's address for the same identifier holds up nobody, however slow it is.
#[tokio::test]
async fn a_stranger_s_stalled_address_delays_nobody() {
    let server = configured().spawn().await;
    let (stalled, good) = (GitHost::start().await, GitHost::start().await);
    let url = stalled.url("project");
    let mallory = Elsewhere::of("mallory", "project", &server, &[&url]).await;
    let alice = Elsewhere::new("project", &server, &[&good.url("project")]).await;
    for (host, whose) in [(&stalled, &mallory), (&good, &alice)] {
        host.hold("project", &whose.alice.work, &["main"]).await;
    }
    stalled.behave(Behaviour::StallsAfter(30));
    mallory.publish(&server).await;
    eventually_within(FOUND, "it is stuck there", async || stalled.running() > 0).await;
    alice.publish(&server).await;
    alice.is_found(&server).await;
    assert!(!server.serves(&mallory.state).await);
    stalled.behave(Behaviour::Faithful);
    mallory.is_found(&server).await;
}

/// HUNT-10: a server that knows only the old protocol is enough.
#[tokio::test]
async fn what_only_a_server_of_the_old_protocol_has_is_found_there() {
    let (server, host) = (configured().spawn().await, GitHost::start().await);
    host.behave(Behaviour::VersionZero);
    let there = Elsewhere::new("project", &server, &[&host.url("project")]).await;
    host.hold("project", &there.alice.work, &["main"]).await;
    there.publish(&server).await;
    there.is_found(&server).await;
}

/// HUNT-3, HUNT-4: what is nowhere now is found when it appears.
#[tokio::test]
async fn what_appears_later_is_found_then() {
    let (server, host) = (configured().spawn().await, GitHost::start().await);
    let there = Elsewhere::new("project", &server, &[&host.url("project")]).await;
    there.publish(&server).await;
    eventually_within(FOUND, "it was looked for", async || host.requests() > 0).await;
    assert!(!server.serves(&there.state).await);
    let told = |says: &str, host: &str| {
        let parts = ["missing", "looked for", host, there.tip.as_str()];
        parts.iter().all(|part| says.contains(part))
    };
    let url = host.url("project");
    eventually_within(FOUND, "the operator is told", async || {
        let says = server.operate(&["sync", "status"]).await.fine();
        says.contains("refuses (status 404)")
    })
    .await;
    for command in [&["sync", "status"][..], &["explain", &there.alice.url()]] {
        let says = server.operate(command).await.fine();
        assert!(told(&says, &url), "{says}");
    }
    host.hold("project", &there.alice.work, &["main"]).await;
    there.is_found(&server).await;
}

/// HUNT-1a: a restart goes on with it.
#[tokio::test]
async fn a_restart_goes_on_looking() {
    let (mut server, host) = (configured().spawn().await, GitHost::start().await);
    let there = Elsewhere::new("project", &server, &[&host.url("project")]).await;
    there.publish(&server).await;
    eventually_within(FOUND, "it was looked for", async || host.requests() > 0).await;
    server.kill9().await;
    host.hold("project", &there.alice.work, &["main"]).await;
    server.start_again().await;
    there.is_found(&server).await;
}

/// G2-3, PR-3, AFTER-5: the commit of a pull request is found at the address that the pull request names.
#[tokio::test]
async fn a_pull_request_s_commit_is_found_where_it_says() {
    let (server, host) = (configured().spawn().await, GitHost::start().await);
    let alice = Maintainer::serving("project", &server).await;
    let fork = GitHome::new().clone_of(&alice.url(), "fork").await;
    let tip = fork.commit("a change").await;
    host.hold("fork", &fork, &["HEAD:refs/heads/change"]).await;
    let carol = Person::named("carol");
    let pr = carol.pull_request(&alice.coordinate(), &tip);
    let pr = pr.tag(["clone", &host.url("fork")]).sign();
    server.publish(&pr).await.accepted();
    is_found(&server, &pr).await;
    let name = format!("refs/nostr/{}", pr.id.to_hex());
    assert_eq!(alice.remote_refs().await[&name], tip);
}

/// G6-4, G2-3, HUNT-1a: so too if nothing is announced here for it and it lives in its author's own repository, also after
/// a restart.
#[tokio::test]
async fn a_pull_request_s_commit_is_found_for_its_author_s_own_repository() {
    let configured = configured().env("NGIT_GRASP06_ENABLE", true);
    let (mut server, host) = (configured.spawn().await, GitHost::start().await);
    let (alice, carol) = (Person::named("alice"), Person::named("carol"));
    let own = format!(
        "{}/prs/{}/project.git",
        server.endpoint().http,
        carol.npub()
    );
    let fork = GitHome::new().init("fork").await;
    let ask = |tip: &str| {
        let pr = carol.pull_request(&alice.coordinate("project"), tip);
        pr.tag(["clone", &own, &host.url("fork")]).sign()
    };
    let first = fork.commit("a change").await;
    host.hold("fork", &fork, &["HEAD:refs/heads/change"]).await;
    let pr = ask(&first);
    server.publish(&pr).await.accepted();
    is_found(&server, &pr).await;
    let name = |pr: &Event| format!("refs/nostr/{}", pr.id.to_hex());
    assert_eq!(fork.home().ls_remote(&own).await[&name(&pr)], first);

    let second = fork.commit("another change").await;
    let next = ask(&second);
    let asked = host.requests();
    server.publish(&next).await.accepted();
    eventually_within(FOUND, "it was looked for", async || host.requests() > asked).await;
    assert!(!server.serves(&next).await);
    server.kill9().await;
    host.hold("fork", &fork, &["HEAD:refs/heads/another"]).await;
    server.start_again().await;
    is_found(&server, &next).await;
    let refs = fork.home().ls_remote(&own).await;
    assert_eq!((&refs[&name(&pr)], &refs[&name(&next)]), (&first, &second));
}

/// AFTER-7, HUNT-12: the maintainer's push wins, and what is still on its way harms nothing.
#[tokio::test]
async fn a_push_while_it_is_fetched_wins() {
    let (mut server, host) = (configured().spawn().await, GitHost::start().await);
    let there = Elsewhere::new("project", &server, &[&host.url("project")]).await;
    host.hold("project", &there.alice.work, &["main"]).await;
    host.behave(Behaviour::StallsAfter(30));
    there.publish(&server).await;
    eventually_within(FOUND, "it is being fetched", async || host.running() > 0).await;
    there.alice.push().await.accepted();
    there.is_found(&server).await;
    assert!(host.running() > 0, "it still is");
    assert!(
        server.terminate().await.success(),
        "a fetch holds up no stop"
    );
}

/// G2-1, G2-2, CL-4: issue 5, "two servers": what happened while one was down it has afterwards, refs too.
#[tokio::test]
async fn a_server_that_was_down_serves_the_same_events_and_refs() {
    let (a, mut b) = (configured().spawn().await, configured().spawn().await);
    let alice = Maintainer::new("project", a.endpoint()).await;
    let tip = alice.commit("first").await;
    let both = [a.endpoint(), b.endpoint()];
    let announcement = alice.person.announcement_on("project", &both).sign();
    let state = alice.state([("refs/heads/main", &tip)]);
    for server in [&a, &b] {
        server.publish(&announcement).await.accepted();
    }
    a.publish(&state).await.accepted();
    alice.push().await.accepted();
    is_found(&b, &state).await;
    is_found(&b, &announcement).await;
    let there = b.endpoint().clone_url(&alice.person.npub(), "project");
    assert_eq!(
        alice.work.home().ls_remote(&there).await,
        alice.remote_refs().await
    );

    assert!(b.terminate().await.success());
    let tip = alice.commit("second").await;
    let next = now(alice.person.state("project", [("refs/heads/main", &tip)]));
    a.publish(&next).await.accepted();
    alice.push().await.accepted();
    let fork = GitHome::new().clone_of(&alice.url(), "fork").await;
    let change = fork.commit("a change").await;
    let pr = now(Person::named("carol").pull_request(&alice.coordinate(), &change));
    a.publish(&pr).await.accepted();
    let name = format!("HEAD:refs/nostr/{}", pr.id.to_hex());
    fork.push_to(&alice.url(), &[&name]).await.accepted();
    b.start_again().await;
    is_found(&b, &next).await;
    is_found(&b, &pr).await;
    assert_eq!(
        alice.work.home().ls_remote(&there).await,
        alice.remote_refs().await
    );
}

/// NET-2: nobody is asked in the server's own network unless the operator wants it.
#[tokio::test]
async fn on_a_loopback_address_nothing_is_looked_for_unless_the_operator_wants_it() {
    let (server, host) = (Server::spawn().await, GitHost::start().await);
    let there = Elsewhere::new("project", &server, &[&host.url("project")]).await;
    host.hold("project", &there.alice.work, &["main"]).await;
    there.publish(&server).await;
    let refused = "ngit_purgatory_git_subprocess_total{operation=\"fetch\",role=\"primary\",outcome=\"forbidden\"}";
    eventually_within(FOUND, "it was refused", async || {
        let page = server.request("GET", "/metrics", &[]).await.text();
        let count = page.lines().find_map(|line| line.strip_prefix(refused));
        count.is_some_and(|count| count.trim() != "0")
    })
    .await;
    assert_eq!(host.requests(), 0);
    assert!(!server.serves(&there.state).await);
}
