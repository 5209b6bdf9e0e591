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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Stage::{Served, Superseded, Waiting};
    use crate::testing::project::{announcement, proposal, prs_repo, repo, state, upload, view};
    use crate::testing::{key, oid};

    fn to(event: EventId, stage: Stage) -> Change {
        Change::Move {
            event,
            stage,
            deadline: None,
        }
    }

    /// AFTER-3: what leaves, what waits, then what is published, in the order in which peers can take it.
    #[test]
    fn a_batch_is_in_the_order_in_which_it_is_to_be_seen() {
        let announced = [40, 30].map(|at| announcement(key(at), at.into(), vec![]));
        let states = [20, 10].map(|at| state(key(at), at.into(), &[]));
        let asked = proposal(key(5), 1, &oid(1).to_string(), &[key(1)]);
        let waits = announcement(key(2), 90, vec![]);
        let gone = announcement(key(3), 1, vec![]);
        let [before, mut after] = [Superseded, Served].map(|stage| {
            let view = view()
                .announced(announced[0].clone(), stage)
                .announced(announced[1].clone(), stage)
                .stated(states[0].clone(), stage)
                .stated(states[1].clone(), stage)
                .proposed(&asked, stage);
            let waits_by_now = if stage == Served { Waiting } else { Served };
            view.announced(waits.clone(), waits_by_now).build()
        });
        after
            .announcements
            .values_mut()
            .flatten()
            .for_each(|entry| entry.deadline = None);
        let mut before = before;
        before.merge(view().announced(gone.clone(), Served).build());
        let published = [
            announced[1].id(),
            announced[0].id(),
            states[1].id(),
            states[0].id(),
            asked.id(),
        ];
        let removed = Change::Remove { event: gone.id() };
        let first = [removed, to(waits.id(), Waiting)];
        let published = published.map(|event| to(event, Served));
        let expected: Batch = first.into_iter().chain(published).collect();
        assert_eq!(difference(&before, &after, None), expected);
    }

    /// PR-4, REF-6: only what is new, and what is no more.
    #[test]
    fn uploads_and_places_are_made_and_dropped_one_by_one() {
        let asked = proposal(key(5), 1, &oid(1).to_string(), &[key(1)]);
        let record = |commit, owner| upload(asked.id(), oid(commit), repo(key(owner)));
        let before = view()
            .uploaded(record(1, 1))
            .uploaded(record(1, 2))
            .uploaded(record(1, 3))
            .placed(asked.id(), prs_repo(key(5)))
            .build();
        let after = view()
            .uploaded(record(1, 1))
            .uploaded(record(2, 2))
            .uploaded(record(1, 4))
            .placed(asked.id(), prs_repo(key(5)))
            .placed(asked.id(), prs_repo(key(6)))
            .build();
        let expected = [
            Change::DropUpload {
                event: asked.id(),
                repository: repo(key(3)),
            },
            Change::Upload(record(2, 2)),
            Change::Upload(record(1, 4)),
            Change::Place {
                event: asked.id(),
                repository: prs_repo(key(6)),
            },
        ];
        assert_eq!(difference(&before, &after, None), expected);
        assert_eq!(difference(&before, &before, None), []);
    }
}
