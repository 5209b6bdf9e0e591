//! Which pushes agree with what maintainers signed (PUSH-*).

use std::collections::BTreeMap;

use nostr::event::EventId;

use crate::event::VerifiedEvent;
use crate::lifecycle::Batch;
use crate::name::{Coordinate, RepoAddress};
use crate::oid::Oid;
use crate::policy::Circumstances;
use crate::proposal::Proposal;
use crate::refname::RefName;
use crate::view::{ObjectFacts, RepoView};

/// One line of a push: move `name` to `new`, or delete it if `new` is zero. `old` is not compared (PUSH-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What the client believes is there.
    pub old: Oid,
    /// What shall be there; zero deletes.
    pub new: Oid,
    /// The name as sent: it may not even be a legal one.
    pub name: String,
}

/// What a push may do, decided before its pack is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushPlan {
    /// One verdict per command, in order.
    pub verdicts: Vec<Verdict>,
    /// The state that the branch and tag commands agree with, if they move anything.
    pub candidate: Option<EventId>,
    /// Deadlines that an authorised push extends (PUR-3).
    pub extend: Batch,
}

/// What becomes of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted. `installs` is the tip whose objects the push must bring, `None` if nothing is to be
    /// proven (no-op, deletion: PUSH-3, PUSH-7).
    Accept {
        /// The tip to walk.
        installs: Option<Oid>,
        /// For an upload without an event: the id it binds (PUSH-4).
        upload: Option<EventId>,
    },
    /// Refused: the text after `ng <ref> ` (one line).
    Refuse(String),
}

/// A push that is refused as a whole: one short line for `ERR`, and lines for the person (PUSH-10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `authorisation failed: <summary>` is what git prints first.
    pub summary: String,
    /// What the signed state says about which ref, and what to do next.
    pub advice: Vec<String>,
}

impl PushPlan {
    /// Whether at least one command is accepted.
    pub fn accepts_any(&self) -> bool {
        self.verdicts
            .iter()
            .any(|verdict| matches!(verdict, Verdict::Accept { .. }))
    }

    /// The tips that must be complete once the pack is there.
    pub fn tips(&self) -> Vec<Oid> {
        self.verdicts
            .iter()
            .filter_map(|verdict| match verdict {
                Verdict::Accept { installs, .. } => *installs,
                Verdict::Refuse(_) => None,
            })
            .collect()
    }
}

/// Judges the commands of a push to `repo`. `current` are the refs it shows now. With `atomic` one
/// refusal refuses all (PUSH-8). `known_events` answers for events outside the view what a
/// `refs/nostr/<id>` may bind to (PUSH-4).
pub fn authorize(
    repo: &RepoAddress,
    commands: &[Command],
    atomic: bool,
    current: &BTreeMap<RefName, Oid>,
    view: &RepoView,
    known_events: &BTreeMap<EventId, KnownEvent>,
    cx: Circumstances<'_>,
) -> PushPlan {
    todo!()
}

/// What the store knows of an event that a push names by `refs/nostr/<id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownEvent {
    /// Its kind.
    pub kind: u16,
    /// Its author.
    pub author: nostr::key::PublicKey,
    /// Its `c`, if it is a proposal and the value can exist.
    pub commit: Option<Oid>,
    /// The repositories that a proposal's `a` tags name, each with its own identifier (PR-2).
    pub targets: Vec<Coordinate>,
}

impl KnownEvent {
    /// What matters here of any event.
    pub fn of(event: &VerifiedEvent) -> Self {
        let proposal = Proposal::parse(event.clone()).ok();
        Self {
            kind: event.kind(),
            author: event.author(),
            commit: proposal.as_ref().and_then(|it| it.tip().commit()),
            targets: proposal.map_or_else(Vec::new, |it| it.targets().to_vec()),
        }
    }
}

/// The words for a push none of whose commands is accepted (GIT-5): what is waiting, what the signed
/// state says, what to do next.
pub fn refusal(plan: &PushPlan, commands: &[Command]) -> Refusal {
    todo!()
}

/// The rows that a completed push commits (PUSH-13, AFTER-1 … AFTER-5): decides again on the commit's own
/// view, records uploads, settles what became complete and marks what changed. `plan` is the plan the
/// pack was taken under; `installed` are the facts after its objects are in place.
pub fn complete(
    repo: &RepoAddress,
    commands: &[Command],
    atomic: bool,
    plan: &PushPlan,
    current: &BTreeMap<RefName, Oid>,
    view: &RepoView,
    known_events: &BTreeMap<EventId, KnownEvent>,
    installed: &ObjectFacts,
    pack_bytes: u64,
    cx: Circumstances<'_>,
) -> Result<Batch, PushPlan> {
    todo!()
}
