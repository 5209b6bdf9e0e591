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
