//! One subscription: what it asks for, and how its stored part becomes its live part.
//!
//! A subscription joins the fan-out *before* its stored part is read, so that no event can fall between
//! the two. Live events that come meanwhile are held. The stored part is answered from one snapshot;
//! an event whose commit that snapshot contains is part of it and is not sent again (RLY-1). *Invariant:*
//! frames of a subscription enter the queue only under its phase lock, so none follows its end.

pub(crate) mod index;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use grasp_core::filter::Filter;
use grasp_store::CommitVersion;
use nostr::event::{Event, EventId};

use crate::connection::frame::{Frame, event_prefix};
use crate::connection::outbound::{Outbound, Reservation};
use crate::limits::Limit;

/// What an overflowing subscription is told (§5).
const OVERFLOW: &str = "error: live event buffer overflow; resubscribe to recover stored events";

/// How many commits later an event may be published than its successors.
const PUBLISHED_OUT_OF_ORDER_MAX: u64 = 4_096;

/// A client's wish for events.
#[derive(Debug)]
pub(crate) struct Subscription {
    id: String,
    prefix: Arc<str>,
    filters: Vec<Filter>,
    outbound: Arc<Outbound>,
    phase: Mutex<Phase>,
}

#[derive(Debug)]
enum Phase {
    /// The stored part is being sent.
    Storing { held: Vec<Held> },
    /// Events beyond the boundary are sent as they come; `None` if there was no stored part.
    Live { beyond: Option<Boundary> },
    /// Closed, replaced, or its client is gone.
    Over,
}

/// Where the stored part ends and the live part begins.
#[derive(Debug)]
pub(crate) struct Boundary {
    /// The stored part is what was visible then.
    pub(crate) first: CommitVersion,
    /// Parts of it were read as late as this.
    pub(crate) last: CommitVersion,
    /// What was read late: it may have become visible anew in between.
    pub(crate) late: HashSet<EventId>,
}

/// A live event that waits for the end of the stored part.
#[derive(Debug)]
struct Held {
    id: EventId,
    json: Bytes,
    version: Option<CommitVersion>,
    stored_part_asks: bool,
    room: Reservation,
}

/// An event on its way to subscribers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveEvent<'a> {
    /// For matching.
    pub(crate) event: &'a Event,
    /// What is sent.
    pub(crate) json: &'a Bytes,
    /// The commit that made it visible; `None` for one that is kept nowhere.
    pub(crate) version: Option<CommitVersion>,
}

/// What became of a live event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// Sent, held, or none of its business.
    Done,
    /// The subscription had no room for it and is over.
    Overflowed,
}

impl Subscription {
    /// A subscription whose stored part is still to come.
    pub(crate) fn new(id: String, filters: Vec<Filter>, outbound: Arc<Outbound>) -> Arc<Self> {
        Arc::new(Self {
            prefix: event_prefix(&id),
            id,
            filters,
            outbound,
            phase: Mutex::new(Phase::Storing { held: Vec::new() }),
        })
    }

    /// What it asks for.
    pub(crate) fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// Where its frames go.
    pub(crate) fn outbound(&self) -> &Arc<Outbound> {
        &self.outbound
    }

    /// The text before each of its events.
    pub(crate) fn prefix(&self) -> &Arc<str> {
        &self.prefix
    }

    /// Whether nothing is sent any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.lock(), Phase::Over)
    }

    /// Takes a live event if it matches.
    pub(crate) fn offer(&self, live: LiveEvent<'_>) -> Offered {
        let Some(stored_part_asks) = self.interest(live.event) else {
            return Offered::Done;
        };
        let mut phase = self.lock();
        let taken = match &mut *phase {
            Phase::Over => Ok(()),
            Phase::Live { beyond } => {
                let stored = stored_part_asks && was_stored(beyond, live.event.id, live.version);
                if stored {
                    Ok(())
                } else {
                    self.outbound.offer(self.event_frame(live.json.clone()))
                }
            }
            Phase::Storing { held } => self.hold(held, live, stored_part_asks),
        };
        let Err(limit) = taken else {
            return Offered::Done;
        };
        *phase = Phase::Over;
        self.outbound.count_overflow(limit);
        self.outbound.push(Frame::closed(&self.id, OVERFLOW));
        Offered::Overflowed
    }

    /// Whether a filter matches, and if so whether one of those has a stored part.
    fn interest(&self, event: &Event) -> Option<bool> {
        let mut matching = self
            .filters
            .iter()
            .filter(|filter| filter.matches(event))
            .peekable();
        matching.peek()?;
        Some(matching.any(has_stored_part))
    }

    fn hold(
        &self,
        held: &mut Vec<Held>,
        live: LiveEvent<'_>,
        stored_part_asks: bool,
    ) -> Result<(), Limit> {
        let weight = self.event_frame(live.json.clone()).weight();
        let room = self.outbound.try_reserve(weight)?;
        held.push(Held {
            id: live.event.id,
            json: live.json.clone(),
            version: live.version,
            stored_part_asks,
            room,
        });
        Ok(())
    }

    /// Sends stored events in the room that was kept for them. `false` if nobody wants them any more.
    pub(crate) fn send_stored(&self, room: Reservation, frames: Vec<Frame>) -> bool {
        let phase = self.lock();
        let wanted = !matches!(*phase, Phase::Over);
        if wanted {
            room.fill(frames);
        }
        wanted
    }

    /// Ends the stored part and sends what was held, as far as it is beyond the boundary.
    pub(crate) fn go_live(&self, boundary: Option<Boundary>) {
        let mut phase = self.lock();
        let Phase::Storing { held } = &mut *phase else {
            return;
        };
        let mut beyond = boundary;
        self.outbound.push(Frame::eose(&self.id));
        for event in std::mem::take(held) {
            if !(event.stored_part_asks && was_stored(&mut beyond, event.id, event.version)) {
                event.room.fill([self.event_frame(event.json)]);
            }
        }
        *phase = Phase::Live { beyond };
    }

    /// Ends it without a word: the client closed or replaced it, or is gone.
    pub(crate) fn end(&self) {
        *self.lock() = Phase::Over;
    }

    /// Ends it and tells the client why.
    pub(crate) fn close(&self, reason: &str) {
        let mut phase = self.lock();
        if !matches!(*phase, Phase::Over) {
            *phase = Phase::Over;
            self.outbound.push(Frame::closed(&self.id, reason));
        }
    }

    fn event_frame(&self, json: Bytes) -> Frame {
        Frame::event(Arc::clone(&self.prefix), json)
    }

    /// A panic while the lock was held left a phase that was whole.
    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a filter wants anything that is stored already (case 45).
pub(crate) fn has_stored_part(filter: &Filter) -> bool {
    filter.limit != Some(0)
}

/// Whether the stored part had this event. What was read late is forgotten once commits are published
/// that are much later: an event is published when its repositories are in line, so commits that are
/// close to each other may be published in any order.
fn was_stored(
    boundary: &mut Option<Boundary>,
    id: EventId,
    version: Option<CommitVersion>,
) -> bool {
    let (Some(boundary), Some(version)) = (boundary, version) else {
        return false;
    };
    if version.number() > boundary.last.number() + PUBLISHED_OUT_OF_ORDER_MAX {
        boundary.late = HashSet::new();
    }
    version <= boundary.first || (version <= boundary.last && boundary.late.contains(&id))
}

#[cfg(test)]
mod tests;
