//! Which repositories of a view there are, and whose states count in which.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use nostr::event::EventId;
use nostr::key::PublicKey;

use super::entry::counts;
use crate::defect::Defect;
use crate::lifecycle::Stage;
use crate::maintainers::Resolution;
use crate::policy::{Hosting, Policy};
use crate::state::StateEvent;
use crate::view::{Entry, ObjectFacts, RepoView};

/// The repositories that this service hosts, or would host again (Parked), with the confirmed set of
/// each.
#[derive(Debug)]
pub(crate) struct Groups {
    hosted: BTreeSet<EventId>,
    confirmed: BTreeMap<PublicKey, Members>,
}

/// Shared by the owners whose set it is (MNT-10).
type Members = Arc<BTreeSet<PublicKey>>;

/// The newest served state of each repository (REF-1).
pub(crate) struct Winners<'v> {
    groups: &'v Groups,
    /// By the place of the set in memory: owners that share one have one winner.
    known: BTreeMap<*const BTreeSet<PublicKey>, Option<&'v Entry<StateEvent>>>,
    /// Newest first.
    served: Vec<&'v Entry<StateEvent>>,
}

impl Groups {
    pub(crate) fn of(view: &RepoView, policy: &Policy) -> Self {
        let mut groups = Self {
            hosted: hosted(view, policy),
            confirmed: BTreeMap::new(),
        };
        groups.resolve(view, policy);
        groups
    }

    /// Reads the sets anew, after announcements moved. None may have been added.
    pub(crate) fn resolve(&mut self, view: &RepoView, policy: &Policy) {
        let hosts = |entry: &Entry<_>| counts(entry.stage) && self.hosted.contains(&entry.id());
        let owners = view
            .announcements
            .iter()
            .filter(|(_, versions)| versions.iter().any(hosts));
        let mut resolution = Resolution::of(view, policy.maintainer_rule);
        self.confirmed = owners
            .map(|(owner, _)| (*owner, resolution.confirmed(owner)))
            .collect();
    }

    /// Whether the announcement asks for a repository here.
    pub(crate) fn hosts(&self, announcement: &EventId) -> bool {
        self.hosted.contains(announcement)
    }

    /// Everybody who has, or would have again, a repository here.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &PublicKey> {
        self.confirmed.keys()
    }

    /// Owners who share one confirmed set, with that set; the owners ascending, and the first of each group so
    /// too.
    pub(crate) fn shared(&self) -> Vec<(Vec<PublicKey>, &BTreeSet<PublicKey>)> {
        let mut places: BTreeMap<*const BTreeSet<PublicKey>, usize> = BTreeMap::new();
        let mut shared: Vec<(Vec<PublicKey>, &BTreeSet<PublicKey>)> = Vec::new();
        for (owner, set) in &self.confirmed {
            let place = *places.entry(Arc::as_ptr(set)).or_insert(shared.len());
            match shared.get_mut(place) {
                Some((owners, _)) => owners.push(*owner),
                None => shared.push((vec![*owner], set)),
            }
        }
        shared
    }

    /// Whether the states of `author` count in `owner`'s repository.
    pub(crate) fn counts(&self, owner: &PublicKey, author: &PublicKey) -> bool {
        self.confirmed
            .get(owner)
            .is_some_and(|set| set.contains(author))
    }

    /// Owners whose repository the states of `author` count in (ST-1).
    pub(crate) fn authorising(&self, author: &PublicKey) -> impl Iterator<Item = &PublicKey> {
        self.confirmed
            .iter()
            .filter(|(_, set)| set.contains(author))
            .map(|(owner, _)| owner)
    }

    /// Whether the states of `author` count in any repository.
    pub(crate) fn authorises(&self, author: &PublicKey) -> bool {
        self.authorising(author).next().is_some()
    }

    /// Whether `owner` has a repository here that clients may see announced.
    pub(crate) fn serves(&self, view: &RepoView, owner: &PublicKey) -> bool {
        let versions = view.announcements.get(owner).into_iter().flatten();
        versions
            .filter(|entry| entry.stage == Stage::Served)
            .any(|entry| self.hosts(&entry.id()))
    }

    /// The winners of all repositories, to be asked for one after the other.
    pub(crate) fn winners<'v>(&'v self, view: &'v RepoView) -> Winners<'v> {
        let mut served: Vec<_> = view.states_in(Stage::Served).collect();
        served.sort_by_key(|entry| Reverse(entry.version()));
        Winners {
            groups: self,
            known: BTreeMap::new(),
            served,
        }
    }

    /// Whether one of the repositories in which the state counts holds all that it names (ST-3). An
    /// empty state needs no objects, and so a repository that is served already (KIND-6).
    pub(crate) fn is_complete(
        &self,
        view: &RepoView,
        state: &StateEvent,
        authorising: &[PublicKey],
        facts: &ObjectFacts,
    ) -> bool {
        let here = |owner: &PublicKey| {
            if state.is_empty() {
                self.serves(view, owner)
            } else {
                facts.holds_all(&view.repository(*owner), state.refs().values())
                    || Defect::IncompletePromotion.is_on()
            }
        };
        state.unsatisfiable().is_empty() && authorising.iter().any(here)
    }

    /// Owners whose repository shows the proposals that name one of `named` (PR-2).
    pub(crate) fn targets(&self, named: &BTreeSet<PublicKey>) -> Vec<PublicKey> {
        let mut known: BTreeMap<*const BTreeSet<PublicKey>, bool> = BTreeMap::new();
        let mut shows = |set: &Members| {
            let shows = known.entry(Arc::as_ptr(set));
            *shows.or_insert_with(|| named.iter().any(|key| set.contains(key)))
        };
        self.confirmed
            .iter()
            .filter(|(_, set)| shows(set))
            .map(|(owner, _)| *owner)
            .collect()
    }
}

impl<'v> Winners<'v> {
    /// The newest served state of `owner`'s confirmed set (REF-1).
    pub(crate) fn of(&mut self, owner: &PublicKey) -> Option<&'v Entry<StateEvent>> {
        let set = self.groups.confirmed.get(owner)?;
        let served = &self.served;
        let counts = |entry: &&&Entry<StateEvent>| set.contains(&entry.item.author());
        let winner = self.known.entry(Arc::as_ptr(set));
        *winner.or_insert_with(|| served.iter().find(counts).copied())
    }
}

fn hosted(view: &RepoView, policy: &Policy) -> BTreeSet<EventId> {
    let entries = view.announcements.values().flatten();
    entries
        .filter(|entry| counts(entry.stage))
        .filter(|entry| policy.hosting(&entry.item) == Hosting::Listed)
        .map(Entry::id)
        .collect()
}

/// Who is the owner of a repository here, or is listed by one who is supported (ANN-6), over the
/// announcements whose stage passes. `except` supports nobody by a repository of their own.
pub(crate) fn supported(
    view: &RepoView,
    groups: &Groups,
    passes: impl Fn(Stage) -> bool,
    except: Option<&PublicKey>,
) -> BTreeSet<PublicKey> {
    let hosts = |entry: &Entry<_>| passes(entry.stage) && groups.hosts(&entry.id());
    let mut queue: VecDeque<PublicKey> = view
        .announcements
        .iter()
        .filter(|(owner, versions)| Some(*owner) != except && versions.iter().any(hosts))
        .map(|(owner, _)| *owner)
        .collect();
    let mut found: BTreeSet<PublicKey> = queue.iter().copied().collect();
    while let Some(owner) = queue.pop_front() {
        let versions = view.announcements.get(&owner).into_iter().flatten();
        let listed = versions
            .filter(|entry| passes(entry.stage))
            .flat_map(|entry| entry.item.listing().active());
        queue.extend(listed.filter(|key| found.insert(**key)));
    }
    found
}
