//! Which relays are asked about replies (SYNC-35): those where the root of the conversation is followed.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::ControlFlow;

use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::filter::Filter;
use grasp_core::lifecycle::Standing;
use grasp_core::name::Coordinate;
use grasp_core::related::References;
use grasp_core::{EventId, Timestamp};
use grasp_store::{QueryLimits, Store, StoreError, View};
use grasp_sync::descendants::Question;
use grasp_sync::engine::{Notice, SyncLevel};
use grasp_sync::intake::{ERRAND_VALUES_MAX, Errand};
use grasp_sync::relay_url::RelayUrl;

use super::notices;

/// Kinds of which most replies are: comments, notes, and the replies of old clients.
const REPLIES: [u16; 3] = [1111, 1, 1622];
/// So many of them are asked about after a start: what came while we were away hangs on recent ones.
const RECENT: usize = 1_000;

/// A reply, the root that it hangs on, and what it refers to.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) id: EventId,
    pub(super) root: EventId,
    pub(super) parents: Vec<EventId>,
}

impl Reply {
    /// The event, if its standing is that of a reply.
    pub(super) fn of(event: &VerifiedEvent, standing: Standing) -> Option<Self> {
        let Standing::Reply { root, .. } = standing else {
            return None;
        };
        Some(Self {
            id: event.id(),
            root,
            parents: References::of(event).events,
        })
    }
}

/// The newest replies that are served, oldest of them first.
pub(super) fn recent_replies(store: &Store, now: Timestamp) -> Result<Vec<Reply>, StoreError> {
    let filter = Filter {
        kinds: Some(REPLIES.into()),
        limit: Some(RECENT),
        ..Filter::default()
    };
    let mut ids = Vec::new();
    store.query(&[filter], QueryLimits::unlimited(now), &mut |row| {
        ids.push(row.id);
        ControlFlow::Continue(())
    })?;
    let snapshot = store.snapshot()?;
    let view = snapshot.view();
    let mut replies = Vec::new();
    for id in ids.iter().rev() {
        let stored = view.event(id)?;
        replies.extend(stored.and_then(|it| Reply::of(&it.event, it.standing)));
    }
    Ok(replies)
}

/// Whom to ask about these replies, and how.
pub(super) fn errands(
    view: &View<'_>,
    questions: Vec<Question>,
) -> Result<Vec<Errand>, StoreError> {
    let mut relays: BTreeMap<EventId, BTreeSet<RelayUrl>> = BTreeMap::new();
    let mut shares: BTreeMap<RelayUrl, Vec<EventId>> = BTreeMap::new();
    for Question { id, root } in questions {
        let relays = match relays.entry(root) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(relays_of(view, &root)?),
        };
        for relay in relays.iter() {
            shares.entry(relay.clone()).or_default().push(id);
        }
    }
    let errands = shares.into_iter().flat_map(|(relay, replies)| {
        let parts: Vec<Vec<EventId>> = replies.chunks(ERRAND_VALUES_MAX).map(Into::into).collect();
        parts.into_iter().map(move |ids| Errand {
            relay: relay.clone(),
            filters: ['e', 'q'].map(|letter| naming(letter, &ids)).into(),
        })
    });
    Ok(errands.collect())
}

fn naming(letter: char, ids: &[EventId]) -> Filter {
    let values = ids.iter().map(EventId::to_hex).collect();
    Filter {
        tags: [(letter, values)].into(),
        ..Filter::default()
    }
}

fn relays_of(view: &View<'_>, root: &EventId) -> Result<BTreeSet<RelayUrl>, StoreError> {
    let mut relays = BTreeSet::new();
    for coordinate in repositories_of(view, root)? {
        if let Notice::Repository {
            relays: listed,
            level: SyncLevel::Full,
            ..
        } = notices::of_repository(view, coordinate)?
        {
            relays.extend(listed);
        }
    }
    Ok(relays)
}

/// Conversations hang on roots, or on the announcement itself.
fn repositories_of(view: &View<'_>, root: &EventId) -> Result<BTreeSet<Coordinate>, StoreError> {
    let stored = view.event(root)?.map(|stored| stored.event);
    let announcement = stored.filter(|event| event.kind() == kind::ANNOUNCEMENT);
    if let Some(event) = announcement {
        let identifier = event.identifier();
        let coordinate = identifier.map(|it| Coordinate::new(event.author(), it));
        return Ok(coordinate.into_iter().collect());
    }
    let followed = view.followed_root(root)?;
    Ok(followed.map_or_else(BTreeSet::new, |root| root.repositories))
}
