//! The checks that come before the kind of an event matters (EV-1, EV-3, EV-4, KIND-7).

use super::{Answer, Decision, Known, Rejection, glance};
use crate::defect::Defect;
use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{Batch, Stage};
use crate::policy::{Circumstances, Origin};
use crate::request::{Asks, credit, is_request};

/// The checks that come before the kind (EV-1, EV-4, KIND-7). `Some` ends the matter.
///
/// An event that is Parked or Held passes: what may bring it back depends on its kind.
pub fn screen(event: &VerifiedEvent, known: &Known, cx: Circumstances<'_>) -> Option<Decision> {
    let refused = refusal(event, known, cx);
    // A request is of use if the refusal rests on it, not if it would merely have refused as well.
    let batch = match refused {
        Some(Rejection::Deleted | Rejection::Vanished) => credit(&known.gates, cx),
        _ => Batch::new(),
    };
    let answer = refused
        .map(Answer::Rejected)
        .or_else(|| repetition(event, known))?;
    Some(Decision { answer, batch })
}

fn refusal(event: &VerifiedEvent, known: &Known, cx: Circumstances<'_>) -> Option<Rejection> {
    let ahead_max = cx.policy.created_at_ahead_max.as_secs();
    let latest = cx.now.as_secs().saturating_add(ahead_max);
    // Looked at before, but it may have had to wait since.
    if let Some(rejection) = glance(event.event(), cx.now) {
        Some(rejection)
    } else if event.created_at().as_secs() > latest {
        Some(Rejection::TooFarAhead { ahead_max })
    } else if is_blacklisted(event, cx) {
        Some(Rejection::AuthorBlacklisted)
    } else if let Some(refusal) = gated(known, cx) {
        Some(refusal)
    } else if cx.origin == Origin::Sync && kind::is_ephemeral(event.kind()) {
        Some(Rejection::EphemeralBySync)
    } else if cx.origin == Origin::Sync && known.expired_mark && known.stage.is_none() {
        Some(Rejection::PreviouslyExpired)
    } else {
        None
    }
}

/// The relay's own key is exempt: an operator cannot lock the service out.
fn is_blacklisted(event: &VerifiedEvent, cx: Circumstances<'_>) -> bool {
    let author = event.author();
    cx.policy.curation.authors.contains(&author) && author != cx.policy.relay_owner
}

/// DEL-1, DEL-8, DEL-10. Who vanished has deleted everything.
fn gated(known: &Known, cx: Circumstances<'_>) -> Option<Rejection> {
    if !cx.policy.requests.respected || Defect::OpenGate.is_on() {
        return None;
    }
    let vanished = known.gates.iter().any(|gate| gate.asks == Asks::Vanish);
    if vanished {
        Some(Rejection::Vanished)
    } else {
        (!known.gates.is_empty()).then_some(Rejection::Deleted)
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
        Some(Stage::Held) if is_request(event.kind()) => Some(Answer::DuplicateRequest),
        // An older announcement may still say that its owner leaves (ANN-5): its own rules answer.
        _ if newer_is_served && event.kind() != kind::ANNOUNCEMENT => Some(Answer::Superseded),
        Some(Stage::Parked | Stage::Held) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use nostr::event::EventId;

    use super::*;
    use crate::lifecycle::Change;
    use crate::policy::Policy;
    use crate::request::{Gate, Uses};
    use crate::testing::{NOW, at, cx, draft, key, policy};

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

    fn gate(asks: Asks) -> Gate {
        Gate {
            request: EventId::from_byte_array([7; 32]),
            asks,
            uses: Uses {
                first_seen: at(NOW - 10),
                last: None,
            },
            expiration: None,
        }
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

    /// EV-1, §5
    #[test]
    fn a_blacklisted_author_is_refused_and_the_relay_s_own_key_never() {
        let mut policy = policy();
        let owner = policy.relay_owner;
        policy.curation.authors.extend([key(1), owner]);
        let known = Known {
            gates: vec![gate(Asks::Deletion)],
            ..Known::default()
        };
        let answer = |author, known: &Known| {
            let event = draft(1621, author).event();
            screen(&event, known, cx(&policy)).map(|decision| decision.answer)
        };
        let refused = Some(Rejection::AuthorBlacklisted.into());
        assert_eq!(answer(key(1), &known), refused, "before the gates");
        assert_eq!(answer(key(2), &Known::default()), None);
        assert_eq!(answer(owner, &Known::default()), None);
        assert_eq!(answer(owner, &known), Some(Rejection::Deleted.into()));
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
            gates: vec![gate(Asks::Deletion)],
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
            gates: vec![gate(Asks::Deletion), gate(Asks::Vanish)],
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

    /// DEL-9, EV-1: what is refused for another reason is no use of a request.
    #[test]
    fn keeping_an_event_out_is_a_use_of_the_request() {
        let known = Known {
            gates: vec![gate(Asks::Deletion)],
            ..Known::default()
        };
        let policy = policy();
        let screened = |at| {
            let event = draft(1621, key(1)).at(at).event();
            screen(&event, &known, cx(&policy)).expect("refused")
        };
        let used = Change::UseRequest {
            request: known.gates[0].request,
            at: at(NOW),
        };
        assert_eq!(screened(NOW).batch.first(), Some(&used));
        let early = screened(NOW + 901);
        assert_ne!(early.answer, Rejection::Deleted.into());
        assert_eq!(early.batch, []);
    }

    /// DEL-10
    #[test]
    fn requests_that_are_not_respected_keep_nothing_out() {
        let known = Known {
            gates: vec![gate(Asks::Deletion), gate(Asks::Vanish)],
            ..Known::default()
        };
        let mut policy = policy();
        policy.requests.respected = false;
        let event = draft(1621, key(1)).event();
        assert!(screen(&event, &known, cx(&policy)).is_none());
    }

    /// DEL-9: it has its place, and is no news.
    #[test]
    fn a_request_out_of_sight_is_known_when_it_comes_again() {
        let held = Known {
            stage: Some(Stage::Held),
            ..Known::default()
        };
        let sent = |kind| answer(&draft(kind, key(1)).event(), &held);
        assert_eq!(sent(kind::DELETION), Some(Answer::DuplicateRequest));
        assert_eq!(sent(kind::VANISH), Some(Answer::DuplicateRequest));
        assert_eq!(sent(kind::ISSUE), None);
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
