//! What is known of one identifier.

use std::collections::BTreeMap;
use std::time::Duration;

use grasp_core::hunt::{GroupKey, GroupOwed, Owed};

use super::attempt::{Attempt, Turn};
use super::host::Host;
use super::hosts::{Place, Rank};
use super::io::StoredEntry;
use super::queue::SyncQueueEntry;
use super::settings::{BACKOFF_MAX, HOURLY, PLACES_MAX};
use crate::engine::Time;

/// One identifier.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) queue: SyncQueueEntry,
    /// Only what is parked is owed (G2-4).
    pub(super) is_parked: bool,
    /// News came that no look has taken into account: when to look.
    pub(super) news_at: Option<Time>,
    /// A look is under way.
    pub(super) is_gathering: bool,
    pub(super) attempt: Option<Attempt>,
    /// When what is parked of each group is looked for next.
    hourly: BTreeMap<GroupKey, Time>,
    /// When each group had its last turn, in numbers that rise.
    pub(super) turns: BTreeMap<GroupKey, u64>,
    /// Where it waits for a slot.
    pub(super) waits: BTreeMap<Host, Place>,
    /// The places it had where it got no slot: they are kept for the next attempt, or those at the end of a long ring would never
    /// come to the front.
    pub(super) places: BTreeMap<Host, u64>,
    /// When a source answered last.
    pub(super) last_answer: Option<Time>,
}

impl Entry {
    /// Something is owed, and to be looked for from `not_before` on (HUNT-2).
    pub(super) fn new(not_before: Time, now: Time) -> Self {
        Self::of(SyncQueueEntry::new(not_before.since(now), now), false)
    }

    /// What was remembered. Times are capped, so that a clock which was wrong does no lasting harm (HUNT-1a).
    pub(super) fn loaded(stored: StoredEntry, now: Time) -> Self {
        let longest = if stored.is_parked {
            HOURLY.1
        } else {
            BACKOFF_MAX
        };
        let queue = SyncQueueEntry {
            next_attempt: stored.next_attempt.min(now + longest),
            attempt_count: stored.attempt_count,
            in_progress: false,
        };
        Self::of(queue, stored.is_parked)
    }

    fn of(queue: SyncQueueEntry, is_parked: bool) -> Self {
        Self {
            queue,
            is_parked,
            news_at: None,
            is_gathering: false,
            attempt: None,
            hourly: BTreeMap::new(),
            turns: BTreeMap::new(),
            waits: BTreeMap::new(),
            places: BTreeMap::new(),
            last_answer: None,
        }
    }

    /// A new event (HUNT-4).
    pub(super) fn on_new_event(&mut self, not_before: Time, now: Time) {
        self.queue.on_new_event(not_before.since(now), now);
        if self.queue.in_progress {
            let at = self.news_at.map_or(not_before, |at| at.min(not_before));
            self.news_at = Some(at);
        }
    }

    /// Whether it is time to look: at the beginning of an attempt, or because there is news in one.
    pub(super) fn is_due(&self, now: Time) -> bool {
        let has_news = self.news_at.is_some_and(|at| at <= now);
        !self.is_gathering && (has_news || self.queue.is_ready(now))
    }

    pub(super) fn rank(&self) -> Rank {
        if self.is_parked {
            Rank::Parked
        } else {
            Rank::Waiting
        }
    }

    pub(super) fn stored(&self) -> StoredEntry {
        StoredEntry {
            next_attempt: self.queue.next_attempt,
            attempt_count: self.queue.attempt_count,
            is_parked: self.is_parked,
        }
    }

    /// The groups to look for now. What is parked joins when its hour has come, and when there was news: it may say of a new place.
    /// `jitter` is for the next hour.
    pub(super) fn plan(
        &mut self,
        owed: Owed,
        now: Time,
        mut jitter: impl FnMut() -> Duration,
    ) -> Vec<Turn> {
        let was_parked = self.is_parked;
        let has_news = self.queue.attempt_count == 0;
        let is_waiting = |group: &GroupOwed| !group.wants.is_empty();
        self.is_parked = !owed.is_empty() && !owed.groups.iter().any(is_waiting);
        let find = |group: &GroupKey| owed.groups.iter().find(|owed| owed.group == *group);
        self.turns.retain(|group, _| find(group).is_some());
        self.hourly
            .retain(|group, _| find(group).is_some_and(|owed| !owed.parked.is_empty()));
        let mut turns = Vec::new();
        for mut owed in owed.groups {
            let is_due = match self.hourly.get(&owed.group) {
                Some(at) => *at <= now,
                None => was_parked,
            };
            let joins = !owed.parked.is_empty() && (is_due || has_news);
            if joins || (!owed.parked.is_empty() && !self.hourly.contains_key(&owed.group)) {
                let next = super::attempt::hourly(now, jitter());
                self.hourly.insert(owed.group, next);
            }
            let rank = if owed.wants.is_empty() {
                Rank::Parked
            } else {
                Rank::Waiting
            };
            let wants = wants_of(&mut owed, joins);
            if !wants.is_empty() {
                turns.push(Turn::new(owed, wants, rank));
            }
        }
        turns
    }

    /// Who waited in vain for a slot is not put off for an hour (G2-4).
    pub(super) fn on_left_out(&mut self, group: &GroupKey, now: Time) {
        if let Some(at) = self.hourly.get_mut(group) {
            *at = now + BACKOFF_MAX;
        }
    }

    /// An attempt is over (HUNT-4). What is only parked waits for its hour instead (G2-4).
    pub(super) fn on_attempt_complete(&mut self, now: Time) {
        self.queue.on_sync_complete(now);
        if let Some(hour) = self.hourly.values().min().filter(|_| self.is_parked)
            && self.news_at.is_none()
        {
            self.queue.next_attempt = *hour;
        }
        self.news_at = None;
        while self.places.len() > PLACES_MAX {
            self.places.pop_last();
        }
    }
}

fn wants_of(owed: &mut GroupOwed, with_parked: bool) -> Vec<grasp_core::oid::Oid> {
    let mut wants = std::mem::take(&mut owed.wants);
    if with_parked {
        wants.append(&mut owed.parked);
    }
    wants
}
