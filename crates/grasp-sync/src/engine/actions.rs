//! The only place that decides what new to ask for: target − pending − confirmed (SYNC-3).

use std::collections::{BTreeMap, BTreeSet};

use super::Engine;
use super::filters::{PlannedFilter, build_layer2_and_layer3_filters};
use super::number::{RelayId, RepoId, RootId};
use super::pending::PendingItems;
use super::relay_index::{ConnectionStatus, Items};
use super::repo_index::{RepoSyncIndex, SyncLevel};
use super::settings::REQ_FILTERS;

/// What is to be asked of a relay from now on, live and back to the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddFilters {
    /// Of which relay.
    pub relay: RelayId,
    /// About what.
    pub items: PendingItems,
    /// With which filters: few enough for one REQ.
    pub filters: Vec<PlannedFilter>,
}

/// What is wanted of one relay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelaySyncNeeds {
    /// Repositories, and how much of each.
    pub repos: BTreeMap<RepoId, SyncLevel>,
    /// Roots.
    pub root_events: BTreeSet<RootId>,
}

/// Repositories and their relays, turned round: relays and what is wanted of each (SYNC-2). The definition; the engine
/// keeps the same up to date event by event, and [`Engine::check`] compares.
pub fn derive_relay_targets(wants: &RepoSyncIndex) -> BTreeMap<RelayId, RelaySyncNeeds> {
    let mut targets: BTreeMap<RelayId, RelaySyncNeeds> = BTreeMap::new();
    for (repo, _, needs) in wants.iter() {
        for relay in &needs.relays {
            let target = targets.entry(*relay).or_default();
            target.repos.insert(repo, needs.level);
            if needs.level == SyncLevel::Full {
                target.root_events.extend(&needs.root_events);
            }
        }
    }
    targets
}

impl Engine {
    /// What to ask of `relay` that is neither confirmed nor in flight, cut into batches of one REQ each, so that a lost
    /// connection costs one of them and not all. Nothing while the relay is not connected: it comes on reconnect.
    pub(super) fn compute_actions(&self, relay: RelayId) -> Vec<AddFilters> {
        let Some(state) = self.relays.get(relay) else {
            return Vec::new();
        };
        if state.connection_status != ConnectionStatus::Connected || state.missing.is_empty() {
            return Vec::new();
        }
        let filters =
            build_layer2_and_layer3_filters(&self.wants, &state.missing, self.packing(relay));
        let mut actions: Vec<AddFilters> = Vec::new();
        for run in filters.chunk_by(PlannedFilter::is_over_the_same) {
            let has_room = |action: &AddFilters| action.filters.len() + run.len() <= REQ_FILTERS[0];
            if !actions.last().is_some_and(has_room) {
                actions.push(AddFilters {
                    relay,
                    items: Items::default(),
                    filters: Vec::new(),
                });
            }
            if let (Some(action), Some(first)) = (actions.last_mut(), run.first()) {
                first.add_items_to(&mut action.items);
                action.filters.extend_from_slice(run);
            }
        }
        actions
    }

    /// Compares the books with the definition. For tests: it reads everything.
    ///
    /// # Panics
    /// Unless of each relay what is wanted is split, without rest and overlap, into what is missing, in flight and
    /// confirmed, and the sum over the latter is what its cursor says.
    pub fn check(&self) {
        let targets = derive_relay_targets(&self.wants);
        for (relay, url, state) in self.relays.iter() {
            let wanted = targets.get(&relay).cloned().unwrap_or_default();
            if let Some(sum) = state.known_sum() {
                assert_eq!(sum, state.sum_anew(&self.wants), "sum of {url}");
            }
            let pending = self.pending.items(relay);
            let mut repos: Vec<_> = state.repos.iter().chain(&state.missing.repos).collect();
            repos.extend(&pending.repos);
            let mut roots: Vec<_> = state.root_events.iter().collect();
            roots.extend(state.missing.root_events.iter().chain(&pending.root_events));
            repos.sort_unstable();
            roots.sort_unstable();
            assert!(
                repos.into_iter().eq(wanted.repos.keys()),
                "repositories of {url}"
            );
            assert!(roots.into_iter().eq(&wanted.root_events), "roots of {url}");
        }
    }
}
