//! What is kept for recovery: how it goes, and how it comes back (§20).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use grasp_metrics::{Family, Sort, Table, Text, labels};

labels! {
    /// What is kept of something that left.
    pub(crate) Kept {
        /// Where it is, and until when.
        Metadata = "metadata",
        /// The event itself.
        Payload = "payload",
        /// The git data of a repository.
        ArchiveFile = "archive_file",
    }
}

labels! {
    /// How a recovery went.
    pub(crate) Recovery {
        /// It began.
        Attempted = "attempted",
        /// All is back.
        Succeeded = "succeeded",
        /// It met a fault, and is tried again.
        Failed = "failed",
        /// More hangs on it than is looked at.
        Partial = "partial",
    }
}

labels! {
    /// When a list took something away.
    pub(crate) Phase {
        /// The blacklist.
        Blacklist = "blacklist",
        /// The whitelist.
        Whitelist = "whitelist",
    }
}

labels! {
    /// How it went.
    pub(crate) Outcome {
        /// It was tried.
        Attempted = "attempted",
        /// It is done.
        Succeeded = "succeeded",
        /// It met a fault, and is tried at the next start.
        Failed = "failed",
        /// There was nothing to do.
        Skipped = "skipped",
    }
}

labels! {
    /// Why there was nothing to do.
    pub(crate) Why {
        /// There was.
        None = "none",
        /// It is here.
        Live = "live",
        /// Nothing is kept of it any more.
        Gone = "gone",
        /// Its author asked for it to be deleted.
        Requested = "requested",
    }
}

/// Counts what is kept.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    runs: AtomicU64,
    deleted: Family<Kept>,
    last_run: [AtomicU64; 3],
    /// `ngit_recovery_total{result}`.
    pub(crate) recoveries: Family<Recovery>,
    ejections: AtomicU64,
    ejected: Family<Kept>,
    /// `ngit_blacklist_deletions_total{phase,result}`.
    pub(crate) list_deletions: Table<Phase, Outcome>,
    /// `ngit_blacklist_startup_restore_total{result,reason}`.
    pub(crate) blacklist_restores: Table<Outcome, Why>,
    /// `ngit_whitelist_startup_restore_total{result,reason}`.
    pub(crate) whitelist_restores: Table<Outcome, Why>,
}

impl Holding {
    /// A clean-up took so many events and archives.
    pub(crate) fn cleaned(&self, events: u64, archives: u64) {
        self.runs.fetch_add(1, Relaxed);
        for ((kept, count), last) in of(events, archives).into_iter().zip(&self.last_run) {
            self.deleted.add(kept, count);
            last.store(count, Relaxed);
        }
    }

    /// An operator ejected so many.
    pub(crate) fn was_ejected(&self, events: u64, archives: u64) {
        self.ejections.fetch_add(1, Relaxed);
        for (kept, count) in of(events, archives) {
            self.ejected.add(kept, count);
        }
    }

    pub(super) fn render(&self, text: &mut Text) {
        text.counter(
            "ngit_holding_cleanup_runs_total",
            "Clean-ups of what was kept for recovery.",
            self.runs.load(Relaxed),
        );
        text.family(
            "ngit_holding_cleanup_deleted_total",
            "What they removed.",
            "type",
            &self.deleted,
        );
        let last = self.last_run.each_ref().map(|count| count.load(Relaxed));
        let last = [Kept::Metadata, Kept::Payload, Kept::ArchiveFile]
            .into_iter()
            .zip(last);
        text.metric(
            "ngit_holding_cleanup_last_run_deleted",
            Sort::Gauge,
            "What the last one removed.",
        )
        .family("type", last);
        text.family(
            "ngit_recovery_total",
            "Repositories that came back.",
            "result",
            &self.recoveries,
        );
        text.counter(
            "ngit_manual_ejections_total",
            "Times an operator removed for good what was kept of a repository.",
            self.ejections.load(Relaxed),
        );
        text.family(
            "ngit_manual_ejection_deleted_total",
            "What that removed.",
            "type",
            &self.ejected,
        );
        text.table(
            "ngit_blacklist_deletions_total",
            "Repositories that a list of the operator took off the service.",
            ["phase", "result"],
            &self.list_deletions,
        );
        text.table(
            "ngit_blacklist_startup_restore_total",
            "Repositories that the blacklist no longer names.",
            ["result", "reason"],
            &self.blacklist_restores,
        );
        text.table(
            "ngit_whitelist_startup_restore_total",
            "Repositories that the whitelist names again.",
            ["result", "reason"],
            &self.whitelist_restores,
        );
    }
}

/// An event is its own metadata; an archive has a row.
fn of(events: u64, archives: u64) -> [(Kept, u64); 3] {
    [
        (Kept::Metadata, events + archives),
        (Kept::Payload, events),
        (Kept::ArchiveFile, archives),
    ]
}
