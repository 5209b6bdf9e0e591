//! The sealed sets that sessions compare, and how many items all of them may have.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use grasp_core::filter::Filter;
use grasp_store::{CommitVersion, QueryLimits, Row};
use negentropy::{Id, NegentropyStorageVector};
use nostr::types::Timestamp;

use crate::Clock;
use crate::limits::NegentropyLimits;
use crate::query::{Lane, ReadError, Reader, Scan, Sink};

/// Ids with their times, in order.
#[derive(Debug)]
pub(crate) struct Set {
    items: NegentropyStorageVector,
    _charge: Charge,
}

impl Set {
    pub(crate) fn items(&self) -> &NegentropyStorageVector {
        &self.items
    }
}

/// Why a set is not built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetError {
    #[error("the filter matches more events than a session may have")]
    TooMany,
    #[error("all sessions together have as many events as they may")]
    TooManyInAll,
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Builds sets and knows which of them can be shared.
pub(crate) struct Sets {
    limits: NegentropyLimits,
    clock: Clock,
    items: Arc<AtomicUsize>,
    /// By kind: the set of all its events. At most as many as sessions have open.
    shared: Mutex<HashMap<u16, Arc<tokio::sync::Mutex<Shared>>>>,
}

/// The set of one kind as of a commit. Locked while it is built, so that sessions that open together
/// build one set between them.
#[derive(Debug, Default)]
struct Shared {
    built: CommitVersion,
    /// Then one of its items ends (EV-4), and no commit says so.
    until: Option<Timestamp>,
    set: Weak<Set>,
}

impl Shared {
    /// The set, if it is still that of all events of its kind.
    fn current(&self, newest: CommitVersion, now: Timestamp) -> Option<Arc<Set>> {
        let whole = newest == self.built && self.until.is_none_or(|end| now < end);
        whole.then(|| self.set.upgrade()).flatten()
    }
}

impl Sets {
    pub(crate) fn new(limits: NegentropyLimits, clock: Clock) -> Self {
        Self {
            limits,
            clock,
            items: Arc::default(),
            shared: Mutex::default(),
        }
    }

    /// The set of what `filter` matches now.
    pub(crate) async fn build(
        &self,
        reader: &Reader,
        filter: Filter,
    ) -> Result<Arc<Set>, SetError> {
        if let Some(kind) = the_only_kind(&filter) {
            return self.build_shared(reader, kind, filter).await;
        }
        let built = self.build_own(reader, filter, self.limits.items_max);
        Ok(built.await?.set)
    }

    async fn build_shared(
        &self,
        reader: &Reader,
        kind: u16,
        filter: Filter,
    ) -> Result<Arc<Set>, SetError> {
        let place = self.place_of(kind);
        let mut shared = place.lock().await;
        if shared.set.strong_count() > 0 {
            let newest = reader.run(Lane::Quick, |store| Ok(store.snapshot()?.version()));
            if let Some(set) = shared.current(newest.await?, (self.clock)()) {
                return Ok(set);
            }
        }
        let built = self
            .build_own(reader, filter, self.limits.items_shared_max)
            .await?;
        *shared = Shared {
            built: built.version,
            until: built.until,
            set: Arc::downgrade(&built.set),
        };
        Ok(built.set)
    }

    fn place_of(&self, kind: u16) -> Arc<tokio::sync::Mutex<Shared>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|_, place| {
            Arc::strong_count(place) > 1
                || place
                    .try_lock()
                    .is_ok_and(|shared| shared.set.strong_count() > 0)
        });
        Arc::clone(shared.entry(kind).or_default())
    }

    async fn build_own(
        &self,
        reader: &Reader,
        mut filter: Filter,
        items_max: usize,
    ) -> Result<Built, SetError> {
        filter.limit = None;
        let items = Items {
            found: Vec::new(),
            most: items_max,
            until: None,
        };
        let limits = QueryLimits::unlimited((self.clock)());
        let scan = reader
            .finish(Scan::new(vec![filter], limits, items))
            .await?;
        let (version, until) = (scan.snapshots().0, scan.sink.until);
        let found = scan.sink.found;
        if found.len() > items_max {
            return Err(SetError::TooMany);
        }
        let charge = self.charge(found.len()).ok_or(SetError::TooManyInAll)?;
        let lane = if found.len() > self.limits.items_max {
            Lane::Long
        } else {
            Lane::Quick
        };
        let items = reader.run(lane, move |_| Ok(seal(found))).await?;
        let set = Set {
            items,
            _charge: charge,
        };
        Ok(Built {
            version,
            until,
            set: Arc::new(set),
        })
    }

    fn charge(&self, items: usize) -> Option<Charge> {
        let before = self.items.fetch_add(items, Relaxed);
        let charge = Charge {
            total: Arc::clone(&self.items),
            items,
        };
        (before + items <= self.limits.items_total_max).then_some(charge)
    }
}

impl fmt::Debug for Sets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Sets")
            .field("items", &self.items)
            .finish_non_exhaustive()
    }
}

/// A set that is new.
struct Built {
    /// As of this commit.
    version: CommitVersion,
    /// See [`Shared::until`].
    until: Option<Timestamp>,
    set: Arc<Set>,
}

/// Gathers one item more than there may be, which tells that there are too many.
#[derive(Debug)]
struct Items {
    found: Vec<(u64, [u8; 32])>,
    most: usize,
    /// When the first of them ends.
    until: Option<Timestamp>,
}

impl Sink for Items {
    fn take(&mut self, row: Row<'_>, _: bool) -> ControlFlow<()> {
        self.found.push((row.created_at, row.id.to_bytes()));
        self.until = self.until.into_iter().chain(row.ends).min();
        if self.found.len() > self.most {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

fn seal(found: Vec<(u64, [u8; 32])>) -> NegentropyStorageVector {
    let mut items = NegentropyStorageVector::with_capacity(found.len());
    for (created_at, id) in found {
        items
            .insert(created_at, Id::from_byte_array(id))
            .expect("it is not sealed yet");
    }
    items.seal().expect("it is not sealed yet");
    items
}

/// Items counted against the common bound as long as this lives.
#[derive(Debug)]
struct Charge {
    total: Arc<AtomicUsize>,
    items: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.total.fetch_sub(self.items, Relaxed);
    }
}

/// The kind, if the filter names one and nothing else.
fn the_only_kind(filter: &Filter) -> Option<u16> {
    let kinds = filter.kinds.as_ref().filter(|kinds| kinds.len() == 1)?;
    let alone = Filter {
        kinds: Some(kinds.clone()),
        ..Filter::default()
    };
    (*filter == alone).then(|| kinds.first().copied())?
}
