//! The one writer: decides and applies commits in groups that share one fsync.
//!
//! Each member decides on the transaction's own view, which shows the members before it, so two
//! racing submissions cannot both win. A decision that fails or panics has written nothing and fails
//! alone. A failure while writing spoils the transaction: it is aborted and every member is run again
//! by itself, so that only the guilty one fails. Nobody is answered before the fsync.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use grasp_core::event::kind;
use grasp_core::failpoint;
use grasp_core::lifecycle::{Batch, Change};
use grasp_core::name::RepoAddress;
use tokio::sync::{broadcast, mpsc, oneshot};
use tracing::{error, warn};

use crate::dirty::DirtySet;
use crate::disk::DiskFloor;
use crate::error::{CommitError, StoreError};
use crate::keys::{KeyedHash, repository_key};
use crate::lifecycle::{Effects, Writing};
use crate::lmdb::{Environment, Transaction};
use crate::metrics::Metrics;
use crate::store::Committed;
use crate::tables::Tables;
use crate::version::CommitVersion;
use crate::view::View;

/// After so many failing commits in a row, alone, the fault is not the members'.
const FAILURES_MAX: usize = 3;

/// What the writer and the store's handles share.
pub(crate) struct Shared {
    pub(crate) environment: Environment,
    pub(crate) tables: Tables,
    pub(crate) hash: KeyedHash,
    pub(crate) dirty: DirtySet,
    /// Marks that were cleared in memory and whose rows go with the next commit. At most one for each
    /// clearing between two commits.
    pub(crate) cleared: Mutex<Vec<(RepoAddress, CommitVersion)>>,
    pub(crate) disk: DiskFloor,
    pub(crate) feed: Feed,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shared")
            .field("dirty", &self.dirty)
            .finish_non_exhaustive()
    }
}

/// Tells of commits.
pub(crate) type Feed = broadcast::Sender<Arc<Committed<()>>>;

/// A commit on its way through the writer.
pub(crate) trait Member: Send {
    /// Decides on `view`, replacing an earlier decision.
    fn decide(&mut self, view: &View<'_>) -> Result<(), StoreError>;
    /// What was decided last.
    fn batch(&self) -> &[Change];
    /// Tells all who listen that it is committed, and then whoever waits for it.
    fn committed(&mut self, version: CommitVersion, effects: Effects, feed: &Feed);
    /// Tells whoever waits that it is not.
    fn failed(&mut self, error: CommitError);
}

/// The usual member: a closure and who waits for it.
pub(crate) struct Decision<T, F> {
    decide: F,
    decided: Option<(Batch, T)>,
    answer: Option<oneshot::Sender<Result<Committed<T>, CommitError>>>,
}

impl<T, F> Decision<T, F> {
    pub(crate) fn new(decide: F) -> (Self, oneshot::Receiver<Result<Committed<T>, CommitError>>) {
        let (answer, answered) = oneshot::channel();
        (
            Self {
                decide,
                decided: None,
                answer: Some(answer),
            },
            answered,
        )
    }

    /// Whoever asked may be gone; then nobody needs to know.
    fn answer(&mut self, outcome: Result<Committed<T>, CommitError>) {
        if let Some(answer) = self.answer.take() {
            let _ = answer.send(outcome);
        }
    }
}

impl<T, F> Member for Decision<T, F>
where
    T: Send,
    F: FnMut(&View<'_>) -> Result<(Batch, T), StoreError> + Send,
{
    fn decide(&mut self, view: &View<'_>) -> Result<(), StoreError> {
        self.decided = None;
        self.decided = Some((self.decide)(view)?);
        Ok(())
    }

    fn batch(&self) -> &[Change] {
        self.decided.as_ref().map_or(&[], |(batch, _)| batch)
    }

    fn committed(&mut self, version: CommitVersion, effects: Effects, feed: &Feed) {
        let Some((batch, value)) = self.decided.take() else {
            return;
        };
        let Effects {
            served,
            dirtied,
            moved,
        } = effects;
        let committed = Committed {
            value,
            version,
            served,
            dirtied,
            moved,
            batch,
        };
        if feed.receiver_count() > 0 {
            // Whoever listened may have left meanwhile.
            let _ = feed.send(Arc::new(committed.without_value()));
        }
        self.answer(Ok(committed));
    }

    fn failed(&mut self, error: CommitError) {
        self.answer(Err(error));
    }
}

/// A member of the group that runs, and how far it got.
type Outcome = Result<(CommitVersion, Effects), CommitError>;

/// The writer thread's own.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: mpsc::Receiver<Box<dyn Member>>,
    pub(crate) group_max: usize,
    pub(crate) version: CommitVersion,
    pub(crate) buffer: Vec<u8>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Writer {
    /// Runs until every handle is gone, then flushes what is left.
    pub(crate) fn run(mut self) {
        let mut group = Vec::new();
        while self.queue.blocking_recv_many(&mut group, self.group_max) > 0 {
            self.run_group(&mut group);
            group.clear();
        }
        if let Err(error) = self.write(&mut []) {
            warn!(%error, "cleared marks could not be written; their repositories are looked at again");
        }
    }

    fn run_group(&mut self, group: &mut [Box<dyn Member>]) {
        match self.write(group) {
            Ok(()) => {}
            Err(error) if group.len() == 1 => fail(group, &error),
            Err(error) => {
                warn!(%error, members = group.len(), "a group of commits failed; each is tried alone");
                self.run_alone(group);
            }
        }
    }

    fn run_alone(&mut self, group: &mut [Box<dyn Member>]) {
        let mut failures = 0;
        for member in group.chunks_mut(1) {
            if failures == FAILURES_MAX {
                fail(member, &CommitError::Store(StoreError::Unavailable));
                continue;
            }
            match self.write(member) {
                Ok(()) => failures = 0,
                Err(error) => {
                    // A member that cannot be written is its own fault, a commit that fails is not.
                    let engine = matches!(error, CommitError::Store(StoreError::Engine(_)));
                    failures = if engine { failures + 1 } else { 0 };
                    fail(member, &error);
                }
            }
        }
    }

    /// One transaction for `group`. After an error nothing of it happened and nobody was answered.
    fn write(&mut self, group: &mut [Box<dyn Member>]) -> Result<(), CommitError> {
        let shared = Arc::clone(&self.shared);
        let cleared = std::mem::take(&mut *lock(&shared.cleared));
        if group.is_empty() && cleared.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        let outcome = self.write_and_sync(&shared, group, &cleared);
        match outcome {
            Ok(outcomes) => {
                self.metrics.commit_duration.took(begun.elapsed());
                let members = u32::try_from(group.len()).unwrap_or(u32::MAX);
                self.metrics.commit_members.observe(members.into());
                for (member, outcome) in group.iter_mut().zip(outcomes) {
                    answer(&shared, &mut **member, outcome);
                }
                Ok(())
            }
            Err(error) => {
                lock(&shared.cleared).extend(cleared);
                Err(error)
            }
        }
    }

    fn write_and_sync(
        &mut self,
        shared: &Shared,
        group: &mut [Box<dyn Member>],
        cleared: &[(RepoAddress, CommitVersion)],
    ) -> Result<Vec<Outcome>, CommitError> {
        let mut transaction = shared.environment.write_txn().map_err(StoreError::from)?;
        remove_cleared(shared, &mut transaction, cleared)?;
        let (outcomes, version) = self.apply(shared, &mut transaction, group)?;
        shared.tables.put_version(&mut transaction, version)?;
        // Before anybody can see the new events: their repositories are to be reconciled first.
        let done = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
        let before = shared.dirty.mark(
            done.flat_map(|(version, effects)| effects.dirtied.iter().map(|it| (it, *version))),
        );
        failpoint::pass("commit.before");
        if let Err(error) = transaction.commit() {
            shared.dirty.restore(before);
            return Err(StoreError::from(error).into());
        }
        failpoint::pass("commit.after");
        self.version = version;
        Ok(outcomes)
    }

    /// Decides and applies each member; the outcomes in their order, and the last version.
    fn apply(
        &mut self,
        shared: &Shared,
        transaction: &mut Transaction<'_>,
        group: &mut [Box<dyn Member>],
    ) -> Result<(Vec<Outcome>, CommitVersion), CommitError> {
        let disk_full = !group.is_empty() && shared.disk.is_below();
        let mut version = self.version;
        let mut outcomes = Vec::with_capacity(group.len());
        let (tables, hash) = (&shared.tables, &shared.hash);
        let mut writing = Writing::new(tables, hash, transaction, &mut self.buffer)?;
        for member in group {
            let next = version.next();
            let reading = &**writing.transaction;
            let view = View {
                reading,
                tables,
                hash,
                version: next,
            };
            let outcome = match catch_unwind(AssertUnwindSafe(|| member.decide(&view))) {
                Err(_) => Err(CommitError::Panicked),
                Ok(Err(error)) => Err(error.into()),
                Ok(Ok(())) if disk_full && adds_data(member.batch()) => Err(CommitError::DiskFull),
                Ok(Ok(())) => {
                    let applied =
                        catch_unwind(AssertUnwindSafe(|| writing.apply(member.batch(), next)));
                    version = next;
                    Ok((next, applied.map_err(|_| CommitError::Panicked)??))
                }
            };
            outcomes.push(outcome);
        }
        Ok((outcomes, version))
    }
}

/// Rows of marks that `reconcile` cleared, unless they were set again since.
fn remove_cleared(
    shared: &Shared,
    transaction: &mut Transaction<'_>,
    cleared: &[(RepoAddress, CommitVersion)],
) -> Result<(), StoreError> {
    for (repository, seen) in cleared {
        let key = repository_key(repository);
        let row = shared.tables.dirty.get(transaction, &key)?;
        let marked = row
            .and_then(|bytes| bytes.try_into().ok())
            .map(u64::from_be_bytes);
        if marked.is_some_and(|marked| marked <= seen.number()) {
            shared.tables.dirty.delete(transaction, &key)?;
        }
    }
    Ok(())
}

/// BND-2: what may not go on below the floor. Deletion requests may: they make room.
fn adds_data(batch: &[Change]) -> bool {
    batch.iter().any(|change| match change {
        Change::Insert { event, .. } => !matches!(event.kind(), kind::DELETION | kind::VANISH),
        Change::Upload(_) | Change::Place { .. } => true,
        _ => false,
    })
}

fn answer(shared: &Shared, member: &mut dyn Member, outcome: Outcome) {
    match outcome {
        Ok((version, effects)) => member.committed(version, effects, &shared.feed),
        Err(error) => member.failed(error),
    }
}

fn fail(group: &mut [Box<dyn Member>], cause: &CommitError) {
    error!(%cause, "a commit failed");
    for member in group {
        member.failed(cause.clone());
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
