//! States (§7): whose are taken, and what they wake.

use super::outcome::{Arrival, full_for_event, repeats};
use super::{Answer, Decision, Known, PurgatoryLoad, Rejection};
use crate::lifecycle::Stage;
use crate::policy::Circumstances;
use crate::settle::{Groups, Versions, counts};
use crate::state::StateEvent;
use crate::view::{Entry, ObjectFacts, RepoView};

/// §7.
pub fn admit_state(
    event: &StateEvent,
    view: &RepoView,
    facts: &ObjectFacts,
    known: &Known,
    load: PurgatoryLoad,
    cx: Circumstances<'_>,
) -> Decision {
    if let Some(decision) = repeats(view.stage(&event.id()), cx) {
        return decision;
    }
    let own = view.states.get(&event.author()).into_iter().flatten();
    let mut served = own.filter(|entry| entry.stage == Stage::Served);
    if served.any(|entry| entry.version() > event.version()) {
        return Decision::only(Answer::Superseded);
    }
    let groups = Groups::of(view, cx.policy);
    if !groups.authorises(&event.author()) {
        return Decision::only(refusal(view, known));
    }
    let mut after = view.clone();
    let mut entry = Entry {
        item: event.clone(),
        stage: Stage::Waiting,
        deadline: None,
    };
    entry.wait(cx);
    after.states.put(event.author(), entry);
    wake_announcements(&mut after, &groups, event, cx);
    Arrival {
        event: event.event(),
        before: view,
        facts,
        cx,
        full: full_for_event(load, cx),
    }
    .settle(after)
}

fn refusal(view: &RepoView, known: &Known) -> Rejection {
    let mut announcements = view.announcements.values().flatten();
    if known.announced || announcements.any(|entry| counts(entry.stage)) {
        Rejection::NotAuthorised
    } else {
        Rejection::NoAnnouncement
    }
}

/// ST-2: the announcements whose repository it would fill wait on, and the soft-expired ones wait
/// again (PUR-3, PUR-5).
fn wake_announcements(
    after: &mut RepoView,
    groups: &Groups,
    state: &StateEvent,
    cx: Circumstances<'_>,
) {
    for owner in groups.authorising(&state.author()) {
        let versions = after.announcements.get_mut(owner).into_iter().flatten();
        versions
            .filter(|entry| entry.is_pending() && groups.hosts(&entry.id()))
            .for_each(|entry| entry.wait(cx));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Change;
    use crate::lifecycle::Stage::{Held, Parked, Served, Superseded, Waiting};
    use crate::testing::project::{announcement, announcement_elsewhere, repo, state, view};
    use crate::testing::{NOW, at, cx, key, oid, policy};

    fn admitted(view: &RepoView, known: &Known) -> Decision {
        let commit = oid(1).to_string();
        let event = state(key(1), 10, &[("refs/heads/main", &commit)]);
        let (objects, load) = (ObjectFacts::none(), PurgatoryLoad::default());
        admit_state(&event, view, &objects, known, load, cx(&policy()))
    }

    /// ST-2, PUR-3, PUR-5: what waits for data waits on. What has it is not asked to wait again.
    #[test]
    fn a_state_wakes_the_announcements_that_wait() {
        let announced = announcement(key(1), 1, vec![]);
        let deadline = Some(at(NOW + 1800));
        let event = announced.id();
        let waits = Change::Move {
            event,
            stage: Waiting,
            deadline,
        };
        for (stage, woken) in [
            (Waiting, Some(Change::Extend { event, deadline })),
            (Parked, Some(waits)),
            (Served, None),
        ] {
            let view = view().announced(announced.clone(), stage).build();
            let decision = admitted(&view, &Known::default());
            assert_eq!(decision.answer, Answer::Purgatory, "{stage:?}");
            let about = |change: &&Change| match change {
                Change::Move { event, .. } | Change::Extend { event, .. } => {
                    *event == announced.id()
                }
                _ => false,
            };
            let about = decision.batch.iter().find(about);
            assert_eq!(about, woken.as_ref(), "{stage:?}");
        }
    }

    /// KIND-5: only what is served outdates; several may wait, and the newest complete one wins.
    #[test]
    fn a_state_older_than_one_that_waits_waits_too() {
        let lacking = oid(2).to_string();
        let answer = |at, stage| {
            let view = view()
                .announced(announcement(key(1), 1, vec![]), Served)
                .stated(state(key(1), at, &[("refs/heads/main", &lacking)]), stage);
            admitted(&view.build(), &Known::default()).answer
        };
        assert_eq!(answer(20, Served), Answer::Superseded);
        assert_eq!(answer(5, Served), Answer::Purgatory);
        for stage in [Parked, Superseded, Held] {
            assert_eq!(answer(20, stage), Answer::Purgatory, "{stage:?}");
        }
    }

    /// KIND-5, DEL-12: what lost before it came is no rollback material either.
    #[test]
    fn a_state_that_is_outdated_is_not_stored() {
        let served = state(key(1), 20, &[("refs/heads/main", &oid(2).to_string())]);
        let view = view()
            .announced(announcement(key(1), 1, vec![]), Served)
            .stated(served, Served)
            .build();
        let event = state(key(1), 10, &[("refs/heads/main", &oid(1).to_string())]);
        let mut objects = ObjectFacts::none();
        objects.add(repo(key(1)), oid(1));
        objects.add(repo(key(1)), oid(2));
        let (known, load) = (Known::default(), PurgatoryLoad::default());
        let decision = admit_state(&event, &view, &objects, &known, load, cx(&policy()));
        assert_eq!(decision.answer, Answer::Superseded);
        assert_eq!(decision.batch, []);
    }

    /// ST-1: it is said whether there is no announcement at all, or none that gives the author a say.
    #[test]
    fn a_state_of_nobody_s_is_refused_for_the_true_reason() {
        let of = |item, stage| view().announced(item, stage).build();
        let stranger = || announcement(key(2), 1, vec![]);
        let known = |announced| Known {
            announced,
            ..Known::default()
        };
        let none = Answer::from(Rejection::NoAnnouncement);
        let not_theirs = Answer::from(Rejection::NotAuthorised);
        let empty = view().build();
        assert_eq!(admitted(&empty, &known(false)).answer, none);
        assert_eq!(admitted(&empty, &known(true)).answer, not_theirs);
        for stage in [Served, Waiting, Parked] {
            let seen = of(stranger(), stage);
            assert_eq!(admitted(&seen, &known(false)).answer, not_theirs);
        }
        for stage in [Superseded, Held] {
            let seen = of(stranger(), stage);
            assert_eq!(admitted(&seen, &known(false)).answer, none);
        }
        let elsewhere = of(announcement_elsewhere(key(1), 1, vec![]), Served);
        assert_eq!(admitted(&elsewhere, &known(false)).answer, not_theirs);
    }
}
