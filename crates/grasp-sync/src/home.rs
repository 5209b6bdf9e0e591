//! What following needs of the server that it happens in.
//!
//! This crate speaks with peers and decides what to ask them; it holds no events. Whoever starts a
//! [`Driver`](crate::driver::Driver) gives it a [`Home`]: where verified events go, what is there already, and who we
//! are. *Invariant:* nothing reaches [`Home::intake`] but events whose id and signature were checked and that match
//! what was asked of the relay they came from (SYNC-30).

use std::sync::Arc;

use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;
use grasp_core::{Event, EventId};
use negentropy::{Id, NegentropyStorageVector};

use crate::dial::Outcome;
use crate::engine::{Counted, Cursor};
use crate::relay_url::RelayUrl;

/// The server that follows others.
///
/// Many relays call at once. What is async may wait for the store, never for a peer.
pub trait Home: Send + Sync + 'static {
    /// Takes an event by the same admission as one from a client, marked as from sync (SYNC-31). Returns once what
    /// follows is committed, so that a cursor written after it is true. Calls for one relay begin in the order in
    /// which it sent the events, and up to [`INTAKE_AT_ONCE`](crate::client::INTAKE_AT_ONCE) of them run together, so
    /// that they can share a commit.
    fn intake(&self, from: &RelayUrl, event: VerifiedEvent) -> impl Future<Output = ()> + Send;

    /// Whether an event of this id, which is the hash of its content, was verified before and needs nothing more: it
    /// is here in some stage, or was refused lately (SYNC-32). Called off the async workers; may read the store.
    fn knows(&self, id: &EventId) -> bool;

    /// All that we have of the filter for a reconciliation (SYNC-25): served, waiting, and refused lately. `None` if
    /// there is too much of it or it cannot be read: then the history is read page by page.
    fn gather(&self, filter: Filter) -> impl Future<Output = Option<LocalSet>> + Send;

    /// Writes cursors down, in one commit; `None` forgets one (SYNC-11). One call at a time, and every event that a
    /// cursor covers was taken in before.
    fn remember(&self, cursors: Vec<(RelayUrl, Option<Cursor>)>)
    -> impl Future<Output = ()> + Send;

    /// A proof of identity (kind 22242) by the relay owner's key for this challenge of this relay, as it was dialled
    /// (SYNC-36). `None` if there is no key.
    fn authenticate(&self, relay: &RelayUrl, challenge: &str) -> Option<Event>;

    /// Counts something. Must not block.
    fn count(&self, relay: &RelayUrl, what: Tally);
}

/// What happened at a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tally {
    /// A dial ended.
    Dialled(Outcome),
    /// An event came.
    Delivered(Phase, Verdict),
    /// The engine found it worth counting.
    Noted(Counted),
}

/// What an event was asked for by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// A subscription for what happens from now on.
    Live,
    /// A question for what happened before.
    Historic,
}

/// What became of a delivered event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// New to us: it was taken in.
    Fresh,
    /// Known before.
    Known,
    /// Not readable, not what was asked for, or its id or signature is wrong. Without any effect.
    Junk,
}

/// Ids with their times, in order and closed: what a reconciliation compares. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LocalSet(Arc<NegentropyStorageVector>);

impl LocalSet {
    /// Closes a set of (`created_at`, id). Repeats do not matter. It is sorted here: call it off the async workers.
    pub fn seal(items: impl IntoIterator<Item = (u64, EventId)>) -> Self {
        let mut set = NegentropyStorageVector::new();
        // Only a set that is sealed already takes neither an item nor a seal.
        for (created_at, id) in items {
            let _ = set.insert(created_at, Id::from_byte_array(id.to_bytes()));
        }
        let _ = set.seal();
        Self(Arc::new(set))
    }

    pub(crate) fn items(&self) -> &NegentropyStorageVector {
        &self.0
    }
}
