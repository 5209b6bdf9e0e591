//! The reference graph: which events name which.

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{Stage, Standing};
use crate::policy::Policy;
use crate::proposal::Proposal;
use crate::related::References;

/// What an event can be referred to by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// Its id.
    Event(EventId),
    /// `kind:pubkey:d`, as [`VerifiedEvent::address`] spells it.
    Address(String),
}

/// A served event, or a proposal that waits, with what it refers to.
#[derive(Debug, Clone)]
pub struct Node {
    /// The event.
    pub event: VerifiedEvent,
    /// `Served`, or for proposals `Waiting` or `Parked`.
    pub stage: Stage,
    /// What it may carry by what it once came in through.
    pub standing: Standing,
    /// Which place it has among all that was ever stored: later ones have higher numbers.
    pub stored: u64,
    /// A proposal that has its ref in its submitter's own `/prs/` repository.
    pub placed: bool,
    /// What it refers to.
    pub references: References,
}

/// What the walks through the graph read: one snapshot, or the view of a commit.
pub trait Graph {
    /// Why it cannot be read.
    type Error;

    /// The node of that name: for an address the served version.
    fn node(&self, name: &Name) -> Result<Option<Node>, Self::Error>;

    /// Nodes that refer to the name within the references that count, stored after `since`; at most
    /// `max`, without an order.
    fn referring(&self, name: &Name, since: u64, max: usize) -> Result<Vec<Node>, Self::Error>;
}

/// What a node is to a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It is here of its own right and carries others; the walk ends at it.
    Anchor,
    /// It is here of its own right and carries nothing; the walk ends at it.
    Apart,
    /// It is here because of others.
    Dependent,
}

impl Node {
    /// The id.
    pub fn id(&self) -> EventId {
        self.event.id()
    }

    pub(super) fn kind(&self) -> u16 {
        self.event.kind()
    }

    pub(super) fn author(&self) -> PublicKey {
        self.event.author()
    }

    /// The proposal that it is, if it is one.
    pub fn proposal(&self) -> Option<Proposal> {
        Proposal::parse(self.event.clone()).ok()
    }

    pub(super) fn is_served(&self) -> bool {
        self.stage == Stage::Served
    }

    pub(super) fn names(&self) -> Vec<Name> {
        names_of(&self.event)
    }

    /// DEL-4, REL-5: other announcements, states and proposals in `/prs/` carry; lists and requests do not.
    pub(super) fn part(&self, policy: &Policy) -> Part {
        match self.kind() {
            kind::ANNOUNCEMENT | kind::STATE => Part::Anchor,
            kind::GRASP_LIST | kind::PROFILE | kind::RELAY_LIST | kind::DELETION | kind::VANISH => {
                Part::Apart
            }
            kind if kind::is_proposal(kind)
                && self.placed
                && self.is_served()
                && policy.proposals_hosted =>
            {
                Part::Anchor
            }
            _ => Part::Dependent,
        }
    }
}

/// What an event can be referred to by.
pub(super) fn names_of(event: &VerifiedEvent) -> Vec<Name> {
    let address = event.address().map(Name::Address);
    std::iter::once(Name::Event(event.id()))
        .chain(address)
        .collect()
}

impl References {
    /// The same as names.
    pub fn names(&self) -> Vec<Name> {
        let events = self.events.iter().copied().map(Name::Event);
        let addresses = self.addresses.iter().cloned().map(Name::Address);
        events.chain(addresses).collect()
    }
}
