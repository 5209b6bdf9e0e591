//! What becomes of an event that arrives (§5 … §9). Gather, decide here, apply.
//!
//! Each kind has its rules in a file of its own, and all end the same way: the view with the event in
//! it is settled, and the difference between the view before and after is the batch. So an event that
//! completes something, or is complete at once, needs no rule of its own, and the order in which
//! events arrive does not show in the outcome. *Invariant:* a batch may be non-empty although the
//! answer is a refusal (ANN-5): whoever decides applies it all the same.

mod announcement;
mod answer;
mod deletion;
mod glance;
mod idle;
mod outcome;
mod proposal;
mod protection;
mod related;
mod screen;
mod state;
mod vanish;

use std::collections::BTreeMap;

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::event::Version;
use crate::lifecycle::{Batch, Stage};
use crate::request::Gate;
use crate::view::RepoView;

pub use announcement::admit_announcement;
pub use answer::{Answer, Blacklisted, PurgatoryBound, Rejection};
pub use deletion::admit_deletion;
pub use glance::glance;
pub use idle::{IdleEvent, IdleLoad, is_open_to_all};
pub use proposal::admit_proposal;
pub use protection::protection;
pub use related::admit_related;
pub use screen::screen;
pub use state::admit_state;
pub use vanish::{VanishFacts, admit_vanish};

/// The answer to the sender, and the rows that follow.
#[derive(Debug, Clone)]
pub struct Decision {
    /// What the sender is told.
    pub answer: Answer,
    /// What the commit changes.
    pub batch: Batch,
}

impl Decision {
    /// An answer, and nothing changes.
    pub fn only(answer: impl Into<Answer>) -> Self {
        Self {
            answer: answer.into(),
            batch: Batch::new(),
        }
    }
}

/// Of the requests that keep one event out at most so many are looked at, those with the lowest ids: an
/// author can make thousands, and sending the event again must stay cheap. One suffices to keep it out;
/// the others only matter for who is credited (DEL-9).
pub const GATES_MAX: usize = 64;

/// What the store says about an arriving event before its kind matters (EV-1).
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Where the same event lives already.
    pub stage: Option<Stage>,
    /// The requests of its author that keep it out, at most [`GATES_MAX`].
    pub gates: Vec<Gate>,
    /// Expired from purgatory before (PUR-8).
    pub expired_mark: bool,
    /// For replaceable and addressable kinds: the newest version served.
    pub served_version: Option<Version>,
    /// For a state: somebody's announcement of its identifier is served, waiting or parked, be it a
    /// stranger's whom the view leaves out. Decides which refusal is true (ST-1).
    pub announced: bool,
}

/// How full purgatory is (PUR-13).
#[derive(Debug, Clone, Copy, Default)]
pub struct PurgatoryLoad {
    /// Waiting events in all.
    pub events: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The author's waiting announcements.
    pub author_announcements: usize,
    /// The author's waiting states and proposals.
    pub author_events: usize,
}

/// What a deletion request names (DEL-1).
#[derive(Debug, Clone, Default)]
pub struct DeletionFacts {
    /// Stored events named by `e`: author, kind, stage.
    pub events: BTreeMap<EventId, DeletionTarget>,
    /// Stored versions of addresses named by `a` that belong to the author.
    pub versions: Vec<DeletionTarget>,
    /// Requests of the author that were of no use yet (§16).
    pub unused_requests: usize,
    /// Views of the identifiers whose announcements, states or proposals are named.
    pub views: Vec<RepoView>,
}

/// A stored event that a deletion request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletionTarget {
    /// Its id.
    pub event: EventId,
    /// Its author.
    pub author: PublicKey,
    /// Its kind.
    pub kind: u16,
    /// Its place among versions.
    pub version: Version,
    /// Its stage.
    pub stage: Stage,
}
