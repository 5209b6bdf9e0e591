//! What is in flight: batches of questions whose answers are not all in.
//!
//! A batch confirms its items when **every** question came to its end (SYNC-4). A refusal, a timeout or a lost
//! connection is not an end: the batch starts again, or its items become missing again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::filters::{PlannedFilter, into_requests};
use super::number::{BatchId, RelayId, RepoId, RootId, SubscriptionId};
use super::query::{Ask, What};
use super::relay_index::Items;
use super::repo_index::Item;
use super::time::Time;

/// How a batch finds what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMethod {
    /// Subscriptions that are read to their end, page by page.
    ReqEose,
    /// Set reconciliation (NIP-77), then the missing events by id.
    Negentropy,
}

/// What a batch asks for, to be confirmed by it. Empty where it asks about what is confirmed already.
pub type PendingItems = Items;

/// Why a batch was made: decides what its end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The history of layer 1.
    Announcements,
    /// The history of new items.
    NewItems,
    /// What came while we were away, about what is confirmed.
    CatchUp,
    /// What raced the live subscriptions of a history (SYNC-29).
    Recheck,
    /// What no live subscription could be had for (SYNC-21, SYNC-45).
    Poll,
    /// Ids that were named and not delivered (SYNC-26).
    Recovery,
    /// A question of the server's own (SYNC-33).
    Asked,
}

impl Purpose {
    /// Whether the relay's state is behind until it ends.
    pub(super) fn is_history(self) -> bool {
        matches!(self, Self::Announcements | Self::NewItems | Self::CatchUp)
    }
}

/// Questions that are answered together.
#[derive(Debug)]
pub struct PendingBatch {
    /// For logs.
    pub batch_id: BatchId,
    /// What it confirms.
    pub items: PendingItems,
    /// Subscriptions that have not come to their end. With negentropy there is none to wait for between the
    /// difference and the asking for what is missing.
    pub outstanding_subs: BTreeSet<SubscriptionId>,
    /// How it asks.
    pub sync_method: SyncMethod,
    /// Why it asks.
    pub purpose: Purpose,
    /// Events before that are not asked for.
    pub since: Option<u64>,
    pub(super) filters: Vec<PlannedFilter>,
    pub(super) todo: VecDeque<Ask>,
    /// When it was made: the live subscriptions are at least as old.
    pub(super) made_at: Time,
}

impl PendingBatch {
    /// The peer has no set reconciliation after all: what is left of it is read page by page.
    pub(super) fn ask_page_by_page(&mut self, per_req: usize) {
        let is_difference = |ask: &Ask| matches!(ask.what, What::Difference(_));
        if !self.todo.iter().any(is_difference) {
            return;
        }
        self.sync_method = SyncMethod::ReqEose;
        let (mut filters, mut rest) = (Vec::new(), VecDeque::new());
        for ask in std::mem::take(&mut self.todo) {
            match ask.what {
                What::Difference(filter) => filters.push(filter),
                What::Pages(..) | What::Ids { .. } => rest.push_back(ask),
            }
        }
        rest.extend(into_requests(filters, per_req).into_iter().map(Ask::pages));
        self.todo = rest;
    }
}

/// The batches of one relay, and which item is in which.
#[derive(Debug, Default)]
pub(super) struct PendingOfRelay {
    /// Boxed: most relays have one at a time, and a node of the map has room for eleven.
    batches: BTreeMap<BatchId, Box<PendingBatch>>,
    repos: BTreeMap<RepoId, BatchId>,
    root_events: BTreeMap<RootId, BatchId>,
}

/// What is in flight, by relay.
#[derive(Debug, Default)]
pub struct PendingSyncIndex {
    relays: BTreeMap<RelayId, PendingOfRelay>,
}

impl PendingSyncIndex {
    /// The batches of `relay`, oldest first.
    pub fn batches(&self, relay: RelayId) -> impl Iterator<Item = &PendingBatch> {
        let of_relay = self.relays.get(&relay).into_iter();
        of_relay.flat_map(|pending| pending.batches.values().map(Box::as_ref))
    }

    /// Whether nothing at all is in flight.
    pub fn is_drained(&self, relay: RelayId) -> bool {
        self.batches(relay).next().is_none()
    }

    /// Whether no item is in flight.
    pub(super) fn is_drained_of_items(&self, relay: RelayId) -> bool {
        let of_relay = self.relays.get(&relay);
        of_relay.is_none_or(|pending| pending.repos.is_empty() && pending.root_events.is_empty())
    }

    /// Whether no history is in flight.
    pub(super) fn is_caught_up(&self, relay: RelayId) -> bool {
        !self.batches(relay).any(|batch| batch.purpose.is_history())
    }

    /// What of the relay's targets is in flight.
    pub fn items(&self, relay: RelayId) -> Items {
        let of_relay = self.relays.get(&relay);
        of_relay.map_or_else(Items::default, |pending| Items {
            repos: pending.repos.keys().copied().collect(),
            root_events: pending.root_events.keys().copied().collect(),
        })
    }

    pub(super) fn has(&self, relay: RelayId, item: Item) -> bool {
        let of_relay = self.relays.get(&relay);
        of_relay.is_some_and(|pending| match item {
            Item::Repo(repo) => pending.repos.contains_key(&repo),
            Item::Root(root) => pending.root_events.contains_key(&root),
        })
    }

    pub(super) fn add(&mut self, relay: RelayId, batch: PendingBatch) {
        let pending = self.relays.entry(relay).or_default();
        let id = batch.batch_id;
        pending
            .repos
            .extend(batch.items.repos.iter().map(|repo| (*repo, id)));
        let roots = batch.items.root_events.iter().map(|root| (*root, id));
        pending.root_events.extend(roots);
        pending.batches.insert(id, Box::new(batch));
    }

    pub(super) fn get_mut(&mut self, relay: RelayId, batch: BatchId) -> Option<&mut PendingBatch> {
        let batches = &mut self.relays.get_mut(&relay)?.batches;
        batches.get_mut(&batch).map(Box::as_mut)
    }

    /// The batch goes on, but this item is no longer its business: it is not wanted any more, or more of it is.
    pub(super) fn drop_item(&mut self, relay: RelayId, item: Item) -> bool {
        let Some(pending) = self.relays.get_mut(&relay) else {
            return false;
        };
        let batch = match item {
            Item::Repo(repo) => pending.repos.remove(&repo),
            Item::Root(root) => pending.root_events.remove(&root),
        };
        let batch = batch.and_then(|id| pending.batches.get_mut(&id));
        batch.is_some_and(|batch| batch.items.remove(item))
    }

    /// Takes a batch out, with the items that are still its business.
    pub(super) fn take(&mut self, relay: RelayId, batch: BatchId) -> Option<PendingBatch> {
        let pending = self.relays.get_mut(&relay)?;
        let batch = pending.batches.remove(&batch)?;
        for repo in &batch.items.repos {
            pending.repos.remove(repo);
        }
        for root in &batch.items.root_events {
            pending.root_events.remove(root);
        }
        if pending.batches.is_empty() {
            self.relays.remove(&relay);
        }
        Some(*batch)
    }

    /// Takes all batches of a relay out.
    pub(super) fn clear(&mut self, relay: RelayId) -> Vec<PendingBatch> {
        let taken = self.relays.remove(&relay).unwrap_or_default();
        taken.batches.into_values().map(|batch| *batch).collect()
    }
}
