//! The maintainer groups of a view, as the hunt sees them.

use std::collections::BTreeSet;

use nostr::key::PublicKey;

use super::GroupKey;
use crate::lifecycle::Stage;
use crate::name::RepoAddress;
use crate::policy::Policy;
use crate::settle::Groups;
use crate::state::StateEvent;
use crate::view::{Entry, ProposalEntry, RepoView};

/// Owners whose repositories share one confirmed set.
pub(super) struct Group<'v> {
    /// Its name: the lowest of all its owners, also of those who have no repository at the moment.
    pub(super) key: PublicKey,
    /// Those who have a repository, ascending.
    pub(super) owners: Vec<PublicKey>,
    /// Of those, who has a served one.
    pub(super) served: BTreeSet<PublicKey>,
    /// Whose states count.
    pub(super) members: BTreeSet<PublicKey>,
    pub(super) view: &'v RepoView,
}

impl<'v> Group<'v> {
    /// All groups that have a repository and somebody who may move its refs.
    pub(super) fn all(view: &'v RepoView, policy: &Policy) -> Vec<Self> {
        let known = Self::known(view, policy).into_iter();
        known.filter(|group| !group.owners.is_empty()).collect()
    }

    /// Those too whose repository is gone for now, and may come back (PUR-5).
    pub(super) fn known(view: &'v RepoView, policy: &Policy) -> Vec<Self> {
        let groups = Groups::of(view, policy);
        let has_repository = |owner: &PublicKey| {
            let versions = view.announcements.get(owner).into_iter().flatten();
            let living = |stage| matches!(stage, Stage::Served | Stage::Waiting);
            versions
                .filter(|entry| living(entry.stage))
                .any(|entry| groups.hosts(&entry.id()))
        };
        let shared = groups.shared().into_iter();
        shared
            .filter(|(_, members)| !members.is_empty())
            .filter_map(|(owners, members)| {
                let key = *owners.first()?;
                let living: Vec<PublicKey> = owners
                    .into_iter()
                    .filter(|owner| has_repository(owner))
                    .collect();
                let served = living.iter().filter(|owner| groups.serves(view, owner));
                Some(Self {
                    key,
                    served: served.copied().collect(),
                    owners: living,
                    members: members.clone(),
                    view,
                })
            })
            .collect()
    }

    /// States that want something here and can be satisfied, `of` these stages, the newest first.
    pub(super) fn states(&self, of: &[Stage]) -> Vec<&'v Entry<StateEvent>> {
        let versions = self.members.iter();
        let mut states: Vec<_> = versions
            .filter_map(|author| self.view.states.get(author))
            .flatten()
            .filter(|entry| of.contains(&entry.stage))
            .filter(|entry| entry.item.unsatisfiable().is_empty())
            .collect();
        states.sort_by_key(|entry| std::cmp::Reverse(entry.version()));
        states
    }

    /// The winner of its repositories (REF-1).
    pub(super) fn winner(&self) -> Option<&'v Entry<StateEvent>> {
        self.states(&[Stage::Served]).into_iter().next()
    }

    /// Proposals with a commit that a served repository of the group shows, or would (PR-2).
    pub(super) fn proposals(&self) -> impl Iterator<Item = &'v ProposalEntry> {
        let all = self.view.proposals.values();
        all.filter(|entry| {
            let shows = entry.named.iter().any(|key| self.members.contains(key));
            shows && !self.served.is_empty() && entry.commit.is_some()
        })
    }

    /// Where objects lie that count for the group.
    pub(super) fn relatives(&self) -> BTreeSet<RepoAddress> {
        let owners = self.owners.iter().chain(&self.members);
        owners.map(|owner| self.view.repository(*owner)).collect()
    }
}

pub(super) fn relatives(group: &GroupKey, view: &RepoView, policy: &Policy) -> Vec<RepoAddress> {
    if let GroupKey::Submitter(author) = group {
        return vec![view.submissions(*author)];
    }
    let all = Group::all(view, policy).into_iter();
    let mut found = all.filter(|it| it.key == group.owner());
    found
        .next()
        .map_or_else(Vec::new, |it| it.relatives().into_iter().collect())
}
