//! What we want: which repositories and roots to follow, and on which relays.
//!
//! The index answers one question for the rest of the engine: after this event, what is wanted of which relay
//! that was not before, and what no longer. It looks only at what the event touches. *Invariant:* summed up,
//! the answers are what [`derive_relay_targets`](super::actions::derive_relay_targets) reads from the whole index.

use std::collections::BTreeSet;

use grasp_core::EventId;
use grasp_core::name::Coordinate;

use super::number::{Register, RelayId, RepoId, RootId};

/// How much of a repository is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum SyncLevel {
    /// Its states, no more: it is in purgatory, and a state is what could release it (SYNC-34).
    #[default]
    StateOnly,
    /// Everything that refers to it or to its roots.
    Full,
}

/// What is wanted of one repository.
#[derive(Debug, Clone, Default)]
pub struct RepoSyncNeeds {
    /// The relays that its announcement lists. Empty while only roots are known that refer to it.
    pub relays: BTreeSet<RelayId>,
    /// Patches, pull requests, their updates and issues that refer to it.
    pub root_events: BTreeSet<RootId>,
    /// How much.
    pub level: SyncLevel,
}

impl RepoSyncNeeds {
    /// How much of it is wanted from `relay`.
    fn wanted_from(&self, relay: RelayId) -> Option<SyncLevel> {
        self.relays.contains(&relay).then_some(self.level)
    }
}

/// The repositories that a root refers to: nearly always one, and then without an allocation of its own.
#[derive(Debug)]
enum Homes {
    One(RepoId),
    Several(Box<[RepoId]>),
}

impl Homes {
    fn add(&mut self, repo: RepoId) {
        match self {
            Self::One(home) if *home == repo => {}
            Self::One(home) => *self = Self::Several(Box::new([*home, repo])),
            Self::Several(homes) if homes.contains(&repo) => {}
            Self::Several(homes) => *homes = homes.iter().copied().chain([repo]).collect(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = RepoId> {
        let (one, several) = match self {
            Self::One(home) => (Some(*home), None),
            Self::Several(homes) => (None, Some(homes)),
        };
        one.into_iter()
            .chain(several.into_iter().flat_map(|homes| homes.iter().copied()))
    }
}

/// What can be wanted of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// What refers to a repository.
    Repo(RepoId),
    /// What refers to a root.
    Root(RootId),
}

/// How a relay's targets changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Wanted from now on. It may have been before, through another repository.
    Added,
    /// More of it is wanted than before.
    Raised,
    /// Less of it is wanted than before.
    Lowered,
    /// No longer wanted.
    Removed,
}

/// One change of one relay's targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TargetChange {
    pub(super) relay: RelayId,
    pub(super) item: Item,
    pub(super) change: Change,
}

/// What we want, by coordinate.
#[derive(Debug)]
pub struct RepoSyncIndex {
    repos: Register<Coordinate, RepoId, RepoSyncNeeds>,
    roots: Register<EventId, RootId, Homes>,
}

impl RepoSyncIndex {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            repos: Register::new(seed),
            roots: Register::new(seed),
        }
    }

    /// An announcement was accepted, or moved between purgatory and being served. Its relays **replace** those of
    /// the one before (SYNC-10).
    pub(super) fn announce(
        &mut self,
        coordinate: Coordinate,
        relays: BTreeSet<RelayId>,
        level: SyncLevel,
    ) -> Vec<TargetChange> {
        let repo = self
            .repos
            .number_or_insert(coordinate, RepoSyncNeeds::default);
        self.replace(repo, relays, level)
    }

    /// The announcement went away. Roots that refer to the repository stay until they go themselves.
    pub(super) fn withdraw(&mut self, coordinate: &Coordinate) -> Vec<TargetChange> {
        let Some(repo) = self.repos.number(coordinate) else {
            return Vec::new();
        };
        let changes = self.replace(repo, BTreeSet::new(), SyncLevel::StateOnly);
        self.forget_if_empty(repo);
        changes
    }

    /// A root was accepted that refers to these repositories. They need not be announced here (yet).
    pub(super) fn add_root(
        &mut self,
        id: EventId,
        repositories: Vec<Coordinate>,
    ) -> Vec<TargetChange> {
        let mut changes = Vec::new();
        for coordinate in repositories {
            let repo = self
                .repos
                .number_or_insert(coordinate, RepoSyncNeeds::default);
            let root = self.roots.number_or_insert(id, || Homes::One(repo));
            if let Some(homes) = self.roots.get_mut(root) {
                homes.add(repo);
            }
            if let Some(needs) = self.repos.get_mut(repo)
                && needs.root_events.insert(root)
                && needs.level == SyncLevel::Full
            {
                changes.extend(needs.relays.iter().map(|relay| TargetChange {
                    relay: *relay,
                    item: Item::Root(root),
                    change: Change::Added,
                }));
            }
        }
        changes
    }

    /// The root is gone.
    pub(super) fn remove_root(&mut self, id: &EventId) -> Vec<TargetChange> {
        let Some(root) = self.roots.number(id) else {
            return Vec::new();
        };
        let Some((_, homes)) = self.roots.remove(root) else {
            return Vec::new();
        };
        let mut from = BTreeSet::new();
        for repo in homes.iter() {
            if let Some(needs) = self.repos.get_mut(repo) {
                needs.root_events.remove(&root);
                from.extend(needs.relays.iter().copied());
            }
            self.forget_if_empty(repo);
        }
        let removed = |relay| TargetChange {
            relay,
            item: Item::Root(root),
            change: Change::Removed,
        };
        from.into_iter().map(removed).collect()
    }

    fn replace(
        &mut self,
        repo: RepoId,
        relays: BTreeSet<RelayId>,
        level: SyncLevel,
    ) -> Vec<TargetChange> {
        let Some(needs) = self.repos.get_mut(repo) else {
            return Vec::new();
        };
        let before = RepoSyncNeeds {
            relays: std::mem::replace(&mut needs.relays, relays),
            level: std::mem::replace(&mut needs.level, level),
            root_events: BTreeSet::new(),
        };
        let needs = &self.repos.get(repo).expect("it was there a line ago");
        let mut changes = Vec::new();
        for relay in before.relays.union(&needs.relays).copied() {
            let (was, is) = (before.wanted_from(relay), needs.wanted_from(relay));
            let mut push = |item, change| {
                changes.push(TargetChange {
                    relay,
                    item,
                    change,
                });
            };
            match (was, is) {
                (None, Some(_)) => push(Item::Repo(repo), Change::Added),
                (Some(_), None) => push(Item::Repo(repo), Change::Removed),
                (was, is) if was < is => push(Item::Repo(repo), Change::Raised),
                (was, is) if was > is => push(Item::Repo(repo), Change::Lowered),
                _ => {}
            }
            let full = Some(SyncLevel::Full);
            for root in needs.root_events.iter().copied() {
                if was != full && is == full {
                    push(Item::Root(root), Change::Added);
                } else if was == full && is != full && !self.is_root_wanted(root, relay) {
                    push(Item::Root(root), Change::Removed);
                }
            }
        }
        changes
    }

    fn forget_if_empty(&mut self, repo: RepoId) {
        let is_empty =
            |needs: &RepoSyncNeeds| needs.relays.is_empty() && needs.root_events.is_empty();
        if self.repos.get(repo).is_some_and(is_empty) {
            self.repos.remove(repo);
        }
    }

    /// Whether some repository that the root refers to is wanted in full from `relay`.
    fn is_root_wanted(&self, root: RootId, relay: RelayId) -> bool {
        let wanted = |repo| {
            self.repos
                .get(repo)
                .and_then(|needs| needs.wanted_from(relay))
        };
        let mut homes = self.roots.get(root).into_iter().flat_map(Homes::iter);
        homes.any(|repo| wanted(repo) == Some(SyncLevel::Full))
    }

    /// What is wanted of `repo`.
    pub fn needs(&self, repo: RepoId) -> Option<&RepoSyncNeeds> {
        self.repos.get(repo)
    }

    /// What is wanted of the repository with this name.
    pub fn needs_of(&self, coordinate: &Coordinate) -> Option<&RepoSyncNeeds> {
        self.repos.get(self.repos.number(coordinate)?)
    }

    /// The name of `repo`.
    pub fn coordinate(&self, repo: RepoId) -> Option<&Coordinate> {
        self.repos.name(repo)
    }

    /// The id of `root`.
    pub fn root(&self, root: RootId) -> Option<&EventId> {
        self.roots.name(root)
    }

    /// All repositories that something is known of.
    pub fn iter(&self) -> impl Iterator<Item = (RepoId, &Coordinate, &RepoSyncNeeds)> {
        self.repos.iter()
    }

    /// All roots that are known.
    pub(super) fn roots(&self) -> impl Iterator<Item = &EventId> {
        self.roots.iter().map(|(_, id, _)| id)
    }

    /// How many repositories and how many roots are known.
    pub fn sizes(&self) -> (usize, usize) {
        (self.repos.len(), self.roots.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::number::Number;
    use crate::engine::testing::{coordinate, id};

    fn relay(n: usize) -> RelayId {
        RelayId::from_index(n)
    }

    fn relays<const N: usize>(numbers: [usize; N]) -> BTreeSet<RelayId> {
        numbers.into_iter().map(relay).collect()
    }

    fn short(changes: &[TargetChange]) -> Vec<(usize, char, Change)> {
        let letter = |item| {
            if matches!(item, Item::Repo(_)) {
                'r'
            } else {
                'e'
            }
        };
        let mut all: Vec<_> = changes
            .iter()
            .map(|change| (change.relay.index(), letter(change.item), change.change))
            .collect();
        all.sort_by_key(|(relay, letter, _)| (*relay, *letter));
        all
    }

    /// SYNC-10
    #[test]
    fn a_new_announcement_replaces_the_relays_of_the_old_one() {
        let mut index = RepoSyncIndex::new(0);
        index.announce(coordinate(1), relays([1, 2]), SyncLevel::Full);
        index.add_root(id(1), vec![coordinate(1)]);
        let changes = index.announce(coordinate(1), relays([2, 3]), SyncLevel::Full);
        let expected = [
            (1, 'e', Change::Removed),
            (1, 'r', Change::Removed),
            (3, 'e', Change::Added),
            (3, 'r', Change::Added),
        ];
        assert_eq!(short(&changes), expected);
    }

    /// SYNC-34
    #[test]
    fn promotion_asks_for_more_of_the_repository_and_for_its_roots() {
        let mut index = RepoSyncIndex::new(0);
        index.announce(coordinate(1), relays([1]), SyncLevel::StateOnly);
        assert_eq!(index.add_root(id(1), vec![coordinate(1)]), []);
        let changes = index.announce(coordinate(1), relays([1]), SyncLevel::Full);
        assert_eq!(
            short(&changes),
            [(1, 'e', Change::Added), (1, 'r', Change::Raised)]
        );
        let changes = index.announce(coordinate(1), relays([1]), SyncLevel::StateOnly);
        assert_eq!(
            short(&changes),
            [(1, 'e', Change::Removed), (1, 'r', Change::Lowered)]
        );
    }

    #[test]
    fn a_root_of_two_repositories_is_wanted_while_one_of_them_is() {
        let mut index = RepoSyncIndex::new(0);
        index.announce(coordinate(1), relays([1]), SyncLevel::Full);
        index.announce(coordinate(2), relays([1]), SyncLevel::Full);
        index.add_root(id(1), vec![coordinate(1), coordinate(2)]);
        let changes = index.withdraw(&coordinate(1));
        assert_eq!(short(&changes), [(1, 'r', Change::Removed)]);
        let changes = index.withdraw(&coordinate(2));
        assert_eq!(
            short(&changes),
            [(1, 'e', Change::Removed), (1, 'r', Change::Removed)]
        );
    }

    #[test]
    fn a_root_may_come_before_its_repository_and_leaves_nothing_behind() {
        let mut index = RepoSyncIndex::new(0);
        assert_eq!(index.add_root(id(1), vec![coordinate(1)]), []);
        let changes = index.announce(coordinate(1), relays([1]), SyncLevel::Full);
        assert_eq!(
            short(&changes),
            [(1, 'e', Change::Added), (1, 'r', Change::Added)]
        );
        assert_eq!(
            short(&index.remove_root(&id(1))),
            [(1, 'e', Change::Removed)]
        );
        assert_eq!(index.remove_root(&id(1)), []);
        index.withdraw(&coordinate(1));
        assert_eq!(index.sizes(), (0, 0));
    }
}
