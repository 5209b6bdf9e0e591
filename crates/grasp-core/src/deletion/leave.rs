//! Takes events away with what follows in their repositories, and notes what is to follow elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use nostr::event::EventId;
use nostr::key::PublicKey;

use super::{Cause, Fate, Lost, Plan, Work};
use crate::admission::{DeletionFacts, DeletionTarget};
use crate::event::Parsed;
use crate::lifecycle::{Batch, Change, Stage};
use crate::name::{Coordinate, RepoAddress};
use crate::policy::Circumstances;
use crate::retract::{Reach, Retraction, retract};
use crate::settle::{difference, dirtied, promote};
use crate::view::{Entry, ObjectFacts, RepoView};

/// Takes a whole scope away (ANN-5, DEL-4, DEL-7, DEL-11): every version of its announcement, its waiting
/// states, with the last announcement of the view the served ones too, and a plan for what hangs on it.
/// Nothing, if the owner has nothing here.
pub fn remove_scope(
    owner: PublicKey,
    view: &RepoView,
    cause: Cause,
    cx: Circumstances<'_>,
) -> Batch {
    let fate = cause.fate(true);
    let versions = view.announcements.get(&owner).into_iter().flatten();
    let doomed: BTreeSet<EventId> = versions
        .filter(|entry| entry.stage != Stage::Held || fate == Fate::Gone)
        .map(Entry::id)
        .collect();
    let how = Retraction {
        reach: Reach::Scope,
        fate,
    };
    // Nothing comes back by it, so what repositories hold does not matter.
    let mut batch = retracted(view, &doomed, how, cause, &ObjectFacts::none(), cx);
    if cause == Cause::Audit {
        // Nobody will want it back.
        batch.retain(|change| !matches!(change, Change::Archive { .. }));
    }
    batch
}

/// Takes away a part of an author's events (DEL-8). All versions of one thing belong into one part, or
/// what is left would take the place of what went.
pub fn remove_author_step(targets: &DeletionFacts, cx: Circumstances<'_>) -> Batch {
    let how = Retraction {
        reach: Reach::Author,
        fate: Fate::Gone,
    };
    let doomed: Vec<DeletionTarget> = targets.events.values().cloned().collect();
    let objects = ObjectFacts::none();
    take_away(&doomed, &targets.views, how, Cause::Vanished, &objects, cx)
}

/// Takes away events that a test made, but for scopes (DEL-11). Nothing older takes their place.
pub fn remove_tests(targets: &DeletionFacts, cx: Circumstances<'_>) -> Batch {
    let how = Retraction {
        reach: Reach::Author,
        fate: Fate::Gone,
    };
    let doomed: Vec<DeletionTarget> = targets.events.values().cloned().collect();
    let objects = ObjectFacts::none();
    take_away(&doomed, &targets.views, how, Cause::Audit, &objects, cx)
}

/// Takes away what hung on a scope that left (DEL-4).
pub fn remove_dependents(targets: &DeletionFacts, cause: Cause, cx: Circumstances<'_>) -> Batch {
    let how = Retraction {
        reach: Reach::Event,
        fate: cause.fate(false),
    };
    let doomed: Vec<DeletionTarget> = targets.events.values().cloned().collect();
    let objects = ObjectFacts::none();
    take_away(&doomed, &targets.views, how, cause, &objects, cx)
}

/// Takes away the targets, each in the views that have it, and by itself where none has.
pub(crate) fn take_away(
    targets: &[DeletionTarget],
    views: &[RepoView],
    how: Retraction,
    cause: Cause,
    objects: &ObjectFacts,
    cx: Circumstances<'_>,
) -> Batch {
    let ids: BTreeSet<EventId> = targets.iter().map(|target| target.event).collect();
    let mut batch = Batch::new();
    for view in views {
        batch.extend(retracted(view, &ids, how, cause, objects, cx));
    }
    let outside = |target: &&DeletionTarget| {
        let event = &target.event;
        !views.iter().any(|view| view.stage(event).is_some())
    };
    let alone = targets.iter().filter(outside);
    batch.extend(alone.map(|target| removal(target, how.fate, cx)));
    without_repeats(batch)
}

fn retracted(
    view: &RepoView,
    doomed: &BTreeSet<EventId>,
    how: Retraction,
    cause: Cause,
    objects: &ObjectFacts,
    cx: Circumstances<'_>,
) -> Batch {
    let mut after = view.clone();
    retract(&mut after, doomed, how, objects, cx);
    promote(&mut after, objects, cx);
    let mut batch = difference(view, &after, None);
    batch.extend(dirtied(view, &after, cx));
    if how.reach != Reach::Event {
        let owners = view.announcements.iter();
        let leaving = owners
            .filter(|(_, versions)| versions.iter().any(|entry| doomed.contains(&entry.id())))
            .map(|(owner, _)| *owner);
        batch.extend(leaving.filter_map(|owner| leaves_behind(owner, view, &after, cause)));
    }
    batch
}

/// The plan for what hangs on a scope that is served in `before` and no more in `after` (DEL-4).
pub(crate) fn leaves_behind(
    owner: PublicKey,
    before: &RepoView,
    after: &RepoView,
    cause: Cause,
) -> Option<Change> {
    before.announcement_in(&owner, Stage::Served)?;
    if after.announcement_in(&owner, Stage::Served).is_some() {
        return None;
    }
    let mut lost = Lost::default();
    for entry in before.announcements.get(&owner).into_iter().flatten() {
        lost.note(entry.item.event());
    }
    for entry in before.states_in(Stage::Served) {
        if after.stage(&entry.id()) != Some(Stage::Served) {
            lost.note(entry.item.verified());
        }
    }
    let scope = Coordinate::new(owner, before.identifier.clone());
    Some(Change::Plan(Plan {
        work: Work::Cascade { scope, cause },
        lost,
    }))
}

/// DEL-5: what was seen is held for a while.
fn removal(target: &DeletionTarget, fate: Fate, cx: Circumstances<'_>) -> Change {
    match (target.stage, fate) {
        (Stage::Served | Stage::Superseded | Stage::Held, Fate::Held) => Change::Move {
            event: target.event,
            stage: Stage::Held,
            deadline: Some(cx.after(cx.policy.holding_retention)),
        },
        (Stage::Waiting | Stage::Parked, _) | (_, Fate::Gone) => Change::Remove {
            event: target.event,
        },
    }
}

/// A proposal may be in several views, and an event named twice.
fn without_repeats(batch: Batch) -> Batch {
    let mut once = Batch::new();
    let mut moved: BTreeMap<EventId, Vec<usize>> = BTreeMap::new();
    let mut dirty: BTreeSet<RepoAddress> = BTreeSet::new();
    for change in batch {
        let new = match &change {
            Change::Move { event, .. }
            | Change::Extend { event, .. }
            | Change::Remove { event } => {
                let places = moved.entry(*event).or_default();
                let new = !places.iter().any(|place| once[*place] == change);
                if new {
                    places.push(once.len());
                }
                new
            }
            Change::Dirty(repository) => dirty.insert(repository.clone()),
            _ => !once.contains(&change),
        };
        if new {
            once.push(change);
        }
    }
    once
}

#[cfg(test)]
mod tests;
