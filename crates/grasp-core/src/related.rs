//! Events that hang on repositories and conversations (§9).

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::event::VerifiedEvent;

/// What an event refers to (REL-1): the first [`crate::lifecycle::REFERENCES_MAX`] count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct References {
    /// `e`, `E` and hex `q`.
    pub events: Vec<EventId>,
    /// `a`, `A` and `q` with a colon: `kind:pubkey:d`.
    pub addresses: Vec<String>,
}

impl References {
    /// Reads them.
    pub fn of(event: &VerifiedEvent) -> Self {
        todo!()
    }
}

/// A served event that another refers to, or that refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relative {
    /// Its id.
    pub event: EventId,
    /// Its kind.
    pub kind: u16,
    /// Its author.
    pub author: PublicKey,
    /// What it may carry.
    pub standing: crate::lifecycle::Standing,
}

/// What the store found around an event.
#[derive(Debug, Clone, Default)]
pub struct RelatedFacts {
    /// Served events that it refers to.
    pub targets: Vec<Relative>,
    /// Served events that refer to its id or address, at most a few.
    pub mentioned_by: Vec<Relative>,
    /// Events and bytes already counted ([`crate::lifecycle::Standing::Reply`]) against the roots of the
    /// targets, by root.
    pub budgets: std::collections::BTreeMap<EventId, (u64, u64)>,
    /// Owners and maintainers of the repositories that the event hangs on: exempt from the budget.
    pub exempt: std::collections::BTreeSet<PublicKey>,
    /// For profiles and relay lists: the author takes part in an accepted repository, as owner,
    /// maintainer, or author of a served anchor or reply (EV-2).
    pub participates: bool,
}
