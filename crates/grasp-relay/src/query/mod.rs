//! Reads of the store: in slices, so that no snapshot lives long and no long read holds up a short one.
//!
//! A scan looks at so many events of one snapshot and goes on in the next. Its first slice runs in a
//! wide lane that all reads share; if that was not enough it moves to a narrow one, where long scans
//! take turns slice by slice. So however many long scans are asked for, a short read waits for short
//! reads only. A slice that is known to be tiny runs where it is asked for: moving it to another thread
//! would cost more than the read.

pub(crate) mod stored;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use grasp_core::filter::Filter;
use grasp_store::{Budget, CommitVersion, Cursor, QueryLimits, Row, Store, StoreError};
use tokio::sync::Semaphore;

/// How far one snapshot is read on a thread that may block.
const SLICE: Budget = Budget {
    events: 10_000,
    duration: Duration::from_millis(50),
};

/// How far one snapshot is read on an async worker.
const TINY_SLICE: Budget = Budget {
    events: 128,
    duration: Duration::from_millis(1),
};

/// With more values than this even the first look at the indexes is not tiny.
const TINY_VALUES: usize = 32;

/// Reads the store, so many at a time.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    store: Store,
    quick: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

/// Where a piece of work waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// For what is short, or may be.
    Quick,
    /// For what is known to be long: at most half of the cores work on it.
    Long,
}

/// Why a read brought nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
    #[error("the read was broken off")]
    BrokenOff,
}

impl Reader {
    pub(crate) fn new(store: Store, running_max: usize) -> Self {
        let turns = |count: usize| Arc::new(Semaphore::new(count.clamp(1, Semaphore::MAX_PERMITS)));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            store,
            quick: turns(running_max),
            long: turns(cores / 2),
        }
    }

    /// Runs `work` on a thread that may block, in turn.
    pub(crate) async fn run<T, F>(&self, lane: Lane, work: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    {
        let turns = match lane {
            Lane::Quick => &self.quick,
            Lane::Long => &self.long,
        };
        let turn = Arc::clone(turns).acquire_owned().await;
        let turn = turn.map_err(|_| ReadError::BrokenOff)?;
        let store = self.store.clone();
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&store)
        });
        Ok(task.await.map_err(|_| ReadError::BrokenOff)??)
    }

    /// Runs a scan to its end, slice by slice. Dropping the future ends it at the next slice.
    pub(crate) async fn finish<S: Sink>(&self, mut scan: Scan<S>) -> Result<Scan<S>, ReadError> {
        let mut lane = Lane::Quick;
        while !scan.done {
            scan = self
                .run(lane, move |store| {
                    scan.slice(store, SLICE)?;
                    Ok(scan)
                })
                .await?;
            lane = Lane::Long;
        }
        Ok(scan)
    }

    /// Runs the beginning of a scan here and now, if that is sure to be short.
    pub(crate) fn begin_here<S: Sink>(&self, scan: &mut Scan<S>) -> Result<(), StoreError> {
        let values: usize = scan
            .filters
            .iter()
            .map(|filter| 1 + value_count(filter))
            .sum();
        if values <= TINY_VALUES {
            scan.slice(&self.store, TINY_SLICE)?;
        }
        Ok(())
    }
}

/// Takes what a scan finds.
pub(crate) trait Sink: Send + 'static {
    /// One event. `late` tells that it is not read from the first snapshot of the scan.
    fn take(&mut self, row: Row<'_>, late: bool) -> ControlFlow<()>;
}

/// A query on its way through several snapshots.
#[derive(Debug)]
pub(crate) struct Scan<S> {
    filters: Vec<Filter>,
    limits: QueryLimits,
    cursor: Option<Cursor>,
    /// The first and the last snapshot so far.
    snapshots: Option<(CommitVersion, CommitVersion)>,
    done: bool,
    pub(crate) sink: S,
}

impl<S: Sink> Scan<S> {
    pub(crate) fn new(filters: Vec<Filter>, limits: QueryLimits, sink: S) -> Self {
        Self {
            filters,
            limits,
            cursor: None,
            snapshots: None,
            done: false,
            sink,
        }
    }

    /// Whether nothing is left to look at.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// What it looks for.
    pub(crate) fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// A snapshot was read on behalf of what it found.
    pub(crate) fn seen(&mut self, version: CommitVersion) {
        self.snapshots.get_or_insert((version, version)).1 = version;
    }

    /// The first and the last snapshot it was read from.
    pub(crate) fn snapshots(&self) -> (CommitVersion, CommitVersion) {
        self.snapshots.unwrap_or_default()
    }

    fn slice(&mut self, store: &Store, budget: Budget) -> Result<(), StoreError> {
        let snapshot = store.snapshot()?;
        let version = snapshot.version();
        let late = self.snapshots.is_some();
        self.seen(version);
        let (sink, cursor) = (&mut self.sink, self.cursor.take());
        let mut emit = |row: Row<'_>| sink.take(row, late);
        self.cursor = snapshot.view().query_part(
            &self.filters,
            self.limits,
            cursor.as_ref(),
            budget,
            &mut emit,
        )?;
        self.done = self.cursor.is_none();
        Ok(())
    }
}

/// In how many places the indexes are looked at for a filter, at least.
fn value_count(filter: &Filter) -> usize {
    let keys = |keys: &Option<std::collections::BTreeSet<[u8; 32]>>| {
        keys.as_ref().map_or(1, |keys| keys.len().max(1))
    };
    let kinds = filter.kinds.as_ref().map_or(1, |kinds| kinds.len().max(1));
    let tags: usize = filter
        .tags
        .values()
        .map(std::collections::BTreeSet::len)
        .sum();
    keys(&filter.ids)
        .saturating_add(tags)
        .saturating_add(keys(&filter.authors).saturating_mul(kinds))
}
