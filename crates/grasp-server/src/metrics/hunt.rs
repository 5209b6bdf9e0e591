//! What looking for git data elsewhere counts (§20).
//!
//! The names are those of servers that start a process for each fetch. Here a fetch is a task, and what they call a
//! process is one fetch from one server. *Invariant:* no series names a host: strangers choose them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use grasp_metrics::{Family, Histograms, Label as _, Sort, Table, Text, labels};
use grasp_sync::hunt::{Deferred, FetchOutcome};

/// How long fetches take: the upper ends of the buckets, in seconds.
const FETCHES: &[f64] = &[0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];

labels! {
    /// The `kind` of a wanted object, by how it was looked for and what came of it.
    pub(crate) Sought {
        /// A ref of the other server named it.
        Listed = "advertised_tip",
        /// Asked for by its id.
        Attempted = "residual_attempted",
        /// The other server lacks it.
        Missing = "residual_missing",
        /// Not asked for: too many, or known to be missing there.
        Skipped = "residual_skipped",
        /// Here by now, with all it needs.
        Fetched = "fetched",
    }
}

labels! {
    /// The `role` of a fetch.
    pub(crate) Role {
        /// What is due.
        Primary = "primary",
        /// Beside one that has brought nothing for half a minute (HUNT-8).
        Hedge = "hedge",
    }
}

labels! {
    /// The `outcome` of a fetch.
    pub(crate) Ended {
        /// All that was wanted came.
        Complete = "complete",
        /// Some of it is not there.
        Lacks = "lacks",
        /// Nobody needs it any more.
        Overtaken = "overtaken",
        /// The other server asks for a pause.
        RateLimited = "rate_limited",
        /// It is down.
        Unavailable = "unavailable",
        /// It does not want to, or has no repository there.
        Refused = "refused",
        /// Its name, certificate or protocol is broken.
        Broken = "broken",
        /// We may not go there.
        Forbidden = "forbidden",
        /// What it sent is not taken.
        Harmful = "harmful",
        /// Silent or slow for too long.
        Stopped = "stopped",
        /// Our own fault.
        Ours = "fault",
    }
}

impl Ended {
    fn of(outcome: &FetchOutcome) -> Self {
        match outcome {
            FetchOutcome::Complete => Self::Complete,
            FetchOutcome::Lacks { .. } => Self::Lacks,
            FetchOutcome::Overtaken => Self::Overtaken,
            FetchOutcome::RateLimited { .. } => Self::RateLimited,
            FetchOutcome::Unavailable => Self::Unavailable,
            FetchOutcome::Refused { .. } => Self::Refused,
            FetchOutcome::Broken(_) => Self::Broken,
            FetchOutcome::Forbidden => Self::Forbidden,
            FetchOutcome::Harmful { .. } => Self::Harmful,
            FetchOutcome::Stopped => Self::Stopped,
            FetchOutcome::Ours { .. } => Self::Ours,
        }
    }
}

/// Everything that is counted while git data is looked for.
#[derive(Debug)]
pub(crate) struct Hunting {
    passes: AtomicU64,
    /// Wanted objects.
    pub(crate) oids: Family<Sought>,
    active: AtomicU64,
    active_hedges: AtomicU64,
    ended: Table<Role, Ended>,
    durations: Histograms<Role>,
    bytes: Family<Role>,
    put_off: Mutex<Deferred>,
}

impl Default for Hunting {
    fn default() -> Self {
        Self {
            passes: AtomicU64::default(),
            oids: Family::default(),
            active: AtomicU64::default(),
            active_hedges: AtomicU64::default(),
            ended: Table::default(),
            durations: Histograms::new(FETCHES),
            bytes: Family::default(),
            put_off: Mutex::default(),
        }
    }
}

impl Hunting {
    /// A pass over an identifier began, that is owed something.
    pub(crate) fn passed(&self) {
        self.passes.fetch_add(1, Relaxed);
    }

    /// A fetch began.
    pub(crate) fn began(&self, role: Role) {
        self.running(role).fetch_add(1, Relaxed);
    }

    /// A fetch ended. The other side sent `bytes`.
    pub(crate) fn ended(&self, role: Role, outcome: &FetchOutcome, took: Duration, bytes: u64) {
        self.running(role).fetch_sub(1, Relaxed);
        self.ended.count(role, Ended::of(outcome));
        self.durations.of(role).took(took);
        self.bytes.add(role, bytes);
    }

    /// So many fetches were put off until now.
    pub(crate) fn put_off(&self, deferred: Deferred) {
        *self.put_off.lock().unwrap_or_else(PoisonError::into_inner) = deferred;
    }

    fn running(&self, role: Role) -> &AtomicU64 {
        match role {
            Role::Primary => &self.active,
            Role::Hedge => &self.active_hedges,
        }
    }

    pub(super) fn render(&self, text: &mut Text) {
        text.counter(
            "ngit_purgatory_git_fetch_passes_total",
            "Times that git data of an identifier was looked for.",
            self.passes.load(Relaxed),
        );
        text.family(
            "ngit_purgatory_git_fetch_oids_total",
            "Wanted objects, by how they were asked for and what came of it.",
            "kind",
            &self.oids,
        );
        let put_off = *self.put_off.lock().unwrap_or_else(PoisonError::into_inner);
        let mut metric = text.metric(
            "ngit_purgatory_git_deferred_total",
            Sort::Counter,
            "Times that a host was not asked at once, by what stood in the way.",
        );
        for (reason, count) in [
            ("domain_busy", put_off.busy),
            ("domain_rate", put_off.per_minute),
            ("domain_paused", put_off.paused),
            ("all_busy", put_off.slots),
            ("left_alone", put_off.naughty),
        ] {
            metric.sample(&[("operation", FETCH), ("reason", reason)], count);
        }
        let mut metric = text.metric(
            "ngit_purgatory_git_subprocess_active",
            Sort::Gauge,
            "Fetches from other servers that run.",
        );
        for role in [Role::Primary, Role::Hedge] {
            let labels = [("operation", FETCH), ("role", role.name())];
            metric.sample(&labels, self.running(role).load(Relaxed));
        }
        let mut metric = text.metric(
            "ngit_purgatory_git_subprocess_total",
            Sort::Counter,
            "Fetches from other servers that ended, by how.",
        );
        for (role, outcome, count) in self.ended.iter() {
            let labels = [
                ("operation", FETCH),
                ("role", role.name()),
                ("outcome", outcome.name()),
            ];
            metric.sample(&labels, count);
        }
        text.histograms(
            "ngit_purgatory_git_subprocess_duration_seconds",
            "How long fetches from other servers took.",
            "role",
            &self.durations,
        );
        let mut metric = text.metric(
            "ngit_purgatory_git_subprocess_output_bytes_total",
            Sort::Counter,
            "Bytes that other servers sent.",
        );
        for (role, count) in self.bytes.iter() {
            let labels = [
                ("operation", FETCH),
                ("role", role.name()),
                ("stream", "stdout"),
            ];
            metric.sample(&labels, count);
        }
    }
}

/// The only operation there is.
const FETCH: &str = "fetch";
