//! Why a repository looks as it does: who counts, which state wins, what waits and for what.
//!
//! For operators who are asked "why is my push refused?". It decides nothing: it reads the same view with the same
//! rules as the decisions do, and says which of them applied. *Invariant:* what is named as a member is exactly the
//! confirmed set, what is named as the winner exactly `refplan`'s.

mod events;
mod people;
mod refs;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::lifecycle::{Archive, UploadRecord};
use crate::name::{Coordinate, RepoAddress};
use crate::oid::Oid;
use crate::policy::Policy;
use crate::refname::RefName;
use crate::refplan::Planner;
use crate::view::{ObjectFacts, RepoView};

pub use events::{Announced, AnnouncementWhy, ProposalWhy, Proposed, StateWhy, Stated, Versioned};
pub use people::{Membership, NoRoot, Outside, Person};
pub use refs::{Condition, Difference, RefsSeen, between, refs_seen};

/// Of the versions of one sort so many are told, those that count first.
pub const VERSIONS_MAX: usize = 100;

/// What an explanation is made from.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Which repository.
    pub repo: &'a Coordinate,
    /// Its identifier as seen from its owner, with what was replaced and deleted.
    pub view: &'a RepoView,
    /// What is complete where, of everything that the view's events name.
    pub facts: &'a ObjectFacts,
    /// The refs on the disk and what HEAD names; `None` without a directory.
    pub shown: Option<Shown<'a>>,
    /// Its copy in the archive.
    pub archive: Option<Archive>,
    /// The operator's settings.
    pub policy: &'a Policy,
}

/// Refs, and what HEAD names.
pub type Shown<'a> = (&'a BTreeMap<RefName, Oid>, &'a RefName);

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Which repository.
    pub repo: Coordinate,
    /// Where the maintainers of the repository begin (MNT-6), or why nobody is one.
    pub root: Result<PublicKey, NoRoot>,
    /// Everybody who is a maintainer or is named as one, or names themselves so; members first.
    pub people: Vec<Person>,
    /// Versions of the owner's announcement, and the one that counts of everybody in `people`.
    pub announcements: Vec<Announced>,
    /// States, newest first.
    pub states: Vec<Stated>,
    /// Pull requests that name the repository or its maintainers, those that wait first.
    pub proposals: Vec<Proposed>,
    /// Commits pushed for an event that has not come.
    pub uploads: Vec<UploadRecord>,
    /// Directory, refs and HEAD.
    pub refs: RefsSeen,
    /// Its copy in the archive, if its scope left.
    pub archive: Option<Archive>,
    /// The list of versions of some sort was cut at [`VERSIONS_MAX`].
    pub is_cut: bool,
}

/// An object that something waits for.
pub type Missing = BTreeSet<Oid>;

/// When a stage ends by itself.
pub type Deadline = Option<Timestamp>;

/// Explains one repository.
pub fn explain(question: Question<'_>) -> Explanation {
    let Question { repo, view, .. } = question;
    let address = RepoAddress::Announced(repo.clone());
    let mut planner = Planner::new(view, question.policy);
    let confirmed = planner.maintainers(&address);
    let winner = planner.winner(&address);
    let desired = planner.desired(&address);
    let (root, people) = people::explain(question, &confirmed);
    let mut events = events::Events::new(question, &confirmed, winner);
    let announcements = events.announcements(&people);
    let states = events.states();
    let proposals = events.proposals();
    let uploads = view.uploads.iter();
    let uploads = uploads.filter(|upload| upload.repository.coordinate() == repo);
    Explanation {
        repo: repo.clone(),
        root,
        people,
        announcements,
        states,
        proposals,
        uploads: uploads.take(VERSIONS_MAX).cloned().collect(),
        refs: refs::compare(&address, desired, question.facts, question.shown),
        archive: question.archive,
        is_cut: events.is_cut,
    }
}
