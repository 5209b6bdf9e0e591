//! Everything a decision about a repository needs to see, gathered from one snapshot.

use std::collections::{BTreeMap, BTreeSet};

use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::announcement::Announcement;
use crate::event::{Parsed, Version};
use crate::lifecycle::{Archive, Stage, UploadRecord};
use crate::name::{Coordinate, Identifier, RepoAddress};
use crate::oid::Oid;
use crate::policy::Policy;
use crate::proposal::Proposal;
use crate::state::StateEvent;

/// At most so many announcements of one identifier join a resolution, the seeds' own first (MNT-10).
pub const ANNOUNCEMENTS_MAX: usize = 1000;

/// A stored thing with its place in life.
#[derive(Debug, Clone)]
pub struct Entry<T> {
    /// The thing.
    pub item: T,
    /// Its stage.
    pub stage: Stage,
    /// When the stage ends by itself.
    pub deadline: Option<Timestamp>,
}

impl<T: Parsed> Entry<T> {
    /// The id of its event.
    pub fn id(&self) -> EventId {
        self.item.verified().id()
    }

    /// Its place among versions.
    pub fn version(&self) -> Version {
        self.item.verified().version()
    }
}

/// What is known of a proposal without its whole event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposalEntry {
    /// The proposal.
    pub event: EventId,
    /// Who signed it.
    pub author: PublicKey,
    /// Its `c`; `None` if no object can have that name.
    pub commit: Option<Oid>,
    /// The owners that its `a` tags name for this view's identifier.
    pub named: BTreeSet<PublicKey>,
    /// NIP-40: when it stops to be shown, once it is.
    pub expiration: Option<Timestamp>,
    /// Its stage.
    pub stage: Stage,
    /// When the stage ends by itself.
    pub deadline: Option<Timestamp>,
}

impl ProposalEntry {
    /// What a view of `identifier` keeps of a proposal.
    pub fn of(
        proposal: &Proposal,
        identifier: &Identifier,
        stage: Stage,
        deadline: Option<Timestamp>,
    ) -> Self {
        let targets = proposal.targets().iter();
        let here = targets.filter(|target| target.identifier == *identifier);
        Self {
            event: proposal.id(),
            author: proposal.author(),
            commit: proposal.tip().commit(),
            named: here.map(|target| target.owner).collect(),
            expiration: proposal.event().expiration(),
            stage,
            deadline,
        }
    }
}

/// One identifier as seen from some keys: every announcement that the keys reach by listing or being
/// listed, with the states of their owners and listed keys, the proposals to them, and the uploads.
/// Strangers' repositories of the same identifier are not in it (MNT-10).
#[derive(Debug, Clone)]
pub struct RepoView {
    /// The identifier that all of it shares.
    pub identifier: Identifier,
    /// By owner: every kept version, any stage, newest version first.
    pub announcements: BTreeMap<PublicKey, Vec<Entry<Announcement>>>,
    /// By author: every kept version, any stage, newest version first.
    pub states: BTreeMap<PublicKey, Vec<Entry<StateEvent>>>,
    /// Proposals in any stage whose `a` names an owner of this view, by id.
    pub proposals: BTreeMap<EventId, ProposalEntry>,
    /// Uploads without an event into repositories of this view, `/prs/` included.
    pub uploads: Vec<UploadRecord>,
    /// `/prs/` repositories that a proposal of this view has its ref in (REF-6), by proposal.
    pub placements: BTreeMap<EventId, BTreeSet<RepoAddress>>,
    /// What the archive has of the owners' repositories (DEL-5).
    pub archives: BTreeMap<PublicKey, Archive>,
    /// Held events of this view that a request of their author gates (DEL-1, DEL-8). Ask
    /// [`Self::is_kept_away`].
    pub gated: BTreeSet<EventId>,
}

impl RepoView {
    /// A view without anything in it.
    pub fn empty(identifier: Identifier) -> Self {
        Self {
            identifier,
            announcements: BTreeMap::new(),
            states: BTreeMap::new(),
            proposals: BTreeMap::new(),
            uploads: Vec::new(),
            placements: BTreeMap::new(),
            archives: BTreeMap::new(),
            gated: BTreeSet::new(),
        }
    }

    /// Adds what another view of the same identifier holds.
    pub fn merge(&mut self, other: Self) {
        self.announcements.extend(other.announcements);
        self.states.extend(other.states);
        self.proposals.extend(other.proposals);
        self.archives.extend(other.archives);
        self.gated.extend(other.gated);
        for upload in other.uploads {
            if !self.uploads.contains(&upload) {
                self.uploads.push(upload);
            }
        }
        for (event, repositories) in other.placements {
            self.placements
                .entry(event)
                .or_default()
                .extend(repositories);
        }
    }

    /// The newest announcement of `owner` that counts for maintainer sets: Served, Waiting or Parked (§4).
    pub fn announcement(&self, owner: &PublicKey) -> Option<&Entry<Announcement>> {
        let counts = |entry: &&Entry<Announcement>| {
            matches!(entry.stage, Stage::Served | Stage::Waiting | Stage::Parked)
        };
        self.announcements
            .get(owner)?
            .iter()
            .filter(counts)
            .max_by_key(|entry| entry.item.version())
    }

    /// The announcement of `owner` in one stage; of several the newest.
    pub fn announcement_in(&self, owner: &PublicKey, stage: Stage) -> Option<&Entry<Announcement>> {
        self.announcements
            .get(owner)?
            .iter()
            .filter(|entry| entry.stage == stage)
            .max_by_key(|entry| entry.item.version())
    }

    /// All states in one stage.
    pub fn states_in(&self, stage: Stage) -> impl Iterator<Item = &Entry<StateEvent>> {
        self.states
            .values()
            .flatten()
            .filter(move |entry| entry.stage == stage)
    }

    /// The stage of an event, if the view has it.
    pub fn stage(&self, event: &EventId) -> Option<Stage> {
        let announcements = self.announcements.values().flatten();
        let states = self.states.values().flatten();
        announcements
            .map(|entry| (entry.item.id(), entry.stage))
            .chain(states.map(|entry| (entry.item.id(), entry.stage)))
            .find(|(id, _)| id == event)
            .map(|(_, stage)| stage)
            .or_else(|| self.proposals.get(event).map(|entry| entry.stage))
    }

    /// Whether a request of its author keeps a held event where it is. Where requests are not respected none
    /// does (DEL-10).
    pub fn is_kept_away(&self, event: &EventId, policy: &Policy) -> bool {
        policy.requests.respected && self.gated.contains(event)
    }

    /// The repository of `owner` for this identifier.
    pub fn repository(&self, owner: PublicKey) -> RepoAddress {
        RepoAddress::Announced(Coordinate::new(owner, self.identifier.clone()))
    }

    /// The `/prs/` repository of `submitter` for this identifier.
    pub fn submissions(&self, submitter: PublicKey) -> RepoAddress {
        RepoAddress::Proposals(Coordinate::new(submitter, self.identifier.clone()))
    }
}

/// Which objects are complete where, measured under a lease that is still held (ST-7).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectFacts {
    complete: BTreeMap<RepoAddress, BTreeSet<Oid>>,
    /// What would be complete there with what the archive has of it.
    archived: BTreeMap<RepoAddress, BTreeSet<Oid>>,
}

impl ObjectFacts {
    /// Nothing is known to be anywhere.
    pub fn none() -> Self {
        Self::default()
    }

    /// Records that `repository` holds `oid` with everything it needs.
    pub fn add(&mut self, repository: RepoAddress, oid: Oid) {
        self.complete.entry(repository).or_default().insert(oid);
    }

    /// Records that `repository` would hold `oid` with everything it needs if its archive came back.
    pub fn add_archived(&mut self, repository: RepoAddress, oid: Oid) {
        self.archived.entry(repository).or_default().insert(oid);
    }

    /// As if the archives had come back.
    #[must_use]
    pub fn with_archives(&self) -> Self {
        let mut facts = self.clone();
        for (repository, oids) in std::mem::take(&mut facts.archived) {
            facts.complete.entry(repository).or_default().extend(oids);
        }
        facts
    }

    /// Adds what others found.
    pub fn extend(&mut self, other: Self) {
        for (repository, oids) in other.complete {
            self.complete.entry(repository).or_default().extend(oids);
        }
        for (repository, oids) in other.archived {
            self.archived.entry(repository).or_default().extend(oids);
        }
    }

    /// Whether `repository` holds `oid` with everything it needs.
    pub fn holds(&self, repository: &RepoAddress, oid: &Oid) -> bool {
        self.complete
            .get(repository)
            .is_some_and(|oids| oids.contains(oid))
    }

    /// The repositories that hold `oid` with everything it needs.
    pub fn holders<'a>(&'a self, oid: &'a Oid) -> impl Iterator<Item = &'a RepoAddress> {
        let holding = self.complete.iter().filter(|(_, oids)| oids.contains(oid));
        holding.map(|(repository, _)| repository)
    }

    /// Whether `repository` holds all of `oids`.
    pub fn holds_all<'a>(
        &self,
        repository: &RepoAddress,
        oids: impl IntoIterator<Item = &'a Oid>,
    ) -> bool {
        oids.into_iter().all(|oid| self.holds(repository, oid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::project::{
        announcement, project, proposal, prs_repo, repo, state, upload, view,
    };
    use crate::testing::{NOW, at, key, oid};

    /// MNT-10: what is gathered from several keys is one view.
    #[test]
    fn a_view_takes_in_all_that_another_holds() {
        let commit = oid(1).to_string();
        let [ours, theirs] = [1, 2].map(|n| {
            let asked = proposal(key(5), n.into(), &commit, &[key(n)]);
            let mut view = view()
                .announced(announcement(key(n), 1, vec![]), Stage::Served)
                .stated(state(key(n), 1, &[]), Stage::Served)
                .proposed(&asked, Stage::Served)
                .uploaded(upload(asked.id(), oid(1), repo(key(n))))
                .uploaded(upload(asked.id(), oid(1), prs_repo(key(5))))
                .placed(asked.id(), prs_repo(key(5)))
                .build();
            let archive = Archive {
                since: at(NOW),
                until: at(NOW + 1),
                returns: false,
            };
            view.archives.insert(key(n), archive);
            view.gated.insert(asked.id());
            view
        });
        let mut both = ours.clone();
        both.merge(theirs.clone());
        both.merge(theirs);
        let keys = [key(1), key(2)];
        assert!(both.announcements.keys().eq(&keys) && both.states.keys().eq(&keys));
        assert!(both.archives.keys().eq(&keys));
        assert_eq!((both.proposals.len(), both.gated.len()), (2, 2));
        assert_eq!((both.uploads.len(), both.placements.len()), (4, 2), "once");
    }

    /// REF-6: one proposal may have places that different views know of.
    #[test]
    fn places_of_one_proposal_add_up() {
        let asked = proposal(key(5), 1, &oid(1).to_string(), &[key(1)]);
        let [mut one, two] = [5, 6].map(|n| view().placed(asked.id(), prs_repo(key(n))).build());
        one.merge(two);
        let places = BTreeSet::from([prs_repo(key(5)), prs_repo(key(6))]);
        assert_eq!(one.placements[&asked.id()], places);
    }

    /// ST-7: an object counts in the repository that has it, and in no other.
    #[test]
    fn objects_count_where_they_are() {
        let (here, there) = (repo(key(1)), repo(key(2)));
        let mut facts = ObjectFacts::none();
        facts.add(here.clone(), oid(1));
        facts.add(here.clone(), oid(2));
        facts.add(there.clone(), oid(2));
        facts.add_archived(there.clone(), oid(1));
        assert!(facts.holds(&here, &oid(1)) && !facts.holds(&there, &oid(1)));
        assert!(facts.holds_all(&here, &[oid(1), oid(2)]));
        assert!(!facts.holds_all(&there, &[oid(1), oid(2)]));
        assert!(facts.holders(&oid(1)).eq([&here]));
        assert!(facts.holders(&oid(2)).eq([&here, &there]));
        assert!(facts.with_archives().holds_all(&there, &[oid(1), oid(2)]));
        let mut more = ObjectFacts::none();
        more.extend(facts.clone());
        assert_eq!(more, facts);
    }

    /// §4: of several versions the newest that counts, whatever their order.
    #[test]
    fn the_newest_announcement_that_counts_is_found() {
        let [old, new, gone] = [10, 20, 30].map(|at| announcement(key(1), at, vec![]));
        let seen = view()
            .announced(old.clone(), Stage::Served)
            .announced(new.clone(), Stage::Parked)
            .announced(gone.clone(), Stage::Superseded)
            .build();
        let id = |entry: Option<&Entry<Announcement>>| entry.map(Entry::id);
        assert_eq!(id(seen.announcement(&key(1))), Some(new.id()));
        assert_eq!(id(seen.announcement(&key(2))), None);
        let of = |stage| id(seen.announcement_in(&key(1), stage));
        assert_eq!(of(Stage::Served), Some(old.id()));
        assert_eq!(of(Stage::Waiting), None);
        assert_eq!(seen.stage(&gone.id()), Some(Stage::Superseded));
        let other = state(key(1), 1, &[]);
        assert_eq!(seen.stage(&other.id()), None);
        assert_eq!(seen.repository(key(1)), repo(key(1)));
        assert_eq!(seen.identifier, project());
    }
}
