//! The rules of docs/protocol.md once more, read as naively as they are written: one project, everything
//! in one list, every question answered by looking at all of it again.
//!
//! The oracle of the random lives ([`crate::lives`]). Slow and without any care for races, crashes or
//! indexes: what the real server has those for must not show. *Invariant:* nothing here calls a decision
//! of `grasp-core`; its types and parsers are all that both have in common.

mod announcements;
mod audit;
mod authority;
mod cascade;
mod comeback;
mod deletion;
mod expiry;
mod face;
mod lists;
mod proposals;
mod push;
mod related;
mod requests;
mod settle;
mod states;
mod vanish;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use grasp_core::announcement::Announcement;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::Stage;
use grasp_core::name::{Coordinate, Identifier, RepoAddress};
use grasp_core::oid::Oid;
use grasp_core::policy::Origin;
use grasp_core::proposal::Proposal;
use grasp_core::state::StateEvent;
use grasp_core::{Event, EventId, PublicKey};

use face::Archived;
pub(crate) use face::Face;
use lists::Curated;
pub(crate) use lists::{Lists, Restored};
pub(crate) use push::Command;
use requests::{Request, is_request};

/// PUR-1
const WAITING: u64 = 1800;
/// PUR-4, phase 2.
const SOFT_EXPIRED: u64 = 86_400;
/// PUR-8
const MARKED: u64 = 7 * 86_400;
/// PUR-15
const PARKED: u64 = 30 * 86_400;
/// DEL-5, DEL-12
const RETENTION: u64 = 90 * 86_400;
/// DEL-12
const VERSIONS_MAX: usize = 10;

/// What the sender of an event is told, as far as it tells what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// Stored and served.
    Served,
    /// In purgatory.
    Waits,
    /// `OK true duplicate: …`.
    Duplicate,
    /// `OK false`.
    Refused,
}

/// KIND-5: a later second, and in the same second the lower id, is the newer one.
type Rank = (u64, Reverse<EventId>);

trait Ranked {
    fn ranked(&self) -> &VerifiedEvent;

    fn rank(&self) -> Rank {
        let event = self.ranked();
        (event.created_at().as_secs(), Reverse(event.id()))
    }
}

impl Ranked for VerifiedEvent {
    fn ranked(&self) -> &VerifiedEvent {
        self
    }
}

impl Ranked for Announcement {
    fn ranked(&self) -> &VerifiedEvent {
        self.event()
    }
}

impl Ranked for StateEvent {
    fn ranked(&self) -> &VerifiedEvent {
        self.event()
    }
}

impl Ranked for Kept {
    fn ranked(&self) -> &VerifiedEvent {
        &self.event
    }
}

/// An event that is kept, and where it is in its life.
#[derive(Debug, Clone)]
struct Kept {
    event: VerifiedEvent,
    what: What,
    stage: Stage,
    /// When this stage ends by itself.
    until: Option<u64>,
    /// Whether others may hang on it (REL-5, REL-6).
    carries: Carries,
}

#[derive(Debug, Clone)]
enum What {
    Announcement(Announcement),
    State(StateEvent),
    Proposal(Proposal),
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carries {
    /// Roots and what they hang on: everything.
    All,
    /// Replies: replies.
    Replies,
    /// What nothing else vouches for: nothing.
    Nothing,
}

/// A commit that came before its event (PR-4).
#[derive(Debug, Clone)]
struct Upload {
    event: EventId,
    commit: Oid,
    repository: RepoAddress,
    until: u64,
}

/// Everything that is known about one project.
#[derive(Debug, Clone)]
pub(crate) struct Naive {
    project: Identifier,
    clone_base: String,
    relay: String,
    now: u64,
    /// In the order in which they came.
    kept: Vec<Kept>,
    /// Announcements that were deleted or ran out: what they withdrew stays withdrawn (DEL-3).
    withdrawn: Vec<Announcement>,
    uploads: Vec<Upload>,
    /// Proposals with their ref in the `/prs/` repository of their author (REF-6).
    placed: BTreeSet<EventId>,
    /// Expired ids, and until when they are remembered (PUR-8).
    marks: BTreeMap<EventId, u64>,
    /// What was asked to be deleted.
    requests: Vec<Request>,
    curated: Curated,
    /// Which commits are complete where. Only directories that exist hold any.
    objects: BTreeMap<RepoAddress, BTreeSet<Oid>>,
    /// What repositories were that left (DEL-5).
    archived: BTreeMap<PublicKey, Archived>,
    /// Who had a served repository when directories were last written.
    serving: BTreeSet<PublicKey>,
    /// What each directory shows since it was last written.
    shown: BTreeMap<RepoAddress, Face>,
    /// Of every commit of the tests, what it needs, itself included.
    history: BTreeMap<Oid, BTreeSet<Oid>>,
}

impl Kept {
    fn id(&self) -> EventId {
        self.event.id()
    }

    fn author(&self) -> PublicKey {
        self.event.author()
    }

    fn announcement(&self) -> Option<&Announcement> {
        match &self.what {
            What::Announcement(announcement) => Some(announcement),
            _ => None,
        }
    }

    fn state(&self) -> Option<&StateEvent> {
        match &self.what {
            What::State(state) => Some(state),
            _ => None,
        }
    }

    fn proposal(&self) -> Option<&Proposal> {
        match &self.what {
            What::Proposal(proposal) => Some(proposal),
            _ => None,
        }
    }

    /// In purgatory, or kept where it can come back from.
    fn is_pending(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Parked)
    }

    /// §4: the stages whose announcements say who is a maintainer.
    fn counts(&self) -> bool {
        self.stage == Stage::Served || self.is_pending()
    }

    fn is_expired(&self, now: u64) -> bool {
        self.event
            .expiration()
            .is_some_and(|end| end.as_secs() <= now)
    }

    fn serve(&mut self) {
        self.stage = Stage::Served;
        self.until = self.event.expiration().map(|end| end.as_secs());
    }

    /// PUR-1, and not beyond what NIP-40 allows.
    fn wait(&mut self, now: u64) {
        let usual = now + WAITING;
        self.stage = Stage::Waiting;
        let end = self.event.expiration().map(|end| end.as_secs());
        self.until = Some(end.map_or(usual, |end| end.min(usual)));
    }

    /// For so long, and not beyond what NIP-40 allows; ANN-3b: for as long as it takes.
    fn park(&mut self, until: Option<u64>) {
        let end = self.event.expiration().map(|end| end.as_secs());
        self.stage = Stage::Parked;
        self.until = until.into_iter().chain(end).min();
    }

    fn is_parked_without_end(&self) -> bool {
        let end = self.event.expiration().map(|end| end.as_secs());
        self.stage == Stage::Parked && self.until == end
    }

    fn supersede(&mut self, now: u64) {
        self.stage = Stage::Superseded;
        self.until = Some(now + RETENTION);
    }

    fn hold(&mut self, now: u64) {
        self.stage = Stage::Held;
        self.until = Some(now + RETENTION);
    }
}

impl Naive {
    /// Nothing is known yet. `history` says of every commit what it needs.
    pub(crate) fn new(
        project: &str,
        clone_base: &str,
        relay: &str,
        now: u64,
        history: BTreeMap<Oid, BTreeSet<Oid>>,
    ) -> Self {
        Self {
            project: project.parse().expect("a legal name"),
            clone_base: clone_base.to_owned(),
            relay: relay.to_owned(),
            now,
            kept: Vec::new(),
            withdrawn: Vec::new(),
            uploads: Vec::new(),
            placed: BTreeSet::new(),
            marks: BTreeMap::new(),
            requests: Vec::new(),
            curated: Curated::default(),
            objects: BTreeMap::new(),
            archived: BTreeMap::new(),
            serving: BTreeSet::new(),
            shown: BTreeMap::new(),
            history,
        }
    }

    /// An event arrives (EV-1, EV-2).
    pub(crate) fn offer(&mut self, event: &Event, origin: Origin) -> Said {
        let event = VerifiedEvent::verify(event.clone()).expect("signed by its author");
        self.take_in(event, origin)
    }

    fn take_in(&mut self, event: VerifiedEvent, origin: Origin) -> Said {
        let said = match self.screen(&event, origin) {
            Some(said) => said,
            None => self.admit(event, origin),
        };
        self.bring_in_line();
        said
    }

    /// What can be said without looking at the kind.
    fn screen(&mut self, event: &VerifiedEvent, origin: Origin) -> Option<Said> {
        let stage = self.stage(&event.id());
        let expired = event
            .expiration()
            .is_some_and(|end| end.as_secs() <= self.now);
        let marked = self.marks.contains_key(&event.id());
        if expired {
            return Some(Said::Refused); // EV-4
        }
        if self.is_gated(event) {
            self.credit(event);
            return Some(Said::Refused); // DEL-1
        }
        if origin == Origin::Sync && marked && stage.is_none() {
            return Some(Said::Refused); // PUR-8
        }
        match stage {
            Some(Stage::Served | Stage::Waiting | Stage::Superseded) => Some(Said::Duplicate),
            Some(Stage::Held) if is_request(event) => Some(Said::Duplicate),
            Some(Stage::Parked | Stage::Held) | None => None,
        }
    }

    fn admit(&mut self, event: VerifiedEvent, origin: Origin) -> Said {
        if self.is_unlisted(&event) {
            return Said::Refused; // ANN-1
        }
        let parked = self.stage(&event.id()) == Some(Stage::Parked);
        if parked && origin == Origin::Sync {
            return Said::Duplicate; // PUR-15: only a client makes it wait again
        }
        if origin == Origin::Sync && self.is_old_news(&event) {
            return Said::Duplicate; // DEL-6: only its owner brings a scope back
        }
        let id = event.id();
        let taken = match event.kind() {
            kind::ANNOUNCEMENT => self.admit_announcement(event),
            kind::STATE => self.admit_state(event),
            kind::PULL_REQUEST | kind::PULL_REQUEST_UPDATE => self.admit_proposal(event),
            kind::DELETION => self.admit_deletion(&event),
            kind::VANISH => {
                self.admit_vanish(&event);
                Ok(())
            }
            _ => self.admit_related(event),
        };
        self.settle();
        match taken {
            Err(said) => said,
            Ok(()) => match self.stage(&id) {
                Some(Stage::Served) => Said::Served,
                Some(Stage::Waiting | Stage::Parked) => Said::Waits,
                Some(Stage::Superseded | Stage::Held) | None => Said::Duplicate,
            },
        }
    }

    /// Puts an event where its life begins. Of the same event there is only one.
    fn put(&mut self, event: VerifiedEvent, what: What, carries: Carries) -> &mut Kept {
        let id = event.id();
        if !self.kept.iter().any(|kept| kept.id() == id) {
            self.kept.push(Kept {
                event,
                what,
                stage: Stage::Waiting,
                until: None,
                carries,
            });
        }
        self.find_mut(&id).expect("it was just put there")
    }

    fn find(&self, event: &EventId) -> Option<&Kept> {
        self.kept.iter().find(|kept| kept.id() == *event)
    }

    fn find_mut(&mut self, event: &EventId) -> Option<&mut Kept> {
        self.kept.iter_mut().find(|kept| kept.id() == *event)
    }

    fn forget(&mut self, event: &EventId) {
        self.kept.retain(|kept| kept.id() != *event);
        self.placed.remove(event);
    }

    fn repository(&self, owner: PublicKey) -> RepoAddress {
        RepoAddress::Announced(Coordinate::new(owner, self.project.clone()))
    }

    fn prs_repository(&self, submitter: PublicKey) -> RepoAddress {
        RepoAddress::Proposals(Coordinate::new(submitter, self.project.clone()))
    }

    // What a test reads.

    /// Where an event is; `None` if it is not kept.
    pub(crate) fn stage(&self, event: &EventId) -> Option<Stage> {
        self.find(event).map(|kept| kept.stage)
    }

    /// When the stage of an event ends by itself.
    pub(crate) fn until(&self, event: &EventId) -> Option<u64> {
        self.find(event)?.until
    }

    /// Everything that subscribers see.
    pub(crate) fn served(&self) -> BTreeSet<EventId> {
        let served = self.kept.iter().filter(|kept| kept.stage == Stage::Served);
        served.map(Kept::id).collect()
    }

    /// Whether an announcement is gone, and yet remembered for what it withdrew (DEL-3).
    pub(crate) fn withdrew(&self, event: &EventId) -> bool {
        self.withdrawn.iter().any(|gone| gone.id() == *event)
    }

    /// What a repository shows; `None` without a directory.
    pub(crate) fn face(&self, repository: &RepoAddress) -> Option<&Face> {
        self.shown.get(repository)
    }

    /// The commits that a directory holds with all they need.
    pub(crate) fn objects(&self, repository: &RepoAddress) -> BTreeSet<Oid> {
        self.objects.get(repository).cloned().unwrap_or_default()
    }

    /// Objects were found in a directory beyond what it was given on purpose: packs are shared whole.
    /// What waited for them is looked at again.
    pub(crate) fn found(&mut self, repository: &RepoAddress, commits: BTreeSet<Oid>) {
        self.objects.insert(repository.clone(), commits);
        self.settle();
        self.bring_in_line();
    }
}
