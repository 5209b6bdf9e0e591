//! The simulator finds what it should: each defect of [`Defect::ALL`], switched on in a process of its own.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Mutex;

use grasp_core::defect::Defect as CoreDefect;
use grasp_sync::defect::Defect;

/// So many seeds may pass until a defect is found. All of them pass without one: the other test runs them.
const SEEDS: u64 = 150;
const SIMULATED: &str = "servers_of_a_repository_serve_the_same_once_the_network_heals";

/// The seed that finds it. Where runs are drawn otherwise another one does: then the search goes on from here, and the
/// test says where it ended.
fn seed(defect: Defect) -> u64 {
    match defect {
        Defect::PendingKept => 1,
        Defect::LostPage => 9,
        Defect::RaisedConfirmed => 15,
        _ => 0,
    }
}

/// The first seed from `first` on whose run fails.
fn failing(defect: &str, first: u64, seeds: u64) -> Option<u64> {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", SIMULATED, "--nocapture"])
        .env("NGIT_DEFECT", defect)
        .env("SIM_FIRST", first.to_string())
        .env("SIM_SEEDS", seeds.to_string())
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("this program runs");
    if output.status.success() {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    let told = said.split("the run of seed ").nth(1);
    let seed = told.and_then(|told| told.split(' ').next()?.parse().ok());
    Some(seed.unwrap_or_else(|| panic!("it fails otherwise: {said}")))
}

/// Design §13
#[test]
fn every_seeded_defect_is_found_by_the_simulator() {
    let own = Defect::ALL
        .iter()
        .map(|defect| (format!("{defect:?}"), seed(*defect)));
    let ties = (format!("{:?}", CoreDefect::TieOrder), 1);
    let queue: Mutex<VecDeque<_>> = Mutex::new(own.chain([ties]).collect());
    let missed = Mutex::new(Vec::new());
    let next = || queue.lock().expect("nobody panics").pop_front();
    let work = || {
        while let Some((defect, first)) = next() {
            let known = failing(&defect, first, 1);
            match known.or_else(|| failing(&defect, first + 1, SEEDS - 1)) {
                Some(seed) => println!("{defect}: seed {seed}"),
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
