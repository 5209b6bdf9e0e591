//! Whose use it is that an event was kept out (DEL-9).

use std::cmp::Ordering;

use nostr::types::Timestamp;

use super::{Asks, Gate, Request};
use crate::lifecycle::{Batch, Change};
use crate::policy::Circumstances;

/// What follows when these requests keep an event out: one of them was of use, and its time begins anew.
/// Empty if that was so a moment ago already ([`super::Retention::use_interval`]).
pub fn credit(gates: &[Gate], cx: Circumstances<'_>) -> Batch {
    let retention = &cx.policy.requests.retention;
    let interval = retention.use_interval().as_secs();
    let counts = |last: Option<Timestamp>| {
        last.is_none_or(|last| cx.now.as_secs() >= last.as_secs().saturating_add(interval))
    };
    let Some(winner) = gates.iter().min_by(|a, b| order(a, b)) else {
        return Batch::new();
    };
    if !counts(winner.uses.last) {
        return Batch::new();
    }
    let mut request = Request {
        uses: winner.uses,
        expiration: winner.expiration,
        endless: winner.asks == Asks::Vanish,
    };
    request.uses.last = Some(cx.now);
    vec![
        Change::UseRequest {
            request: winner.request,
            at: cx.now,
        },
        request.life(retention, cx.now).placed(winner.request),
    ]
}

/// Of several requests for the same thing one that was of use before comes first, then the one that is
/// here longest, then the lowest id: so all but one grow old.
fn order(a: &Gate, b: &Gate) -> Ordering {
    let place = |gate: &Gate| (gate.uses.last.is_none(), gate.uses.first_seen, gate.request);
    place(a).cmp(&place(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Stage;
    use crate::policy::Policy;
    use crate::request::Uses;
    use crate::testing::{NOW, at, cx, policy};
    use nostr::event::EventId;

    const DAY: u64 = 86_400;

    fn gate(id: u8, first_seen: u64, last: Option<u64>) -> Gate {
        Gate {
            request: EventId::from_byte_array([id; 32]),
            asks: Asks::Deletion,
            uses: Uses {
                first_seen: at(first_seen),
                last: last.map(at),
            },
            expiration: None,
        }
    }

    fn credited(gates: &[Gate]) -> Option<u8> {
        match credit(gates, cx(&policy())).as_slice() {
            [] => None,
            [
                Change::UseRequest { request, at: time },
                Change::Move { event, .. },
            ] => {
                assert_eq!((request, *time), (event, at(NOW)));
                Some(request.as_bytes()[0])
            }
            other => panic!("{other:?}"),
        }
    }

    /// DEL-9: used before unused, then earliest first seen, then lowest id.
    #[test]
    fn one_request_is_credited_for_what_several_keep_out() {
        let used = |id, first_seen| gate(id, first_seen, Some(NOW - DAY));
        for (gates, winner) in [
            (vec![gate(1, 10, None)], 1),
            (vec![gate(1, 10, None), used(2, 20)], 2),
            (vec![used(3, 20), used(2, 30), gate(1, 10, None)], 3),
            (vec![gate(2, 20, None), gate(1, 30, None)], 2),
            (vec![gate(2, 20, None), gate(1, 20, None)], 1),
        ] {
            assert_eq!(credited(&gates), Some(winner), "{gates:?}");
            let turned: Vec<_> = gates.into_iter().rev().collect();
            assert_eq!(credited(&turned), Some(winner), "{turned:?}");
        }
        assert_eq!(credited(&[]), None);
    }

    /// DEL-9: and the others of the same sort are not credited in its place.
    #[test]
    fn what_was_credited_a_moment_ago_is_not_credited_again() {
        let used = |ago| gate(1, 10, Some(NOW - ago));
        assert_eq!(credited(&[used(3599), gate(2, 10, None)]), None);
        assert_eq!(credited(&[used(3600), gate(2, 10, None)]), Some(1));
        // The clock was set back.
        assert_eq!(credited(&[gate(1, 10, Some(NOW + 5))]), None);
    }

    /// DEL-9: each use restarts, be it out of sight already.
    #[test]
    fn with_its_use_a_request_is_served_anew() {
        let policy = policy();
        let placed = |gate: Gate| credit(&[gate], cx(&policy)).pop();
        let served = |until| {
            Some(Change::Move {
                event: gate(1, 0, None).request,
                stage: Stage::Served,
                deadline: Some(at(until)),
            })
        };
        let forgotten = NOW - 300 * DAY;
        for last in [None, Some(forgotten)] {
            assert_eq!(placed(gate(1, forgotten, last)), served(NOW + 270 * DAY));
        }
        let expiring = Gate {
            expiration: Some(at(NOW + 5)),
            ..gate(1, 10, None)
        };
        assert_eq!(placed(expiring), served(NOW + 5));
    }

    /// DEL-8, DEL-9: without time to be shown it still gates.
    #[test]
    fn a_vanish_is_never_removed_by_its_use() {
        let mut policy: Policy = policy();
        policy.requests.retention.used_served = std::time::Duration::ZERO;
        policy.requests.retention.used_gating = std::time::Duration::ZERO;
        let vanish = Gate {
            asks: Asks::Vanish,
            ..gate(1, 10, None)
        };
        let held = Change::Move {
            event: vanish.request,
            stage: Stage::Held,
            deadline: None,
        };
        assert_eq!(credit(&[vanish], cx(&policy)).pop(), Some(held));
    }
}
