//! Where each event around a repository is in its life, and what keeps it there.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use super::{Deadline, Missing, Person, Question, VERSIONS_MAX};
use crate::announcement::Announcement;
use crate::event::Parsed;
use crate::lifecycle::Stage;
use crate::name::RepoAddress;
use crate::policy::Hosting;
use crate::refname::RefName;
use crate::settle::Groups;
use crate::state::StateEvent;
use crate::view::{Entry, ProposalEntry};

/// A stored event and its place in life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// Which.
    pub event: EventId,
    /// Whose.
    pub author: PublicKey,
    /// When it was signed.
    pub created_at: Timestamp,
    /// Where it is.
    pub stage: Stage,
    /// When that ends by itself.
    pub deadline: Deadline,
}

/// An announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// The event.
    pub event: Versioned,
    /// Why it is there.
    pub why: AnnouncementWhy,
}

/// What an announcement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnouncementWhy {
    /// Served, and asks for a repository here (ANN-1).
    Hosted,
    /// Asks for none here; it only tells who is a maintainer (ANN-6).
    Elsewhere,
    /// Waits for a first push that a signed state allows (ANN-2).
    AwaitsPush,
    /// Waited in vain: known, without a repository, revived by a state (PUR-4, PUR-5).
    SoftExpired,
    /// It takes authority away that the served one gives: kept so that nobody gets it back (ANN-3b).
    WithdrawsAuthority,
    /// Replaced by a newer version, kept for a deletion of that (DEL-12).
    Replaced,
    /// Deleted, kept for recovery (DEL-5).
    Deleted,
}

/// A state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stated {
    /// The event.
    pub event: Versioned,
    /// How many refs it declares.
    pub refs: usize,
    /// Why it is there.
    pub why: StateWhy,
}

/// What a state does, or what keeps it from that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateWhy {
    /// It decides about the refs (REF-1).
    Wins,
    /// The winner is newer (REF-1).
    Loses,
    /// Its author is no maintainer here.
    NoSay,
    /// It wants refs at something no object can be called (KIND-3).
    Unsatisfiable {
        /// Those refs.
        refs: BTreeSet<RefName>,
    },
    /// Objects are missing: what a push brings, or the hunt.
    Lacks {
        /// The repository that lacks least.
        at: RepoAddress,
        /// What it lacks.
        missing: Missing,
        /// Of so many.
        of: usize,
        /// It would win with them.
        would_win: bool,
    },
    /// It declares no refs, and the repository is not served yet (KIND-6).
    EmptyBeforeFirstPush,
    /// Nothing is missing: the next look serves it.
    Complete,
    /// Replaced by a newer version of its author's, kept for a deletion of that (DEL-12).
    Replaced,
    /// Deleted, kept for recovery (DEL-5).
    Deleted,
}

/// A pull request, or its update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    /// The event.
    pub event: EventId,
    /// Whose.
    pub author: PublicKey,
    /// Where it is.
    pub stage: Stage,
    /// When that ends by itself.
    pub deadline: Deadline,
    /// Why it is there.
    pub why: ProposalWhy,
}

/// What a proposal does, or what keeps it from that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposalWhy {
    /// Served, with its ref in this repository (REF-3).
    Shown,
    /// Served, and its ref is elsewhere: it names no maintainer of this repository.
    ShownElsewhere,
    /// Its commit is not here.
    Lacks {
        /// That commit.
        commit: crate::oid::Oid,
    },
    /// It names something that no commit can be called.
    NoCommit,
    /// Its commit is here: the next look serves it.
    Complete,
    /// Deleted, kept for recovery (DEL-5).
    Deleted,
}

/// Reads the events of a view for one repository.
pub(super) struct Events<'a> {
    question: Question<'a>,
    confirmed: &'a BTreeSet<PublicKey>,
    winner: Option<&'a Entry<StateEvent>>,
    groups: Groups,
    /// A list was cut.
    pub(super) is_cut: bool,
}

impl<'a> Events<'a> {
    pub(super) fn new(
        question: Question<'a>,
        confirmed: &'a BTreeSet<PublicKey>,
        winner: Option<&'a Entry<StateEvent>>,
    ) -> Self {
        Self {
            groups: Groups::of(question.view, question.policy),
            question,
            confirmed,
            winner,
            is_cut: false,
        }
    }

    pub(super) fn announcements(&mut self, people: &[Person]) -> Vec<Announced> {
        let view = self.question.view;
        let owner = self.question.repo.owner;
        let own = view.announcements.get(&owner).into_iter().flatten();
        let others = people.iter().filter(|person| person.key != owner);
        let others = others.filter_map(|person| view.announcement(&person.key));
        let all = own.chain(others).map(|entry| Announced {
            event: versioned(entry),
            why: self.announcement_why(entry),
        });
        let all = all.collect();
        self.cut(all)
    }

    fn announcement_why(&self, entry: &Entry<Announcement>) -> AnnouncementWhy {
        let hosted = self.question.policy.hosting(&entry.item) == Hosting::Listed;
        match entry.stage {
            Stage::Served | Stage::Waiting if !hosted => AnnouncementWhy::Elsewhere,
            Stage::Served => AnnouncementWhy::Hosted,
            Stage::Waiting => AnnouncementWhy::AwaitsPush,
            Stage::Parked if entry.deadline.is_none() => AnnouncementWhy::WithdrawsAuthority,
            Stage::Parked => AnnouncementWhy::SoftExpired,
            Stage::Superseded => AnnouncementWhy::Replaced,
            Stage::Held => AnnouncementWhy::Deleted,
        }
    }

    pub(super) fn states(&mut self) -> Vec<Stated> {
        let mut states: Vec<_> = self.question.view.states.values().flatten().collect();
        states.sort_by_key(|entry| (is_kept(entry.stage), Reverse(entry.version())));
        let all = states.into_iter().map(|entry| Stated {
            event: versioned(entry),
            refs: entry.item.refs().len(),
            why: self.state_why(entry),
        });
        let all = all.collect();
        self.cut(all)
    }

    fn state_why(&self, entry: &Entry<StateEvent>) -> StateWhy {
        let author = entry.item.author();
        match entry.stage {
            Stage::Superseded => return StateWhy::Replaced,
            Stage::Held => return StateWhy::Deleted,
            Stage::Served | Stage::Waiting | Stage::Parked => {}
        }
        if !self.confirmed.contains(&author) {
            return StateWhy::NoSay;
        }
        if !entry.item.unsatisfiable().is_empty() {
            let refs = entry.item.unsatisfiable().clone();
            return StateWhy::Unsatisfiable { refs };
        }
        if entry.stage != Stage::Served {
            return self.lacking(entry);
        }
        if self.winner.is_some_and(|winner| winner.id() == entry.id()) {
            StateWhy::Wins
        } else {
            StateWhy::Loses
        }
    }

    /// What the repository lacks that has most of what the state names (ST-3).
    fn lacking(&self, entry: &Entry<StateEvent>) -> StateWhy {
        let (view, facts) = (self.question.view, self.question.facts);
        let author = entry.item.author();
        if entry.item.is_empty() {
            let mut owners = self.groups.authorising(&author);
            let served = owners.any(|owner| self.groups.serves(view, owner));
            return if served {
                StateWhy::Complete
            } else {
                StateWhy::EmptyBeforeFirstPush
            };
        }
        let oids = entry.item.oids();
        let lacks = |at: RepoAddress| {
            let missing = oids.iter().filter(|oid| !facts.holds(&at, oid));
            let missing: Missing = missing.copied().collect();
            (missing, at)
        };
        let own = lacks(RepoAddress::Announced(self.question.repo.clone()));
        let others = self.groups.authorising(&author);
        let others = others.map(|owner| lacks(view.repository(*owner)));
        // Of two that lack the same number, this repository.
        let (missing, at) = others.fold(own, |least, other| {
            if other.0.len() < least.0.len() {
                other
            } else {
                least
            }
        });
        if missing.is_empty() {
            return StateWhy::Complete;
        }
        let beats = |winner: &Entry<StateEvent>| entry.version() > winner.version();
        StateWhy::Lacks {
            at,
            missing,
            of: oids.len(),
            would_win: self.winner.is_none_or(beats),
        }
    }

    pub(super) fn proposals(&mut self) -> Vec<Proposed> {
        let owner = self.question.repo.owner;
        let concerns = |entry: &&ProposalEntry| {
            entry.named.contains(&owner) || !entry.named.is_disjoint(self.confirmed)
        };
        let proposals = self.question.view.proposals.values();
        let mut all: Vec<Proposed> = proposals
            .filter(concerns)
            .map(|entry| Proposed {
                event: entry.event,
                author: entry.author,
                stage: entry.stage,
                deadline: entry.deadline,
                why: self.proposal_why(entry),
            })
            .collect();
        all.sort_by_key(|proposed| match proposed.stage {
            Stage::Waiting => 0,
            Stage::Parked => 1,
            Stage::Served => 2,
            Stage::Superseded | Stage::Held => 3,
        });
        self.cut(all)
    }

    fn proposal_why(&self, entry: &ProposalEntry) -> ProposalWhy {
        let shown = !entry.named.is_disjoint(self.confirmed);
        match (entry.stage, entry.commit) {
            (Stage::Superseded | Stage::Held, _) => ProposalWhy::Deleted,
            (_, None) => ProposalWhy::NoCommit,
            (Stage::Served, _) if shown => ProposalWhy::Shown,
            (Stage::Served, _) => ProposalWhy::ShownElsewhere,
            (_, Some(commit)) if self.question.facts.holders(&commit).next().is_some() => {
                ProposalWhy::Complete
            }
            (_, Some(commit)) => ProposalWhy::Lacks { commit },
        }
    }

    fn cut<T>(&mut self, mut list: Vec<T>) -> Vec<T> {
        self.is_cut |= list.len() > VERSIONS_MAX;
        list.truncate(VERSIONS_MAX);
        list
    }
}

fn is_kept(stage: Stage) -> bool {
    matches!(stage, Stage::Superseded | Stage::Held)
}

fn versioned<T: Parsed>(entry: &Entry<T>) -> Versioned {
    let event = entry.item.verified();
    Versioned {
        event: event.id(),
        author: event.author(),
        created_at: event.created_at(),
        stage: entry.stage,
        deadline: entry.deadline,
    }
}
