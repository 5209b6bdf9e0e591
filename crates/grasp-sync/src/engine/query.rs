//! Questions of a batch, before and while they are asked.

use std::collections::BTreeSet;

use grasp_core::EventId;

use super::filters::PlannedFilter;
use super::io::Delivery;
use super::number::BatchId;
use super::paging::{Page, Pager};

/// So many events of a page are told apart; no honest page is longer.
const SEEN_MAX: usize = 10_000;

/// A question that waits to be asked.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) what: What,
    /// It was refused once for want of a proof of identity (SYNC-36).
    pub(super) after_auth: bool,
}

/// What it asks.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// Stored events by these filters, from a place in their history on.
    Pages(Vec<PlannedFilter>, Pager),
    /// The difference between what the peer has of a filter and what we have.
    Difference(PlannedFilter),
    /// Events by id.
    Ids {
        ids: Vec<EventId>,
        /// How often they were asked for before.
        tries: u32,
        /// The filter whose difference named them.
        origin: Option<PlannedFilter>,
    },
}

impl Ask {
    pub(super) fn new(what: What) -> Self {
        Self {
            what,
            after_auth: false,
        }
    }

    pub(super) fn pages(filters: Vec<PlannedFilter>) -> Self {
        Self::new(What::Pages(filters, Pager::default()))
    }
}

/// A question that was asked.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) batch: BatchId,
    pub(super) ask: Ask,
    pub(super) page: Page,
    /// Of the ids that were asked for, those that have not come.
    pub(super) lacking: BTreeSet<EventId>,
    /// What came so far, at most [`SEEN_MAX`]: beyond nothing counts as new.
    seen: BTreeSet<EventId>,
}

impl Query {
    pub(super) fn new(batch: BatchId, ask: Ask) -> Self {
        let lacking = match &ask.what {
            What::Ids { ids, .. } => ids.iter().copied().collect(),
            What::Pages(..) | What::Difference(_) => BTreeSet::new(),
        };
        Self {
            batch,
            ask,
            page: Page::default(),
            lacking,
            seen: BTreeSet::new(),
        }
    }

    /// A delivery for it.
    pub(super) fn came(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Genuine { id, created_at } => {
                self.lacking.remove(&id);
                let is_new = self.seen.len() < SEEN_MAX && self.seen.insert(id);
                self.page.count(Some(created_at), is_new);
            }
            Delivery::Junk => self.page.count(None, false),
        }
    }

    pub(super) fn is_difference(&self) -> bool {
        matches!(self.ask.what, What::Difference(_))
    }
}
