//! Figures that design and not tuning gives (issue, "Figures").

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
