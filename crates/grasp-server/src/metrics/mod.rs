//! What the server counts, and the page on which monitoring reads it (§20).
//!
//! The relay and the store count for themselves, in structs that they are handed; [`Monitoring`] puts all of it
//! into one text. *Invariant:* no series names a client, a key, an event or a repository, and none comes into
//! being by what a client sends (cases.md 80). What does not exist in this version has no series: a zero would say
//! that it works and is idle.

mod conditions;
mod git;
mod holding;
mod hunt;
mod labels;
mod process;
mod removal;
mod render;
mod requests;
mod sync;

use std::time::{Duration, Instant};

use grasp_core::admission::{Answer, Rejection};
use grasp_git::IngestError;
use grasp_metrics::{Family, Histogram, Histograms, Table};

pub(crate) use conditions::{Condition, Conditions};
pub(crate) use git::{Request, Response};
pub(crate) use holding::{Holding, Outcome, Phase, Recovery, Why};
pub(crate) use hunt::{Hunting, Role, Sought};
pub(crate) use labels::{Authorization, Bound, Direction, Kind, Operation, Reason, Status};
pub(crate) use render::Monitoring;
pub(crate) use requests::RequestCleanups;
pub(crate) use sync::{Sync, SyncState};

/// How long git operations take: the upper ends of the buckets, in seconds.
const OPERATIONS: &[f64] = &[0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// How far publishing lags: the upper ends of the buckets, in seconds.
const LAGS: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0,
];

/// All series of the server itself.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// `ngit_uptime_seconds` counts from here.
    pub(crate) started: Instant,
    /// `ngit_events_received_total{kind}`: events that came as far as the check of their signature.
    pub(crate) events_received: Family<Kind>,
    /// `ngit_events_stored_total{kind}`: events that became visible to subscribers.
    pub(crate) events_stored: Family<Kind>,
    /// `ngit_events_rejected_total{kind,reason}`.
    pub(crate) events_rejected: Table<Kind, Reason>,
    /// `ngit_git_operations_total{operation,status}`.
    pub(crate) git_operations: Table<Operation, Status>,
    /// `ngit_git_operation_duration_seconds{operation}`, from the request's head to the answer's last byte.
    pub(crate) git_duration: Histograms<Operation>,
    /// `ngit_git_bytes_total{direction}`: bodies of fetches and pushes.
    pub(crate) git_bytes: Family<Direction>,
    /// `ngit_git_push_authorization_total{result}`.
    pub(crate) push_authorization: Family<Authorization>,
    /// `ngit_limit_refusals_total{limit}`, those of git and of storage.
    pub(crate) refusals: Family<Bound>,
    /// `ngit_deletion_request_cleanup_*`.
    pub(crate) request_cleanups: RequestCleanups,
    /// `ngit_fanout_lag_seconds`: from a commit to the moment its events were handed to subscriptions.
    pub(crate) fanout_lag: Histogram,
    /// `ngit_repositories_frozen` and `ngit_repositories_degraded`.
    pub(crate) conditions: Conditions,
    /// `ngit_removed_events_total` and `ngit_removals_capped_total`.
    pub(crate) removal: removal::Removal,
    /// What is kept for recovery.
    pub(crate) holding: Holding,
    /// Following other servers.
    pub(crate) sync: Sync,
    /// Looking for git data elsewhere.
    pub(crate) hunting: Hunting,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            events_received: Family::default(),
            events_stored: Family::default(),
            events_rejected: Table::default(),
            git_operations: Table::default(),
            git_duration: Histograms::new(OPERATIONS),
            git_bytes: Family::default(),
            push_authorization: Family::default(),
            refusals: Family::default(),
            request_cleanups: RequestCleanups::default(),
            fanout_lag: Histogram::new(LAGS),
            conditions: Conditions::default(),
            removal: removal::Removal::default(),
            holding: Holding::default(),
            sync: Sync::default(),
            hunting: Hunting::default(),
        }
    }
}

impl Metrics {
    /// An event was decided about.
    pub(crate) fn answered(&self, kind: u16, answer: &Answer) {
        if let Answer::Rejected(rejection) = answer {
            self.rejected(kind, rejection);
        }
    }

    /// An event is not taken.
    pub(crate) fn rejected(&self, kind: u16, rejection: &Rejection) {
        self.refused_event(kind, Reason::of(rejection));
        if let Some(bound) = Bound::of_rejection(rejection) {
            self.refusals.count(bound);
        }
    }

    /// An event could not be taken.
    pub(crate) fn refused_event(&self, kind: u16, reason: Reason) {
        self.events_rejected.count(Kind::of(kind), reason);
        if reason == Reason::DiskFull {
            self.refusals.count(Bound::DiskFloor);
        }
    }

    /// A pack was not taken.
    pub(crate) fn refused_pack(&self, error: &IngestError) {
        if let Some(bound) = Bound::of_pack(error) {
            self.refusals.count(bound);
        }
    }

    /// A git operation has ended.
    pub(crate) fn git_ended(&self, operation: Operation, status: Status, took: Duration) {
        self.git_operations.count(operation, status);
        self.git_duration.of(operation).took(took);
    }
}
