//! What keys that take part in nothing here may store (EV-8).
//!
//! Lists of servers and requests to delete are taken from anybody, because they may come before the
//! repository they belong to. So a key costs nothing, and neither would a million of them: their events
//! share one budget, and once it is spent each newcomer pushes out the oldest.

use nostr::event::EventId;

use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{Batch, Change, Standing};
use crate::policy::Circumstances;

/// Whether events of this kind are taken from keys that take part in nothing.
pub fn is_open_to_all(kind: u16) -> bool {
    matches!(kind, kind::GRASP_LIST | kind::DELETION | kind::VANISH)
}

/// What the store holds of idle keys, as seen by the event of one that arrives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdleLoad {
    /// Events in all, without those whose place the newcomer takes.
    pub events: usize,
    /// Those that would go first, in that order. As many as the bound asks for, or a good step
    /// towards it.
    pub oldest: Vec<IdleEvent>,
}

/// An event of a key that took part in nothing when it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleEvent {
    /// Its id.
    pub event: EventId,
    /// Its key takes part by now: the event counts no more, and stays.
    pub participates: bool,
}

impl IdleLoad {
    /// How many have to go for one more.
    pub fn excess(events: usize, bound: usize) -> usize {
        events.saturating_add(1).saturating_sub(bound)
    }
}

/// Counts `event`, if it is an idle key's, and makes room for it. Comes last in its batch, after
/// everything that moves what may have to go.
pub(super) fn settle_in(
    event: &VerifiedEvent,
    standing: Standing,
    used: bool,
    idle: Option<&IdleLoad>,
    cx: Circumstances<'_>,
) -> Batch {
    let own = event.author() == cx.policy.relay_owner;
    let Some(load) = idle.filter(|_| standing == Standing::Bare && !own) else {
        return Batch::new();
    };
    let excess = IdleLoad::excess(load.events, cx.policy.idle_events);
    let counted = Change::Idle {
        event: event.id(),
        used,
    };
    let leave = load.oldest.iter().take(excess).map(|oldest| {
        let event = oldest.event;
        if oldest.participates {
            Change::NotIdle { event }
        } else {
            Change::Remove { event }
        }
    });
    std::iter::once(counted).chain(leave).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{DeletionFacts, DeletionTarget, Known, admit_deletion, admit_related};
    use crate::lifecycle::Stage;
    use crate::policy::Policy;
    use crate::related::RelatedFacts;
    use crate::testing::{cx, draft, key, policy};
    use crate::view::ObjectFacts;

    fn old(n: u8, participates: bool) -> IdleEvent {
        IdleEvent {
            event: EventId::from_byte_array([n; 32]),
            participates,
        }
    }

    fn removed(n: u8) -> Change {
        Change::Remove {
            event: old(n, false).event,
        }
    }

    fn load(events: usize, oldest: &[IdleEvent]) -> IdleLoad {
        IdleLoad {
            events,
            oldest: oldest.to_vec(),
        }
    }

    fn of_three() -> Policy {
        Policy {
            idle_events: 3,
            ..policy()
        }
    }

    /// What follows the insertion of a list of servers.
    fn after_list(policy: &Policy, idle: Option<&IdleLoad>) -> (EventId, Batch) {
        let list = draft(kind::GRASP_LIST, key(1)).event();
        let (known, related) = (Known::default(), RelatedFacts::default());
        let mut batch = admit_related(&list, &known, &related, idle, cx(policy)).batch;
        batch.remove(0);
        (list.id(), batch)
    }

    /// EV-2, EV-8
    #[test]
    fn lists_and_requests_come_from_anybody_and_nothing_else_does() {
        let open = (0..=u16::MAX).filter(|kind| is_open_to_all(*kind));
        assert_eq!(open.collect::<Vec<_>>(), [5, 62, 10317]);
    }

    /// EV-8
    #[test]
    fn at_the_bound_the_oldest_goes_with_the_commit_that_stores_the_newcomer() {
        let policy = of_three();
        let counted = |event| Change::Idle { event, used: false };
        let (list, batch) = after_list(&policy, Some(&load(2, &[old(7, false)])));
        assert_eq!(batch, [counted(list)]);
        let full = load(3, &[old(7, false), old(8, false)]);
        let (list, batch) = after_list(&policy, Some(&full));
        assert_eq!(batch, [counted(list), removed(7)]);
    }

    /// EV-8: a bound that was lowered is reached step by step.
    #[test]
    fn above_the_bound_more_than_one_goes() {
        let (_, batch) = after_list(&of_three(), Some(&load(9, &[old(7, false), old(8, false)])));
        assert_eq!(batch[1..], [removed(7), removed(8)]);
    }

    /// EV-8
    #[test]
    fn what_belongs_to_a_key_that_takes_part_by_now_stays_and_counts_no_more() {
        let (_, batch) = after_list(&of_three(), Some(&load(3, &[old(7, true)])));
        let event = old(7, true).event;
        assert_eq!(batch[1..], [Change::NotIdle { event }]);
    }

    /// EV-2, EV-8
    #[test]
    fn participants_and_the_relay_owner_are_not_counted() {
        let mut policy = of_three();
        assert_eq!(after_list(&policy, None).1, []);
        policy.relay_owner = key(1);
        let full = load(3, &[old(7, false)]);
        assert_eq!(after_list(&policy, Some(&full)).1, []);
    }

    /// EV-8, DEL-1: a request that finds what it deletes is of use.
    #[test]
    fn a_deletion_request_counts_as_used_if_it_takes_something_away() {
        let policy = of_three();
        let list = draft(kind::GRASP_LIST, key(1)).event();
        let request = draft(kind::DELETION, key(1))
            .tag(["e", &list.id().to_hex()])
            .event();
        let target = DeletionTarget {
            event: list.id(),
            author: key(1),
            kind: kind::GRASP_LIST,
            version: list.version(),
            stage: Stage::Served,
        };
        let found = DeletionFacts {
            events: [(list.id(), target)].into(),
            ..DeletionFacts::default()
        };
        for (facts, used) in [(found, true), (DeletionFacts::default(), false)] {
            // The list itself is the oldest: first it is held, then it goes.
            let oldest = IdleEvent {
                event: list.id(),
                participates: false,
            };
            let full = load(3, &[oldest]);
            let batch = admit_deletion(
                &request,
                &facts,
                &ObjectFacts::none(),
                Some(&full),
                cx(&policy),
            )
            .batch;
            let event = request.id();
            let gone = Change::Remove { event: list.id() };
            assert_eq!(
                batch[batch.len() - 2..],
                [Change::Idle { event, used }, gone]
            );
            assert!(batch.len() == if used { 6 } else { 5 }, "{batch:?}");
        }
    }
}
