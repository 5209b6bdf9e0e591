//! The random lives find what they should: each defect of [`Defect::ALL`], switched on in a process of its own.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Mutex;

use grasp_core::defect::Defect;

/// So many lives may pass until a defect is found.
const LIVES: u64 = 600;
const LIVED: &str = "lives::whatever_happens_the_server_does_what_the_rules_say";

/// The seed whose life finds it. Where lives are drawn otherwise another one does: then the search goes on from
/// here, and the test says where it ended.
fn seed(defect: Defect) -> u64 {
    match defect {
        Defect::IncompletePromotion | Defect::OneMark => 0,
        Defect::HeadByHistory => 4,
        Defect::InvitedAuthority | Defect::DeletedRollback | Defect::SharedCascade => 6,
        Defect::TakenAlong => 7,
        Defect::OpenGate => 10,
        Defect::PartialAtomic => 17,
        Defect::WaitingWinner | Defect::ThawedRefs | Defect::DroppedDebt => 18,
        Defect::RestoredAuthority => 22,
        Defect::UncheckedEnd => 23,
        Defect::GatedRecovery => 31,
        Defect::AuthorityByExpiry => 34,
        Defect::TieOrder => 68,
        Defect::MarkBeforeVerification => 69,
        Defect::UnboundUpload => 85,
        Defect::UnmarkedExpiry => 306,
    }
}

/// The first seed from here whose life fails, with or without a defect.
fn failing(defect: Option<Defect>, seed: u64, lives: u64) -> Option<u64> {
    let program = std::env::current_exe().expect("this program");
    let defect = defect.map(|defect| format!("{defect:?}"));
    let output = Command::new(program)
        .args(["--exact", LIVED, "--nocapture"])
        .env("NGIT_DEFECT", defect.unwrap_or_default())
        .env("GRASP_TEST_SEED", seed.to_string())
        .env("GRASP_TEST_LIVES", lives.to_string())
        .env("GRASP_TEST_SHORTEN", "0")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("this program runs");
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return None;
    }
    let told = said.split("the life of seed ").nth(1);
    let seed = told.and_then(|told| told.split(' ').next()?.parse().ok());
    Some(seed.unwrap_or_else(|| panic!("it fails otherwise: {said}")))
}

/// The seed whose life sees it, and sees nothing without it.
fn found(defect: Defect) -> Option<u64> {
    let seed = failing(Some(defect), seed(defect), LIVES)?;
    let without = failing(None, seed, 1);
    assert_eq!(without, None, "{defect:?} proves nothing");
    Some(seed)
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
                Some(seed) => println!("{defect:?}: seed {seed}"),
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
