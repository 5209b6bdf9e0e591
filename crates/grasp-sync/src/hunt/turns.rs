//! Goes round the groups of one attempt.

use std::collections::BTreeMap;

use grasp_core::name::Identifier;

use super::attempt::{Attempt, Flight};
use super::host::Host;
use super::hosts::{Place, Rank};
use super::io::Output;
use super::{Hunt, Timer};
use crate::engine::Time;

impl Hunt {
    /// Lets groups begin, works out where each waits, and ends the attempt when all had their turn.
    pub(super) fn take_turns(&mut self, identifier: &Identifier) {
        loop {
            let begun = self.begin_turns(identifier);
            self.look_at_turns(identifier);
            if !begun {
                break;
            }
        }
        self.wait_in_rings(identifier);
        let Some(entry) = self.entries.get(identifier) else {
            return;
        };
        let is_done = entry.attempt.as_ref().is_some_and(Attempt::is_done);
        // News of this very moment belongs to this attempt.
        let is_quiet = !entry.is_gathering && entry.news_at.is_none_or(|at| at > self.now);
        if is_done && is_quiet {
            self.finish(identifier);
        }
    }

    /// All groups had their turn. If all came that was missing, probably nothing is owed any more: a look tells.
    fn finish(&mut self, identifier: &Identifier) {
        let entry = self.entries.get_mut(identifier);
        let Some(entry) = entry.filter(|entry| {
            let attempt = entry.attempt.as_ref();
            attempt.is_some_and(Attempt::is_filled)
        }) else {
            self.complete(identifier);
            return;
        };
        entry.news_at = Some(self.now);
        self.look_is_due(identifier.clone());
    }

    fn begin_turns(&mut self, identifier: &Identifier) -> bool {
        let entry = self.entries.get_mut(identifier);
        let Some((entry, attempt)) = entry.and_then(|entry| {
            let attempt = entry.attempt.take()?;
            Some((entry, attempt))
        }) else {
            return false;
        };
        let mut attempt = attempt;
        let begun = attempt.begin_turns();
        for group in &begun {
            self.last_number += 1;
            entry.turns.insert(*group, self.last_number);
        }
        entry.attempt = Some(attempt);
        !begun.is_empty()
    }

    fn look_at_turns(&mut self, identifier: &Identifier) {
        let (now, per_group) = (self.now, self.settings.per_group.get());
        let Some(attempt) = self
            .entries
            .get_mut(identifier)
            .and_then(|entry| entry.attempt.as_mut())
        else {
            return;
        };
        for turn in &mut attempt.turns {
            let flights: Vec<Flight> = self
                .fetches
                .values()
                .filter(|fetch| fetch.identifier == *identifier && fetch.group == turn.group)
                .map(super::fetches::Fetch::flight)
                .collect();
            let look = turn.look(&flights, per_group, now, |host, source| {
                self.hosts.is_shunned(host, now) || self.grudges.is_shunned(source, now)
            });
            let hedge = Timer::Hedge(identifier.clone(), turn.group);
            self.hosts.deferred.naughty += look.shunned as u64;
            match look.again_at {
                Some(at) => self.timers.set(hedge, at),
                None => self.timers.cancel(&hedge),
            }
        }
    }

    /// Takes and leaves places, until the identifier waits exactly where one of its groups does.
    fn wait_in_rings(&mut self, identifier: &Identifier) {
        let Some(entry) = self.entries.get(identifier) else {
            return;
        };
        let wanted: BTreeMap<Host, Rank> = entry
            .attempt
            .as_ref()
            .map_or_else(BTreeMap::new, Attempt::waits_at);
        let left: Vec<(Host, Place)> = entry
            .waits
            .iter()
            .filter(|(host, (rank, _))| wanted.get(*host) != Some(rank))
            .map(|(host, place)| (host.clone(), *place))
            .collect();
        for (host, place) in left {
            self.leave_ring(identifier, &host, place);
        }
        for (host, rank) in wanted {
            self.join_ring(identifier, &host, rank);
        }
    }

    fn join_ring(&mut self, identifier: &Identifier, host: &Host, rank: Rank) {
        let number = self.next_number();
        let now = self.now;
        let Some(entry) = self.entries.get_mut(identifier) else {
            return;
        };
        if entry.waits.contains_key(host) {
            return;
        }
        let number = match rank {
            Rank::Waiting => *entry.places.entry(host.clone()).or_insert(number),
            Rank::Parked => entry.last_answer.map_or(0, Time::as_millis),
        };
        let place = (rank, number);
        entry.waits.insert(host.clone(), place);
        self.hosts
            .wait(host, identifier, place, now, &self.settings);
        self.settle_host(host);
        if self.hosts.is_open(host) && self.fetches.len() >= self.settings.fetches_max.get() {
            self.hosts.deferred.slots += 1;
        }
    }

    pub(super) fn leave_ring(&mut self, identifier: &Identifier, host: &Host, place: Place) {
        if let Some(entry) = self.entries.get_mut(identifier) {
            entry.waits.remove(host);
        }
        self.hosts.leave(host, identifier, place);
        self.settle_host(host);
    }

    /// Brings up to date whether the host may be asked.
    pub(super) fn settle_host(&mut self, host: &Host) {
        let settled = self.hosts.settle(host, self.now, &self.settings);
        let timer = Timer::Host(host.clone());
        match settled.wake_at {
            Some(at) => self.timers.set(timer, at),
            None => self.timers.cancel(&timer),
        }
        if settled.probe
            && let Some(at) = self.address_at(host)
        {
            let host = host.clone();
            self.out.push(Output::Probe { host, at });
        }
    }

    /// An address there that somebody waits for.
    fn address_at(&self, host: &Host) -> Option<grasp_core::clone_url::CloneUrl> {
        let (_, identifier) = self.hosts.first(host)?;
        let attempt = self.entries.get(identifier)?.attempt.as_ref()?;
        let untried = attempt.turns.iter().flat_map(|turn| &turn.untried);
        let mut there = untried.filter(|(other, _)| other == host);
        there.next().map(|(_, source)| source.clone())
    }
}
