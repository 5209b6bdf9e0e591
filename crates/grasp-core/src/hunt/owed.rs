//! What each group lacks (HUNT-5, HUNT-5a).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use nostr::key::PublicKey;

use super::group::Group;
use super::sources;
use super::submitted;
use super::{GroupKey, GroupOwed, Owed, ProposalUrls, Sought, WANTS_MAX};
use crate::clone_url::CloneUrl;
use crate::lifecycle::Stage;
use crate::name::RepoAddress;
use crate::oid::Oid;
use crate::policy::Policy;
use crate::refname::RefSpace;
use crate::state::StateEvent;
use crate::view::{Entry, ObjectFacts, ProposalEntry, RepoView};

pub(super) fn sought(view: &RepoView, policy: &Policy) -> Sought {
    let mut sought = Sought::default();
    for group in Group::all(view, policy) {
        let pending = group.states(&[Stage::Waiting, Stage::Parked]);
        let states = pending.into_iter().chain(group.winner());
        sought
            .objects
            .extend(states.flat_map(|entry| entry.item.oids()));
        for entry in group.proposals().filter(|entry| lives(entry.stage)) {
            sought.commits.extend(entry.commit);
            if entry.stage != Stage::Served {
                sought.proposals.insert(entry.event);
            }
        }
    }
    for entry in submitted::proposals(view, policy) {
        sought.commits.extend(entry.commit);
        sought.proposals.insert(entry.event);
        sought.submitters.insert(view.submissions(entry.author));
    }
    sought
}

fn lives(stage: Stage) -> bool {
    matches!(stage, Stage::Served | Stage::Waiting | Stage::Parked)
}

pub(super) fn owed(
    view: &RepoView,
    facts: &ObjectFacts,
    urls: &ProposalUrls,
    policy: &Policy,
) -> Owed {
    let ledgers: Vec<Ledger<'_>> = Group::all(view, policy)
        .into_iter()
        .map(|group| Ledger {
            relatives: group.relatives(),
            group,
            facts,
            urls,
            policy,
        })
        .collect();
    let mut maintainers: Vec<GroupOwed> =
        ledgers.iter().filter_map(Ledger::of_maintainers).collect();
    maintainers.sort_by_key(|owed| Reverse(owed.is_served));
    let proposers = ledgers.iter().flat_map(Ledger::of_proposers);
    let submitters = submitted::owed(view, facts, urls, policy);
    let groups = maintainers.into_iter().chain(proposers).chain(submitters);
    Owed {
        groups: groups.collect(),
    }
}

/// One group, and what is known of its objects.
struct Ledger<'a> {
    group: Group<'a>,
    relatives: BTreeSet<RepoAddress>,
    facts: &'a ObjectFacts,
    urls: &'a ProposalUrls,
    policy: &'a Policy,
}

impl Ledger<'_> {
    fn of_maintainers(&self) -> Option<GroupOwed> {
        let waiting = self.group.states(&[Stage::Waiting]);
        let parked = self.group.states(&[Stage::Parked]);
        let states = || {
            waiting
                .iter()
                .chain(&parked)
                .copied()
                .chain(self.group.winner())
        };
        let into = self.fullest(states())?;
        let mut wants = Wants::default();
        for entry in &waiting {
            wants.now.extend(self.lacking(&into, entry));
        }
        for entry in parked.iter().copied().chain(self.group.winner()) {
            wants.later.extend(self.lacking(&into, entry));
        }
        for entry in self.group.proposals().filter(|entry| self.lacks(entry)) {
            wants.add(entry);
        }
        let authors: Vec<PublicKey> = states().map(|entry| entry.item.author()).collect();
        let sources = sources::of_maintainers(&self.group, &authors, self.policy);
        let key = GroupKey::Maintainers(self.group.key);
        wants.owed(key, into, !self.group.served.is_empty(), sources)
    }

    fn of_proposers(&self) -> Vec<GroupOwed> {
        let mut authors: BTreeMap<PublicKey, Vec<&ProposalEntry>> = BTreeMap::new();
        let pending = self
            .group
            .proposals()
            .filter(|entry| entry.stage != Stage::Served);
        for entry in pending.filter(|entry| self.lacks(entry)) {
            authors.entry(entry.author).or_default().push(entry);
        }
        let owed = authors.into_iter().filter_map(|(author, entries)| {
            let mut wants = Wants::default();
            for entry in &entries {
                wants.add(entry);
            }
            let urls = entries.iter().map(|entry| self.urls.counting(&entry.event));
            let key = GroupKey::Proposer {
                to: self.group.key,
                author,
            };
            let into = self.fullest(std::iter::empty())?;
            wants.owed(key, into, true, sources::of_proposals(urls, self.policy))
        });
        owed.collect()
    }

    /// The repository that lacks the least of `states`, before all a served one of a maintainer: from there all others take
    /// (PR-3).
    fn fullest<'e>(
        &self,
        states: impl Iterator<Item = &'e Entry<StateEvent>> + Clone,
    ) -> Option<RepoAddress> {
        let wanted: BTreeSet<Oid> = states.flat_map(|entry| entry.item.oids()).collect();
        let lacks = |repository: &RepoAddress| {
            let lacking = wanted
                .iter()
                .filter(|oid| !self.facts.holds(repository, oid));
            lacking.count()
        };
        let owner = self.group.owners.iter().min_by_key(|owner| {
            let stranger = !self.group.members.contains(owner);
            let unseen = !self.group.served.contains(owner);
            (
                stranger,
                unseen,
                lacks(&self.group.view.repository(**owner)),
            )
        })?;
        Some(self.group.view.repository(*owner))
    }

    /// What the repository lacks of a state: branches first, what HEAD names before the others.
    fn lacking(&self, into: &RepoAddress, entry: &Entry<StateEvent>) -> Vec<Oid> {
        let state = &entry.item;
        let mut refs: Vec<_> = state.refs().iter().collect();
        refs.sort_by_key(|(name, _)| {
            (
                Some(*name) != state.head(),
                name.space() != RefSpace::Branch,
            )
        });
        let oids = refs.into_iter().map(|(_, oid)| *oid);
        oids.filter(|oid| !self.facts.holds(into, oid)).collect()
    }

    /// Whether the commit of a living proposal is nowhere where it counts (PR-3).
    fn lacks(&self, entry: &ProposalEntry) -> bool {
        let Some(commit) = &entry.commit else {
            return false;
        };
        let own = self.group.view.submissions(entry.author);
        let mut holders = self.facts.holders(commit);
        lives(entry.stage) && !holders.any(|it| self.relatives.contains(it) || *it == own)
    }
}

/// Objects in the order in which they are asked for.
#[derive(Default)]
pub(super) struct Wants {
    now: Vec<Oid>,
    later: Vec<Oid>,
}

impl Wants {
    pub(super) fn add(&mut self, entry: &ProposalEntry) {
        match entry.stage {
            Stage::Waiting => self.now.extend(entry.commit),
            _ => self.later.extend(entry.commit),
        }
    }

    /// Each object once. Nothing if there is nothing to ask for, or nobody to ask.
    pub(super) fn owed(
        self,
        group: GroupKey,
        into: RepoAddress,
        is_served: bool,
        sources: Vec<CloneUrl>,
    ) -> Option<GroupOwed> {
        let mut known = BTreeSet::new();
        let mut once = |oids: Vec<Oid>| -> Vec<Oid> {
            let fresh = oids.into_iter().filter(|oid| known.insert(*oid));
            fresh.take(WANTS_MAX).collect()
        };
        let (wants, parked) = (once(self.now), once(self.later));
        let nothing = wants.is_empty() && parked.is_empty();
        (!nothing && !sources.is_empty()).then_some(GroupOwed {
            group,
            into,
            is_served,
            wants,
            parked,
            sources,
        })
    }
}
