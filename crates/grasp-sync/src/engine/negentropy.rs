//! Ids that set reconciliation named: what to ask for, and what to do about those that do not come (SYNC-26).

use std::collections::VecDeque;
use std::time::Duration;

use grasp_core::EventId;

use super::settings::IDS_PER_REQ;
use super::time::Time;

/// At most so many ids of a relay are remembered; the oldest are forgotten first: they come back with the next
/// daily sync.
pub(super) const UNDELIVERED_MAX: usize = 10_000;
/// So often an id is asked for again.
pub(super) const TRIES_MAX: u32 = 12;
/// The wait before the first try, doubling.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_mins(15);
/// Fewer ids than this say nothing about a peer.
const JUDGED_FROM: usize = 20;

/// Whether a peer named ids that it does not give: then its answer to the filter itself is worth more.
pub(super) fn names_in_vain(asked: usize, came: usize) -> bool {
    asked >= JUDGED_FROM && came.saturating_mul(10) <= asked
}

#[derive(Debug, Clone, Copy)]
struct Undelivery {
    id: EventId,
    tries: u32,
    due: Time,
}

/// Ids that a relay named and did not deliver, oldest first.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    waiting: VecDeque<Undelivery>,
}

impl Undelivered {
    /// They did not come, `tries` times so far.
    pub(super) fn add(&mut self, ids: impl IntoIterator<Item = EventId>, tries: u32, now: Time) {
        if tries >= TRIES_MAX {
            return;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << tries).min(LONGEST_WAIT);
        let due = now + wait;
        let entries = ids.into_iter().map(|id| Undelivery { id, tries, due });
        self.waiting.extend(entries);
        let surplus = self.waiting.len().saturating_sub(UNDELIVERED_MAX);
        self.waiting.drain(..surplus);
    }

    /// Takes out what is due and as often tried as the first of them: as much as one question holds.
    pub(super) fn take_due(&mut self, now: Time) -> (Vec<EventId>, u32) {
        let mut taken = Vec::new();
        let due = self.waiting.iter().filter(|entry| entry.due <= now);
        let tries = due.map(|entry| entry.tries).next().unwrap_or_default();
        self.waiting.retain(|entry| {
            let take = entry.due <= now && entry.tries == tries && taken.len() < IDS_PER_REQ;
            if take {
                taken.push(entry.id);
            }
            !take
        });
        (taken, tries)
    }

    /// When the next is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.waiting.iter().map(|entry| entry.due).min()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::id;

    /// SYNC-26
    #[test]
    fn an_id_is_asked_for_twelve_times_at_growing_distances() {
        let mut now = Time::from_secs(0);
        let mut undelivered = Undelivered::default();
        undelivered.add([id(1)], 0, now);
        let mut waits = Vec::new();
        while let Some(due) = undelivered.next() {
            waits.push(due.since(now).as_secs());
            now = due;
            let (ids, tries) = undelivered.take_due(now);
            undelivered.add(ids, tries + 1, now);
        }
        assert_eq!(
            waits,
            [30, 60, 120, 240, 480, 900, 900, 900, 900, 900, 900, 900]
        );
        assert_eq!(waits.len(), TRIES_MAX as usize);
    }

    /// SYNC-26
    #[test]
    fn the_oldest_come_first_and_are_forgotten_first() {
        let now = Time::from_secs(0);
        let mut undelivered = Undelivered::default();
        let n = u32::try_from(UNDELIVERED_MAX).expect("small") + 5;
        undelivered.add((0..n).map(id), 0, now);
        assert_eq!(undelivered.len(), UNDELIVERED_MAX);
        let (first, _) = undelivered.take_due(now + FIRST_WAIT);
        assert_eq!((first.len(), first[0]), (IDS_PER_REQ, id(5)));
    }

    /// SYNC-26
    #[test]
    fn a_peer_that_gives_a_tenth_of_what_it_named_is_asked_otherwise() {
        assert!(names_in_vain(20, 2) && names_in_vain(300, 30));
        assert!(!names_in_vain(19, 0) && !names_in_vain(20, 3));
    }
}
