//! What went with repositories that left (DEL-4).

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts removals.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    events: AtomicU64,
    capped: AtomicU64,
}

impl Removal {
    /// So many events went.
    pub(crate) fn went(&self, events: usize) {
        let events = u64::try_from(events).unwrap_or(u64::MAX);
        self.events.fetch_add(events, Ordering::Relaxed);
    }

    /// More hung on a repository than may be looked at.
    pub(crate) fn was_capped(&self) {
        self.capped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    pub(super) fn capped(&self) -> u64 {
        self.capped.load(Ordering::Relaxed)
    }
}
