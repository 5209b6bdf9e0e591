//! Which pushes agree with what maintainers signed (PUSH-*).
//!
//! There are no accounts: a push may move branches and tags to what a signed state says, and nowhere
//! else. It is judged twice, before its pack is read and again inside the commit, by the same pure
//! function. *Invariant:* a state that loses to the served one authorises nothing, or every state ever
//! signed would be a licence to roll a branch back.

mod advice;
mod authorize;
mod branches;
mod complete;
mod ground;
mod proposals;

use std::collections::{BTreeMap, BTreeSet};

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::Batch;
use crate::name::{Coordinate, RepoAddress};
use crate::oid::Oid;
use crate::policy::Circumstances;
use crate::proposal::Proposal;
use crate::refname::RefName;
use crate::view::RepoView;

pub use advice::refusal;
pub use branches::{Difference, Mismatch, Obstacle};

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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PushPlan {
    /// One verdict per command, in order.
    pub verdicts: Vec<Verdict>,
    /// The state that the branch and tag commands agree with, if they move anything.
    pub candidate: Option<EventId>,
    /// Why no state lets the branch and tag commands through: what [`refusal`] is made of.
    pub obstacle: Option<Box<Obstacle>>,
    /// Deadlines that an authorised push extends (PUR-3).
    pub extend: Batch,
    /// Whether an upload is refused since too many wait here for their events (§16).
    pub crowded: bool,
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

impl Verdict {
    /// Accepted, with nothing to bring and nothing to record.
    const NOTHING_TO_DO: Self = Self::Accept {
        installs: None,
        upload: None,
    };

    /// Whether the command is accepted.
    pub fn accepts(&self) -> bool {
        matches!(self, Self::Accept { .. })
    }
}

impl PushPlan {
    /// Whether at least one command is accepted.
    pub fn accepts_any(&self) -> bool {
        self.verdicts.iter().any(Verdict::accepts)
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

    /// Whether all that the push brings is bound to events that are not here yet: then its pack has
    /// the smaller bound of uploads (§16).
    pub fn brings_only_uploads(&self) -> bool {
        let mut brings = false;
        for verdict in &self.verdicts {
            match verdict {
                Verdict::Accept {
                    installs: Some(_),
                    upload,
                } if upload.is_none() => return false,
                Verdict::Accept {
                    installs: Some(_), ..
                } => brings = true,
                _ => {}
            }
        }
        brings
    }
}

/// What the store knows of an event that a push names by `refs/nostr/<id>`: served, waiting or parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownEvent {
    /// Its kind.
    pub kind: u16,
    /// Its author.
    pub author: PublicKey,
    /// Its `c`, if it is a proposal and the value can exist.
    pub commit: Option<Oid>,
    /// The repositories that a proposal's `a` tags name, each with its own identifier (PR-2).
    pub targets: Vec<Coordinate>,
}

impl KnownEvent {
    /// What matters here of any event.
    pub fn of(event: &VerifiedEvent) -> Self {
        let proposal = kind::is_proposal(event.kind())
            .then(|| Proposal::parse(event.clone()).ok())
            .flatten();
        Self {
            kind: event.kind(),
            author: event.author(),
            commit: proposal.as_ref().and_then(|it| it.tip().commit()),
            targets: proposal.map_or_else(Vec::new, |it| it.targets().to_vec()),
        }
    }
}

/// Everything that one push is judged by: [`Push::authorize`] before its pack is read, and
/// [`Push::complete`] in the commit.
#[derive(Debug, Clone, Copy)]
pub struct Push<'a> {
    /// Where it goes.
    pub repo: &'a RepoAddress,
    /// What it asks for, in order.
    pub commands: &'a [Command],
    /// Whether one refusal refuses all (PUSH-8, AFTER-1).
    pub atomic: bool,
    /// The refs that the repository shows now.
    pub current: &'a BTreeMap<RefName, Oid>,
    /// What signed events say about it.
    pub view: &'a RepoView,
    /// What the store has for the ids in the commands (PUSH-4; [`named_events`]).
    pub known_events: &'a BTreeMap<EventId, KnownEvent>,
    /// When, and by which settings.
    pub cx: Circumstances<'a>,
}

/// The events that the commands name by `refs/nostr/<id>`: what to ask the store for `known_events`.
pub fn named_events(commands: &[Command]) -> BTreeSet<EventId> {
    let names = commands
        .iter()
        .filter_map(|command| command.name.parse().ok());
    names
        .filter_map(|name: RefName| name.proposal_event())
        .collect()
}

#[cfg(test)]
mod tests;
