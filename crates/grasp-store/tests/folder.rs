//! Whose folder it is, whether there is room, and what a crash leaves.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use grasp_core::event::kind;
use grasp_core::filter::Filter;
use grasp_core::lifecycle::{Change, Stage, Standing};
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::request::gates;
use grasp_store::conformance::{commit, events};
use grasp_store::{CommitError, OpenError, Store, StoreConfig};

use nostr::types::Timestamp;

use events::{at, event, insert, insert_until, key, moved, with_content};

fn config() -> StoreConfig {
    StoreConfig {
        map_size: 1 << 30,
        disk_floor: 0,
        ..StoreConfig::default()
    }
}

fn listing(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.push((path.display().to_string(), Vec::new()));
            files.extend(listing(&path));
        } else {
            files.push((path.display().to_string(), fs::read(&path).expect("a file")));
        }
    }
    files.sort();
    files
}

/// CLI-4
#[test]
fn a_folder_that_is_not_ours_is_refused_and_untouched() {
    for (name, content) in [
        ("data.mdb", ""),
        ("ngit-grasp/data.mdb", ""),
        ("ngit-grasp/readme", "mine"),
        ("ngit-grasp/format", "something else 1\n"),
        ("ngit-grasp/format", "ngit-grasp store 999\n"),
        ("ngit-grasp/format", ""),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("has one")).expect("creates");
        fs::write(path, content).expect("writes");
        let before = listing(folder.path());
        let refused = Store::open(folder.path(), config()).expect_err("is refused");
        assert!(
            matches!(
                refused,
                OpenError::Foreign { .. } | OpenError::Format { .. }
            ),
            "{name}: {refused}"
        );
        assert_eq!(listing(folder.path()), before, "{name}");
    }
}

/// A start that was cut short before it wrote its format file is begun again.
#[test]
fn a_start_that_was_cut_short_is_begun_again() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder.path().join("ngit-grasp")).expect("creates");
    fs::write(folder.path().join("ngit-grasp/lock"), "").expect("writes");
    fs::write(folder.path().join("ngit-grasp/format.new"), "ngit").expect("writes");
    Store::open(folder.path(), config()).expect("opens");
}

/// CLI-2
#[test]
fn a_second_opener_is_refused_until_the_first_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), config()).expect("opens");
    let refused = Store::open(folder.path(), config()).expect_err("is refused");
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    drop(store);
    Store::open(folder.path(), config()).expect("opens again");
}

/// BND-2: a map that does not fit is halved until it does, and reserves no disk.
#[tokio::test]
async fn a_huge_map_takes_no_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = StoreConfig {
        map_size: 1 << 60,
        disk_floor: 0,
        ..StoreConfig::default()
    };
    let store = Store::open(folder.path(), config).expect("opens");
    commit(
        &store,
        vec![insert(&event(key(1), 1, 1, &[]), Stage::Served)],
    )
    .await
    .expect("commits");
    let data = fs::metadata(folder.path().join("ngit-grasp/data.mdb")).expect("a file");
    assert!(data.len() < 1 << 20, "{} bytes", data.len());
}

/// BND-2, case 92.
#[tokio::test]
async fn below_the_floor_only_what_adds_data_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let waiting = event(key(1), 30618, 5, &[&["d", "x"]]);
    {
        let store = Store::open(folder.path(), config()).expect("opens");
        commit(&store, vec![insert_until(&waiting, Stage::Waiting, 9)])
            .await
            .expect("commits");
        assert!(!store.below_disk_floor());
    }
    let store = Store::open(
        folder.path(),
        StoreConfig {
            disk_floor: u64::MAX,
            ..config()
        },
    )
    .expect("opens");
    assert!(store.below_disk_floor());
    let refused = commit(
        &store,
        vec![insert(&event(key(1), 1, 1, &[]), Stage::Served)],
    )
    .await;
    let refused = refused.expect_err("is refused");
    assert!(matches!(refused, CommitError::DiskFull));
    assert_eq!(refused.to_string(), "disk space is below the floor");
    let deletion = event(key(1), 5, 6, &[&["e", &waiting.id().to_hex()]]);
    for batch in [
        vec![moved(&waiting, Stage::Parked)],
        vec![
            insert(&deletion, Stage::Served),
            moved(&waiting, Stage::Held),
        ],
        vec![Change::Remove {
            event: waiting.id(),
        }],
    ] {
        commit(&store, batch)
            .await
            .expect("what makes room goes on");
    }
    assert_eq!(
        store
            .count(&[Filter::default()], at(0))
            .expect("reads go on"),
        1
    );
}

const CHILD: &str = "GRASP_STORE_CRASH_CHILD";
/// Events of one commit of the child: all of them or none.
const TOGETHER: u64 = 3;

/// The child of the crash test: commits for ever, and says what was acknowledged.
#[test]
fn crash_child() {
    let Ok(folder) = std::env::var(CHILD) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = Store::open(Path::new(&folder), config()).expect("opens");
        let start = store.snapshot().expect("a snapshot").version().number() * 1000;
        let lanes = (0..8_u8).map(|lane| tokio::spawn(lane_of(store.clone(), lane, start)));
        for lane in lanes.collect::<Vec<_>>() {
            lane.await.expect("never ends");
        }
    });
}

async fn lane_of(store: Store, lane: u8, start: u64) {
    use std::io::Write as _;
    for n in start.. {
        let repository = RepoAddress::Announced(Coordinate::new(
            key(lane),
            format!("r{n}").parse().expect("valid"),
        ));
        let mut batch = vec![Change::Dirty(repository)];
        for part in 0..TOGETHER {
            let tags: &[&[&str]] = &[&["d", &format!("r{n}")], &["t", "x"]];
            batch.push(insert(
                &with_content(key(lane), 1621, n, tags, &part.to_string()),
                Stage::Served,
            ));
        }
        let done = commit(&store, batch).await.expect("commits");
        let text = format!(
            "ack {} {}\n",
            done.version.number(),
            done.served[0].event.id().to_hex()
        );
        std::io::stderr()
            .write_all(text.as_bytes())
            .expect("says so");
    }
}

/// Idea 4 of the design: what was acknowledged survives `kill -9`, whole.
#[test]
fn nothing_acknowledged_is_missing_after_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut acknowledged = Vec::new();
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "crash_child", "--nocapture"])
            .env(CHILD, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let lines = BufReader::new(child.stderr.take().expect("piped"));
        let before = acknowledged.len();
        for line in lines.lines() {
            let line = line.expect("reads");
            if let Some(rest) = line.strip_prefix("ack ") {
                acknowledged.push(rest.split(' ').nth(1).expect("an id").to_owned());
            }
            if acknowledged.len() - before == 100 + round * 57 {
                child.kill().expect("kills");
            }
        }
        child.wait().expect("is gone");
        assert!(
            acknowledged.len() > before,
            "the child acknowledged something"
        );
        check(folder.path(), &acknowledged);
    }
}

fn check(folder: &Path, acknowledged: &[String]) {
    let store = Store::open(folder, config()).expect("opens after a kill");
    let snapshot = store.snapshot().expect("a snapshot");
    let view = snapshot.view();
    for id in acknowledged {
        let id = nostr::event::EventId::from_hex(id).expect("an id");
        let stored = view.event(&id).expect("reads");
        let repository = stored.map(|it| (it.event.author(), it.event.identifier()));
        let (author, identifier) = repository.expect("an acknowledged event is there");
        let repository =
            RepoAddress::Announced(Coordinate::new(author, identifier.expect("has one")));
        assert!(store.dirty().contains(&repository), "its mark came with it");
    }
    let rows: std::collections::BTreeMap<_, _> =
        store.row_counts().expect("counts").into_iter().collect();
    let events = view.stats().expect("reads").events();
    assert_eq!(events % TOGETHER, 0, "a commit is whole or not there");
    for table in ["events", "ids", "times", "kinds", "authors"] {
        assert_eq!(rows[table], events, "{table}");
    }
    assert_eq!(rows["tags"], 2 * events);
    assert_eq!(store.dirty().list().len() as u64, events / TOGETHER);
    let count = store.count(&[Filter::default()], at(0)).expect("counts");
    assert_eq!(count, events);
}

/// DEL-9: format 1 had gates and no times. Nothing is lost, and the next sweep looks at all of it.
#[tokio::test]
async fn requests_of_the_first_format_begin_their_time_with_the_upgrade() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), config()).expect("opens");
    let issue = event(key(1), kind::ISSUE, 5, &[]);
    let e: &[&str] = &["e", &issue.id().to_hex()];
    let requests = [0, 1].map(|n| with_content(key(1), kind::DELETION, 6 + n, &[e], "as of old"));
    let mut batch = Vec::new();
    for (request, deadline) in requests.iter().zip([None, Some(at(70))]) {
        batch.push(Change::Insert {
            event: request.clone(),
            stage: Stage::Served,
            deadline,
            standing: Standing::Bare,
        });
        batch.extend(gates(request));
    }
    batch.push(Change::Idle {
        event: requests[0].id(),
        used: false,
    });
    commit(&store, batch).await.expect("commits");
    drop(store);
    let format = folder.path().join("ngit-grasp/format");
    fs::write(&format, "ngit-grasp store 1\n").expect("writes");

    let begun = Timestamp::now();
    for _ in 0..2 {
        let store = Store::open(folder.path(), config()).expect("opens");
        let snapshot = store.snapshot().expect("a snapshot");
        let view = snapshot.view();
        let [unused, used] = requests.each_ref().map(|request| {
            let uses = view.request_uses(&request.id()).expect("reads");
            uses.expect("is kept")
        });
        assert!(unused.first_seen >= begun && unused.last.is_none());
        assert_eq!(
            used.last,
            Some(used.first_seen),
            "nobody knows that it is not"
        );
        let known = view.known(&issue, begun).expect("reads");
        assert_eq!(known.gates.len(), 2);
        assert_eq!(view.due(Timestamp::now(), 9).expect("reads").len(), 2);
        assert_eq!(view.unused_requests(&key(1)).expect("reads"), 1);
    }
    let written = fs::read_to_string(format).expect("reads");
    assert_eq!(written, "ngit-grasp store 2\n");
}
