//! The random lives find what they should: each defect of [`Defect::ALL`], switched on in a process of its own.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Mutex;

use grasp_core::defect::Defect;

/// So many lives may pass until a defect is found.
const LIVES: &str = "600";
const LIVED: &str = "lives::whatever_happens_the_server_does_what_the_rules_say";

/// What the lives say with the defect on; `None` if they do not see it.
fn found(defect: Defect) -> Option<String> {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", LIVED, "--nocapture"])
        .env("NGIT_DEFECT", format!("{defect:?}"))
        .env("GRASP_TEST_LIVES", LIVES)
        .env("GRASP_TEST_SHORTEN", "0")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("this program runs");
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    let told = said.lines().find(|line| line.contains("the life of seed"));
    told.filter(|_| !output.status.success()).map(str::to_owned)
}

/// Design §13
#[test]
fn every_seeded_defect_is_found_by_the_random_lives() {
    let queue = Mutex::new(Defect::ALL.iter().copied().collect::<VecDeque<_>>());
    let missed = Mutex::new(Vec::new());
    let next = || queue.lock().expect("nobody panics").pop_front();
    let work = || {
        while let Some(defect) = next() {
            match found(defect) {
                Some(told) => println!("{defect:?}: {told}"),
                None => missed.lock().expect("nobody panics").push(defect),
            }
        }
    };
    let hands = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..hands {
            scope.spawn(work);
        }
    });
    let missed = missed.into_inner().expect("nobody panics");
    assert!(missed.is_empty(), "nothing was seen of {missed:?}");
}
