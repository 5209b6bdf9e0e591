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
