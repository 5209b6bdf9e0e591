//! Figures of a hunt: what a repository of 200 MB costs a server that fetches it, in memory and in the time that others wait.
//!
//! The real binary (`NGIT_GRASP_BIN`, or the one beside this program), stock git as the source, four clients that ask for the same
//! hundred events before and while the server fetches. Exits with 1 if a goal is missed.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use grasp_testkit::wait::eventually_within;
use grasp_testkit::{GitHost, Maintainer, Server, Value, json, process};
use tokio::task::JoinSet;

const MIB: u64 = 1 << 20;
/// Files of a mebibyte that neither zlib nor deltas make smaller.
const FILES: u64 = 200;
const CLIENTS: usize = 4;
/// Between two questions of one client.
const PAUSE: Duration = Duration::from_millis(5);
const IDLE: Duration = Duration::from_secs(10);

/// While it fetches the server's own resident memory may grow by this.
const GROWTH_MAX: u64 = 32 * MIB;
/// The private memory of the server and its children together.
const TREE_MAX: u64 = 150 * MIB;
/// How much longer others may wait, at the 99th percentile.
const SLOWER_MAX: f64 = 2.0;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "figures are for people")]
async fn main() -> ExitCode {
    let server = Server::configured()
        .env("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", true)
        .env("NGIT_RELAY_QUERIES_PER_MINUTE", 1_000_000)
        .env("NGIT_RELAY_MESSAGES_PER_MINUTE", 1_000_000)
        .spawn()
        .await;
    let filter = crowd(&server).await;
    let (host, alice, tip) = source(&server).await;

    let before = process::resident_memory_of(server.pid());
    let idle = Arc::new(AtomicBool::new(true));
    let asking = ask(&server, &filter, &idle);
    tokio::time::sleep(IDLE).await;
    idle.store(false, Ordering::Relaxed);
    let quiet = asking.join_all().await.concat();

    let running = Arc::new(AtomicBool::new(true));
    let asking = ask(&server, &filter, &running);
    let watching = tokio::spawn(watch(server.pid(), Arc::clone(&running)));
    let begun = Instant::now();
    let url = host.url("large");
    let own = alice.url();
    let announcement = alice.person.announcement("large", server.endpoint());
    let announcement = announcement.without("clone").tag(["clone", &own, &url]);
    server.publish(&announcement.sign()).await.accepted();
    let state = alice.state([("refs/heads/main", &tip)]);
    server.publish(&state).await.accepted();
    eventually_within(Duration::from_mins(10), "the state is served", async || {
        server.serves(&state).await
    })
    .await;
    let took = begun.elapsed();
    running.store(false, Ordering::Relaxed);
    let busy = asking.join_all().await.concat();
    let peak = watching.await.expect("it only reads");

    let (quiet, busy) = (p99(quiet), p99(busy));
    let growth = peak.server.saturating_sub(before);
    let slower = busy.as_secs_f64() / quiet.as_secs_f64();
    println!(
        "fetched and served {FILES} MiB in {:.1} s",
        took.as_secs_f64()
    );
    println!(
        "resident memory of the server: {} MiB before, {} MiB at its peak (may grow by {})",
        before / MIB,
        peak.server / MIB,
        GROWTH_MAX / MIB
    );
    println!(
        "private memory with its children: {} MiB at its peak (goal: {})",
        peak.tree / MIB,
        TREE_MAX / MIB
    );
    println!(
        "p99 of a REQ: {quiet:.1?} before, {busy:.1?} meanwhile: {slower:.2} times (goal: {SLOWER_MAX})"
    );
    let is_met = growth <= GROWTH_MAX && peak.tree <= TREE_MAX && slower <= SLOWER_MAX;
    if is_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A repository with a hundred issues; what asks for them.
async fn crowd(server: &Server) -> Value {
    let bob = Maintainer::named_serving("bob", "busy", server.endpoint()).await;
    let coordinate = bob.person.coordinate("busy");
    let mut relay = server.relay().await;
    for _ in 0..100 {
        let issue = bob.person.issue(&coordinate).sign();
        while !relay.publish(&issue).await.accepted {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    json!({"#a": [coordinate], "kinds": [1621]})
}

/// A git server that holds `large`, packed as a server has it.
async fn source(server: &Server) -> (GitHost, Maintainer, String) {
    let alice = Maintainer::new("large", server.endpoint()).await;
    alice.work.git(["config", "core.compression", "0"]).await;
    for number in 0..FILES {
        let name = alice.work.path().join(format!("noise-{number}"));
        std::fs::write(name, noise(number + 1)).expect("there is room");
    }
    let tip = alice.commit("large").await;
    let host = GitHost::start().await;
    host.hold("large", &alice.work, &["main"]).await;
    let repack = ["-c", "core.compression=0", "repack", "-adqF", "--window=0"];
    alice
        .work
        .home()
        .run(&host.repository("large"), repack)
        .await;
    (host, alice, tip)
}

fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(1 << 17).flatten().collect()
}

/// Clients that ask again and again while `running` holds, and how long each answer took.
fn ask(server: &Server, filter: &Value, running: &Arc<AtomicBool>) -> JoinSet<Vec<Duration>> {
    let mut asking = JoinSet::new();
    for _ in 0..CLIENTS {
        let (ws, filter) = (server.endpoint().ws.clone(), filter.clone());
        let running = Arc::clone(running);
        asking.spawn(async move {
            let mut relay = grasp_testkit::RelayClient::connect(&ws).await;
            let mut times = Vec::new();
            while running.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let events = relay.query(std::slice::from_ref(&filter)).await;
                times.push(begun.elapsed());
                assert_eq!(events.len(), 100);
                tokio::time::sleep(PAUSE).await;
            }
            times
        });
    }
    asking
}

/// The most memory that was seen.
#[derive(Default)]
struct Peak {
    server: u64,
    tree: u64,
}

async fn watch(pid: u32, running: Arc<AtomicBool>) -> Peak {
    let mut peak = Peak::default();
    while running.load(Ordering::Relaxed) {
        peak.server = peak.server.max(process::resident_memory_of(pid));
        peak.tree = peak.tree.max(process::private_memory(pid));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    peak
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let place = times.len() * 99 / 100;
    times.get(place).copied().unwrap_or_default()
}
