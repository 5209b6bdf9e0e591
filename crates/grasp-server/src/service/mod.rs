//! The one way in: admits events, completes pushes, brings repositories in line.
//!
//! Store and git meet here and nowhere else. Every path gathers, lets `grasp-core` decide, commits, then
//! reconciles what the commit marked and publishes what it made visible, in that order. *Invariant:* after
//! the commit nothing can refuse; what then fails is tried again from the mark that the commit left.

mod check;
mod dispute;
mod explain;
mod facts;
mod fetched;
mod holding;
mod lists;
mod owed;
mod pack;
mod page;
mod push;
mod reconcile;
mod refs;
mod refusal_log;
mod refusals;
mod removal;
mod returns;
mod settle;
mod submit;
mod survey;
mod sweep;
mod verifier;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use grasp_core::clock_step::Tick;
use grasp_core::lifecycle::Change;
use grasp_core::name::RepoAddress;
use grasp_core::policy::Policy;
use grasp_git::Repositories;
use grasp_relay::Fanout;
use grasp_store::{Committed, ServedEvent, Store};
use tokio::sync::Semaphore;
use tracing::error;

use crate::clock::Clock;
use crate::metrics::{Kind, Metrics};
use crate::settings::Timers;

pub use check::{CheckError, Checked, Finding, Places, Unwanted};
pub use explain::{ExplainError, Explained};
pub use fetched::{Landing, TakeError, Taken};
pub use holding::{Ejected, HeldScope, Restored};
pub use owed::OwedError;
pub(crate) use page::RepositorySeen;
pub(crate) use push::PushLimits;
pub(crate) use refs::RefsError;
pub use refusals::{Refusal, Refused};
pub use survey::Surveyed;

/// Repositories that are brought in line at once.
const RECONCILING: usize = 4;

/// Ties store and git together. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    pub(crate) store: Store,
    pub(crate) git: Repositories,
    pub(crate) policy: Arc<Policy>,
    pub(crate) clock: Clock,
    pub(crate) fanout: Arc<Fanout>,
    pub(crate) metrics: Arc<Metrics>,
    refusals: Arc<refusals::Refusals>,
    timers: Timers,
    verifier: verifier::Verifier,
    refusal_log: Arc<refusal_log::RefusalLog>,
    push_limits: Arc<PushLimits>,
    reconciling: Arc<Semaphore>,
    /// Held by whoever carries out plans: one after the other.
    planning: Arc<tokio::sync::Mutex<()>>,
    /// When the clock was looked at last (PUR-16).
    last_tick: Arc<Mutex<Tick>>,
    /// What expired here and may have its data elsewhere (PUR-14).
    disputes: Arc<Mutex<dispute::Disputes>>,
}

/// What is left to do after a commit.
#[derive(Default)]
struct Aftermath {
    /// To be brought in line.
    dirtied: Vec<RepoAddress>,
    /// To be published then.
    served: Vec<ServedEvent>,
    /// Whose archive comes back (DEL-6).
    returning: Vec<RepoAddress>,
}

impl Aftermath {
    fn is_empty(&self) -> bool {
        self.dirtied.is_empty() && self.served.is_empty() && self.returning.is_empty()
    }

    fn merge(&mut self, other: Self) {
        self.dirtied.extend(other.dirtied);
        self.served.extend(other.served);
        self.returning.extend(other.returning);
    }
}

impl<T> From<Committed<T>> for Aftermath {
    fn from(committed: Committed<T>) -> Self {
        let returning = committed
            .batch
            .into_iter()
            .filter_map(|change| match change {
                Change::Unarchive { repository } => Some(repository),
                _ => None,
            });
        Self {
            returning: returning.collect(),
            dirtied: committed.dirtied,
            served: committed.served,
        }
    }
}

impl Service {
    /// Ties them together. Must be called inside a tokio runtime.
    pub(crate) fn new(
        store: Store,
        git: Repositories,
        policy: Policy,
        clock: Clock,
        fanout: Arc<Fanout>,
        timers: Timers,
        push_limits: PushLimits,
    ) -> Self {
        let last_tick = Arc::new(Mutex::new(clock.tick()));
        Self {
            store,
            git,
            policy: Arc::new(policy),
            last_tick,
            clock,
            fanout,
            metrics: Arc::default(),
            refusals: Arc::default(),
            timers,
            verifier: verifier::Verifier::start(),
            refusal_log: Arc::default(),
            push_limits: Arc::new(push_limits),
            reconciling: Arc::new(Semaphore::new(RECONCILING)),
            planning: Arc::default(),
            disputes: Arc::default(),
        }
    }

    /// What is stored, for readers beside the relay. Events enter by [`Service::submit`].
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The repositories, for readers beside the git routes. Refs change by reconciling only.
    pub fn repositories(&self) -> &Repositories {
        &self.git
    }

    /// States that expired here and that others speak of. Whole even after a panic: a change is one step.
    pub(crate) fn disputes(&self) -> MutexGuard<'_, dispute::Disputes> {
        self.disputes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the operator decided.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What follows a commit: repositories first, own before others', then the events, so that whoever
    /// hears of an event finds its refs (AFTER-6).
    pub(crate) async fn finish<T>(&self, mut committed: Committed<T>, own: Option<&RepoAddress>) {
        committed
            .dirtied
            .sort_by_key(|repository| Some(repository) != own);
        // A task of its own: the caller may stop waiting, the work does not stop.
        let service = self.clone();
        let own = own.cloned();
        let after = committed.into();
        let task = tokio::spawn(async move { service.follow(after, own).await });
        if let Err(failure) = task.await {
            error!(%failure, "what follows a commit was cut short; the marks it left are looked at again");
        }
    }

    async fn follow(&self, mut after: Aftermath, own: Option<RepoAddress>) {
        let begun = Instant::now();
        // Ends: what comes again promotes something, and no life runs backwards here.
        while !after.is_empty() {
            self.bring_in_line(after.dirtied.clone()).await;
            self.publish(&after.served, begun);
            after
                .dirtied
                .retain(|repository| Some(repository) != own.as_ref());
            let mut next = self.settle_gained(after.dirtied).await;
            next.merge(self.finish_returns(after.returning).await);
            after = next;
        }
    }

    fn publish(&self, served: &[ServedEvent], begun: Instant) {
        for event in served {
            self.fanout.publish(event);
            let kind = Kind::of(event.event.kind());
            self.metrics.events_stored.count(kind);
        }
        if !served.is_empty() {
            self.metrics.fanout_lag.took(begun.elapsed());
        }
    }

    /// Reconciles each of them; failures are logged and tried again by the sweep.
    async fn bring_in_line(&self, repositories: Vec<RepoAddress>) {
        let mut waiting: VecDeque<RepoAddress> = repositories.into();
        while let Some(repository) = waiting.pop_front() {
            let Ok(_permit) = self.reconciling.clone().acquire_owned().await else {
                return;
            };
            let conditions = &self.metrics.conditions;
            let was_degraded = conditions.is_degraded(&repository);
            let (service, at) = (self.clone(), repository.clone());
            let outcome = self.blocking(move || service.reconcile(&at)).await;
            if conditions.is_degraded(&repository) && !was_degraded {
                self.hunt_for(&repository).await;
            }
            if let Err(failure) = outcome {
                error!(
                    error = &failure as &dyn std::error::Error,
                    "a repository is not in line yet"
                );
            }
        }
    }

    /// REF-8: what is gone here may be elsewhere.
    async fn hunt_for(&self, repository: &RepoAddress) {
        let hunt = Change::Hunt {
            identifier: repository.identifier().clone(),
            not_before_ms: self.clock.millis(),
        };
        let queued = self.store.commit(move |_| Ok((vec![hunt.clone()], ())));
        if let Err(failure) = queued.await {
            error!(
                error = &failure as &dyn std::error::Error,
                %repository, "objects that are gone are not looked for elsewhere before the next start"
            );
        }
    }

    /// Whether events and pushes can be taken now; else why not (`/readyz`).
    pub(crate) fn readiness(&self) -> Result<(), &'static str> {
        if self.store.below_disk_floor() {
            return Err("disk space is below the floor");
        }
        self.store
            .snapshot()
            .map(drop)
            .map_err(|_| "the event store cannot be read")
    }

    /// Writes what is left and closes the store.
    pub(crate) async fn close(&self) {
        let store = self.store.clone();
        self.blocking(move || store.close()).await;
    }

    /// Runs work that blocks. A panic in it is carried on here.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done,
            Err(failure) => std::panic::resume_unwind(failure.into_panic()),
        }
    }
}
