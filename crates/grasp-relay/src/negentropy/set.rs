//! The sealed sets that sessions compare, and how many items all of them may have.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use grasp_core::filter::Filter;
use grasp_store::{CommitVersion, Store, StoreError};
use negentropy::{Id, NegentropyStorageVector};

use crate::Clock;
use crate::limits::NegentropyLimits;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetError {
    /// The filter matches more than a session may have.
    TooMany,
    /// All sessions together have too much already.
    TooManyInAll,
}

/// Builds sets and knows which of them can be shared.
pub(crate) struct Sets {
    limits: NegentropyLimits,
    clock: Clock,
    items: Arc<AtomicUsize>,
    /// By kind: the set of all its events, as of a commit. Held while one is built, so that sessions
    /// that open together build one set between them.
    shared: Mutex<HashMap<u16, (CommitVersion, Weak<Set>)>>,
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

    /// The set of what `filter` matches now. Blocks.
    pub(crate) fn build(
        &self,
        store: &Store,
        filter: &Filter,
    ) -> Result<Result<Arc<Set>, SetError>, StoreError> {
        match the_only_kind(filter) {
            Some(kind) => self.build_shared(store, kind, filter),
            None => self
                .build_own(store, filter, self.limits.items_max)
                .map(|built| built.map(|(_, set)| set)),
        }
    }

    fn build_shared(
        &self,
        store: &Store,
        kind: u16,
        filter: &Filter,
    ) -> Result<Result<Arc<Set>, SetError>, StoreError> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|_, (_, set)| set.strong_count() > 0);
        let version = store.snapshot()?.version();
        if let Some(set) = shared
            .get(&kind)
            .filter(|(built, _)| *built == version)
            .and_then(|(_, set)| set.upgrade())
        {
            return Ok(Ok(set));
        }
        let built = self.build_own(store, filter, self.limits.items_shared_max)?;
        Ok(built.map(|(version, set)| {
            shared.insert(kind, (version, Arc::downgrade(&set)));
            set
        }))
    }

    fn build_own(
        &self,
        store: &Store,
        filter: &Filter,
        items_max: usize,
    ) -> Result<Result<(CommitVersion, Arc<Set>), SetError>, StoreError> {
        let version = store.snapshot()?.version();
        let Some(found) = store.negentropy_items(filter, (self.clock)(), items_max)? else {
            return Ok(Err(SetError::TooMany));
        };
        let Some(charge) = self.charge(found.len()) else {
            return Ok(Err(SetError::TooManyInAll));
        };
        let mut items = NegentropyStorageVector::with_capacity(found.len());
        for (created_at, id) in found {
            items
                .insert(created_at, Id::from_byte_array(id))
                .expect("it is not sealed yet");
        }
        items.seal().expect("it is not sealed yet");
        Ok(Ok((
            version,
            Arc::new(Set {
                items,
                _charge: charge,
            }),
        )))
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
