//! The batch that leads from one view to another.

use std::collections::BTreeMap;

use nostr::event::EventId;
use nostr::types::Timestamp;

use crate::event::{Parsed, VerifiedEvent, Version};
use crate::lifecycle::{Batch, Change, Stage, Standing};
use crate::view::{Entry, RepoView};

/// An event that the views call the same as one that arrives, and what it may carry.
pub(crate) type Fresh<'a> = (&'a VerifiedEvent, Standing);

/// Where an event stands, and when it is published among others.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    stage: Stage,
    deadline: Option<Timestamp>,
    order: Order,
}

/// Announcements first, or a peer would refuse what hangs on them; states with the oldest first
/// (AFTER-3); then proposals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Announcement(Version),
    State(Version),
    Proposal(EventId),
}

/// The changes that make `after` of `before`. What leaves comes first, then what waits, then what is
/// published in its order, then uploads and placements. `fresh` is stored if `before` lacks it.
pub(crate) fn difference(before: &RepoView, after: &RepoView, fresh: Option<Fresh<'_>>) -> Batch {
    let (old, new) = (places(before), places(after));
    let removed = old.keys().filter(|event| !new.contains_key(*event));
    let mut batch: Batch = removed
        .map(|event| Change::Remove { event: *event })
        .collect();
    let mut changed: Vec<(&EventId, &Place)> = new
        .iter()
        .filter(|(event, place)| {
            let same = |old: &Place| (old.stage, old.deadline) == (place.stage, place.deadline);
            !old.get(event).is_some_and(same)
        })
        .collect();
    changed.sort_by_key(|(_, place)| (place.stage == Stage::Served, place.order));
    for (event, place) in changed {
        batch.extend(change(*event, *place, old.get(event), fresh));
    }
    batch.extend(uploads(before, after));
    batch.extend(placements(before, after));
    batch
}

fn change(
    event: EventId,
    to: Place,
    from: Option<&Place>,
    fresh: Option<Fresh<'_>>,
) -> Option<Change> {
    let Place {
        stage, deadline, ..
    } = to;
    match from {
        Some(from) if from.stage == stage => Some(Change::Extend { event, deadline }),
        Some(_) => Some(Change::Move {
            event,
            stage,
            deadline,
        }),
        None => fresh
            .filter(|(fresh, _)| fresh.id() == event)
            .map(|(event, standing)| Change::Insert {
                event: event.clone(),
                stage,
                deadline,
                standing,
            }),
    }
}

fn uploads(before: &RepoView, after: &RepoView) -> Batch {
    let gone = before.uploads.iter().filter(|upload| {
        let same_place = |other: &crate::lifecycle::UploadRecord| {
            (other.event, &other.repository) == (upload.event, &upload.repository)
        };
        !after.uploads.iter().any(same_place)
    });
    let gone = gone.map(|upload| Change::DropUpload {
        event: upload.event,
        repository: upload.repository.clone(),
    });
    let made = after
        .uploads
        .iter()
        .filter(|upload| !before.uploads.contains(upload))
        .map(|upload| Change::Upload(upload.clone()));
    gone.chain(made).collect()
}

fn placements(before: &RepoView, after: &RepoView) -> Batch {
    let placed = after
        .placements
        .iter()
        .flat_map(|(event, repos)| repos.iter().map(move |repo| (event, repo)));
    placed
        .filter(|(event, repo)| {
            !before
                .placements
                .get(*event)
                .is_some_and(|repos| repos.contains(*repo))
        })
        .map(|(event, repository)| Change::Place {
            event: *event,
            repository: repository.clone(),
        })
        .collect()
}

fn places(view: &RepoView) -> BTreeMap<EventId, Place> {
    let announcements = view.announcements.values().flatten();
    let states = view.states.values().flatten();
    let proposals = view.proposals.values().map(|entry| {
        let place = Place {
            stage: entry.stage,
            deadline: entry.deadline,
            order: Order::Proposal(entry.event),
        };
        (entry.event, place)
    });
    announcements
        .map(|entry| place(entry, Order::Announcement))
        .chain(states.map(|entry| place(entry, Order::State)))
        .chain(proposals)
        .collect()
}

fn place<T: Parsed>(entry: &Entry<T>, order: impl Fn(Version) -> Order) -> (EventId, Place) {
    let place = Place {
        stage: entry.stage,
        deadline: entry.deadline,
        order: order(entry.version()),
    };
    (entry.id(), place)
}
