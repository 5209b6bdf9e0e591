//! Which git data is owed, and where it may be (G2-2, G2-3, HUNT-5, HUNT-6).
//!
//! Events come before their objects, or from other servers without them. This room says, of one view, which objects
//! are wanted, for whose repository, and whom to ask. *Invariant:* what is asked of an address that somebody
//! named is only what that somebody's word counts for: a stranger's address is never asked for others' objects.

mod evidence;
mod group;
mod owed;
mod sources;
mod submitted;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::clone_url::CloneUrl;
use crate::name::RepoAddress;
use crate::oid::Oid;
use crate::policy::Policy;
use crate::state::StateEvent;
use crate::view::{ObjectFacts, RepoView};

/// At most so many objects of one group are wanted at a time; more than one state can name. The rest is wanted once these are
/// here.
pub const WANTS_MAX: usize = 4096;
/// At most so many addresses of one group are asked.
pub const SOURCES_MAX: usize = 200;

/// Those whose objects are looked for together (HUNT-5a).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
    /// The maintainers of repositories that share one confirmed set; of their owners the lowest key.
    Maintainers(PublicKey),
    /// The author of proposals to such repositories, whose own addresses are asked for their own commits only: anybody may
    /// make a proposal.
    Proposer {
        /// As in [`Self::Maintainers`].
        to: PublicKey,
        /// Who signed the proposals.
        author: PublicKey,
    },
    /// The author of proposals that no repository here shows but the author's own below `/prs/` (G6-4).
    Submitter(PublicKey),
}

impl GroupKey {
    /// The owner that stands for those whose repositories are filled.
    pub fn owner(&self) -> PublicKey {
        match self {
            Self::Maintainers(owner)
            | Self::Proposer { to: owner, .. }
            | Self::Submitter(owner) => *owner,
        }
    }

    /// Whose repositories are filled: what comes for one group is there for all with the same answer.
    #[must_use]
    pub fn beneficiaries(&self) -> Self {
        match self {
            Self::Proposer { to, .. } => Self::Maintainers(*to),
            Self::Maintainers(_) | Self::Submitter(_) => *self,
        }
    }
}

/// What one group is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOwed {
    /// Who.
    pub group: GroupKey,
    /// Where what is found goes: of the group's repositories the one that lacks the least.
    pub into: RepoAddress,
    /// Whether one of its repositories is served. Strangers that announce the same identifier cannot push such a
    /// group aside.
    pub is_served: bool,
    /// What waiting events lack, the newest state first, its branches before its tags; then proposals. Each once, bounded.
    pub wants: Vec<Oid>,
    /// What is owed besides and can wait: what parked events lack (G2-4), and served ones (REF-8).
    pub parked: Vec<Oid>,
    /// Whom to ask, the likeliest first; each once, bounded, never ourselves (HUNT-6, ANN-8).
    pub sources: Vec<CloneUrl>,
}

/// What is owed of one identifier. Groups that lack nothing, or have nobody to ask, are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owed {
    /// By group.
    pub groups: Vec<GroupOwed>,
}

impl Owed {
    /// Whether nothing is owed.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// What [`owed`] has to know of a view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sought {
    /// Objects of any kind that states name: whether they are complete, and in which of the view's repositories.
    pub objects: BTreeSet<Oid>,
    /// The same of commits that proposals name.
    pub commits: BTreeSet<Oid>,
    /// Proposals whose `clone` tags may be of use.
    pub proposals: BTreeSet<EventId>,
    /// Repositories below `/prs/` that may have some of it already, besides those that the view speaks of.
    pub submitters: BTreeSet<RepoAddress>,
}

/// The `clone` tags of proposals, as written; of each a few are asked (ANN-8).
#[derive(Debug, Clone)]
pub struct ProposalUrls {
    max: usize,
    of: BTreeMap<EventId, Vec<String>>,
}

impl ProposalUrls {
    /// None yet. Of each proposal the first `max` will count.
    pub fn new(max: usize) -> Self {
        let of = BTreeMap::new();
        Self { max, of }
    }

    /// What a proposal says.
    pub fn add(&mut self, proposal: EventId, urls: impl IntoIterator<Item = String>) {
        self.of.insert(proposal, urls.into_iter().collect());
    }

    /// Those that a proposal names, whether they count or not.
    fn named(&self, proposal: &EventId) -> &[String] {
        self.of.get(proposal).map_or(&[], Vec::as_slice)
    }

    /// Those of them that count.
    fn counting(&self, proposal: &EventId) -> &[String] {
        let named = self.named(proposal);
        &named[..named.len().min(self.max)]
    }
}

/// What has to be found out before [`owed`] is asked.
pub fn sought(view: &RepoView, policy: &Policy) -> Sought {
    owed::sought(view, policy)
}

/// What the repositories of a view are owed, and by whom it may be had. The groups of maintainers come first, those with a
/// served repository before the others; those that only `/prs/` concerns come last.
pub fn owed(view: &RepoView, facts: &ObjectFacts, urls: &ProposalUrls, policy: &Policy) -> Owed {
    owed::owed(view, facts, urls, policy)
}

/// Where it may be seen that a state which expired here has its data by now: whom to ask, if it is the newest one of
/// those whose states count (PUR-14); else nobody.
pub fn evidence(state: &StateEvent, view: &RepoView, policy: &Policy) -> Vec<CloneUrl> {
    evidence::sources(state, view, policy)
}

/// The repositories whose objects a fetch for this group may build on, and that take from each other: those of its owners and
/// of its maintainers.
pub fn relatives(group: &GroupKey, view: &RepoView, policy: &Policy) -> Vec<RepoAddress> {
    group::relatives(group, view, policy)
}
