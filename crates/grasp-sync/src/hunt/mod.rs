//! Decides where to look for git data that is owed, and when (protocol.md §14).
//!
//! One entry for each identifier says when the next attempt is due ([`SyncQueueEntry`]). An attempt asks what is owed,
//! then goes round the addresses of each maintainer group, politely: the hosts are shared by all identifiers, and
//! each has its limits. What a fetch brings is not its business; who fetches says how it ended.
//!
//! It opens no socket, reads no clock and draws no chance: [`Hunt::handle`] takes an [`Input`] and a time and returns
//! [`Output`]s, [`Hunt::next_deadline`] says when to come back. *Invariant:* nothing is asked of a host beyond its limits,
//! whatever else happens; nobody's address holds up more than the group that trusts it.
//!
//! Where things are: `looks` begins and ends attempts, `turns` goes round the groups of one, `fetches` orders and watches,
//! `hosts` and `grudges` are shared by all.

mod attempt;
mod entry;
mod fetches;
mod grudges;
mod host;
mod hosts;
mod io;
mod looks;
mod queue;
pub mod settings;
mod turns;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::name::Identifier;

pub use grasp_core::clone_url::CloneUrl;
pub use grasp_core::hunt::{GroupKey, GroupOwed, Owed};
pub use host::Host;
pub use hosts::Deferred;
pub use io::{
    Broken, FetchEnd, FetchId, FetchOrder, FetchOutcome, Fingerprint, Input, Output, StoredEntry,
};
pub use queue::SyncQueueEntry;
pub use settings::HuntSettings;

pub use crate::engine::Time;
use crate::engine::chance::Chance;
use crate::engine::timers::Timers;

use entry::Entry;
use fetches::Fetch;
use grudges::Grudges;
use hosts::Hosts;
use looks::Looks;

/// What can be due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// An attempt may begin, or news be looked at in one that runs.
    Look(Identifier),
    /// An attempt has had its time.
    AttemptOver(Identifier),
    /// A group may ask another host as well.
    Hedge(Identifier, GroupKey),
    /// A host may be asked again.
    Host(Host),
    /// A fetch is silent.
    Silent(FetchId),
    /// A fetch is dead.
    Dead(FetchId),
    /// How fast a fetch is.
    Sample(FetchId),
}

/// The git hunt. See the [module](self).
#[derive(Debug)]
pub struct Hunt {
    settings: HuntSettings,
    now: Time,
    chance: Chance,
    timers: Timers<Timer>,
    /// By identifier: as many as have waiting or parked events, which the store bounds (PUR-13, PUR-15).
    entries: BTreeMap<Identifier, Entry>,
    looks: Looks,
    hosts: Hosts,
    grudges: Grudges,
    /// What runs: at most [`HuntSettings::fetches_max`].
    fetches: BTreeMap<FetchId, Fetch>,
    last_fetch: FetchId,
    /// Numbers for places and turns: they rise.
    last_number: u64,
    /// Identifiers to look at before the current input is done with.
    stirred: BTreeSet<Identifier>,
    out: Vec<Output>,
}

impl Hunt {
    /// A hunt that knows nothing. All its chance comes from `seed`.
    pub fn new(settings: HuntSettings, seed: u64) -> Self {
        Self {
            settings,
            now: Time::default(),
            chance: Chance::new(seed),
            timers: Timers::new(),
            entries: BTreeMap::new(),
            looks: Looks::default(),
            hosts: Hosts::default(),
            grudges: Grudges::default(),
            fetches: BTreeMap::new(),
            last_fetch: FetchId::default(),
            last_number: 0,
            stirred: BTreeSet::new(),
            out: Vec::new(),
        }
    }

    /// Takes one input and returns what follows from it at `now`.
    pub fn handle(&mut self, input: Input, now: Time) -> Vec<Output> {
        self.now = self.now.max(now);
        self.take(input);
        while let Some(timer) = self.timers.pop(self.now) {
            self.ring(timer);
        }
        loop {
            while let Some(identifier) = self.stirred.pop_first() {
                self.take_turns(&identifier);
            }
            self.begin_looks();
            if !self.begin_fetch() && self.stirred.is_empty() {
                break;
            }
        }
        std::mem::take(&mut self.out)
    }

    /// When to hand in [`Input::Wake`] if nothing happens before. A question rather than an output: the driver keeps one
    /// timer, and none can pile up.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// The entry of an identifier, while something is owed of it.
    pub fn entry(&self, identifier: &Identifier) -> Option<&SyncQueueEntry> {
        self.entries.get(identifier).map(|entry| &entry.queue)
    }

    /// How many identifiers have an entry.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is owed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How often a fetch was put off, by reason.
    pub fn deferred(&self) -> Deferred {
        self.hosts.deferred
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Loaded { entries } => self.load(entries),
            Input::Enqueued {
                identifier,
                not_before,
            } => self.enqueue(identifier, not_before),
            Input::Gathered {
                identifier,
                owed,
                seen,
            } => self.gathered(&identifier, owed, seen),
            Input::Progressed { fetch, bytes } => self.progressed(fetch, bytes),
            Input::Ended { fetch, end } => self.ended(fetch, end),
            Input::HostProbed { host, is_grasp } => {
                self.hosts.know(&host, is_grasp);
                self.settle_host(&host);
            }
            Input::Wake => {}
        }
    }

    fn ring(&mut self, timer: Timer) {
        match timer {
            Timer::Look(identifier) => self.look_is_due(identifier),
            Timer::AttemptOver(identifier) => self.complete(&identifier),
            Timer::Hedge(identifier, _) => self.stir(&identifier),
            Timer::Host(host) => self.settle_host(&host),
            Timer::Silent(fetch) => self.out.push(Output::Silent { fetch }),
            Timer::Dead(fetch) => self.stop_slow(fetch),
            Timer::Sample(fetch) => self.sample(fetch),
        }
    }

    /// Looks at the identifier before the current input is done with.
    fn stir(&mut self, identifier: &Identifier) {
        self.stirred.insert(identifier.clone());
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}
