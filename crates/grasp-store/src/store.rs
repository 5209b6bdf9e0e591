//! The store: snapshots to read, commits to change, a feed of what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::filter::Filter;
use grasp_core::lifecycle::{Batch, Stage};
use grasp_core::name::{Coordinate, Identifier, RepoAddress};
use nostr::event::EventId;
use nostr::types::Timestamp;
use tokio::sync::{broadcast, mpsc};

use crate::dirty::DirtySet;
use crate::disk::DiskFloor;
use crate::error::{CommitError, OpenError, StoreError};
use crate::format::{self, Folder};
use crate::keys::{KeyedHash, read_repository};
use crate::lmdb::{self, Reading};
use crate::metrics::Metrics;
use crate::proposals;
use crate::query::{
    Budget, Cursor, Emit, NegentropyItem, QueryLimits, gather_item, sealed, without_limit,
};
use crate::tables::Tables;
use crate::upgrade;
use crate::version::CommitVersion;
use crate::view::View;
use crate::writer::{Decision, Member, Shared, Writer, lock};

/// What an operator can set.
#[derive(Debug, Clone, Copy)]
pub struct StoreConfig {
    /// Address space reserved for the data file, halved until it fits; no disk is used by it.
    pub map_size: u64,
    /// With less free space than this, commits that add data are refused (BND-2).
    pub disk_floor: u64,
    /// At most so many commits share one fsync. More of them wait for the next.
    pub group_events_max: usize,
    /// At most so many commits wait; whoever comes next waits for a place.
    pub queue_max: usize,
    /// At most so many snapshots are open at once; one more fails.
    pub readers_max: u32,
    /// Commits that a listener of the change feed may lag behind before it loses some.
    pub feed_max: usize,
    /// A scan looks at so many events in one snapshot, then continues in a newer one.
    pub scan_events_max: usize,
    /// A scan stays so long in one snapshot.
    pub scan_duration_max: Duration,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            map_size: 1 << 40,
            disk_floor: 512 << 20,
            group_events_max: 1000,
            queue_max: 2048,
            readers_max: 1024,
            feed_max: 8192,
            scan_events_max: 10_000,
            scan_duration_max: Duration::from_secs(2),
        }
    }
}

/// The event store. Cheap to clone; the last clone that goes ends the writer.
#[derive(Debug, Clone)]
pub struct Store {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    queue: Mutex<Option<mpsc::Sender<Box<dyn Member>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    budget: Budget,
    /// Keeps other processes out; given back last.
    _folder: Folder,
}

/// What a commit did.
#[derive(Debug, Clone)]
pub struct Committed<T> {
    /// What the decision returned beside its batch.
    pub value: T,
    /// Its number: a snapshot of that version or a later one sees it.
    pub version: CommitVersion,
    /// What became visible, in the order of the batch.
    pub served: Vec<ServedEvent>,
    /// Which repositories it marked.
    pub dirtied: Vec<RepoAddress>,
    /// Every event that came, went, or changed its stage, in the order of the batch.
    pub moved: Vec<Passage>,
    /// What was applied.
    pub batch: Batch,
}

impl<T> Committed<T> {
    pub(crate) fn without_value(&self) -> Committed<()> {
        Committed {
            value: (),
            version: self.version,
            served: self.served.clone(),
            dirtied: self.dirtied.clone(),
            moved: self.moved.clone(),
            batch: self.batch.clone(),
        }
    }
}

/// An event that became visible.
#[derive(Debug, Clone)]
pub struct ServedEvent {
    /// The event.
    pub event: VerifiedEvent,
    /// Its canonical JSON.
    pub json: Bytes,
    /// The commit that made it visible.
    pub version: CommitVersion,
}

/// An event that came, went, or changed its stage. Where it is by now a snapshot tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// Which.
    pub event: EventId,
    /// Its kind.
    pub kind: u16,
    /// Of announcements: whose repository.
    pub announces: Option<Coordinate>,
    /// Of pull requests and their updates: the identifiers of the repositories that they name.
    pub proposes: BTreeSet<Identifier>,
    /// Where it was put; `None` if it is gone.
    pub stage: Option<Stage>,
}

impl Passage {
    pub(crate) fn of(event: &VerifiedEvent, stage: Option<Stage>) -> Self {
        let is_announcement = event.kind() == kind::ANNOUNCEMENT;
        let identifier = event.identifier().filter(|_| is_announcement);
        Self {
            event: event.id(),
            kind: event.kind(),
            announces: identifier.map(|it| Coordinate::new(event.author(), it)),
            proposes: proposals::named_by(event),
            stage,
        }
    }
}

/// A consistent look at the store. Short-lived: while it is open, pages it sees are not reused.
pub struct Snapshot {
    reading: Reading<'static>,
    shared: Arc<Shared>,
    version: CommitVersion,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Snapshot")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    /// What it sees.
    pub fn view(&self) -> View<'_> {
        View {
            reading: &self.reading,
            tables: &self.shared.tables,
            hash: &self.shared.hash,
            version: self.version,
        }
    }

    /// The last commit it sees.
    pub fn version(&self) -> CommitVersion {
        self.version
    }
}

impl Store {
    /// Opens the store in `<dir>/ngit-grasp/`, making it if there is none. A folder that is not ours
    /// is refused before anything is written (CLI-4), one in use by another process too (CLI-2).
    pub fn open(dir: &Path, config: StoreConfig) -> Result<Self, OpenError> {
        Self::open_counted(dir, config, Arc::default())
    }

    /// [`Store::open`] for one who wants to know how it does.
    pub fn open_counted(
        dir: &Path,
        config: StoreConfig,
        metrics: Arc<Metrics>,
    ) -> Result<Self, OpenError> {
        let mut folder = Folder::take(dir)?;
        let path = folder.path.clone();
        let failed = |source: StoreError| OpenError::Store {
            path: path.clone(),
            source,
        };
        let environment = lmdb::open(&folder.path, config.map_size, config.readers_max)
            .map_err(|error| failed(error.into()))?;
        let tables = Tables::open(&environment).map_err(|error| failed(error.into()))?;
        let hash: KeyedHash = tables.keyed_hash(&environment).map_err(failed)?;
        if folder.format < 2 {
            upgrade::from_format_1(&environment, &tables, &hash, Timestamp::now())
                .map_err(failed)?;
            folder.upgraded()?;
        }
        let (dirty, version) = read_start(&environment, &tables).map_err(failed)?;
        let shared = Arc::new(Shared {
            environment,
            tables,
            hash,
            dirty: DirtySet::new(dirty),
            cleared: Mutex::default(),
            disk: DiskFloor::new(&folder.path, config.disk_floor),
            feed: broadcast::Sender::new(config.feed_max.max(1)),
        });
        let (sender, queue) = mpsc::channel(config.queue_max.max(1));
        let writer = Writer {
            shared: Arc::clone(&shared),
            queue,
            group_max: config.group_events_max.max(1),
            version,
            buffer: Vec::new(),
            metrics,
        };
        let writer = std::thread::Builder::new()
            .name("store writer".into())
            .spawn(move || writer.run())
            .map_err(|source| OpenError::Io {
                path: path.clone(),
                source,
            })?;
        Ok(Self {
            handle: Arc::new(Handle {
                shared,
                queue: Mutex::new(Some(sender)),
                writer: Mutex::new(Some(writer)),
                budget: Budget {
                    events: config.scan_events_max.max(1),
                    duration: config.scan_duration_max,
                },
                _folder: folder,
            }),
        })
    }

    /// Whether there is a store in `<dir>/ngit-grasp/`. Writes nothing; a folder that is not ours is refused
    /// as [`Self::open`] does (CLI-4).
    pub fn is_at(dir: &Path) -> Result<bool, OpenError> {
        format::is_at(dir)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// What lies below, for a look at all of it.
    pub(crate) fn parts(&self) -> (&lmdb::Environment, &Tables, &KeyedHash) {
        let shared = self.shared();
        (&shared.environment, &shared.tables, &shared.hash)
    }

    /// A look at everything committed so far.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let shared = Arc::clone(self.shared());
        let reading = shared.environment.clone().static_read_txn()?;
        let version = shared.tables.version(&reading)?;
        Ok(Snapshot {
            reading,
            shared,
            version,
        })
    }

    /// Runs `decide` in the writer, inside the transaction and on its own view, applies the batch, and
    /// returns once it is on the disk. `decide` may run again if its group fails: it starts anew then.
    pub async fn commit<T, F>(&self, decide: F) -> Result<Committed<T>, CommitError>
    where
        T: Send + 'static,
        F: FnMut(&View<'_>) -> Result<(Batch, T), StoreError> + Send + 'static,
    {
        let queue = lock(&self.handle.queue)
            .clone()
            .ok_or(CommitError::Closed)?;
        let (member, answered) = Decision::new(decide);
        queue
            .send(Box::new(member))
            .await
            .map_err(|_| CommitError::Closed)?;
        drop(queue);
        answered.await.map_err(|_| CommitError::Closed)?
    }

    /// As [`Self::commit`], for threads outside the async runtime.
    pub fn commit_blocking<T, F>(&self, decide: F) -> Result<Committed<T>, CommitError>
    where
        T: Send + 'static,
        F: FnMut(&View<'_>) -> Result<(Batch, T), StoreError> + Send + 'static,
    {
        let queue = lock(&self.handle.queue)
            .clone()
            .ok_or(CommitError::Closed)?;
        let (member, answered) = Decision::new(decide);
        queue
            .blocking_send(Box::new(member))
            .map_err(|_| CommitError::Closed)?;
        drop(queue);
        answered.blocking_recv().map_err(|_| CommitError::Closed)?
    }

    /// Every commit from now on, in order; when a commit returns it is here. A listener that lags too far learns that it
    /// lost some.
    pub fn changes(&self) -> broadcast::Receiver<Arc<Committed<()>>> {
        self.shared().feed.subscribe()
    }

    /// Which repositories must be reconciled.
    pub fn dirty(&self) -> &DirtySet {
        &self.shared().dirty
    }

    /// `repo` is in line with the snapshot of version `seen`. Nothing happens if it was marked since;
    /// the row of the mark goes with the next commit.
    pub fn clear_dirty(&self, repo: &RepoAddress, seen: CommitVersion) {
        // Held across both steps, so that the writer never takes a half.
        let mut cleared = lock(&self.shared().cleared);
        if self.shared().dirty.clear(repo, seen) {
            cleared.push((repo.clone(), seen));
        }
    }

    /// Whether less space than the floor is left (BND-2). Measured at most once a second.
    pub fn below_disk_floor(&self) -> bool {
        self.shared().disk.is_below()
    }

    /// As [`View::query`], over several snapshots if it is long: call it off the async workers. Returns
    /// the version of the first snapshot; what was stored after it is not among the answers.
    pub fn query(
        &self,
        filters: &[Filter],
        limits: QueryLimits,
        emit: &mut Emit<'_>,
    ) -> Result<CommitVersion, StoreError> {
        let mut first = None;
        let mut cursor: Option<Cursor> = None;
        loop {
            let snapshot = self.snapshot()?;
            let version = *first.get_or_insert(snapshot.version());
            let (view, budget) = (snapshot.view(), self.handle.budget);
            cursor = view.query_part(filters, limits, cursor.as_ref(), budget, emit)?;
            if cursor.is_none() {
                return Ok(version);
            }
        }
    }

    /// As [`View::count`], over several snapshots if it is long.
    pub fn count(&self, filters: &[Filter], now: Timestamp) -> Result<u64, StoreError> {
        let filters: Vec<_> = filters.iter().map(without_limit).collect();
        let mut count = 0;
        self.query(&filters, QueryLimits::unlimited(now), &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// As [`View::negentropy_items`], over several snapshots if it is long.
    pub fn negentropy_items(
        &self,
        filter: &Filter,
        now: Timestamp,
        max: usize,
    ) -> Result<Option<Vec<NegentropyItem>>, StoreError> {
        let filters = [without_limit(filter)];
        let mut items = Vec::new();
        self.query(&filters, QueryLimits::unlimited(now), &mut |row| {
            gather_item(&mut items, row, max)
        })?;
        Ok(sealed(items, max))
    }

    /// How many rows each table has: what a removal leaves behind shows here.
    #[cfg(feature = "conformance")]
    pub fn row_counts(&self) -> Result<Vec<(&'static str, u64)>, StoreError> {
        let snapshot = self.snapshot()?;
        self.shared().tables.row_counts(&snapshot.reading)
    }

    /// Takes no more commits, finishes those that wait, and returns when the writer has ended. Not to
    /// be called by a decision.
    pub fn close(&self) {
        self.handle.close();
    }
}

impl Handle {
    fn close(&self) {
        drop(lock(&self.queue).take());
        let Some(writer) = lock(&self.writer).take() else {
            return;
        };
        // A decision may hold the last clone: the writer cannot wait for itself.
        if writer.thread().id() != std::thread::current().id() && writer.join().is_err() {
            tracing::error!("the store's writer panicked");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

/// The marks that a crash or a stop left, and the last version.
fn read_start(
    environment: &lmdb::Environment,
    tables: &Tables,
) -> Result<(BTreeMap<RepoAddress, CommitVersion>, CommitVersion), StoreError> {
    let reading = environment.read_txn()?;
    let mut dirty = BTreeMap::new();
    for row in tables.dirty.iter(&reading)? {
        let (key, value) = row?;
        let mark = read_repository(key).zip(value.try_into().ok());
        let ((repository, _), number) = mark.ok_or(StoreError::Corrupt("dirty"))?;
        dirty.insert(repository, CommitVersion::new(u64::from_be_bytes(number)));
    }
    Ok((dirty, tables.version(&reading)?))
}
