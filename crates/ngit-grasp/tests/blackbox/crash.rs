//! `kill -9` at any time: nothing acknowledged is missing, relay and git agree.

#[cfg(feature = "failpoints")]
mod leaving;

use std::{cell::Cell, time::Duration};

use grasp_testkit::{Event, Maintainer, Server, json};

/// What the server has said yes to.
#[derive(Default)]
struct Acknowledged {
    /// The newest state whose push git reported as done.
    pushed: Option<Event>,
    /// Every event answered with `OK true`.
    events: Vec<Event>,
}

/// The served state of the repository, and that refs are exactly its. What a killed push had installed may
/// be served moments after the start: relay, refs, relay are read until the relay says the same twice.
async fn served_state_that_refs_agree_with(server: &Server, alice: &Maintainer) -> Option<Event> {
    let filter = json!({"kinds": [30618], "#d": [alice.identifier]});
    let served = async || server.query(filter.clone()).await.into_iter().next();
    let mut read = None;
    // Brought in line within moments of the start (GIT-13); never anything else meanwhile.
    grasp_testkit::eventually("the repository answers", async || {
        let before = served().await;
        let target = grasp_testkit::wire::info_refs(&alice.path(), "git-upload-pack");
        if server.request("GET", &target, &[]).await.status != 200 {
            return false;
        }
        let listed = alice.remote_branches_and_tags().await;
        let stable = before == served().await;
        read = Some((before, listed));
        stable
    })
    .await;
    let (state, listed) = read.expect("read at least once");
    let named = state.as_ref().map(grasp_testkit::git::refs_named_by);
    let named = named.unwrap_or_default();
    assert_eq!(listed, named, "relay and git tell the same story");
    state
}

/// Checks everything that must hold after a crash and a start.
async fn nothing_is_missing(server: &Server, alice: &Maintainer, acknowledged: &Acknowledged) {
    let served = served_state_that_refs_agree_with(server, alice).await;
    if let Some(pushed) = &acknowledged.pushed {
        let served = served.expect("what was pushed is served");
        assert!(
            served.created_at >= pushed.created_at,
            "or something newer is"
        );
    }
    for event in &acknowledged.events {
        let said = server.publish(event).await.accepted();
        assert!(
            said.starts_with("duplicate:"),
            "{said:?} for what was acknowledged"
        );
    }
    let bare = server.repository(&alice.person.npub(), &alice.identifier);
    if bare.exists() {
        alice
            .work
            .home()
            .run(&bare, ["fsck", "--strict", "--full"])
            .await;
    }
    let left = |folder: &str| {
        let folder = server.git_dir().join(".grasp").join(folder);
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    };
    grasp_testkit::eventually("quarantine and trash are empty", async || {
        left("quarantine") == 0 && left("trash") == 0
    })
    .await;
}

/// Signs, publishes and pushes one more commit, as far as the server lives.
async fn advance(alice: &Maintainer, text: &str, acknowledged: &mut Acknowledged) {
    let tip = alice.commit(text).await;
    let state = alice.state([("refs/heads/main", &tip)]);
    let answer = grasp_testkit::relay::try_publish(&alice.server.ws, &state).await;
    if answer.is_some_and(|answer| answer.accepted) {
        acknowledged.events.push(state.clone());
        if alice.push_refs(&["+main"]).await.ok {
            acknowledged.pushed = Some(state);
        }
    }
}

/// Design §13, cases 11 and 89
#[tokio::test]
async fn a_kill_at_any_time_loses_nothing_that_was_acknowledged() {
    let kills = std::env::var("GRASP_TEST_KILLS").map_or(12, |n| n.parse().expect("a number"));
    let mut server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let mut acknowledged = Acknowledged::default();
    acknowledged.events.push(alice.announce().await);
    for kill in 0..kills {
        // The moment moves through the whole of commit, publish, push.
        let moment = Duration::from_millis(20 + kill * 13 % 170);
        // Only the server is cut off in the middle: a killed client's git leaves locks of its own behind.
        let ended = Cell::new(false);
        let work = async {
            for n in 0.. {
                advance(&alice, &format!("{kill}-{n}"), &mut acknowledged).await;
                if ended.get() {
                    break;
                }
            }
        };
        let end = async {
            tokio::time::sleep(moment).await;
            server.kill9().await;
            ended.set(true);
        };
        tokio::join!(work, end);
        server.start_again().await;
        nothing_is_missing(&server, &alice, &acknowledged).await;
    }
    advance(&alice, "at last", &mut acknowledged).await;
    let last = acknowledged
        .pushed
        .clone()
        .expect("a push works after all that");
    assert!(server.serves(&last).await);
}

/// Cases 11: the unpacking process dies, not the server.
#[tokio::test]
async fn a_push_whose_helper_is_killed_is_reported_as_failed() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let tip = alice.commit("first").await;
    alice.publish_state([("refs/heads/main", &tip)]).await;
    let pack = alice.work.pack(&[&tip]).await;
    let command = [(grasp_testkit::wire::ZERO, tip.as_str(), "refs/heads/main")];
    let body = grasp_testkit::wire::push_request(&command, grasp_testkit::wire::USUAL, &pack);
    let target = alice.path() + "/git-receive-pack";
    let mut http = server.http().await;
    let length = body.len().to_string();
    http.send_head("POST", &target, &[("Content-Length", &length)])
        .await;
    http.send(&body[..body.len() - 10]).await;
    // A tiny pack needs no helper; if there is one, it goes.
    for pid in grasp_testkit::process::tree(server.pid())
        .into_iter()
        .skip(1)
    {
        if let Some(pid) = i32::try_from(pid).ok().and_then(rustix_pid) {
            let _ = grasp_testkit::server::kill_process(pid, grasp_testkit::server::Signal::KILL);
        }
    }
    drop(http);
    assert!(alice.remote_refs().await.is_empty());
    alice.push().await.accepted();
}

fn rustix_pid(pid: i32) -> Option<grasp_testkit::server::Pid> {
    grasp_testkit::server::Pid::from_raw(pid)
}

/// Design §13: at every step of the write path and every commit.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_crash_at_any_step_loses_nothing_that_was_acknowledged() {
    const STEPS: &[&str] = &[
        "commit.before",
        "commit.before@2",
        "commit.before@3",
        "commit.after",
        "commit.after@2",
        "commit.after@3",
        "event.committed",
        "event.committed@2",
        "repository.built",
        "repository.renamed",
        "push.authorized",
        "ingest.scanned",
        "ingest.indexed",
        "ingest.synced",
        "ingest.linked",
        "ingest.durable",
        "push.installed",
        "push.committed",
        "reconcile.begun",
        "refs.written",
        "refs.renamed",
        "refs.head",
        "reconcile.done",
        "push.reconciled",
        "push.reported",
    ];
    let mut never = Vec::new();
    for step in STEPS {
        let mut server = Server::spawn().await;
        let alice = Maintainer::serving("project", &server).await;
        let other = Maintainer::named("bob", "other", &server).await;
        let mut acknowledged = Acknowledged::default();
        server.terminate().await;
        if server
            .try_start_again_with("NGIT_FAILPOINT", Some(step))
            .await
        {
            // A new repository, and pushes to one that is there.
            let announcement = other.person.announcement("other", &server).sign();
            let answer = grasp_testkit::relay::try_publish(&server.ws, &announcement).await;
            if answer.is_some_and(|answer| answer.accepted) {
                acknowledged.events.push(announcement);
            }
            for text in ["second", "third", "fourth"] {
                advance(&alice, text, &mut acknowledged).await;
            }
            if !server.has_ended() {
                never.push(*step);
            }
            server.kill9().await;
        }
        server.start_again_with("NGIT_FAILPOINT", None).await;
        nothing_is_missing(&server, &alice, &acknowledged).await;
        // The same event again creates what the crash prevented; what is there is not hurt.
        other.announce().await;
        assert!(other.remote_refs().await.is_empty());
        advance(&alice, "at last", &mut acknowledged).await;
        let last = acknowledged.pushed.clone();
        assert!(
            server.serves(&last.expect("a push works again")).await,
            "{step}"
        );
    }
    assert!(never.is_empty(), "never passed: {never:?}");
}

/// DEL-4, design §13: the plan is a row of the commit that made it necessary, and its steps are rows too.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_crash_while_a_conversation_leaves_is_made_up_for() {
    const STEPS: &[(&str, usize)] = &[
        ("commit.after", 3),
        ("removal.planned", 3),
        ("commit.before@2", 3),
        ("commit.after@2", 3),
        ("commit.before@3", 3),
        ("removal.step", 3),
        // The second of two steps is still to come.
        ("removal.step", 1_100),
    ];
    for (step, comments) in STEPS {
        let mut server = Server::configured()
            .env("NGIT_RELAY_EVENTS_PER_MINUTE", 10_000)
            .spawn()
            .await;
        let alice = Maintainer::serving("project", &server).await;
        let carol = grasp_testkit::Person::named("carol");
        let issue = carol.issue(&alice.coordinate()).sign();
        server.publish(&issue).await.accepted();
        let mut relay = server.relay().await;
        for n in 0..*comments {
            let comment = carol.comment(&issue).content(&n.to_string()).sign();
            relay.publish(&comment).await.accepted();
        }
        server.terminate().await;
        assert!(
            server
                .try_start_again_with("NGIT_FAILPOINT", Some(step))
                .await
        );
        let deletion = alice.person.draft(5).tag(["a", &alice.coordinate()]).sign();
        grasp_testkit::relay::try_publish(&server.ws, &deletion).await;
        grasp_testkit::eventually("it passes the step", async || server.has_ended()).await;
        server.start_again_with("NGIT_FAILPOINT", None).await;
        let hanging = json!({"kinds": [1111, 1621, 30617, 30618]});
        grasp_testkit::eventually("all of it goes", async || {
            server.query(hanging.clone()).await.is_empty()
        })
        .await;
        let bare = server.repository(&alice.person.npub(), "project");
        grasp_testkit::eventually("the repository goes", async || !bare.exists()).await;
        assert!(server.serves(&deletion).await, "{step}");
        server
            .publish(&carol.comment(&issue).sign())
            .await
            .refused();
    }
}
