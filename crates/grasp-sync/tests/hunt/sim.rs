//! The hunt in a world of its own: virtual time, and hosts that behave as a test says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use grasp_core::name::{Coordinate, Identifier, RepoAddress};
use grasp_core::oid::Oid;
use grasp_sync::hunt::settings::GATHERS_MAX;
use grasp_sync::hunt::{
    CloneUrl, FetchEnd, FetchId, FetchOrder, FetchOutcome, GroupKey, GroupOwed, Host, Hunt,
    HuntSettings, Input, Output, Owed, StoredEntry, Time,
};

pub(crate) use crate::behaviour::{
    Behaviour, broken, dead, fingerprint, group, has, host, key, lacks_all, named, oid, secs, url,
};

/// When every test begins.
pub(crate) const START: Time = Time::from_secs(1_700_000_000);

/// How often a fetch tells that it moves.
const PROGRESS: Duration = Duration::from_secs(20);

/// What happens later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Later {
    Gathered(Identifier),
    Progress(FetchId),
    End(FetchId),
    Stopped(FetchId),
    Probed(Host),
}

/// A fetch that runs.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) order: FetchOrder,
    host: Host,
    bytes: u64,
}

/// What is owed to a group.
#[derive(Debug, Clone)]
pub(crate) struct Debt {
    pub(crate) group: GroupKey,
    pub(crate) is_served: bool,
    pub(crate) wants: Vec<Oid>,
    pub(crate) parked: Vec<Oid>,
    pub(crate) sources: Vec<CloneUrl>,
}

pub(crate) struct Sim {
    pub(crate) hunt: Hunt,
    pub(crate) now: Time,
    pub(crate) settings: HuntSettings,
    inbox: BinaryHeap<Reverse<(Time, u64, Later)>>,
    numbers: u64,
    pub(crate) debts: BTreeMap<Identifier, Vec<Debt>>,
    pub(crate) behaviours: BTreeMap<CloneUrl, Behaviour>,
    pub(crate) grasp_hosts: BTreeSet<Host>,
    pub(crate) running: BTreeMap<FetchId, Running>,
    pub(crate) stored: BTreeMap<Identifier, StoredEntry>,
    /// When fetches began, by host.
    began: BTreeMap<Host, Vec<Time>>,
    /// All that came out, with its time.
    pub(crate) log: Vec<(Time, Output)>,
    looks: BTreeSet<Identifier>,
    /// When what was brought.
    pub(crate) brought: BTreeMap<(Identifier, Oid), Time>,
}

impl Sim {
    pub(crate) fn new() -> Self {
        Self::with(HuntSettings::default(), 1)
    }

    pub(crate) fn with(settings: HuntSettings, seed: u64) -> Self {
        Self {
            hunt: Hunt::new(settings.clone(), seed),
            now: START,
            settings,
            inbox: BinaryHeap::new(),
            numbers: 0,
            debts: BTreeMap::new(),
            behaviours: BTreeMap::new(),
            grasp_hosts: BTreeSet::new(),
            running: BTreeMap::new(),
            stored: BTreeMap::new(),
            began: BTreeMap::new(),
            log: Vec::new(),
            looks: BTreeSet::new(),
            brought: BTreeMap::new(),
        }
    }

    /// The group of `owner` is served, and waits for these objects, which may be at these hosts.
    pub(crate) fn owe(&mut self, name: &str, owner: u8, wants: &[u16], hosts: &[&str]) {
        self.owe_as(name, group(owner), true, wants, &[], hosts);
    }

    pub(crate) fn owe_as(
        &mut self,
        name: &str,
        group: GroupKey,
        is_served: bool,
        wants: &[u16],
        parked: &[u16],
        hosts: &[&str],
    ) {
        let oids = |numbers: &[u16]| numbers.iter().map(|n| oid(*n)).collect();
        let debt = Debt {
            group,
            is_served,
            wants: oids(wants),
            parked: oids(parked),
            sources: hosts.iter().map(|name| url(name)).collect(),
        };
        let debts = self.debts.entry(named(name)).or_default();
        debts.retain(|other| other.group != group);
        debts.push(debt);
    }

    pub(crate) fn behave(&mut self, host: &str, behaviour: Behaviour) {
        self.behaviours.insert(url(host), behaviour);
    }

    /// An event came by sync.
    pub(crate) fn enqueue(&mut self, name: &str) {
        self.enqueue_after(name, Duration::from_millis(500));
    }

    pub(crate) fn enqueue_after(&mut self, name: &str, delay: Duration) {
        let identifier = named(name);
        let not_before = self.now + delay;
        let stored = self
            .stored
            .entry(identifier.clone())
            .or_insert(StoredEntry {
                next_attempt: not_before,
                attempt_count: 0,
                is_parked: false,
            });
        stored.next_attempt = stored.next_attempt.min(not_before);
        (stored.attempt_count, stored.is_parked) = (0, false);
        self.hand_in(Input::Enqueued {
            identifier,
            not_before,
        });
    }

    /// The server was killed, and starts again.
    pub(crate) fn restart(&mut self) {
        self.hunt = Hunt::new(self.settings.clone(), 2);
        self.running.clear();
        self.looks.clear();
        self.inbox.clear();
        let entries = self.stored.clone().into_iter().collect();
        self.hand_in(Input::Loaded { entries });
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.step(end) {}
        self.now = end;
    }

    /// Until something happened that `is` says, within `span`. Returns when.
    pub(crate) fn until(&mut self, span: Duration, is: impl Fn(&Self) -> bool) -> Option<Time> {
        let end = self.now + span;
        while !is(self) {
            if !self.step(end) {
                return None;
            }
        }
        Some(self.now)
    }

    /// Everything that is owed is here.
    pub(crate) fn is_paid(&self) -> bool {
        let mut debts = self.debts.values().flatten();
        debts.all(|debt| debt.wants.is_empty() && debt.parked.is_empty())
    }

    fn step(&mut self, end: Time) -> bool {
        let due = self.hunt.next_deadline();
        let next = self.inbox.peek().map(|Reverse((at, ..))| *at);
        let Some(at) = due.into_iter().chain(next).min().filter(|at| *at <= end) else {
            return false;
        };
        self.now = self.now.max(at);
        match self.inbox.pop() {
            Some(Reverse((at, _, later))) if at <= self.now => self.happen(later),
            Some(other) => {
                self.inbox.push(other);
                self.hand_in(Input::Wake);
            }
            None => self.hand_in(Input::Wake),
        }
        true
    }

    fn later(&mut self, after: Duration, later: Later) {
        self.numbers += 1;
        self.inbox
            .push(Reverse((self.now + after, self.numbers, later)));
    }

    pub(crate) fn hand_in(&mut self, input: Input) {
        for output in self.hunt.handle(input, self.now) {
            self.log.push((self.now, output.clone()));
            self.perform(output);
        }
        let due = self.hunt.next_deadline();
        assert!(
            due.is_none_or(|due| due > self.now),
            "all that was due is done"
        );
        self.check();
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Gather { identifier } => {
                assert!(
                    self.looks.insert(identifier.clone()),
                    "it looks twice at once"
                );
                assert!(self.looks.len() <= GATHERS_MAX);
                self.later(Duration::from_millis(1), Later::Gathered(identifier));
            }
            Output::Fetch(order) => self.begin(order),
            Output::Stop { fetch } => {
                assert!(
                    self.running.contains_key(&fetch),
                    "it stops what does not run"
                );
                self.later(secs(1), Later::Stopped(fetch));
            }
            Output::Save { identifier, entry } => {
                self.stored.insert(identifier, entry);
            }
            Output::Forget { identifier, .. } => {
                self.stored.remove(&identifier);
            }
            Output::Probe { host, at } => {
                assert_eq!(Host::of(&at), host);
                self.later(secs(1), Later::Probed(host));
            }
            Output::Silent { .. } => {}
        }
    }

    fn begin(&mut self, order: FetchOrder) {
        assert!(!order.wants.is_empty(), "nothing is wanted");
        let fetch = order.fetch;
        match self
            .behaviours
            .get(&order.source)
            .cloned()
            .unwrap_or_else(dead)
        {
            Behaviour::Has(_, after) | Behaviour::Ends(_, after) => {
                self.later(after, Later::End(fetch));
            }
            Behaviour::Trickles(_) => self.later(PROGRESS, Later::Progress(fetch)),
            Behaviour::Silent => {}
        }
        let host = Host::of(&order.source);
        self.began.entry(host.clone()).or_default().push(self.now);
        let bytes = 0;
        self.running.insert(fetch, Running { order, host, bytes });
    }

    fn happen(&mut self, later: Later) {
        match later {
            Later::Gathered(identifier) => {
                self.looks.remove(&identifier);
                let owed = self.owed(&identifier);
                self.hand_in(Input::Gathered {
                    identifier,
                    owed,
                    seen: 1,
                });
            }
            Later::Progress(fetch) => {
                let Some(running) = self.running.get_mut(&fetch) else {
                    return;
                };
                let Some(Behaviour::Trickles(rate)) = self.behaviours.get(&running.order.source)
                else {
                    return;
                };
                running.bytes += rate * PROGRESS.as_secs();
                let bytes = running.bytes;
                self.later(PROGRESS, Later::Progress(fetch));
                self.hand_in(Input::Progressed { fetch, bytes });
            }
            Later::End(fetch) => self.end(fetch),
            Later::Stopped(fetch) => self.finish(fetch, BTreeSet::new(), FetchOutcome::Stopped),
            Later::Probed(host) => {
                let is_grasp = self.grasp_hosts.contains(&host);
                self.hand_in(Input::HostProbed { host, is_grasp });
            }
        }
    }

    /// A fetch comes to its end, as its source behaves now.
    pub(crate) fn end(&mut self, fetch: FetchId) {
        let Some(running) = self.running.get(&fetch).cloned() else {
            return;
        };
        let wants: BTreeSet<Oid> = running.order.wants.iter().copied().collect();
        match self
            .behaviours
            .get(&running.order.source)
            .cloned()
            .unwrap_or_else(dead)
        {
            Behaviour::Has(oids, _) => {
                let missing: BTreeSet<Oid> = &wants - &oids;
                let outcome = if missing.is_empty() {
                    FetchOutcome::Complete
                } else {
                    FetchOutcome::Lacks {
                        missing,
                        advertisement: None,
                    }
                };
                self.finish(fetch, &wants & &oids, outcome);
            }
            Behaviour::Ends(FetchOutcome::Lacks { advertisement, .. }, _) => {
                let outcome = FetchOutcome::Lacks {
                    missing: wants,
                    advertisement,
                };
                self.finish(fetch, BTreeSet::new(), outcome);
            }
            Behaviour::Ends(outcome, _) => self.finish(fetch, BTreeSet::new(), outcome),
            Behaviour::Trickles(_) | Behaviour::Silent => {}
        }
    }

    fn finish(&mut self, fetch: FetchId, installed: BTreeSet<Oid>, outcome: FetchOutcome) {
        let Some(running) = self.running.remove(&fetch) else {
            return;
        };
        let order = running.order;
        let debts = self.debts.get_mut(&order.identifier).into_iter().flatten();
        for debt in debts.filter(|debt| debt.group.owner() == order.group.owner()) {
            debt.wants.retain(|oid| !installed.contains(oid));
            debt.parked.retain(|oid| !installed.contains(oid));
        }
        for oid in &installed {
            let key = (order.identifier.clone(), *oid);
            self.brought.entry(key).or_insert(self.now);
        }
        let end = FetchEnd { installed, outcome };
        self.hand_in(Input::Ended { fetch, end });
    }

    fn owed(&self, identifier: &Identifier) -> Owed {
        let debts = self.debts.get(identifier).into_iter().flatten();
        let groups = debts.filter(|debt| !(debt.wants.is_empty() && debt.parked.is_empty()));
        let groups = groups.map(|debt| GroupOwed {
            group: debt.group,
            into: RepoAddress::Announced(Coordinate::new(debt.group.owner(), identifier.clone())),
            is_served: debt.is_served,
            wants: debt.wants.clone(),
            parked: debt.parked.clone(),
            sources: debt.sources.clone(),
        });
        Owed {
            groups: groups.collect(),
        }
    }

    /// What holds at every moment (HUNT-7, HUNT-14, §16).
    fn check(&self) {
        assert!(self.running.len() <= self.settings.fetches_max.get());
        let mut groups: BTreeMap<_, usize> = BTreeMap::new();
        let mut hosts: BTreeMap<&Host, usize> = BTreeMap::new();
        for running in self.running.values() {
            let order = &running.order;
            *groups.entry((&order.identifier, order.group)).or_default() += 1;
            *hosts.entry(&running.host).or_default() += 1;
        }
        assert!(groups.values().all(|n| *n <= self.settings.per_group.get()));
        for (host, n) in hosts {
            let max = if self.grasp_hosts.contains(host) {
                self.settings.per_grasp_host
            } else {
                self.settings.per_domain
            };
            assert!(n <= max.get(), "{n} at {host}");
        }
    }

    /// The orders so far, with their times.
    pub(crate) fn orders(&self) -> impl Iterator<Item = (Time, &FetchOrder)> {
        self.log.iter().filter_map(|(at, output)| match output {
            Output::Fetch(order) => Some((*at, order)),
            _ => None,
        })
    }

    /// Seconds since the start at which `name` was asked.
    pub(crate) fn asked(&self, name: &str) -> Vec<u64> {
        let there = self.orders().filter(|(_, order)| order.source == url(name));
        there.map(|(at, _)| at.since(START).as_secs()).collect()
    }

    /// The most fetches that began at one host within any minute, since the log was begun.
    pub(crate) fn busiest_minute(&self, name: &Host) -> usize {
        let times = self.began.get(name).map_or(&[][..], Vec::as_slice);
        let mut first = 0;
        let mut most = 0;
        for (place, at) in times.iter().enumerate() {
            while at.since(times[first]) >= secs(60) {
                first += 1;
            }
            most = most.max(place + 1 - first);
        }
        most
    }

    /// Forgets what happened so far.
    pub(crate) fn forget_log(&mut self) {
        self.log.clear();
        self.began.clear();
    }
}
