//! What a delivered event proves by itself, before it has any effect (SYNC-30).
//!
//! One check costs some 40 µs, so a few events are checked together, off the async workers. A connection has one such
//! lot under way and waits in line for its next: a relay that floods us takes turns with all others (SYNC-24).

use std::sync::Arc;

use grasp_core::event::{IdentifiedEvent, VerifiedEvent, kind};
use grasp_core::filter::Filter;
use grasp_core::{Event, EventId};
use tokio::sync::Semaphore;

use crate::defect::Defect;
use crate::home::{Home, Phase};

/// An event as it came.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) text: String,
    /// What was asked under the name that it came with.
    pub(super) asked: Arc<[Arc<Filter>]>,
}

impl Raw {
    pub(super) fn phase(&self) -> Phase {
        let is_live = self.asked.iter().all(|filter| filter.limit == Some(0));
        if is_live {
            Phase::Live
        } else {
            Phase::Historic
        }
    }
}

/// What was found.
#[derive(Debug)]
pub(super) enum Finding {
    /// New, and all is right with it.
    Fresh(VerifiedEvent),
    /// The very event that we know already.
    Known { id: EventId, created_at: u64 },
    /// Not what was asked for, or not what it claims to be.
    Junk,
}

/// The cores that check. Shared by all connections.
#[derive(Debug, Clone)]
pub(crate) struct Cores(Arc<Semaphore>);

impl Cores {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Semaphore::new(cores)))
    }

    /// Runs `work` off the async workers when its turn comes. `None` if it panicked, or the runtime ends.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(&self.0).acquire_owned().await.ok()?;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.ok()
    }
}

/// Checks one event: cheap refusals first, the signature last. Call it off the async workers.
pub(super) fn check(raw: &Raw, home: &impl Home) -> Finding {
    let Ok(event) = Event::from_json(&raw.text) else {
        return Finding::Junk;
    };
    if !raw.asked.iter().any(|filter| filter.matches(&event)) {
        return Finding::Junk;
    }
    if Defect::DeletionIgnored.is_on() && event.kind.as_u16() == kind::DELETION {
        return Finding::Junk;
    }
    let (id, created_at) = (event.id, event.created_at.as_secs());
    let Ok(event) = IdentifiedEvent::identify(event) else {
        return Finding::Junk;
    };
    // The id is the hash of what came, so this is the event that was verified then.
    if home.knows(&id) {
        return Finding::Known { id, created_at };
    }
    event.verify().map_or(Finding::Junk, Finding::Fresh)
}
