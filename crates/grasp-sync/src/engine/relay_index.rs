//! What is confirmed of each relay, and how we are connected to it.
//!
//! *Invariant:* what is wanted of a relay is split, without rest and overlap, into what it has confirmed (here),
//! what is in flight ([`PendingSyncIndex`](super::pending::PendingSyncIndex)) and what is missing (here). So what is
//! missing need not be computed from all that is known, and a lost batch becomes missing again by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::cursor::SetDigest;
use super::filters::Shape;
use super::negentropy::Undelivered;
use super::number::{Register, RelayId, RepoId, RootId};
use super::repo_index::{Item, RepoSyncIndex};
use super::settings::{FILTER_VALUES, QUICK_RECONNECT_MAX};
use super::time::Time;
use crate::relay_url::RelayUrl;

/// How we are connected to a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionStatus {
    /// Not at all.
    Disconnected,
    /// Dialling.
    Connecting,
    /// Connected and subscribed.
    Connected,
}

/// Repositories and roots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Items {
    /// Repositories.
    pub repos: BTreeSet<RepoId>,
    /// Roots.
    pub root_events: BTreeSet<RootId>,
}

impl Items {
    pub(super) fn insert(&mut self, item: Item) -> bool {
        match item {
            Item::Repo(repo) => self.repos.insert(repo),
            Item::Root(root) => self.root_events.insert(root),
        }
    }

    pub(super) fn remove(&mut self, item: Item) -> bool {
        match item {
            Item::Repo(repo) => self.repos.remove(&repo),
            Item::Root(root) => self.root_events.remove(&root),
        }
    }

    pub(super) fn take_out(&mut self, other: &Self) {
        for repo in &other.repos {
            self.repos.remove(repo);
        }
        for root in &other.root_events {
            self.root_events.remove(root);
        }
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.repos.append(&mut other.repos);
        self.root_events.append(&mut other.root_events);
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.repos.is_empty() && self.root_events.is_empty()
    }

    /// How many of both.
    pub fn len(&self) -> usize {
        self.repos.len() + self.root_events.len()
    }
}

/// What a relay taught us that outlives its connections.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// It took a filter of 100 values, so longer ones may be tried (SYNC-20).
    pub(super) takes_long_filters: bool,
    /// It refused a filter for its length: never more values than this.
    pub(super) values_max: Option<usize>,
    /// What all live filters together may weigh (SYNC-45).
    pub(super) subscription_bytes: Option<usize>,
    /// The most events it ever gave for one filter: what it can give (SYNC-27).
    pub(super) page_largest: usize,
    /// Its `default_limit` was too high once (SYNC-27).
    pub(super) hint_is_wrong: bool,
    /// Filters of these shapes it refuses, until then (SYNC-42).
    pub(super) refused_shapes: BTreeMap<Shape, Time>,
    /// It broke off while it was asked for a difference: not again before then (SYNC-25).
    pub(super) breaks_off_until: Option<Time>,
    /// The lack of NIP-77 was told once.
    pub(super) told_no_negentropy: bool,
}

impl Learned {
    /// A hundred values in a filter until the peer took as many; then as many as the bytes allow.
    pub(super) fn values_per_filter(&self) -> usize {
        let tried = if self.takes_long_filters {
            usize::MAX
        } else {
            FILTER_VALUES
        };
        tried.min(self.values_max.unwrap_or(usize::MAX))
    }

    /// It refused a filter for the number of its values: a hundred is tried next, then ever fewer.
    pub(super) fn fewer_values(&mut self) {
        let tried = self.values_per_filter();
        let fewer = if tried > FILTER_VALUES {
            FILTER_VALUES
        } else {
            tried / 2
        };
        self.values_max = Some(fewer.max(1));
    }
}

/// One relay. Outlives its sockets (SYNC-5); only the disconnect checker ends it (SYNC-8).
#[derive(Debug)]
pub struct RelayState {
    /// Repositories that are confirmed here.
    pub repos: BTreeSet<RepoId>,
    /// Roots that are confirmed here.
    pub root_events: BTreeSet<RootId>,
    /// The operator's choice: never dropped.
    pub is_bootstrap: bool,
    /// How we are connected.
    pub connection_status: ConnectionStatus,
    /// From when on everything confirmed has been received: the start of the last connection, or full sync, whose
    /// histories all came to their end. The next catch-up asks since then.
    pub last_connected: Option<Time>,
    /// When the last connection ended.
    pub disconnected_at: Option<Time>,
    /// The history of announcements came to its end once (SYNC-6).
    pub announcements_synced: bool,
    /// When all is asked for again.
    pub(super) daily_at: Option<Time>,
    /// Wanted, and neither confirmed nor in flight.
    pub(super) missing: Items,
    /// The sum over what is confirmed, kept up to date as it grows. `None` after something went: what it stood for may
    /// be forgotten already, so the sum is taken anew when it is needed.
    confirmed_sum: Option<SetDigest>,
    pub(super) learned: Learned,
    pub(super) undelivered: Undelivered,
    /// It turned out to be this very server (SYNC-9).
    pub(super) is_ourselves: bool,
}

impl RelayState {
    pub(super) fn new(is_bootstrap: bool) -> Self {
        Self {
            repos: BTreeSet::new(),
            root_events: BTreeSet::new(),
            is_bootstrap,
            connection_status: ConnectionStatus::Disconnected,
            last_connected: None,
            disconnected_at: None,
            announcements_synced: false,
            daily_at: None,
            missing: Items::default(),
            confirmed_sum: Some(SetDigest::default()),
            learned: Learned::default(),
            undelivered: Undelivered::default(),
            is_ourselves: false,
        }
    }

    /// The 15-minute rule: after a longer pause what was confirmed is no longer trusted.
    pub fn should_clear_state(&self, now: Time) -> bool {
        let pause = |at| now.since(at);
        self.disconnected_at.map(pause) > Some(QUICK_RECONNECT_MAX)
    }

    /// Nothing is confirmed any more: all of it is missing.
    pub(super) fn clear_sync_state(&mut self) {
        self.missing.append(Items {
            repos: std::mem::take(&mut self.repos),
            root_events: std::mem::take(&mut self.root_events),
        });
        self.announcements_synced = false;
        self.confirmed_sum = Some(SetDigest::default());
    }

    /// Whether it is confirmed.
    pub(super) fn has_confirmed(&self, item: Item) -> bool {
        match item {
            Item::Repo(repo) => self.repos.contains(&repo),
            Item::Root(root) => self.root_events.contains(&root),
        }
    }

    /// They are confirmed from now on.
    pub(super) fn confirm(&mut self, items: Items, wants: &RepoSyncIndex) {
        if let Some(sum) = &mut self.confirmed_sum {
            let repos = items.repos.difference(&self.repos);
            let roots = items.root_events.difference(&self.root_events);
            let new = repos.map(|repo| Item::Repo(*repo));
            sum.add(SetDigest::over(
                wants,
                new.chain(roots.map(|root| Item::Root(*root))),
            ));
        }
        unite(&mut self.repos, items.repos);
        unite(&mut self.root_events, items.root_events);
    }

    /// All of them are confirmed, and nothing else: so it was before a restart.
    pub(super) fn confirm_again(&mut self, items: Items, sum: SetDigest) {
        self.repos = items.repos;
        self.root_events = items.root_events;
        self.confirmed_sum = Some(sum);
    }

    /// Something that is confirmed counts differently from now on.
    pub(super) fn forget_sum(&mut self) {
        self.confirmed_sum = None;
    }

    /// The sum over what is confirmed.
    pub(super) fn confirmed_sum(&mut self, wants: &RepoSyncIndex) -> SetDigest {
        let sum = self.known_sum().unwrap_or_else(|| self.sum_anew(wants));
        *self.confirmed_sum.insert(sum)
    }

    /// The sum, if it was kept up to date.
    pub(super) fn known_sum(&self) -> Option<SetDigest> {
        self.confirmed_sum
    }

    pub(super) fn sum_anew(&self, wants: &RepoSyncIndex) -> SetDigest {
        let repos = self.repos.iter().map(|repo| Item::Repo(*repo));
        let roots = self.root_events.iter().map(|root| Item::Root(*root));
        SetDigest::over(wants, repos.chain(roots))
    }

    /// It is confirmed no longer.
    pub(super) fn unconfirm(&mut self, item: Item) {
        let was_there = match item {
            Item::Repo(repo) => self.repos.remove(&repo),
            Item::Root(root) => self.root_events.remove(&root),
        };
        if was_there {
            self.forget_sum();
        }
    }

    /// Whether there is a reason to be connected, as far as this state shows: what is in flight stands elsewhere.
    pub(super) fn has_work(&self) -> bool {
        let has_confirmed = !self.repos.is_empty() || !self.root_events.is_empty();
        self.is_bootstrap || has_confirmed || !self.missing.is_empty()
    }

    /// Wanted and neither confirmed nor in flight.
    pub fn missing(&self) -> &Items {
        &self.missing
    }
}

/// Puts a few into many one by one; only about as many as there are is worth building the whole set anew.
fn unite<T: Ord>(many: &mut BTreeSet<T>, mut more: BTreeSet<T>) {
    if more.len() < many.len() / 8 {
        many.extend(more);
    } else {
        many.append(&mut more);
    }
}

/// What is confirmed, by relay.
#[derive(Debug)]
pub struct RelaySyncIndex {
    relays: Register<RelayUrl, RelayId, RelayState>,
}

impl RelaySyncIndex {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            relays: Register::new(seed),
        }
    }

    pub(super) fn register(&mut self, url: RelayUrl, is_bootstrap: bool) -> RelayId {
        self.relays
            .number_or_insert(url, || RelayState::new(is_bootstrap))
    }

    pub(super) fn remove(&mut self, relay: RelayId) -> Option<(RelayUrl, RelayState)> {
        self.relays.remove(relay)
    }

    pub(super) fn get_mut(&mut self, relay: RelayId) -> Option<&mut RelayState> {
        self.relays.get_mut(relay)
    }

    /// The relay with this number.
    pub fn get(&self, relay: RelayId) -> Option<&RelayState> {
        self.relays.get(relay)
    }

    /// The number of the relay with this address.
    pub fn number(&self, url: &RelayUrl) -> Option<RelayId> {
        self.relays.number(url)
    }

    /// The address of the relay.
    pub fn url(&self, relay: RelayId) -> Option<&RelayUrl> {
        self.relays.name(relay)
    }

    /// All relays.
    pub fn iter(&self) -> impl Iterator<Item = (RelayId, &RelayUrl, &RelayState)> {
        self.relays.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.relays.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
