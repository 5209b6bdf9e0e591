//! Replies whose replies are asked for: what hangs on a reply and names neither the root nor the repository is found by
//! nothing else (SYNC-35).
//!
//! Breadth first: a reply that is served is asked about where its root is followed; what comes of it is served, and asked
//! about in turn. Young conversations are asked about every minute, quiet ones ever more rarely, and always about all answers, so
//! that the next question makes up for one that was lost. *Invariant:* at most
//! [`DESCENDANTS_MAX`] are asked about, of each root as many as the operator allows, and none below [`DEPTH_MAX`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use grasp_core::EventId;

use crate::engine::Time;

/// Replies deeper below their root are not asked about.
pub const DEPTH_MAX: u8 = 8;
/// At most so many are asked about; at the brim the one that was added first goes.
pub const DESCENDANTS_MAX: usize = 3_200;
/// The pause before the same reply is asked about again; it doubles.
pub const REFRESH: Duration = Duration::from_mins(1);
/// The longest pause.
pub const REFRESH_MAX: Duration = Duration::from_hours(1);

/// A reply to ask about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The reply.
    pub id: EventId,
    /// What it hangs on in the end: where that is followed it is asked.
    pub root: EventId,
}

#[derive(Debug)]
struct Reply {
    root: EventId,
    depth: u8,
    /// Counts up: who came first goes first.
    number: u64,
    asked: u32,
    due: Time,
}

/// The replies that are asked about. See the [module](self).
#[derive(Debug)]
pub struct Descendants {
    per_root: usize,
    replies: BTreeMap<EventId, Reply>,
    roots: BTreeMap<EventId, usize>,
    due: BTreeSet<(Time, EventId)>,
    order: BTreeMap<u64, EventId>,
    last_number: u64,
}

impl Descendants {
    /// Nothing is asked about. Of each root at most `per_root` will be.
    pub fn new(per_root: usize) -> Self {
        Self {
            per_root,
            replies: BTreeMap::new(),
            roots: BTreeMap::new(),
            due: BTreeSet::new(),
            order: BTreeMap::new(),
            last_number: 0,
        }
    }

    /// A reply below `root`, to these events, is served.
    pub fn add(&mut self, id: EventId, root: EventId, parents: &[EventId], now: Time) {
        let of_parents = parents.iter().filter_map(|parent| self.replies.get(parent));
        let hangs_on_root = parents.is_empty() || parents.contains(&root);
        let below = of_parents.map(|parent| parent.depth).max();
        let Some(below) = below.or(hangs_on_root.then_some(0)) else {
            // On a reply that is not asked about itself.
            return;
        };
        let depth = below + 1;
        let of_root = self.roots.get(&root).copied().unwrap_or(0);
        if depth > DEPTH_MAX || of_root >= self.per_root || self.replies.contains_key(&id) {
            return;
        }
        if self.replies.len() >= DESCENDANTS_MAX
            && let Some((_, first)) = self.order.first_key_value()
        {
            self.remove(&first.clone());
        }
        self.last_number += 1;
        *self.roots.entry(root).or_default() += 1;
        self.order.insert(self.last_number, id);
        self.due.insert((now, id));
        let reply = Reply {
            root,
            depth,
            number: self.last_number,
            asked: 0,
            due: now,
        };
        self.replies.insert(id, reply);
    }

    /// An event is served no longer: whatever it was, nothing is asked about it.
    pub fn remove(&mut self, id: &EventId) {
        let Some(reply) = self.replies.remove(id) else {
            return;
        };
        self.due.remove(&(reply.due, *id));
        self.order.remove(&reply.number);
        if let Some(count) = self.roots.get_mut(&reply.root) {
            *count -= 1;
            if *count == 0 {
                self.roots.remove(&reply.root);
            }
        }
    }

    /// At most `max` of those whose turn it is, the longest overdue first.
    pub fn questions(&mut self, now: Time, max: usize) -> Vec<Question> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now).take(max);
        let due: Vec<EventId> = due.map(|(_, id)| *id).collect();
        due.into_iter()
            .filter_map(|id| self.question(id, now))
            .collect()
    }

    fn question(&mut self, id: EventId, now: Time) -> Option<Question> {
        let reply = self.replies.get_mut(&id)?;
        let pause = REFRESH.saturating_mul(1 << reply.asked.min(16));
        self.due.remove(&(reply.due, id));
        reply.due = now + pause.min(REFRESH_MAX);
        reply.asked = reply.asked.saturating_add(1);
        self.due.insert((reply.due, id));
        Some(Question {
            id,
            root: reply.root,
        })
    }

    /// When the next question is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// How many replies are asked about.
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u32) -> EventId {
        let mut bytes = [3; 32];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        EventId::from_byte_array(bytes)
    }

    fn at(secs: u64) -> Time {
        Time::from_secs(1_000_000 + secs)
    }

    fn asked(descendants: &mut Descendants, secs: u64) -> Vec<EventId> {
        let questions = descendants.questions(at(secs), usize::MAX).into_iter();
        questions.map(|question| question.id).collect()
    }

    /// SYNC-35: every minute at first, then ever more rarely.
    #[test]
    fn a_reply_is_asked_about_at_once_and_again() {
        let mut descendants = Descendants::new(500);
        descendants.add(id(1), id(0), &[id(0)], at(0));
        let first = Question {
            id: id(1),
            root: id(0),
        };
        assert_eq!(descendants.questions(at(0), 10), [first]);
        assert_eq!(descendants.questions(at(59), 10), []);
        assert_eq!(descendants.questions(at(60), 10), [first]);
        assert_eq!(descendants.next_deadline(), Some(at(180)));
        let mut last = 60;
        for _ in 0..20 {
            let next = descendants.next_deadline().expect("it goes on");
            assert!(next.since(at(last)) <= REFRESH_MAX);
            last = next.since(at(0)).as_secs();
            assert_eq!(asked(&mut descendants, last), [id(1)]);
        }
    }

    /// SYNC-35: breadth first, to depth 8.
    #[test]
    fn what_lies_too_deep_is_not_asked_about() {
        let mut descendants = Descendants::new(500);
        for n in 1..=10 {
            descendants.add(id(n), id(0), &[id(n - 1)], at(0));
        }
        assert_eq!(descendants.len(), usize::from(DEPTH_MAX));
        let known = asked(&mut descendants, 0);
        assert!(known.contains(&id(8)) && !known.contains(&id(9)));
    }

    /// SYNC-35: `NGIT_SYNC_RECURSIVE_DESCENDANT_LIMIT` of each root.
    #[test]
    fn a_root_has_so_many_and_no_more() {
        let mut descendants = Descendants::new(3);
        for n in 1..=5 {
            descendants.add(id(n), id(0), &[id(0)], at(0));
            descendants.add(id(n + 100), id(100), &[id(100)], at(0));
        }
        assert_eq!(descendants.len(), 6);
        descendants.remove(&id(1));
        descendants.add(id(5), id(0), &[id(0)], at(0));
        descendants.add(id(5), id(0), &[id(0)], at(0));
        assert_eq!(descendants.len(), 6, "there was room for one again");
    }

    /// SYNC-35: the newest stay.
    #[test]
    fn at_the_brim_the_first_goes() {
        let mut descendants = Descendants::new(DESCENDANTS_MAX);
        let max = u32::try_from(DESCENDANTS_MAX).expect("small");
        for n in 1..=max + 2 {
            descendants.add(id(n), id(n + 1_000_000), &[], at(0));
        }
        assert_eq!(descendants.len(), DESCENDANTS_MAX);
        let known = asked(&mut descendants, 0);
        assert!(!known.contains(&id(1)) && !known.contains(&id(2)));
        assert!(known.contains(&id(3)) && known.contains(&id(max + 2)));
        for n in 0..=max + 2 {
            descendants.remove(&id(n));
        }
        assert!(descendants.is_empty() && descendants.next_deadline().is_none());
    }

    #[test]
    fn a_pass_takes_a_part_and_the_rest_stays_due() {
        let mut descendants = Descendants::new(500);
        for n in 1..=10 {
            descendants.add(id(n), id(0), &[], at(0));
        }
        assert_eq!(descendants.questions(at(0), 7).len(), 7);
        assert_eq!(descendants.questions(at(0), 7).len(), 3);
    }
}
