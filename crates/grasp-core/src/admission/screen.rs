//! The checks that come before the kind of an event matters (EV-1, EV-3, EV-4, KIND-7).

use super::{Answer, Decision, Known, Rejection, glance};
use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::Stage;
use crate::policy::{Circumstances, Origin};
use crate::request::Gate;

/// The checks that come before the kind (EV-1, EV-4, KIND-7). `Some` ends the matter.
///
/// An event that is Parked or Held passes: what may bring it back depends on its kind.
pub fn screen(event: &VerifiedEvent, known: &Known, cx: Circumstances<'_>) -> Option<Decision> {
    refusal(event, known, cx)
        .map(Answer::Rejected)
        .or_else(|| repetition(event, known))
        .map(Decision::only)
}

fn refusal(event: &VerifiedEvent, known: &Known, cx: Circumstances<'_>) -> Option<Rejection> {
    let ahead_max = cx.policy.created_at_ahead_max.as_secs();
    let latest = cx.now.as_secs().saturating_add(ahead_max);
    // Looked at before, but it may have had to wait since.
    if let Some(rejection) = glance(event.event(), cx.now) {
        Some(rejection)
    } else if event.created_at().as_secs() > latest {
        Some(Rejection::TooFarAhead { ahead_max })
    } else if let Some(gate) = known.gate {
        Some(gated(gate))
    } else if cx.origin == Origin::Sync && kind::is_ephemeral(event.kind()) {
        Some(Rejection::EphemeralBySync)
    } else if cx.origin == Origin::Sync && known.expired_mark && known.stage.is_none() {
        Some(Rejection::PreviouslyExpired)
    } else {
        None
    }
}

fn gated(gate: Gate) -> Rejection {
    match gate {
        Gate::Deletion => Rejection::Deleted,
        Gate::Vanish => Rejection::Vanished,
    }
}

fn repetition(event: &VerifiedEvent, known: &Known) -> Option<Answer> {
    let newer_is_served = known
        .served_version
        .is_some_and(|served| served > event.version());
    match known.stage {
        Some(Stage::Served) => Some(Answer::Duplicate),
        Some(Stage::Waiting) => Some(Answer::DuplicateWaiting),
        Some(Stage::Superseded) => Some(Answer::Superseded),
        // An older announcement may still say that its owner leaves (ANN-5): its own rules answer.
        _ if newer_is_served && event.kind() != kind::ANNOUNCEMENT => Some(Answer::Superseded),
        Some(Stage::Parked | Stage::Held) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::testing::{NOW, cx, draft, key, policy};

    fn answer(event: &VerifiedEvent, known: &Known) -> Option<Answer> {
        let policy = policy();
        screen(event, known, cx(&policy)).map(|decision| decision.answer)
    }

    fn answer_to_sync(event: &VerifiedEvent, known: &Known) -> Option<Answer> {
        let policy = policy();
        let cx = Circumstances {
            origin: Origin::Sync,
            ..cx(&policy)
        };
        screen(event, known, cx).map(|decision| decision.answer)
    }

    /// KIND-7
    #[test]
    fn an_event_from_the_future_is_refused_beyond_the_tolerance() {
        let known = Known::default();
        let event = |ahead| draft(1621, key(1)).at(NOW + ahead).event();
        assert_eq!(answer(&event(900), &known), None);
        assert_eq!(
            answer(&event(901), &known),
            Some(Rejection::TooFarAhead { ahead_max: 900 }.into())
        );
    }

    /// Case 43
    #[test]
    fn age_alone_is_no_reason() {
        assert_eq!(
            answer(&draft(1617, key(1)).at(1).event(), &Known::default()),
            None
        );
    }

    /// EV-4, case 53
    #[test]
    fn an_expired_event_is_refused_and_one_that_will_expire_is_not() {
        let event = |end: u64| {
            draft(1621, key(1))
                .tag(["expiration".to_owned(), end.to_string()])
                .event()
        };
        let known = Known::default();
        assert_eq!(
            answer(&event(NOW - 3600), &known),
            Some(Rejection::Expired.into())
        );
        assert_eq!(answer(&event(NOW), &known), Some(Rejection::Expired.into()));
        assert_eq!(answer(&event(NOW + 3), &known), None);
    }

    /// EV-5, case 47
    #[test]
    fn the_same_event_again_is_a_duplicate() {
        let event = draft(1621, key(1)).event();
        let at_stage = |stage| Known {
            stage: Some(stage),
            ..Known::default()
        };
        assert_eq!(
            answer(&event, &at_stage(Stage::Served)),
            Some(Answer::Duplicate)
        );
        assert_eq!(
            answer(&event, &at_stage(Stage::Waiting)),
            Some(Answer::DuplicateWaiting)
        );
        assert_eq!(
            answer(&event, &at_stage(Stage::Superseded)),
            Some(Answer::Superseded)
        );
        assert_eq!(answer(&event, &at_stage(Stage::Parked)), None);
    }

    /// KIND-5
    #[test]
    fn a_version_that_loses_to_the_served_one_is_superseded() {
        let older = draft(kind::GRASP_LIST, key(1)).at(NOW - 20).event();
        let newer = draft(kind::GRASP_LIST, key(1)).at(NOW - 10).event();
        let known = |served: &VerifiedEvent| Known {
            served_version: Some(served.version()),
            ..Known::default()
        };
        assert_eq!(answer(&older, &known(&newer)), Some(Answer::Superseded));
        assert_eq!(answer(&newer, &known(&older)), None);
    }

    /// DEL-1, case 52
    #[test]
    fn what_was_deleted_comes_back_by_no_way() {
        let event = draft(1621, key(1)).event();
        let known = Known {
            gate: Some(Gate::Deletion),
            ..Known::default()
        };
        assert_eq!(answer(&event, &known), Some(Rejection::Deleted.into()));
        assert_eq!(
            answer_to_sync(&event, &known),
            Some(Rejection::Deleted.into())
        );
    }

    /// DEL-8, case 55: whoever it is, and by whatever way.
    #[test]
    fn what_was_made_before_its_author_vanished_comes_back_by_no_way() {
        let known = Known {
            gate: Some(Gate::Vanish),
            ..Known::default()
        };
        let vanished = Some(Rejection::Vanished.into());
        for kind in [kind::ANNOUNCEMENT, kind::DELETION, kind::VANISH, 29846] {
            let event = draft(kind, key(1)).event();
            assert_eq!(answer(&event, &known), vanished, "{kind}");
            assert_eq!(answer_to_sync(&event, &known), vanished, "{kind}");
        }
        let policy = Policy {
            relay_owner: key(1),
            ..policy()
        };
        let event = draft(kind::PROFILE, key(1)).event();
        let decision = screen(&event, &known, cx(&policy)).expect("gated");
        assert_eq!(Some(decision.answer), vanished);
    }

    /// PUR-8, ST-5
    #[test]
    fn the_mark_of_expiry_stops_sync_and_no_client() {
        let event = draft(kind::STATE, key(1)).event();
        let known = Known {
            expired_mark: true,
            ..Known::default()
        };
        assert_eq!(answer(&event, &known), None);
        assert_eq!(
            answer_to_sync(&event, &known),
            Some(Rejection::PreviouslyExpired.into())
        );
    }

    /// EV-3
    #[test]
    fn ephemeral_events_do_not_travel_by_sync() {
        let event = draft(29846, key(1)).event();
        assert_eq!(answer(&event, &Known::default()), None);
        assert_eq!(
            answer_to_sync(&event, &Known::default()),
            Some(Rejection::EphemeralBySync.into())
        );
    }
}
