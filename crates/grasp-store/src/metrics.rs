//! What the store counts. The server renders it; nothing here knows an exposition format.

use grasp_metrics::Histogram;

/// From a good SSD to a disk that is busy with something else: the upper ends of the buckets, in seconds.
const DURATIONS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];

/// From a commit of its own to a full group: the upper ends of the buckets, in members.
const MEMBERS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];

/// How the store does.
#[derive(Debug)]
pub struct Metrics {
    /// `ngit_store_commit_duration_seconds`: deciding, writing and syncing one group of commits.
    pub commit_duration: Histogram,
    /// `ngit_store_commit_members`: commits that shared one sync.
    pub commit_members: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            commit_duration: Histogram::new(DURATIONS),
            commit_members: Histogram::new(MEMBERS),
        }
    }
}
