//! Large pushes and clones stream: nothing is held in memory whole (HTTP-4, GIT-8, cases 9 and 13).

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use grasp_testkit::{GitHome, Maintainer, Server, process};

const MIB: u64 = 1 << 20;

/// Watches the private memory of a process tree until it is asked for the peak.
struct MemoryWatch {
    stop: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl MemoryWatch {
    fn of(pid: u32) -> Self {
        let (stop, peak) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopped, highest) = (stop.clone(), peak.clone());
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                highest.fetch_max(process::private_memory(pid), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        });
        Self { stop, peak, task }
    }

    async fn peak(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("it only reads");
        self.peak.load(Ordering::Relaxed)
    }
}

/// A file of bytes that do not compress.
fn write_noise(path: &std::path::Path, seed: u64, mebibytes: u64) {
    use std::io::Write as _;
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).expect("writable"));
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for _ in 0..mebibytes * MIB / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes()).expect("there is room");
    }
}

/// HTTP-4, GIT-8, cases 13 and 76: 200 MB pushed and cloned with the process tree under 150 MB of private memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_megabytes_go_through_a_small_process_tree() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("large", &server).await;
    // The client shall not spend the test's time on noise that no delta and no zlib makes smaller.
    alice.work.git(["config", "core.compression", "0"]).await;
    alice
        .work
        .git(["config", "core.bigFileThreshold", "1m"])
        .await;
    for n in 0..10 {
        write_noise(&alice.work.path().join(format!("noise-{n}")), n + 1, 20);
    }
    let tip = alice.commit("large").await;
    alice.publish_state([("refs/heads/main", &tip)]).await;

    let watch = MemoryWatch::of(server.pid());
    alice.push().await.accepted();
    let pushing = watch.peak().await;
    let watch = MemoryWatch::of(server.pid());
    let clone = GitHome::new()
        .clone_with(&alice.url(), "clone", &["--no-checkout"])
        .await;
    let cloning = watch.peak().await;

    assert_eq!(clone.rev("HEAD").await, tip);
    assert!(pushing < 150 * MIB, "push: {} MiB", pushing / MIB);
    assert!(cloning < 150 * MIB, "clone: {} MiB", cloning / MIB);
}

/// GIT-8, cases 9: the answer is drained while the body is read.
#[tokio::test]
async fn many_small_objects_with_progress_do_not_block() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("many", &server).await;
    let mut script = String::new();
    let count = 20_000;
    for n in 1..=count {
        let text = format!("blob {n}");
        let _ = write!(script, "blob\nmark :{n}\ndata {}\n{text}\n", text.len());
    }
    script += "commit refs/heads/main\ncommitter t <t@example.invalid> 0 +0000\ndata 1\nx\n";
    for n in 1..=count {
        let _ = writeln!(script, "M 100644 :{n} {}/{n}", n % 100);
    }
    let home = alice.work.home();
    let args = ["fast-import", "--quiet"];
    home.run_with_input(alice.work.path(), args, script.as_bytes())
        .await;
    let tip = alice.work.rev("main").await;
    alice.publish_state([("refs/heads/main", &tip)]).await;
    alice.push_refs(&["--progress", "main"]).await.accepted();
    assert_eq!(alice.remote_refs().await["refs/heads/main"], tip);
}
