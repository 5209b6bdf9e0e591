//! Events that hang on repositories and conversations (§9), and those that need no reference (EV-2).

use nostr::event::EventId;

use super::idle::settle_in;
use super::{Answer, Decision, IdleLoad, Known, Rejection};
use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{Change, Stage, Standing};
use crate::policy::Circumstances;
use crate::related::{RelatedFacts, Relative};

/// §9 and the kinds of EV-2 that are accepted without a reference. `idle` is what keys that take part
/// in nothing have stored, if the author is one of them (EV-8).
pub fn admit_related(
    event: &VerifiedEvent,
    known: &Known,
    related: &RelatedFacts,
    idle: Option<&IdleLoad>,
    cx: Circumstances<'_>,
) -> Decision {
    match standing(event, related, cx) {
        Err(rejection) => Decision::only(rejection),
        Ok(_) if kind::is_ephemeral(event.kind()) => Decision::only(Answer::Ephemeral),
        Ok(standing) => {
            let mut batch = serve(event, known, standing);
            batch.extend(settle_in(event, standing, false, idle, cx));
            Decision {
                answer: Answer::Stored,
                batch,
            }
        }
    }
}

/// EV-2, REL-5: lists of a key, and the relay owner's own events, come in by who signed them, and so
/// carry nothing.
fn standing(
    event: &VerifiedEvent,
    related: &RelatedFacts,
    cx: Circumstances<'_>,
) -> Result<Standing, Rejection> {
    let by_owner = event.author() == cx.policy.relay_owner;
    match event.kind() {
        kind::GRASP_LIST => Ok(Standing::Bare),
        kind::PROFILE | kind::RELAY_LIST if by_owner || related.participates => Ok(Standing::Bare),
        kind::PROFILE | kind::RELAY_LIST => Err(Rejection::NotParticipant),
        _ => by_reference(event, related, cx)
            .or_else(|rejection| by_owner.then_some(Standing::Bare).ok_or(rejection)),
    }
}

/// What an event may carry by what it refers to, or by what refers to it (REL-2, REL-6).
pub(super) fn by_reference(
    event: &VerifiedEvent,
    related: &RelatedFacts,
    cx: Circumstances<'_>,
) -> Result<Standing, Rejection> {
    let anchors = || {
        let anchor = |relative: &&Relative| relative.standing == Standing::Anchor;
        related.targets.iter().filter(anchor)
    };
    let announced = anchors().any(|anchor| anchor.kind == kind::ANNOUNCEMENT);
    if kind::is_root(event.kind()) && announced {
        return Ok(Standing::Anchor);
    }
    if let Some(anchor) = anchors().next() {
        return Ok(Standing::Reply {
            root: anchor.event,
            counted: false,
        });
    }
    through_replies(event, related, cx).unwrap_or_else(|| {
        let carries = |other: &Relative| other.standing != Standing::Bare;
        if related.mentioned_by.iter().any(carries) {
            Ok(Standing::Bare)
        } else {
            Err(Rejection::Unrelated)
        }
    })
}

/// REL-6. `None` if the event replies to no reply.
fn through_replies(
    event: &VerifiedEvent,
    related: &RelatedFacts,
    cx: Circumstances<'_>,
) -> Option<Result<Standing, Rejection>> {
    let roots = || {
        related
            .targets
            .iter()
            .filter_map(|relative| match relative.standing {
                Standing::Reply { root, .. } => Some(root),
                Standing::Anchor | Standing::Bare => None,
            })
    };
    let first = roots().next()?;
    if related.exempt.contains(&event.author()) {
        return Some(Ok(Standing::Reply {
            root: first,
            counted: false,
        }));
    }
    let limits = &cx.policy.related;
    let size = u64::try_from(event.event().as_json().len()).unwrap_or(u64::MAX);
    let has_room = |root: &EventId| {
        let (events, bytes) = related.budgets.get(root).copied().unwrap_or_default();
        events < limits.events && bytes.saturating_add(size) <= limits.bytes
    };
    let reply = |root| Standing::Reply {
        root,
        counted: true,
    };
    Some(
        roots()
            .find(has_room)
            .map(reply)
            .ok_or(Rejection::OverBudget {
                root: first,
                events: limits.events,
                bytes: limits.bytes,
            }),
    )
}

fn serve(event: &VerifiedEvent, known: &Known, standing: Standing) -> Vec<Change> {
    let replaced = known
        .served_version
        .map(|older| Change::Remove { event: older.id });
    let deadline = event.expiration();
    let served = match known.stage {
        Some(_) => Change::Move {
            event: event.id(),
            stage: Stage::Served,
            deadline,
        },
        None => Change::Insert {
            event: event.clone(),
            stage: Stage::Served,
            deadline,
            standing,
        },
    };
    replaced.into_iter().chain([served]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::testing::{at, cx, draft, key, policy};
    use nostr::key::PublicKey;

    const COMMENT: u16 = 1111;

    fn relative(n: u8, kind: u16, standing: Standing) -> Relative {
        Relative {
            event: EventId::from_byte_array([n; 32]),
            kind,
            author: key(9),
            standing,
        }
    }

    fn reply(root: u8, counted: bool) -> Standing {
        Standing::Reply {
            root: EventId::from_byte_array([root; 32]),
            counted,
        }
    }

    fn to(targets: Vec<Relative>) -> RelatedFacts {
        RelatedFacts {
            targets,
            ..RelatedFacts::default()
        }
    }

    fn judge(kind: u16, author: PublicKey, related: &RelatedFacts) -> Result<Standing, Answer> {
        let policy = policy();
        let event = draft(kind, author).event();
        let decision = admit_related(&event, &Known::default(), related, None, cx(&policy));
        match decision.batch.last() {
            Some(Change::Insert { standing, .. }) => Ok(*standing),
            _ => Err(decision.answer),
        }
    }

    /// REL-2
    #[test]
    fn an_event_that_hangs_on_nothing_is_refused() {
        for kind in [1, COMMENT, kind::ISSUE, kind::PATCH, 1630] {
            assert_eq!(
                judge(kind, key(1), &RelatedFacts::default()),
                Err(Rejection::Unrelated.into())
            );
        }
    }

    /// REL-6: roots are anchors through their announcement alone.
    #[test]
    fn an_issue_of_a_repository_is_an_anchor() {
        let announcement = || relative(1, kind::ANNOUNCEMENT, Standing::Anchor);
        let issue = || relative(2, kind::ISSUE, Standing::Anchor);
        for root in [kind::ISSUE, kind::PATCH] {
            assert_eq!(
                judge(root, key(1), &to(vec![announcement()])),
                Ok(Standing::Anchor)
            );
            assert_eq!(judge(root, key(1), &to(vec![issue()])), Ok(reply(2, false)));
        }
        assert_eq!(
            judge(COMMENT, key(1), &to(vec![announcement()])),
            Ok(reply(1, false))
        );
    }

    /// REL-2, REL-6: acceptance is transitive, and counts where it leads away from the root.
    #[test]
    fn a_reply_to_a_reply_counts_against_their_root() {
        let direct = relative(3, COMMENT, reply(1, false));
        let indirect = relative(4, COMMENT, reply(1, true));
        assert_eq!(
            judge(COMMENT, key(1), &to(vec![direct.clone()])),
            Ok(reply(1, true))
        );
        assert_eq!(
            judge(COMMENT, key(1), &to(vec![indirect])),
            Ok(reply(1, true))
        );
        let issue = relative(1, kind::ISSUE, Standing::Anchor);
        assert_eq!(
            judge(COMMENT, key(1), &to(vec![direct, issue])),
            Ok(reply(1, false))
        );
    }

    /// REL-6, G1-5
    #[test]
    fn the_budget_of_a_root_ends_and_its_maintainers_are_exempt() {
        let limits = policy().related;
        for full in [(limits.events, 0), (0, limits.bytes)] {
            let related = RelatedFacts {
                budgets: BTreeMap::from([(EventId::from_byte_array([1; 32]), full)]),
                exempt: BTreeSet::from([key(2)]),
                ..to(vec![relative(3, COMMENT, reply(1, false))])
            };
            let refused = judge(COMMENT, key(1), &related).expect_err("over budget");
            let text = refused.to_string();
            assert!(
                text.starts_with("restricted: ") && text.contains("2000 events"),
                "{text}"
            );
            assert_eq!(judge(COMMENT, key(2), &related), Ok(reply(1, false)));
        }
    }

    /// REL-6: of several roots one with room will do.
    #[test]
    fn another_root_of_the_same_event_may_have_room() {
        let related = RelatedFacts {
            budgets: BTreeMap::from([(EventId::from_byte_array([1; 32]), (2000, 0))]),
            ..to(vec![
                relative(3, COMMENT, reply(1, false)),
                relative(4, COMMENT, reply(2, false)),
            ])
        };
        assert_eq!(judge(COMMENT, key(1), &related), Ok(reply(2, true)));
    }

    /// REL-2, REL-6: events may arrive in any order.
    #[test]
    fn what_an_accepted_event_names_is_taken_and_carries_nothing() {
        let related = RelatedFacts {
            mentioned_by: vec![relative(3, COMMENT, reply(1, false))],
            ..RelatedFacts::default()
        };
        assert_eq!(judge(1, key(1), &related), Ok(Standing::Bare));
    }

    /// REL-5
    #[test]
    fn what_was_taken_without_a_reference_carries_nothing() {
        let bare = || relative(3, kind::GRASP_LIST, Standing::Bare);
        let refused = Err(Answer::from(Rejection::Unrelated));
        assert_eq!(judge(1, key(1), &to(vec![bare()])), refused);
        let related = RelatedFacts {
            mentioned_by: vec![bare()],
            ..RelatedFacts::default()
        };
        assert_eq!(judge(1, key(1), &related), refused);
    }

    /// EV-2, REL-5
    #[test]
    fn lists_and_the_relay_owner_need_no_reference() {
        let nothing = RelatedFacts::default();
        let owner = policy().relay_owner;
        assert_eq!(
            judge(kind::GRASP_LIST, key(1), &nothing),
            Ok(Standing::Bare)
        );
        for kind in [1, kind::PROFILE, kind::RELAY_LIST, kind::ISSUE] {
            assert_eq!(judge(kind, owner, &nothing), Ok(Standing::Bare));
        }
        let issue = relative(1, kind::ISSUE, Standing::Anchor);
        assert_eq!(judge(COMMENT, owner, &to(vec![issue])), Ok(reply(1, false)));
    }

    /// EV-2
    #[test]
    fn profiles_are_for_those_who_take_part() {
        let taking_part = RelatedFacts {
            participates: true,
            ..RelatedFacts::default()
        };
        for kind in [kind::PROFILE, kind::RELAY_LIST] {
            assert_eq!(judge(kind, key(1), &taking_part), Ok(Standing::Bare));
            assert_eq!(
                judge(kind, key(1), &RelatedFacts::default()),
                Err(Rejection::NotParticipant.into())
            );
        }
    }

    /// EV-3
    #[test]
    fn an_ephemeral_event_is_passed_on_and_not_kept() {
        let issue = relative(1, kind::ISSUE, Standing::Anchor);
        assert_eq!(
            judge(29846, key(1), &to(vec![issue])),
            Err(Answer::Ephemeral)
        );
        assert_eq!(
            judge(29846, key(1), &RelatedFacts::default()),
            Err(Rejection::Unrelated.into())
        );
    }

    /// NIP-01, EV-4
    #[test]
    fn a_newer_version_takes_the_place_of_the_older() {
        let policy = policy();
        let older = draft(kind::GRASP_LIST, key(1)).at(10).event();
        let newer = draft(kind::GRASP_LIST, key(1))
            .tag(["expiration", "1800000000"])
            .at(20)
            .event();
        let known = Known {
            served_version: Some(older.version()),
            ..Known::default()
        };
        let decision = admit_related(&newer, &known, &RelatedFacts::default(), None, cx(&policy));
        let inserted = Change::Insert {
            event: newer,
            stage: Stage::Served,
            deadline: Some(at(1_800_000_000)),
            standing: Standing::Bare,
        };
        let removed = Change::Remove { event: older.id() };
        assert_eq!(decision.batch, [removed, inserted]);
    }

    /// DEL-5: what is held has its home already.
    #[test]
    fn a_held_event_is_served_again_where_it_lies() {
        let policy = policy();
        let event = draft(kind::GRASP_LIST, key(1)).event();
        let known = Known {
            stage: Some(Stage::Held),
            ..Known::default()
        };
        let decision = admit_related(&event, &known, &RelatedFacts::default(), None, cx(&policy));
        let moved = Change::Move {
            event: event.id(),
            stage: Stage::Served,
            deadline: None,
        };
        assert_eq!(decision.batch, [moved]);
    }
}
