//! Where events live: one home each, in one stage, and the changes that move them.
//!
//! Every event lives once in the store, in one [`Stage`]. Promotion, expiry, replacement, deletion
//! and recovery are [`Change`]s of one commit. Decisions return a [`Batch`]; the store alone applies
//! it. *Invariant:* only [`Stage::Served`] is visible to subscribers.

use nostr::event::EventId;
use nostr::types::Timestamp;

use crate::deletion::{Plan, Work};
use crate::event::VerifiedEvent;
use crate::name::{Coordinate, Identifier, RepoAddress};
use crate::oid::Oid;
use crate::request::Uses;

/// Of one event the first so many references count (REL-6).
pub const REFERENCES_MAX: usize = 50;

/// The stage of an event's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Visible to subscribers.
    Served,
    /// In purgatory: accepted, waiting for git data.
    Waiting,
    /// Kept and unseen; it can come back (soft-expired announcements, ANN-3b, PUR-15).
    Parked,
    /// Replaced: rollback material (DEL-12).
    Superseded,
    /// Deleted, recoverable until its retention ends (DEL-5).
    Held,
}

/// How a served event came to be accepted: decides what it may carry in turn (REL-5, REL-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// An announcement, state or root of its own right: others may hang on it.
    Anchor,
    /// Accepted through a served event of the conversation below `root`.
    Reply {
        /// The anchor that the conversation hangs on.
        root: EventId,
        /// Whether it hangs on other replies only, and so counts against the root's budget: what
        /// refers to the root itself, and what its maintainers write, does not.
        counted: bool,
    },
    /// Accepted without a reference, or only because another names it: anchors nothing.
    Bare,
}

/// A commit pushed to `refs/nostr/<event>` before the event was known (PR-4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadRecord {
    /// The event that shall come.
    pub event: EventId,
    /// What was pushed.
    pub commit: Oid,
    /// Where its ref was made.
    pub repository: RepoAddress,
    /// What the pushed pack weighed, for the bounds of §16.
    pub bytes: u64,
    /// When ref and record go.
    pub deadline: Timestamp,
}

/// Which of the operator's lists took a scope off the service (DEL-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CuratedBy {
    /// It is named there.
    Blacklist,
    /// It is not named there.
    Whitelist,
}

/// Git data that was taken out of sight with its scope and can come back with it (DEL-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Archive {
    /// When it was taken away. Names the copy in the archive area.
    pub since: Timestamp,
    /// When it is gone for good.
    pub until: Timestamp,
    /// The scope is back: what the copy holds belongs to the repository again (DEL-6).
    pub returns: bool,
}

/// Why an id is remembered although no event of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkReason {
    /// Expired from purgatory without git data: sync may not bring it back (PUR-8).
    Expired,
    /// Refused, so that sync need not ask again (SYNC-32).
    Refused,
}

/// One step of a commit. The order in a [`Batch`] is the order of application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Stores a new event.
    Insert {
        /// The event; its canonical JSON is what subscribers will get.
        event: VerifiedEvent,
        /// Where its life begins.
        stage: Stage,
        /// When this stage ends by itself.
        deadline: Option<Timestamp>,
        /// What it may carry.
        standing: Standing,
    },
    /// Moves a stored event to another stage. Moving to `Served` makes it visible.
    Move {
        /// Which.
        event: EventId,
        /// Where to.
        stage: Stage,
        /// When the new stage ends by itself.
        deadline: Option<Timestamp>,
    },
    /// Gives a stored event another deadline in the stage it is in.
    Extend {
        /// Which.
        event: EventId,
        /// The new deadline.
        deadline: Option<Timestamp>,
    },
    /// Removes a stored event for good; with a request to delete or to vanish go its gates.
    Remove {
        /// Which.
        event: EventId,
    },
    /// A stored event is of a key that takes part in nothing here, and counts among such events until
    /// it is removed (EV-8).
    Idle {
        /// Which.
        event: EventId,
        /// It has been of use, and goes after all that have not.
        used: bool,
    },
    /// An event counts no more among those of idle keys: its key takes part by now. It stays.
    NotIdle {
        /// Which.
        event: EventId,
    },
    /// Remembers an id until a time.
    Mark {
        /// Which.
        event: EventId,
        /// Why.
        reason: MarkReason,
        /// Until when.
        until: Timestamp,
    },
    /// Forgets a mark.
    Unmark {
        /// Which.
        event: EventId,
        /// Of which kind.
        reason: MarkReason,
    },
    /// Keeps an upload record, replacing the one of the same event and repository.
    Upload(UploadRecord),
    /// Drops an upload record.
    DropUpload {
        /// Whose.
        event: EventId,
        /// Where.
        repository: RepoAddress,
    },
    /// A proposal has its ref in this `/prs/` repository, which lives as long as the proposal is served.
    Place {
        /// The proposal.
        event: EventId,
        /// Always [`RepoAddress::Proposals`].
        repository: RepoAddress,
    },
    /// What the repository holds goes to the archive: reconcile moves it there (DEL-5). An archive of
    /// it that has not come back gives way.
    Archive {
        /// Which.
        repository: RepoAddress,
        /// Now.
        since: Timestamp,
        /// How long it is kept.
        until: Timestamp,
    },
    /// What the archive has of the repository belongs to it again: reconcile moves it back (DEL-6).
    Unarchive {
        /// Which.
        repository: RepoAddress,
    },
    /// The archive of the repository is over; its copy may be thrown away.
    DropArchive {
        /// Which.
        repository: RepoAddress,
    },
    /// Notes that a list of the operator takes the scope away, or with `None` that this is over: what a list
    /// took it may give back (DEL-7).
    Curate {
        /// Which.
        scope: Coordinate,
        /// The list.
        by: Option<CuratedBy>,
    },
    /// The lists of this fingerprint have been carried out.
    ListsApplied {
        /// A hash of the lists.
        fingerprint: [u8; 32],
    },
    /// What following another relay remembers over a restart (SYNC-11), or with `None` that nothing is. The bytes
    /// are sync's own; whoever keeps them does not read them.
    KeepCursor {
        /// The relay's address.
        relay: String,
        /// What is remembered.
        cursor: Option<Vec<u8>>,
    },
    /// The repository's view changed: reconcile must look at it before it is served again.
    Dirty(RepoAddress),
    /// Git data for this identifier is owed: look for it at `not_before` (HUNT-2). An entry that is
    /// there already may only move earlier (HUNT-4).
    Hunt {
        /// Whose.
        identifier: Identifier,
        /// Milliseconds of wall clock.
        not_before_ms: u64,
    },
    /// Nothing was found, or not all: look again then (HUNT-3, HUNT-1a).
    HuntLater {
        /// For whose data.
        identifier: Identifier,
        /// Milliseconds of wall clock.
        next_attempt_ms: u64,
        /// Attempts since the last news.
        attempt_count: u32,
        /// Nothing waits any more: what is owed is looked for hourly (G2-4).
        is_parked: bool,
    },
    /// Nothing of this identifier is owed any more. An entry that was asked for since stays.
    HuntOver {
        /// Which.
        identifier: Identifier,
        /// The number of the commit up to which was looked.
        seen: u64,
    },
    /// A deletion request gates this id of this author from now on, known or not (DEL-1).
    GateEvent {
        /// The gated event.
        event: EventId,
        /// Whose events the request may gate.
        author: nostr::key::PublicKey,
        /// The request.
        request: EventId,
    },
    /// A deletion request gates versions of an address up to its own time (DEL-1).
    GateAddress {
        /// `kind:pubkey:d`.
        address: String,
        /// Versions made up to then are gated.
        until: Timestamp,
        /// The request.
        request: EventId,
    },
    /// A stored request to delete or to vanish is kept by its own clock from now on (DEL-9).
    KeepRequest {
        /// Which.
        request: EventId,
        /// Since when, and its last use.
        uses: Uses,
    },
    /// A request kept something out: from now on it counts as used, and since then (DEL-9, EV-8).
    UseRequest {
        /// Which.
        request: EventId,
        /// When.
        at: Timestamp,
    },
    /// A request to vanish gates everything that its author made up to a time (DEL-8).
    GateAuthor {
        /// Whose events are gated.
        author: nostr::key::PublicKey,
        /// Events made up to then: the request's own time.
        until: Timestamp,
        /// The request.
        request: EventId,
    },
    /// An event carries nothing any more: what it hung on is gone, and only a mention keeps it (REL-6).
    Unburden {
        /// Which.
        event: EventId,
    },
    /// Something is to be done in steps, from now on (DEL-4). What is lost is added to a plan of the same
    /// work, which is then looked at anew; its steps stay.
    Plan(Plan),
    /// What a plan consists of, after the steps that it has. One without steps is done.
    Steps {
        /// Of which plan.
        work: Work,
        /// Which place the newest event had when the steps were worked out ([`Node::stored`]).
        ///
        /// [`Node::stored`]: crate::deletion::Node::stored
        horizon: u64,
        /// The events of each.
        steps: Vec<Vec<EventId>>,
    },
    /// A step is done. With the last the plan goes.
    StepDone {
        /// Of which plan.
        work: Work,
        /// Which.
        step: u32,
    },
}

/// What one decision changes, as one commit.
pub type Batch = Vec<Change>;
