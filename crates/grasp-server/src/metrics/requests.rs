//! What the clean-up of requests to delete and to vanish did (DEL-9).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use grasp_core::event::kind;
use grasp_core::lifecycle::{Change, Stage};
use grasp_metrics::{Family, Text, labels};

labels! {
    /// The `type` of a request.
    pub(crate) RequestType {
        /// To delete.
        Deletion = "deletion",
        /// To vanish.
        Vanish = "vanish",
    }
}

labels! {
    /// The `outcome` for a request that was looked at.
    pub(crate) Outcome {
        /// Not shown any more; what it gates stays gated.
        Unserved = "unserved",
        /// Gone, and its gates with it.
        Removed = "removed",
        /// Shown for longer: the settings have changed since.
        Extended = "extended",
    }
}

/// `ngit_deletion_request_cleanup_*`.
#[derive(Debug, Default)]
pub(crate) struct RequestCleanups {
    /// `…_runs_total`: sweeps, whether or not something was due.
    runs: AtomicU64,
    /// `…_removed_total{type}`.
    removed: Family<RequestType>,
    /// `…_outcomes_total{outcome}`.
    outcomes: Family<Outcome>,
}

impl RequestCleanups {
    /// The clean-up looks for what is due.
    pub(crate) fn ran(&self) {
        self.runs.fetch_add(1, Relaxed);
    }

    /// It did this to a request of that kind.
    pub(crate) fn did(&self, kind: u16, change: &Change) {
        let outcome = match change {
            Change::Remove { .. } => {
                self.removed.count(match kind {
                    kind::VANISH => RequestType::Vanish,
                    _ => RequestType::Deletion,
                });
                Outcome::Removed
            }
            Change::Move {
                stage: Stage::Served,
                ..
            } => Outcome::Extended,
            _ => Outcome::Unserved,
        };
        self.outcomes.count(outcome);
    }

    pub(super) fn render(&self, text: &mut Text) {
        text.counter(
            "ngit_deletion_request_cleanup_runs_total",
            "How often requests to delete and to vanish were cleaned up.",
            self.runs.load(Relaxed),
        );
        text.family(
            "ngit_deletion_request_cleanup_removed_total",
            "Requests that are gone, and what they gated is not gated by them any more.",
            "type",
            &self.removed,
        );
        text.family(
            "ngit_deletion_request_cleanup_outcomes_total",
            "What became of requests whose time had come.",
            "outcome",
            &self.outcomes,
        );
    }
}
