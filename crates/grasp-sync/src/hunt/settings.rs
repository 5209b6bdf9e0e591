//! The figures of the hunt. Those an operator may change are fields; those that only make sense together are
//! constants.

use std::num::NonZeroUsize;
use std::time::Duration;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn count(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("not zero")
}

/// The first wait after an attempt; doubling to [`BACKOFF_MAX`] (HUNT-3).
pub const BACKOFF_BASE: Duration = secs(20);
/// See [`BACKOFF_BASE`].
pub const BACKOFF_MAX: Duration = secs(120);

/// What is only parked is looked for after a time between these two (G2-4).
pub const HOURLY: (Duration, Duration) = (secs(54 * 60), secs(66 * 60));
/// At most so many groups of an identifier are looked for side by side (HUNT-5a).
pub const GROUPS_MAX: usize = 4;
/// At most so many groups of an identifier take part in one attempt; the others come first in the next.
pub const TURNS_MAX: usize = 64;
/// After so long an attempt is over, and what still moves goes on by itself (HUNT-5a).
pub const ATTEMPT_MAX: Duration = secs(120);
/// Without a result for so long another host is asked as well (HUNT-8).
pub const HEDGE_AFTER: Duration = secs(30);
/// So long a silence is worth a warning (HUNT-9).
pub const SILENCE_WARNED: Duration = secs(60);
/// So long a silence is the end (HUNT-9).
pub const SILENCE_MAX: Duration = secs(300);
/// A fetch that brought less than [`SLOW_RATE`] over so long is stopped while others wait (HUNT-9).
pub const SLOW_AFTER: Duration = secs(600);
/// Bytes a second. See [`SLOW_AFTER`].
pub const SLOW_RATE: u64 = 4 * 1_024;
/// The span that [`HuntSettings::per_minute`] counts.
pub const MINUTE: Duration = secs(60);
/// The pause after HTTP 429 that names none (HUNT-7).
pub const PAUSE_DEFAULT: Duration = secs(60);
/// The longest pause that a host may ask for.
pub const PAUSE_MAX: Duration = secs(3_600);
/// For so long a busy GRASP server has half its figures (HUNT-14).
pub const HALVED_FOR: Duration = secs(600);
/// For so long it holds what a host said of itself (HUNT-14).
pub const PROBED_FOR: Duration = secs(24 * 3_600);
/// For so long it is held against an address what it lacked or sent (HUNT-11).
pub const GRUDGE_FOR: Duration = secs(30 * 60);
/// Against at most so many addresses (HUNT-11).
pub const GRUDGES_MAX: usize = 1_024;
/// So many hosts are remembered for which nobody waits.
pub const HOSTS_MAX: usize = 4_096;
/// So many identifiers are looked into at once: [`Output::Gather`](super::Output::Gather).
pub const GATHERS_MAX: usize = 4;
/// Wanted objects and addresses that all attempts together may hold: about 30 MB. More identifiers wait for their turn.
pub const LOAD_MAX: usize = 200_000;
/// An identifier keeps its place in the rings of at most so many hosts from one attempt to the next.
pub const PLACES_MAX: usize = 32;

/// What the operator decides about the hunt (protocol.md §16).
#[derive(Debug, Clone)]
pub struct HuntSettings {
    /// Fetches at once in all.
    pub fetches_max: NonZeroUsize,
    /// Fetches at once from one domain (HUNT-7).
    pub per_domain: NonZeroUsize,
    /// Fetches at once from a GRASP server (HUNT-14).
    pub per_grasp_host: NonZeroUsize,
    /// Fetches at once for one maintainer group.
    pub per_group: NonZeroUsize,
    /// Fetches begun in any minute at one domain (HUNT-7).
    pub per_minute: NonZeroUsize,
    /// Fetches begun in any minute at a GRASP server (HUNT-14).
    pub grasp_per_minute: NonZeroUsize,
    /// For how long a host whose name, certificate or protocol is broken is left alone (HUNT-11).
    pub naughty_pause: Duration,
}

impl Default for HuntSettings {
    fn default() -> Self {
        Self {
            fetches_max: count(16),
            per_domain: count(5),
            per_grasp_host: count(8),
            per_group: count(2),
            per_minute: count(30),
            grasp_per_minute: count(300),
            naughty_pause: secs(12 * 3_600),
        }
    }
}
