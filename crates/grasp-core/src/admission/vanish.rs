//! Requests to vanish (NIP-62): everything that their author made so far goes, and cannot return (DEL-8).

use super::idle::settle_in;
use super::{Answer, Decision, IdleLoad};
use crate::deletion::{Lost, Plan, Work};
use crate::event::VerifiedEvent;
use crate::lifecycle::{Change, Standing};
use crate::policy::Circumstances;
use crate::request::{gates, keep, vanish};

/// What the store says around a request to vanish.
#[derive(Debug, Clone, Copy, Default)]
pub struct VanishFacts {
    /// Something that its author made up to its time is here, or git data is left of it.
    pub found: bool,
    /// Requests of the author that were of no use yet (§16).
    pub unused_requests: usize,
}

/// DEL-8. With the commit nothing of the author's past is taken any more; what is here goes by a plan, for
/// it may be a lot. Their older requests go with it, so that one remains. A request that means another
/// relay, or one that is not respected (DEL-10), is stored and nothing else.
pub fn admit_vanish(
    event: &VerifiedEvent,
    facts: VanishFacts,
    idle: Option<&IdleLoad>,
    cx: Circumstances<'_>,
) -> Decision {
    let acts = cx.policy.requests.respected && vanish::is_for_us(event, cx.policy);
    let used = acts && facts.found;
    let mut batch = match keep(event, used, facts.unused_requests, cx) {
        Ok(kept) => kept,
        Err(refusal) => return Decision::only(refusal),
    };
    if acts {
        batch.extend(gates(event));
    }
    if used {
        batch.push(Change::Plan(Plan {
            work: Work::Vanish {
                author: event.author(),
                until: event.created_at(),
            },
            lost: Lost::default(),
        }));
    }
    batch.extend(settle_in(event, Standing::Bare, used, idle, cx));
    Decision {
        answer: Answer::Stored,
        batch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Rejection;
    use crate::event::kind;
    use crate::lifecycle::Batch;
    use crate::testing::{NOW, at, cx, draft, key, policy};

    const FOUND: VanishFacts = VanishFacts {
        found: true,
        unused_requests: 0,
    };

    fn request(relay: &str) -> VerifiedEvent {
        draft(kind::VANISH, key(1)).tag(["relay", relay]).event()
    }

    fn gate(request: &VerifiedEvent) -> Change {
        Change::GateAuthor {
            author: key(1),
            until: request.created_at(),
            request: request.id(),
        }
    }

    fn plans(batch: &Batch) -> usize {
        let plan = |change: &&Change| matches!(change, Change::Plan(_));
        batch.iter().filter(plan).count()
    }

    /// Whether it counts as used.
    fn used(batch: &Batch) -> bool {
        let uses = batch.iter().find_map(|change| match change {
            Change::KeepRequest { uses, .. } => Some(uses),
            _ => None,
        });
        let uses = uses.expect("every request is kept by its clock");
        assert_eq!(uses.first_seen, at(NOW));
        uses.last.is_some()
    }

    /// DEL-8, case 55
    #[test]
    fn a_request_to_vanish_gates_its_author_and_leaves_a_plan() {
        let policy = policy();
        for relay in ["ALL_RELAYS", "wss://grasp.example.com"] {
            let request = request(relay);
            let decision = admit_vanish(&request, FOUND, None, cx(&policy));
            assert_eq!(decision.answer, Answer::Stored);
            let plan = Change::Plan(Plan {
                work: Work::Vanish {
                    author: key(1),
                    until: request.created_at(),
                },
                lost: Lost::default(),
            });
            let batch = decision.batch;
            assert!(used(&batch) && batch.contains(&gate(&request)) && batch.contains(&plan));
        }
    }

    /// DEL-8: nothing to do, but nothing comes in later either.
    #[test]
    fn where_nothing_is_here_only_the_gate_is_set() {
        let request = request("ALL_RELAYS");
        let batch = admit_vanish(&request, VanishFacts::default(), None, cx(&policy())).batch;
        assert!(!used(&batch) && batch.contains(&gate(&request)));
        assert_eq!(plans(&batch), 0);
    }

    /// DEL-8, DEL-10, case 55
    #[test]
    fn a_request_that_is_not_acted_on_is_stored_and_nothing_else() {
        let mut disrespectful = policy();
        disrespectful.requests.respected = false;
        for (relay, policy) in [
            ("wss://other.example", policy()),
            ("ALL_RELAYS", disrespectful),
        ] {
            let request = request(relay);
            let decision = admit_vanish(&request, FOUND, None, cx(&policy));
            assert_eq!(decision.answer, Answer::Stored);
            assert!(!used(&decision.batch) && !decision.batch.contains(&gate(&request)));
            assert_eq!(plans(&decision.batch), 0);
        }
    }

    /// §16: and whoever has something here to take back is heard.
    #[test]
    fn requests_to_vanish_from_elsewhere_are_bounded_with_the_others() {
        let policy = policy();
        let max = policy.requests.unused_per_author;
        let full = VanishFacts {
            found: true,
            unused_requests: max,
        };
        let answer = |relay| admit_vanish(&request(relay), full, None, cx(&policy)).answer;
        let refused = Rejection::TooManyRequests { max };
        assert_eq!(answer("wss://other.example"), refused.into());
        assert_eq!(answer("ALL_RELAYS"), Answer::Stored);
    }
}
