//! Which held events hang on a scope (DEL-6): what comes back with it, and what goes with it for good.
//!
//! A walk along references from the names of the scope. Announcements, states and proposals are no part of
//! it: those have views that decide about them. *Invariant:* what a request of its author keeps away neither
//! comes back nor carries anything, unless requests are not respected here (DEL-10).

use std::collections::{BTreeSet, VecDeque};

use nostr::event::EventId;

pub use crate::deletion::Name;
use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{Batch, Change, Stage, Standing};
use crate::policy::Circumstances;
use crate::related::References;
use crate::request::RequestPolicy;
use crate::view::RepoView;

/// One walk looks at so many events (DEL-4). What lies beyond stays held.
pub const WALK_MAX: usize = 50_000;
/// One commit brings back, or removes, so many events.
pub const STEP_MAX: usize = 1000;

/// An event of a conversation, served or held.
#[derive(Debug, Clone)]
pub struct Member {
    /// The event.
    pub event: VerifiedEvent,
    /// Where it is.
    pub stage: Stage,
    /// What it may carry.
    pub standing: Standing,
    /// A request of its author gates it (DEL-1, DEL-8).
    pub gated: bool,
}

/// What a walk reads: a snapshot, or the view of a commit.
pub trait Conversation {
    /// Why it cannot be read.
    type Error;

    /// The event of that name, served or held; for an address the served version.
    fn member(&self, name: &Name) -> Result<Option<Member>, Self::Error>;

    /// Served and held events that refer to the name, at most `max`.
    fn referring(&self, name: &Name, max: usize) -> Result<Vec<Member>, Self::Error>;
}

/// What a walk is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To serve it again.
    Return,
    /// To remove it for good.
    Eject,
}

/// What a walk found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The events, those that others hang on first.
    pub events: Vec<EventId>,
    /// There is more than one walk looks at.
    pub capped: bool,
}

impl Member {
    fn names(&self) -> Vec<Name> {
        let address = self.event.address().map(Name::Address);
        std::iter::once(Name::Event(self.event.id()))
            .chain(address)
            .collect()
    }

    fn references(&self) -> Vec<Name> {
        References::of(&self.event).names()
    }

    /// It is here because of others, not of its own right, and no view decides about it.
    fn hangs_on_others(&self) -> bool {
        !matches!(
            self.event.kind(),
            kind::ANNOUNCEMENT
                | kind::STATE
                | kind::PULL_REQUEST
                | kind::PULL_REQUEST_UPDATE
                | kind::GRASP_LIST
                | kind::PROFILE
                | kind::RELAY_LIST
                | kind::DELETION
                | kind::VANISH
        )
    }

    fn may_return(&self, requests: &RequestPolicy) -> bool {
        let kept_away = requests.respected && self.gated;
        self.stage == Stage::Held && !kept_away && self.hangs_on_others()
    }
}

/// What others refer to `view`'s scope of `owner` by: its announcements, their address, the states, and the
/// proposals that are served.
pub fn names_of_scope(owner: &nostr::key::PublicKey, view: &RepoView) -> Vec<Name> {
    let coordinate = crate::name::Coordinate::new(*owner, view.identifier.clone());
    let announcements = view.announcements.get(owner).into_iter().flatten();
    let states = view.states.values().flatten();
    let proposals = view.proposals.values();
    let served = proposals.filter(|entry| entry.stage == Stage::Served);
    let ids = announcements
        .map(crate::view::Entry::id)
        .chain(states.map(crate::view::Entry::id))
        .chain(served.map(|entry| entry.event));
    std::iter::once(Name::Address(coordinate.address()))
        .chain(ids.map(Name::Event))
        .collect()
}

/// Finds the held events that hang on `start`.
pub fn held_around<C: Conversation>(
    start: Vec<Name>,
    conversation: &C,
    purpose: Purpose,
    requests: &RequestPolicy,
) -> Result<Found, C::Error> {
    let mut seen: BTreeSet<EventId> = BTreeSet::new();
    let mut queue: VecDeque<Name> = start.into();
    let mut found = Found::default();
    while let Some(name) = queue.pop_front() {
        for member in conversation.referring(&name, WALK_MAX)? {
            if seen.len() == WALK_MAX {
                found.capped = true;
                return Ok(found);
            }
            if !seen.insert(member.event.id()) {
                continue;
            }
            let goes = match purpose {
                Purpose::Return => member.may_return(requests),
                Purpose::Eject => member.stage == Stage::Held && member.hangs_on_others(),
            };
            if goes {
                found.events.push(member.event.id());
                for mentioned in mentioned_by(&member, conversation, requests)? {
                    if seen.insert(mentioned) {
                        found.events.push(mentioned);
                    }
                }
            }
            let carries_on = purpose == Purpose::Return && member.stage == Stage::Served;
            if goes || carries_on {
                queue.extend(member.names());
            }
        }
    }
    Ok(found)
}

/// What was accepted only because this event mentions it (REL-6).
fn mentioned_by<C: Conversation>(
    member: &Member,
    conversation: &C,
    requests: &RequestPolicy,
) -> Result<Vec<EventId>, C::Error> {
    let mut mentioned = Vec::new();
    for name in member.references() {
        let other = conversation.member(&name)?;
        let bare = other.filter(|it| it.may_return(requests) && it.standing == Standing::Bare);
        mentioned.extend(bare.map(|it| it.event.id()));
    }
    Ok(mentioned)
}

/// Serves again what a walk found, as far as it still may: in the commit.
pub fn return_step<C: Conversation>(
    events: &[EventId],
    conversation: &C,
    cx: Circumstances<'_>,
) -> Result<Batch, C::Error> {
    let mut back: BTreeSet<Name> = BTreeSet::new();
    let mut batch = Batch::new();
    for event in events {
        let Some(member) = conversation.member(&Name::Event(*event))? else {
            continue;
        };
        let expiration = member.event.expiration();
        if !member.may_return(&cx.policy.requests) || expiration.is_some_and(|end| end <= cx.now) {
            continue;
        }
        if let Some(address) = member.event.address()
            && conversation.member(&Name::Address(address))?.is_some()
        {
            continue; // Another version is served by now.
        }
        let mut supported = member.standing == Standing::Bare;
        for name in member.references() {
            let served = |it: Member| it.stage == Stage::Served;
            supported = supported
                || back.contains(&name)
                || conversation.member(&name)?.is_some_and(served);
        }
        if supported {
            batch.push(Change::Move {
                event: *event,
                stage: Stage::Served,
                deadline: expiration,
            });
            back.extend(member.names());
        }
    }
    Ok(batch)
}

#[cfg(test)]
mod tests;
