//! Begins attempts with a look at what is owed, and ends them (HUNT-1, HUNT-4, HUNT-5a, G2-4).

use std::collections::BTreeSet;

use grasp_core::clone_url::CloneUrl;
use grasp_core::hunt::Owed;
use grasp_core::name::Identifier;

use super::attempt::Attempt;
use super::entry::Entry;
use super::hosts::Rank;
use super::io::{Output, StoredEntry};
use super::settings::{ATTEMPT_MAX, GATHERS_MAX, HOURLY, LOAD_MAX};
use super::{Hunt, Timer};
use crate::engine::Time;

/// Identifiers whose time has come: a few are looked into at once, and only while there is room for what they bring.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// The urgent ones first, in the order in which they came; of the parked ones whose sources answered least lately.
    waiting: BTreeSet<(Rank, u64, Identifier)>,
    running: usize,
    /// What all attempts hold.
    load: usize,
}

impl Hunt {
    pub(super) fn load(&mut self, entries: Vec<(Identifier, StoredEntry)>) {
        for (identifier, stored) in entries {
            let entry = Entry::loaded(stored, self.now);
            self.timers
                .set(Timer::Look(identifier.clone()), entry.queue.next_attempt);
            self.entries.insert(identifier, entry);
        }
    }

    pub(super) fn enqueue(&mut self, identifier: Identifier, not_before: Time) {
        let now = self.now;
        let entry = self
            .entries
            .entry(identifier.clone())
            .or_insert_with(|| Entry::new(not_before, now));
        entry.on_new_event(not_before, now);
        entry.is_parked &= entry.queue.in_progress;
        let at = entry.news_at.unwrap_or(entry.queue.next_attempt);
        self.timers.set_at_latest(Timer::Look(identifier), at);
    }

    /// The time has come to look, at the beginning of an attempt or because there is news in one.
    pub(super) fn look_is_due(&mut self, identifier: Identifier) {
        let number = self.next_number();
        let entry = self.entries.get(&identifier);
        let Some(entry) = entry.filter(|entry| entry.is_due(self.now)) else {
            return; // a look that runs takes news into account when it ends
        };
        let rank = entry.rank();
        let number = match rank {
            Rank::Waiting => number,
            Rank::Parked => entry.last_answer.map_or(0, Time::as_millis),
        };
        self.looks.waiting.insert((rank, number, identifier));
    }

    pub(super) fn begin_looks(&mut self) {
        while self.looks.running < GATHERS_MAX && self.looks.load < LOAD_MAX {
            let Some((_, _, identifier)) = self.looks.waiting.pop_first() else {
                return;
            };
            let entry = self.entries.get_mut(&identifier);
            let Some(entry) = entry.filter(|entry| entry.is_due(self.now)) else {
                continue; // it stood here twice
            };
            entry.is_gathering = true;
            entry.queue.in_progress = true;
            entry.news_at = None;
            if let Some(attempt) = &mut entry.attempt {
                attempt.brought.clear();
            }
            self.looks.running += 1;
            self.out.push(Output::Gather { identifier });
        }
    }

    pub(super) fn gathered(&mut self, identifier: &Identifier, owed: Owed, seen: u64) {
        let now = self.now;
        let Some(entry) = self
            .entries
            .get_mut(identifier)
            .filter(|it| it.is_gathering)
        else {
            return;
        };
        entry.is_gathering = false;
        self.looks.running -= 1;
        let has_news = entry.news_at.is_some();
        if owed.is_empty() && !has_news {
            self.forget(identifier, seen);
            return;
        }
        let span = HOURLY.1.saturating_sub(HOURLY.0);
        let chance = &mut self.chance;
        let mut turns = entry.plan(owed, now, || chance.up_to(span));
        for turn in &mut turns {
            let is_slow = |source: &CloneUrl| self.grudges.is_slow(source, now);
            turn.untried.sort_by_key(|(_, source)| is_slow(source));
        }
        let before = entry.attempt.as_ref().map_or(0, |attempt| attempt.weight);
        let attempt = match entry.attempt.take() {
            Some(mut attempt) => {
                attempt.renew(turns);
                attempt
            }
            None => Attempt::new(turns, &entry.turns, now + ATTEMPT_MAX),
        };
        self.looks.load = (self.looks.load + attempt.weight).saturating_sub(before);
        let ends_at = attempt.ends_at;
        entry.attempt = Some(attempt);
        if let Some(at) = entry.news_at {
            self.timers.set(Timer::Look(identifier.clone()), at);
        }
        self.timers
            .set(Timer::AttemptOver(identifier.clone()), ends_at);
        self.stir(identifier);
    }

    /// The attempt is over. What still moves goes on by itself (HUNT-5a).
    pub(super) fn complete(&mut self, identifier: &Identifier) {
        self.end_attempt(identifier);
        let now = self.now;
        let Some(entry) = self.entries.get_mut(identifier) else {
            return;
        };
        if entry.is_gathering {
            // The look began within this attempt; what it finds is the beginning of the next.
            return;
        }
        entry.on_attempt_complete(now);
        let stored = entry.stored();
        self.timers
            .set(Timer::Look(identifier.clone()), stored.next_attempt);
        self.out.push(Output::Save {
            identifier: identifier.clone(),
            entry: stored,
        });
    }

    fn end_attempt(&mut self, identifier: &Identifier) {
        self.timers.cancel(&Timer::AttemptOver(identifier.clone()));
        let Some(entry) = self.entries.get_mut(identifier) else {
            return;
        };
        let Some(attempt) = entry.attempt.take() else {
            return;
        };
        self.looks.load = self.looks.load.saturating_sub(attempt.weight);
        for group in &attempt.left_out {
            entry.on_left_out(group, self.now);
        }
        for turn in &attempt.turns {
            self.timers
                .cancel(&Timer::Hedge(identifier.clone(), turn.group));
            if turn.was_left_out() {
                entry.on_left_out(&turn.group, self.now);
            }
        }
        let waits = std::mem::take(&mut entry.waits);
        for (host, place) in waits {
            self.hosts.leave(&host, identifier, place);
            self.settle_host(&host);
        }
        self.detach(identifier);
    }

    /// Nothing is owed any more (HUNT-4).
    fn forget(&mut self, identifier: &Identifier, seen: u64) {
        self.stop_all(identifier);
        self.end_attempt(identifier);
        self.entries.remove(identifier);
        self.timers.cancel(&Timer::Look(identifier.clone()));
        self.out.push(Output::Forget {
            identifier: identifier.clone(),
            seen,
        });
    }
}
