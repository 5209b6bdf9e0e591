//! Figures that design and not tuning gives (issue, "Figures").

use std::time::{Duration, Instant};

use grasp_testkit::wire::{Report, USUAL, ZERO, push_request};
use grasp_testkit::{Footprint, Maintainer, Server, process};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// At most 10 files and folders and 36 KiB.
#[tokio::test]
async fn a_tiny_repository_is_small_on_disk() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("tiny", &server).await;
    let cost = Footprint::of(&server.repository(&alice.person.npub(), "tiny"));
    assert!(cost.entries <= 10, "{cost:?}");
    assert!(cost.bytes <= 36 * KIB, "{cost:?}");
}

/// An idle process tree under 40 MiB. In a debug build the mapped text alone is more, so there the
/// memory counts that is the process's own.
#[tokio::test]
async fn an_idle_process_tree_is_small() {
    let server = Server::spawn().await;
    Maintainer::serving("tiny", &server).await;
    assert_eq!(process::tree(server.pid()).len(), 1, "one process");
    let memory = if cfg!(debug_assertions) {
        process::private_memory(server.pid())
    } else {
        process::resident_memory(server.pid())
    };
    assert!(memory < 40 * MIB, "{} KiB", memory / KIB);
}

/// 1,000 refs cost little more than one: under a second, with room for a debug build on a busy machine.
#[tokio::test]
async fn a_thousand_refs_are_pushed_at_once() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("many", &server).await;
    let tip = alice.commit("first").await;
    let names: Vec<_> = (0..1_000)
        .map(|n| format!("refs/heads/branch-{n:04}"))
        .collect();
    alice
        .publish_state(names.iter().map(|name| (name, &tip)))
        .await;
    let commands: Vec<_> = names
        .iter()
        .map(|name| (ZERO, tip.as_str(), name.as_str()))
        .collect();
    let body = push_request(&commands, USUAL, &alice.work.pack(&[&tip]).await);
    let mut http = server.http().await;
    let begun = Instant::now();
    let answer = http
        .post(&(alice.path() + "/git-receive-pack"), &[], &body)
        .await;
    let took = begun.elapsed();
    let report = Report::of(&answer);
    assert!(report.is_ok(), "{:?}", report.fatal);
    assert_eq!(report.refs.len(), 1_000);
    assert_eq!(alice.remote_branches_and_tags().await.len(), 1_000);
    let limit = if cfg!(debug_assertions) { 5 } else { 1 };
    assert!(took < Duration::from_secs(limit), "{took:?}");
}
