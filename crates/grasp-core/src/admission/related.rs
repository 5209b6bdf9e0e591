//! Events that hang on repositories and conversations (§9), and those that need no reference (EV-2).

use nostr::event::EventId;

use super::{Answer, Decision, Known, Rejection};
use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{Change, Stage, Standing};
use crate::policy::Circumstances;
use crate::related::{RelatedFacts, Relative};

/// §9 and the kinds of EV-2 that are accepted without a reference.
pub fn admit_related(
    event: &VerifiedEvent,
    known: &Known,
    related: &RelatedFacts,
    cx: Circumstances<'_>,
) -> Decision {
    match standing(event, related, cx) {
        Err(rejection) => Decision::only(rejection),
        Ok(_) if kind::is_ephemeral(event.kind()) => Decision::only(Answer::Ephemeral),
        Ok(standing) => Decision {
            answer: Answer::Stored,
            batch: serve(event, known, standing),
        },
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
