//! How often each host is asked, and who is next (HUNT-7, HUNT-11, HUNT-14).
//!
//! Identifiers wait in a ring at every host that has something for them, and whoever has waited longest takes a slot
//! that gets free: nothing polls. What is only parked waits behind everybody else (HUNT-13). Among hosts it is the
//! turn of the one that was longest not asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use grasp_core::name::Identifier;

use super::host::Host;
use super::settings::{
    HALVED_FOR, HOSTS_MAX, HuntSettings, MINUTE, PAUSE_DEFAULT, PAUSE_MAX, PROBED_FOR,
};
use crate::engine::Time;

/// How urgent it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Something waits.
    Waiting,
    /// Only what is parked is owed (HUNT-13).
    Parked,
}

/// A place in the ring of a host: the more urgent first, then the lowest number.
pub(super) type Place = (Rank, u64);

/// Why a fetch was put off. Each counts once for each time that somebody begins to wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deferred {
    /// As many fetches as may run at that host do.
    pub busy: u64,
    /// As many as may begin in a minute have begun there.
    pub per_minute: u64,
    /// The host asked for a pause.
    pub paused: u64,
    /// As many fetches as may run in all do.
    pub slots: u64,
    /// The host is left alone.
    pub naughty: u64,
}

/// What keeps a host from being asked.
enum Obstacle {
    Busy,
    PerMinute(Time),
    Paused(Time),
}

#[derive(Debug, Default)]
struct HostState {
    running: usize,
    /// When the fetches of the last minute began.
    starts: VecDeque<Time>,
    waiting: BTreeSet<(Place, Identifier)>,
    /// The last turn that it had, among all hosts.
    turn: u64,
    /// How it stands among those that may be asked.
    open: Option<(Rank, u64)>,
    is_grasp: bool,
    probed_at: Option<Time>,
    paused_until: Option<Time>,
    halved_until: Option<Time>,
    naughty_until: Option<Time>,
}

impl HostState {
    fn limits(&self, now: Time, settings: &HuntSettings) -> (usize, usize) {
        if !self.is_grasp {
            return (settings.per_domain.get(), settings.per_minute.get());
        }
        let (running, minute) = (settings.per_grasp_host, settings.grasp_per_minute);
        let is_halved = self.halved_until.is_some_and(|until| until > now);
        let halved = |n: usize| if is_halved { (n / 2).max(1) } else { n };
        (halved(running.get()), halved(minute.get()))
    }

    fn obstacle(&mut self, now: Time, settings: &HuntSettings) -> Option<Obstacle> {
        let (running_max, minute_max) = self.limits(now, settings);
        while self.starts.front().is_some_and(|at| *at + MINUTE <= now) {
            self.starts.pop_front();
        }
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return Some(Obstacle::Paused(until));
        }
        if self.running >= running_max {
            return Some(Obstacle::Busy);
        }
        let in_the_way = self.starts.len().checked_sub(minute_max)?;
        let last = self.starts.get(in_the_way)?;
        Some(Obstacle::PerMinute(*last + MINUTE))
    }

    /// Nothing of it counts any more.
    fn is_idle(&self, now: Time) -> bool {
        let is_over = |until: Option<Time>| until.is_none_or(|until| until <= now);
        let last = self.starts.back().map(|at| *at + MINUTE);
        self.running == 0 && self.waiting.is_empty() && is_over(last) && is_over(self.paused_until)
    }
}

/// What follows when something changed at a host.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// When to look again.
    pub(super) wake_at: Option<Time>,
    /// Its limits are in the way, and it may be one that allows more.
    pub(super) probe: bool,
}

/// All hosts.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    of: BTreeMap<Host, HostState>,
    /// Those that may be asked and for which somebody waits.
    open: BTreeSet<((Rank, u64), Host)>,
    turns: u64,
    pub(super) deferred: Deferred,
}

impl Hosts {
    /// Somebody waits for a slot there from now on.
    pub(super) fn wait(
        &mut self,
        host: &Host,
        identifier: &Identifier,
        place: Place,
        now: Time,
        settings: &HuntSettings,
    ) {
        self.make_room(now);
        let state = self.of.entry(host.clone()).or_default();
        state.waiting.insert((place, identifier.clone()));
        match state.obstacle(now, settings) {
            Some(Obstacle::Busy) => self.deferred.busy += 1,
            Some(Obstacle::PerMinute(_)) => self.deferred.per_minute += 1,
            Some(Obstacle::Paused(_)) => self.deferred.paused += 1,
            None => {}
        }
    }

    /// Somebody waits there no more.
    pub(super) fn leave(&mut self, host: &Host, identifier: &Identifier, place: Place) {
        if let Some(state) = self.of.get_mut(host) {
            state.waiting.remove(&(place, identifier.clone()));
        }
    }

    /// Whose turn it is, and where.
    pub(super) fn next(&self) -> Option<(Host, Identifier)> {
        let (_, host) = self.open.first()?;
        let (_, identifier) = self.of.get(host)?.waiting.first()?;
        Some((host.clone(), identifier.clone()))
    }

    /// Whether it is the turn of `identifier` there.
    pub(super) fn is_turn_of(&self, host: &Host, identifier: &Identifier) -> bool {
        let first = self.first(host).map(|(_, first)| first);
        self.is_open(host) && first == Some(identifier)
    }

    /// Takes out of the ring whose turn it is. The host has to be settled.
    pub(super) fn take_turn(&mut self, host: &Host) {
        if let Some(state) = self.of.get_mut(host) {
            state.waiting.pop_first();
        }
    }

    /// Who waits there longest.
    pub(super) fn first(&self, host: &Host) -> Option<&(Place, Identifier)> {
        self.of.get(host)?.waiting.first()
    }

    /// A fetch begins there.
    pub(super) fn begin(&mut self, host: &Host, now: Time) {
        self.turns += 1;
        let turn = self.turns;
        let state = self.of.entry(host.clone()).or_default();
        state.running += 1;
        state.starts.push_back(now);
        state.turn = turn;
    }

    /// A fetch is over.
    pub(super) fn end(&mut self, host: &Host) {
        if let Some(state) = self.of.get_mut(host) {
            state.running = state.running.saturating_sub(1);
        }
    }

    /// Brings up to date whether the host may be asked. Belongs behind every change.
    pub(super) fn settle(&mut self, host: &Host, now: Time, settings: &HuntSettings) -> Settled {
        let Some(state) = self.of.get_mut(host) else {
            return Settled::default();
        };
        if let Some(key) = state.open.take() {
            self.open.remove(&(key, host.clone()));
        }
        let Some(((rank, _), _)) = state.waiting.first() else {
            return Settled::default();
        };
        let rank = *rank;
        let is_unknown = state.probed_at.is_none_or(|at| now.since(at) >= PROBED_FOR);
        match state.obstacle(now, settings) {
            None => {
                let key = (rank, state.turn);
                state.open = Some(key);
                self.open.insert((key, host.clone()));
                Settled::default()
            }
            Some(Obstacle::Paused(until)) => Settled {
                wake_at: Some(until),
                probe: false,
            },
            Some(obstacle) => {
                if is_unknown {
                    state.probed_at = Some(now);
                }
                Settled {
                    wake_at: match obstacle {
                        Obstacle::PerMinute(at) => Some(at),
                        Obstacle::Busy | Obstacle::Paused(_) => None,
                    },
                    probe: is_unknown,
                }
            }
        }
    }

    /// What the host says of itself (HUNT-14).
    pub(super) fn know(&mut self, host: &Host, is_grasp: bool) {
        if let Some(state) = self.of.get_mut(host) {
            state.is_grasp = is_grasp;
        }
    }

    /// HTTP 429 (HUNT-7).
    pub(super) fn pause(&mut self, host: &Host, retry_after: Option<Duration>, now: Time) {
        let pause = retry_after.unwrap_or(PAUSE_DEFAULT).min(PAUSE_MAX);
        let state = self.of.entry(host.clone()).or_default();
        state.paused_until = state.paused_until.max(Some(now + pause));
    }

    /// It has too much to do: 429 or 503 (HUNT-14).
    pub(super) fn halve(&mut self, host: &Host, now: Time) {
        let state = self.of.entry(host.clone()).or_default();
        state.halved_until = Some(now + HALVED_FOR);
    }

    /// It is left alone (HUNT-11). Returns who waited there.
    pub(super) fn shun(&mut self, host: &Host, until: Time) -> Vec<Identifier> {
        let state = self.of.entry(host.clone()).or_default();
        state.naughty_until = Some(until);
        let waiting = state.waiting.iter();
        waiting.map(|(_, identifier)| identifier.clone()).collect()
    }

    /// Whether it is left alone.
    pub(super) fn is_shunned(&self, host: &Host, now: Time) -> bool {
        let until = self.of.get(host).and_then(|state| state.naughty_until);
        until.is_some_and(|until| until > now)
    }

    /// Whether it may be asked, and somebody waits for that.
    pub(super) fn is_open(&self, host: &Host) -> bool {
        self.of.get(host).is_some_and(|state| state.open.is_some())
    }

    /// Whether somebody waits for a slot that a fetch at this host holds.
    pub(super) fn is_wanted(&self, host: &Host) -> bool {
        self.of
            .get(host)
            .is_some_and(|state| !state.waiting.is_empty() && state.open.is_none())
    }

    /// Whether somebody could begin if there were a slot.
    pub(super) fn is_anybody_ready(&self) -> bool {
        !self.open.is_empty()
    }

    /// At the brim a host goes for which nobody waits, with what is known of it; one that is left alone goes last.
    fn make_room(&mut self, now: Time) {
        if self.of.len() < HOSTS_MAX {
            return;
        }
        let idle = self.of.iter().filter(|(_, state)| state.is_idle(now));
        let goes = idle.min_by_key(|(_, state)| (state.naughty_until, state.turn));
        if let Some(host) = goes.map(|(host, _)| host.clone()) {
            self.of.remove(&host);
        }
    }
}

#[cfg(test)]
mod tests;
