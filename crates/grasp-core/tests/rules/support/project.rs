//! One project as it grows: announcements, states and proposals of [`REPO`], and views of them.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::announcement::Announcement;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::{Stage, UploadRecord};
use grasp_core::name::{Coordinate, Identifier, RepoAddress};
use grasp_core::oid::Oid;
use grasp_core::proposal::Proposal;
use grasp_core::refname::RefName;
use grasp_core::state::StateEvent;
use grasp_core::view::{Entry, ProposalEntry, RepoView};
use grasp_core::{EventId, PublicKey, Timestamp};

use super::{NOW, REPO, draft};

/// A tag as a list of texts.
pub type RawTag = Vec<String>;

/// `tag(["d", "x"])`.
pub fn tag<S: Into<String>>(parts: impl IntoIterator<Item = S>) -> RawTag {
    parts.into_iter().map(Into::into).collect()
}

/// A ref name known to be valid.
pub fn refname(text: &str) -> RefName {
    text.parse().expect("a valid ref name")
}

/// The identifier of all tests that need only one.
pub fn project() -> Identifier {
    REPO.parse().expect("a valid identifier")
}

/// `owner`'s repository of [`project`].
pub fn repo(owner: PublicKey) -> RepoAddress {
    RepoAddress::Announced(Coordinate::new(owner, project()))
}

/// `submitter`'s `/prs/` repository of [`project`].
pub fn prs_repo(submitter: PublicKey) -> RepoAddress {
    RepoAddress::Proposals(Coordinate::new(submitter, project()))
}

/// An event with these tags.
pub fn event(author: PublicKey, kind: u16, at: u64, tags: Vec<RawTag>) -> VerifiedEvent {
    let draft = draft(kind, author).at(at);
    tags.into_iter().fold(draft, super::Draft::tag).event()
}

/// An announcement of [`project`] here, with further tags.
pub fn announcement(owner: PublicKey, at: u64, more: Vec<RawTag>) -> Announcement {
    let draft = super::announcement(owner).at(at);
    more.into_iter()
        .fold(draft, super::Draft::tag)
        .announcement()
}

/// An announcement of [`project`] that lives on other servers only.
pub fn announcement_elsewhere(owner: PublicKey, at: u64, more: Vec<RawTag>) -> Announcement {
    let tags = [tag(["d", REPO])].into_iter().chain(more).collect();
    Announcement::parse(event(owner, kind::ANNOUNCEMENT, at, tags)).expect("an announcement")
}

/// The legacy `maintainers` tag.
pub fn maintainers(keys: &[PublicKey]) -> RawTag {
    tag(["maintainers".to_owned()]
        .into_iter()
        .chain(keys.iter().map(PublicKey::to_hex)))
}

/// A role tag `[role, key, boundaries …]`.
pub fn role(role: &str, key: PublicKey, boundaries: &[&str]) -> RawTag {
    tag([role.to_owned(), key.to_hex()]
        .into_iter()
        .chain(boundaries.iter().map(|text| (*text).to_owned())))
}

/// A state of [`project`] with these refs; `("HEAD", "ref: …")` works too.
pub fn state(author: PublicKey, at: u64, refs: &[(&str, &str)]) -> StateEvent {
    let tags = refs.iter().map(|(name, value)| tag([*name, *value]));
    let tags = [tag(["d", REPO])].into_iter().chain(tags).collect();
    StateEvent::parse(event(author, kind::STATE, at, tags)).expect("a state")
}

/// A state of [`project`] from typed refs.
pub fn state_of(author: PublicKey, at: u64, refs: &BTreeMap<RefName, Oid>) -> StateEvent {
    let refs: Vec<_> = refs
        .iter()
        .map(|(name, oid)| (name.as_str().to_owned(), oid.to_string()))
        .collect();
    let refs: Vec<_> = refs
        .iter()
        .map(|(name, oid)| (name.as_str(), oid.as_str()))
        .collect();
    state(author, at, &refs)
}

/// A pull request with tip `commit` to the repositories of `owners`.
pub fn proposal(author: PublicKey, at: u64, commit: &str, owners: &[PublicKey]) -> Proposal {
    let targets = owners
        .iter()
        .map(|owner| tag(["a".to_owned(), repo(*owner).coordinate().address()]));
    let tags = [tag(["c", commit])].into_iter().chain(targets).collect();
    Proposal::parse(event(author, kind::PULL_REQUEST, at, tags)).expect("a pull request")
}

/// An upload record of one hour from [`NOW`] on.
pub fn upload(event: EventId, commit: Oid, repository: RepoAddress) -> UploadRecord {
    UploadRecord {
        event,
        commit,
        repository,
        bytes: 1,
        deadline: Timestamp::from_secs(NOW + 3600),
    }
}

/// A view that grows by what is put into it.
#[derive(Debug, Clone)]
pub struct ViewBuilder(RepoView);

/// A view of [`project`] with nothing in it.
pub fn view() -> ViewBuilder {
    ViewBuilder(RepoView::empty(project()))
}

impl ViewBuilder {
    /// Adds a version of an announcement.
    pub fn announced(mut self, item: Announcement, stage: Stage) -> Self {
        let entries = self.0.announcements.entry(item.owner()).or_default();
        entries.push(entry(item, stage));
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.item.version()));
        self
    }

    /// Adds a state.
    pub fn stated(mut self, item: StateEvent, stage: Stage) -> Self {
        let entries = self.0.states.entry(item.author()).or_default();
        entries.push(entry(item, stage));
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.item.version()));
        self
    }

    /// Adds a proposal.
    pub fn proposed(mut self, item: &Proposal, stage: Stage) -> Self {
        let here = item.targets().iter();
        let here = here.filter(|target| target.identifier == self.0.identifier);
        let entry = ProposalEntry {
            event: item.id(),
            author: item.author(),
            commit: item.tip().commit(),
            named: here.map(|target| target.owner).collect::<BTreeSet<_>>(),
            expiration: item.event().expiration(),
            stage,
            deadline: deadline_of(stage),
        };
        self.0.proposals.insert(item.id(), entry);
        self
    }

    /// Adds an upload record.
    pub fn uploaded(mut self, record: UploadRecord) -> Self {
        self.0.uploads.push(record);
        self
    }

    /// Gives a proposal its ref in a `/prs/` repository.
    pub fn placed(mut self, event: EventId, repository: RepoAddress) -> Self {
        self.0
            .placements
            .entry(event)
            .or_default()
            .insert(repository);
        self
    }

    /// The view.
    pub fn build(self) -> RepoView {
        self.0
    }
}

fn entry<T>(item: T, stage: Stage) -> Entry<T> {
    Entry {
        item,
        stage,
        deadline: deadline_of(stage),
    }
}

fn deadline_of(stage: Stage) -> Option<Timestamp> {
    (stage == Stage::Waiting).then(|| Timestamp::from_secs(NOW + 60))
}
