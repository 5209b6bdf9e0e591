//! Orders fetches when there is a slot, and takes in how they ended.

use std::collections::{BTreeSet, VecDeque};

use grasp_core::clone_url::CloneUrl;
use grasp_core::hunt::GroupKey;
use grasp_core::name::Identifier;
use grasp_core::oid::Oid;

use super::Hunt;
use super::attempt::{Attempt, Flight};
use super::host::Host;
use super::hosts::Rank;
use super::io::{FetchEnd, FetchId, FetchOrder, FetchOutcome, Output};
use crate::engine::Time;

/// A fetch that runs.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) identifier: Identifier,
    pub(super) group: GroupKey,
    pub(super) host: Host,
    source: CloneUrl,
    /// What it may still bring.
    wants: BTreeSet<Oid>,
    pub(super) began: Time,
    pub(super) bytes: u64,
    /// How much there was when, for the last ten minutes.
    pub(super) samples: VecDeque<(Time, u64)>,
    pub(super) is_detached: bool,
    pub(super) is_stopped: bool,
    /// How many sources its group has.
    pub(super) choices: usize,
    /// It was stopped because it was silent or slow.
    is_slow: bool,
}

impl Fetch {
    pub(super) fn flight(&self) -> Flight {
        Flight {
            host: self.host.clone(),
            began: self.began,
            is_detached: self.is_detached,
        }
    }
}

impl Hunt {
    /// Begins one fetch, if somebody waits at a host that may be asked and there is a slot.
    pub(super) fn begin_fetch(&mut self) -> bool {
        if self.fetches.len() >= self.settings.fetches_max.get() {
            return false;
        }
        let Some((host, identifier)) = self.hosts.next() else {
            return false;
        };
        let host = self.likeliest(&identifier, host);
        self.hosts.take_turn(&host);
        if let Some(order) = self.order(&host, &identifier) {
            self.out.push(Output::Fetch(order));
        }
        self.settle_host(&host);
        self.stir(&identifier);
        true
    }

    /// Of the hosts where it is the identifier's turn, the one that its group would ask first.
    fn likeliest(&self, identifier: &Identifier, host: Host) -> Host {
        let attempt = self
            .entries
            .get(identifier)
            .and_then(|entry| entry.attempt.as_ref());
        let Some(turn) = attempt.and_then(|attempt| attempt.taker(&host)) else {
            return host;
        };
        let mut waited_for = turn.untried.iter().map(|(host, _)| host);
        let first = waited_for
            .find(|host| turn.waits_at.contains(*host) && self.hosts.is_turn_of(host, identifier));
        first.cloned().unwrap_or(host)
    }

    fn order(&mut self, host: &Host, identifier: &Identifier) -> Option<FetchOrder> {
        let entry = self.entries.get_mut(identifier)?;
        // The slot is taken, and with it the place: next time it is the turn of others.
        entry.places.remove(host);
        entry.waits.remove(host);
        let attempt = entry.attempt.as_mut()?;
        let group = attempt.taker(host)?.group;
        let turn = attempt.turn(&group)?;
        let source = turn.take_source(host)?;
        turn.waits_at.clear();
        let (into, wants) = (turn.into.clone(), turn.wants.clone());
        let choices = turn.choices;
        let is_parked = turn.rank == Rank::Parked;
        let is_hedge = self
            .fetches
            .values()
            .any(|fetch| fetch.identifier == *identifier && fetch.group == group);
        let unless = self.grudges.unless(&source, wants.iter(), self.now);
        self.last_fetch.0 += 1;
        let fetch = self.last_fetch;
        let running = Fetch {
            identifier: identifier.clone(),
            group,
            host: host.clone(),
            source: source.clone(),
            wants: wants.iter().copied().collect(),
            began: self.now,
            bytes: 0,
            samples: VecDeque::new(),
            is_detached: false,
            is_stopped: false,
            choices,
            is_slow: false,
        };
        self.fetches.insert(fetch, running);
        self.hosts.begin(host, self.now);
        self.watch(fetch);
        Some(FetchOrder {
            fetch,
            identifier: identifier.clone(),
            group,
            into,
            source,
            wants,
            is_hedge,
            is_parked,
            unless,
        })
    }

    pub(super) fn ended(&mut self, id: FetchId, end: FetchEnd) {
        let Some(fetch) = self.fetches.remove(&id) else {
            return;
        };
        self.unwatch(id);
        self.hosts.end(&fetch.host);
        self.learn(&fetch, &end.outcome);
        self.settle_host(&fetch.host);
        let mut brought = end.installed;
        if end.outcome == FetchOutcome::Overtaken {
            brought.extend(&fetch.wants);
        }
        self.brought(&fetch, &brought);
        if matches!(end.outcome, FetchOutcome::Ours { .. }) {
            self.give_up_turn(&fetch);
        }
        self.stir(&fetch.identifier);
    }

    /// What the outcome says of host and address.
    fn learn(&mut self, fetch: &Fetch, outcome: &FetchOutcome) {
        let now = self.now;
        match outcome {
            FetchOutcome::Complete => self.answered(&fetch.identifier),
            FetchOutcome::Lacks {
                missing,
                advertisement,
            } => {
                self.answered(&fetch.identifier);
                if let Some(advertisement) = advertisement {
                    self.grudges
                        .lacks(&fetch.source, *advertisement, missing, now);
                }
            }
            FetchOutcome::RateLimited { retry_after } => {
                self.hosts.pause(&fetch.host, *retry_after, now);
                self.hosts.halve(&fetch.host, now);
            }
            FetchOutcome::Unavailable => self.hosts.halve(&fetch.host, now),
            FetchOutcome::Broken(_) | FetchOutcome::Forbidden => {
                let until = now + self.settings.naughty_pause;
                for waiting in self.hosts.shun(&fetch.host, until) {
                    self.stir(&waiting);
                }
            }
            FetchOutcome::Harmful { .. } => self.grudges.harmed(&fetch.source, now),
            FetchOutcome::Stopped if fetch.is_slow => self.grudges.dragged(&fetch.source, now),
            FetchOutcome::Overtaken
            | FetchOutcome::Refused { .. }
            | FetchOutcome::Stopped
            | FetchOutcome::Ours { .. } => {}
        }
    }

    fn answered(&mut self, identifier: &Identifier) {
        if let Some(entry) = self.entries.get_mut(identifier) {
            entry.last_answer = Some(self.now);
        }
    }

    /// What is here need not be brought by anybody else (HUNT-8).
    fn brought(&mut self, by: &Fetch, oids: &BTreeSet<Oid>) {
        if oids.is_empty() {
            return;
        }
        if let Some(attempt) = self.attempt(&by.identifier) {
            attempt.brought(&by.group, oids);
        }
        let mut useless = Vec::new();
        for (id, fetch) in &mut self.fetches {
            let is_related = fetch.identifier == by.identifier
                && fetch.group.beneficiaries() == by.group.beneficiaries();
            if is_related {
                fetch.wants.retain(|oid| !oids.contains(oid));
                if fetch.wants.is_empty() {
                    useless.push(*id);
                }
            }
        }
        for id in useless {
            self.stop(id);
        }
    }

    /// We cannot take anything in: whoever else were asked would be asked in vain.
    fn give_up_turn(&mut self, fetch: &Fetch) {
        if let Some(attempt) = self.attempt(&fetch.identifier)
            && let Some(turn) = attempt.turn(&fetch.group)
        {
            turn.untried.clear();
        }
    }

    fn attempt(&mut self, identifier: &Identifier) -> Option<&mut Attempt> {
        self.entries.get_mut(identifier)?.attempt.as_mut()
    }

    /// Gives a fetch up. It keeps its slot until nothing of it runs any more.
    pub(super) fn stop(&mut self, id: FetchId) {
        if let Some(fetch) = self.fetches.get_mut(&id)
            && !fetch.is_stopped
        {
            fetch.is_stopped = true;
            self.unwatch(id);
            self.out.push(Output::Stop { fetch: id });
        }
    }

    /// It is silent, or slow and in the way.
    pub(super) fn stop_slow(&mut self, id: FetchId) {
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.is_slow = true;
        }
        self.stop(id);
    }

    /// The attempt that it belongs to is over (HUNT-5a).
    pub(super) fn detach(&mut self, identifier: &Identifier) {
        for fetch in self.fetches.values_mut() {
            fetch.is_detached |= fetch.identifier == *identifier;
        }
    }

    /// Nothing of the identifier is owed.
    pub(super) fn stop_all(&mut self, identifier: &Identifier) {
        let all = self.fetches.iter();
        let ids: Vec<FetchId> = all
            .filter(|(_, fetch)| fetch.identifier == *identifier)
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.stop(id);
        }
    }
}
