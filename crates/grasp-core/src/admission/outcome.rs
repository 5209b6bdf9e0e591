//! How every admission ends: the view with the event in it is settled, and what differs is the batch.

use super::{Answer, Decision, PurgatoryBound, PurgatoryLoad, Rejection};
use crate::event::VerifiedEvent;
use crate::lifecycle::{Batch, Change, Stage, Standing};
use crate::name::Identifier;
use crate::policy::{Circumstances, Origin};
use crate::settle::{difference, dirtied, promote};
use crate::view::{ObjectFacts, RepoView};

/// An event on its way into a view.
pub(super) struct Arrival<'a> {
    pub(super) event: &'a VerifiedEvent,
    pub(super) before: &'a RepoView,
    pub(super) facts: &'a ObjectFacts,
    pub(super) cx: Circumstances<'a>,
    /// The bound of purgatory that is reached, if the event would need room of its own there.
    pub(super) full: Option<PurgatoryBound>,
}

impl Arrival<'_> {
    /// Settles the view that has the event in it, and says what became of it.
    pub(super) fn settle(self, mut after: RepoView) -> Decision {
        promote(&mut after, self.facts, self.cx);
        let answer = answer_for(after.stage(&self.event.id()));
        if let Some(bound) = self.full.filter(|_| answer == Answer::Purgatory) {
            return Decision::only(Rejection::PurgatoryFull(bound));
        }
        let fresh = Some((self.event, Standing::Anchor));
        let mut batch = difference(self.before, &after, fresh);
        batch.extend(dirtied(self.before, &after, self.cx));
        if something_waits(&after) {
            batch.push(hunt(&after.identifier, self.cx));
        }
        Decision { answer, batch }
    }
}

pub(super) fn answer_for(stage: Option<Stage>) -> Answer {
    match stage {
        Some(Stage::Served) => Answer::Stored,
        Some(Stage::Waiting | Stage::Parked) => Answer::Purgatory,
        // The author's newer one became complete in the same settlement.
        Some(Stage::Superseded | Stage::Held) | None => Answer::Superseded,
    }
}

/// Git data is owed, and may be elsewhere (ANN-7, HUNT-2).
pub(super) fn hunt(identifier: &Identifier, cx: Circumstances<'_>) -> Change {
    let delay = match cx.origin {
        Origin::Client => cx.policy.hunt_delay_client,
        Origin::Sync => cx.policy.hunt_delay_sync,
    };
    let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    let now = cx.now.as_secs().saturating_mul(1000);
    Change::Hunt {
        identifier: identifier.clone(),
        not_before_ms: now.saturating_add(delay),
    }
}

pub(super) fn something_waits(view: &RepoView) -> bool {
    let waits = |stage: Stage| stage == Stage::Waiting;
    view.announcements
        .values()
        .flatten()
        .any(|entry| waits(entry.stage))
        || view
            .states
            .values()
            .flatten()
            .any(|entry| waits(entry.stage))
        || view.proposals.values().any(|entry| waits(entry.stage))
}

/// PUR-13: the bound that one more waiting announcement would break.
pub(super) fn full_for_announcement(
    load: PurgatoryLoad,
    cx: Circumstances<'_>,
) -> Option<PurgatoryBound> {
    let of_author = load.author_announcements >= cx.policy.purgatory.author_announcements;
    full(load, cx).or(of_author.then_some(PurgatoryBound::AuthorAnnouncements))
}

/// PUR-13: the bound that one more waiting state or proposal would break.
pub(super) fn full_for_event(load: PurgatoryLoad, cx: Circumstances<'_>) -> Option<PurgatoryBound> {
    let of_author = load.author_events >= cx.policy.purgatory.author_events;
    full(load, cx).or(of_author.then_some(PurgatoryBound::AuthorEvents))
}

fn full(load: PurgatoryLoad, cx: Circumstances<'_>) -> Option<PurgatoryBound> {
    let limits = &cx.policy.purgatory;
    if load.events >= limits.events {
        Some(PurgatoryBound::Events)
    } else if load.bytes >= limits.bytes {
        Some(PurgatoryBound::Bytes)
    } else {
        None
    }
}

/// Whether a kept event that arrives again begins anew (PUR-15): a client's wish does that, sync's
/// finding it once more does not.
pub(super) fn repeats(stage: Option<Stage>, cx: Circumstances<'_>) -> Option<Decision> {
    let answer = match stage? {
        Stage::Served => Answer::Duplicate,
        Stage::Waiting => Answer::DuplicateWaiting,
        Stage::Superseded => Answer::Superseded,
        Stage::Parked if cx.origin == Origin::Sync => Answer::DuplicateWaiting,
        Stage::Parked | Stage::Held => return None,
    };
    Some(Decision {
        answer,
        batch: Batch::new(),
    })
}
