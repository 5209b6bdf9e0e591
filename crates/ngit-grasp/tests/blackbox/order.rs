//! The order of system calls: whatever a commit refers to is durable before it, and the answer goes
//! out after it (design §2.4, §6, §13). Behind the feature `strace`, since they need it beside git; `.ci/run`
//! runs them.

use grasp_testkit::strace::{Call, Trace};
use grasp_testkit::wire::{Report, USUAL, ZERO, push_request};
use grasp_testkit::{Maintainer, Person, Server, json};

const CALLS: &str = "fsync,fdatasync,link,linkat,rename,renameat,renameat2,write,writev,sendto,sendmsg,execve,execveat";

fn is_sync(call: &Call) -> bool {
    call.name == "fsync" || call.name == "fdatasync"
}

fn places(call: &Call) -> bool {
    call.name.starts_with("rename") || call.name.starts_with("link")
}

fn sends(call: &Call, text: &str) -> bool {
    ["write", "writev", "sendto", "sendmsg"].contains(&call.name.as_str())
        && call.text.contains(text)
}

/// The first position from `start` on where `found` holds.
#[track_caller]
fn after(calls: &[Call], start: usize, what: &str, found: impl Fn(&Call) -> bool) -> usize {
    let at = calls[start..].iter().position(found);
    let seen: Vec<_> = calls
        .iter()
        .map(|c| format!("{}({}", c.name, c.text))
        .collect();
    start + at.unwrap_or_else(|| panic!("no {what} after call {start} of:\n{}", seen.join("\n")))
}

/// Design §6, steps 4 to 7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_is_durable_step_by_step_and_reported_last() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let tip = alice.commit("first").await;
    alice.publish_state([("refs/heads/main", &tip)]).await;
    let trace = Trace::of(&server, CALLS).await;
    alice.push().await.accepted();
    trace
        .until("the report", |call| sends(call, "ok refs/heads/main"))
        .await;
    let calls = trace.end().await;

    let pack = after(&calls, 0, "sync of the pack", |c| {
        is_sync(c) && c.text.contains(".pack")
    });
    let idx = after(&calls, pack, "sync of the index", |c| {
        is_sync(c) && c.text.contains(".idx")
    });
    let into = |suffix: &'static str| {
        move |c: &Call| {
            places(c) && c.text.contains("objects/pack/pack-") && c.text.contains(suffix)
        }
    };
    let linked = after(&calls, idx, "link of the pack", into(".pack"));
    let linked = after(&calls, linked, "link of the index", into(".idx"));
    let folder = after(&calls, linked, "sync of the folder", |c| {
        is_sync(c) && c.text.contains("objects/pack>")
    });
    let stored = after(&calls, folder, "sync of the store", |c| {
        is_sync(c) && c.text.contains("/ngit-grasp/")
    });
    let written = after(&calls, stored, "sync of the new refs", |c| {
        is_sync(c) && c.text.contains("packed-refs")
    });
    let renamed = after(&calls, written, "rename of the refs", |c| {
        c.name.starts_with("rename") && c.text.contains("packed-refs\"")
    });
    after(&calls, renamed, "report", |c| {
        sends(c, "ok refs/heads/main")
    });
    let early = calls[..renamed]
        .iter()
        .any(|c| sends(c, "ok refs/heads/main"));
    assert!(!early, "nothing is reported before the refs are there");
}

/// EV-7: `OK true` waits for the commit; the event is broadcast after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_durable_before_it_is_acknowledged_or_broadcast() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let mut watcher = server.relay().await;
    watcher.subscribe("live", &[json!({"kinds": [1621]})]).await;
    watcher.stored("live").await;
    let mut relay = server.relay().await;
    assert!(relay.is_alive().await);
    let trace = Trace::of(&server, CALLS).await;
    let issue = Person::named("carol").issue(&alice.coordinate()).sign();
    relay.publish(&issue).await.accepted();
    watcher.live("live").await;
    trace.until("the OK", |c| sends(c, r#"[\"OK\","#)).await;
    let calls = trace.end().await;
    let stored = after(&calls, 0, "sync of the store", |c| {
        is_sync(c) && c.text.contains("/ngit-grasp/")
    });
    let said = |c: &Call| sends(c, r#"[\"OK\","#) || sends(c, r#"[\"EVENT\","#);
    assert!(
        !calls[..stored].iter().any(said),
        "nothing is said before the commit"
    );
    after(&calls, stored, "OK", |c| sends(c, r#"[\"OK\","#));
}

/// ST-3, EV-7: a state that is complete is applied before its OK.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_state_is_applied_before_it_is_acknowledged() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let first = alice.work.rev("HEAD").await;
    let mut relay = server.relay().await;
    assert!(relay.is_alive().await);
    let state = alice.state([("refs/heads/main", &first), ("refs/heads/next", &first)]);
    let trace = Trace::of(&server, CALLS).await;
    relay.publish(&state).await.accepted();
    trace.until("the OK", |c| sends(c, r#"[\"OK\","#)).await;
    let calls = trace.end().await;
    let stored = after(&calls, 0, "sync of the store", |c| {
        is_sync(c) && c.text.contains("/ngit-grasp/")
    });
    let renamed = after(&calls, stored, "rename of the refs", |c| {
        c.name.starts_with("rename") && c.text.contains("packed-refs\"")
    });
    after(&calls, renamed, "OK", |c| sends(c, r#"[\"OK\","#));
}

/// Issue, "Figures": no process and no `git init` for a new repository.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_repository_and_its_first_push_start_no_process() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let tip = alice.commit("first").await;
    let trace = Trace::of(&server, CALLS).await;
    alice.announce().await;
    alice.publish_state([("refs/heads/main", &tip)]).await;
    alice.push().await.accepted();
    assert_eq!(alice.remote_refs().await["refs/heads/main"], tip);
    trace
        .until("the report", |call| sends(call, "ok refs/heads/main"))
        .await;
    let calls = trace.end().await;
    let started: Vec<_> = calls
        .iter()
        .filter(|c| c.name.starts_with("execve"))
        .collect();
    assert!(started.is_empty(), "{started:?}");
}

/// Pushes `refs` branches at once to a new repository and returns what had to reach the disk, or was started.
async fn costs_of_a_push(name: &str, refs: usize) -> Vec<Call> {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing(name, &server).await;
    let tip = alice.commit("first").await;
    let names: Vec<_> = (0..refs)
        .map(|n| format!("refs/heads/branch-{n:04}"))
        .collect();
    let state = names.iter().map(|name| (name, &tip));
    alice.publish_state(state).await;
    let commands: Vec<_> = names
        .iter()
        .map(|name| (ZERO, tip.as_str(), name.as_str()))
        .collect();
    let body = push_request(&commands, USUAL, &alice.work.pack(&[&tip]).await);
    let trace = Trace::of(&server, CALLS).await;
    let target = alice.path() + "/git-receive-pack";
    let answer = server.http().await.post(&target, &[], &body).await;
    let report = Report::of(&answer);
    assert!(report.is_ok(), "{:?}", report.fatal);
    assert_eq!(report.refs.len(), refs);
    trace
        .until("the report", |call| {
            sends(call, "ok refs/heads/branch-0000")
        })
        .await;
    let mut calls = trace.end().await;
    assert_eq!(alice.remote_branches_and_tags().await.len(), refs);
    calls.retain(|call| is_sync(call) || places(call) || call.name.starts_with("execve"));
    calls
}

/// Issue, "Figures": 1,000 refs cost little more than one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_refs_take_the_system_calls_of_one() {
    let one = costs_of_a_push("one", 1).await;
    let many = costs_of_a_push("many", 1_000).await;
    assert!(!one.is_empty());
    // The same steps; the store may grow its file by some more.
    assert!(many.len() <= one.len() + 4, "{one:?}\n{many:?}");
}

/// Cases 100: a small answer goes out at once. Held back until the last one is acknowledged, it takes 40 ms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_does_not_wait_to_fill_a_packet() {
    let server = Server::spawn().await;
    let trace = Trace::of(&server, "accept,accept4,setsockopt").await;
    assert!(server.relay().await.is_alive().await);
    let at_once = |call: &Call| call.name == "setsockopt" && call.text.contains("TCP_NODELAY, [1]");
    trace.until("no delay for the connection", at_once).await;
    let calls = trace.end().await;
    let accepted = after(&calls, 0, "connection", |c| c.name.starts_with("accept"));
    after(&calls, accepted, "no delay", at_once);
}
