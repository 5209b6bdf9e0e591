//! The simulator at work: `sim` of the library says what it is.

#[cfg(feature = "seeded-defects")]
mod teeth;

use grasp_testkit::sim;

/// So many runs, of which `SIM_SEEDS` may ask for more, and `SIM_FIRST` for others.
const SEEDS: u64 = 200;

fn seeds() -> std::ops::Range<u64> {
    let set = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = set("SIM_FIRST").unwrap_or(0);
    first..first + set("SIM_SEEDS").unwrap_or(SEEDS)
}

/// SYNC-4 … SYNC-11, SYNC-20 … SYNC-36 and SYNC-40 … SYNC-46 at once, between real stores. Relays count what they are
/// asked, and fail the run when that is too much.
///
/// HUNT-2, HUNT-7, HUNT-12, HUNT-14: what was pushed to one of them all show in the end.
#[test]
fn servers_of_a_repository_serve_the_same_once_the_network_heals() {
    if let Some(failure) = sim::search(seeds()) {
        panic!("{failure}");
    }
}

/// A run is its seed, or a failure could not be looked at.
#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 3..6 {
        let (first, ended) = sim::replay(seed);
        assert_eq!(ended, Ok(()));
        let (second, _) = sim::replay(seed);
        let differs = first.iter().zip(&second).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
    let (other, _) = sim::replay(6);
    assert_ne!(other, sim::replay(7).0);
}
