//! What becomes of an event that arrives (§5 … §9). Gather, decide here, apply.

use std::collections::BTreeMap;
use std::fmt;

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::announcement::Announcement;
use crate::event::{VerifiedEvent, Version};
use crate::lifecycle::{Batch, Stage};
use crate::policy::Circumstances;
use crate::proposal::Proposal;
use crate::related::RelatedFacts;
use crate::state::StateEvent;
use crate::view::{ObjectFacts, RepoView};

/// The answer to the sender, and the rows that follow.
#[derive(Debug, Clone)]
pub struct Decision {
    /// What the sender is told.
    pub answer: Answer,
    /// What the commit changes.
    pub batch: Batch,
}

/// What the sender of an event is told (§5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Stored and served.
    Stored,
    /// Ephemeral: broadcast, kept nowhere.
    Ephemeral,
    /// Waits for git data.
    Purgatory,
    /// The same event waits already.
    DuplicateWaiting,
    /// The same event is stored already.
    Duplicate,
    /// A newer one of the same author is served, or waits.
    Superseded,
    /// Not taken.
    Rejected(Rejection),
}

/// Why an event is not taken. `Display` gives the whole `prefix: words` of §5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// For each row of the table of §5 that a decision can give.
    Invalid(String),
    /// …
    Restricted(String),
    /// …
    Blocked(String),
    /// …
    RateLimited(String),
}

impl Answer {
    /// The boolean of `OK`.
    pub fn accepted(&self) -> bool {
        !matches!(self, Self::Rejected(_))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

/// What the store says about an arriving event before its kind matters (EV-1).
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Where the same event lives already.
    pub stage: Option<Stage>,
    /// A deletion request gates its id, or its address up to its time.
    pub deleted: bool,
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

/// The checks that come before the kind (EV-1, EV-4, KIND-7). `Some` ends the matter.
pub fn screen(event: &VerifiedEvent, known: &Known, cx: Circumstances<'_>) -> Option<Decision> {
    todo!()
}

/// §6.
pub fn admit_announcement(
    event: &Announcement,
    view: &RepoView,
    facts: &ObjectFacts,
    load: PurgatoryLoad,
    cx: Circumstances<'_>,
) -> Decision {
    todo!()
}

/// §7.
pub fn admit_state(
    event: &StateEvent,
    view: &RepoView,
    facts: &ObjectFacts,
    known: &Known,
    load: PurgatoryLoad,
    cx: Circumstances<'_>,
) -> Decision {
    todo!()
}

/// §8. `views` has one view per identifier that its `a` tags name.
pub fn admit_proposal(
    event: &Proposal,
    views: &[RepoView],
    related: &RelatedFacts,
    facts: &ObjectFacts,
    load: PurgatoryLoad,
    cx: Circumstances<'_>,
) -> Decision {
    todo!()
}

/// §9 and the kinds of EV-2 that are accepted without a reference.
pub fn admit_related(
    event: &VerifiedEvent,
    known: &Known,
    related: &RelatedFacts,
    cx: Circumstances<'_>,
) -> Decision {
    todo!()
}

/// What a deletion request names (DEL-1).
#[derive(Debug, Clone, Default)]
pub struct DeletionFacts {
    /// Stored events named by `e`: author, kind, stage.
    pub events: BTreeMap<EventId, DeletionTarget>,
    /// Stored versions of addresses named by `a` that belong to the author.
    pub versions: Vec<DeletionTarget>,
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

/// NIP-09 (DEL-1, DEL-2, DEL-3, PUR-10).
pub fn admit_deletion(
    event: &VerifiedEvent,
    targets: &DeletionFacts,
    cx: Circumstances<'_>,
) -> Decision {
    todo!()
}
