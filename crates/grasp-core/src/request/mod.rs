//! Requests of authors about their own events: to delete some (NIP-09), to vanish altogether (NIP-62).
//!
//! What follows from one at once is decided where it is admitted. Here stands what holds from then on: whom
//! it concerns, what it gates, how long it is kept, and what counts as a use of it. *Invariant:* a request
//! gates as long as its event is stored, in whatever stage, and no longer.

mod credit;
mod retention;
mod targets;
pub mod vanish;

use nostr::event::EventId;
use nostr::types::Timestamp;

use crate::admission::Rejection;
use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{Batch, Change, Stage, Standing};
use crate::policy::Circumstances;

pub use credit::credit;
pub use retention::{Life, Request, Retention, Uses};
pub use targets::{Targets, TooManyTargets};

/// What the operator decided about requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPolicy {
    /// How long they are kept (DEL-9).
    pub retention: Retention,
    /// Whether they are acted on; if not they are stored, and gate nothing (DEL-10).
    pub respected: bool,
    /// Most requests of one author that were of no use yet (§16).
    pub unused_per_author: usize,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// That some events be deleted (DEL-1).
    Deletion,
    /// That everything its author made so far goes (DEL-8).
    Vanish,
}

/// A request that keeps an arriving event out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Which.
    pub request: EventId,
    /// What it asks for.
    pub asks: Asks,
    /// How long it has been of use.
    pub uses: Uses,
    /// NIP-40: when it stops to be shown.
    pub expiration: Option<Timestamp>,
}

/// Whether events of this kind are requests.
pub fn is_request(kind: u16) -> bool {
    matches!(kind, kind::DELETION | kind::VANISH)
}

/// What a request keeps out from now on: the things that it names, or all that its author made so far.
pub fn gates(request: &VerifiedEvent) -> Batch {
    if request.kind() == kind::VANISH {
        return vec![Change::GateAuthor {
            author: request.author(),
            until: request.created_at(),
            request: request.id(),
        }];
    }
    Targets::of(request).map_or_else(|TooManyTargets| Batch::new(), |named| named.gates(request))
}

/// Takes a request in: stores it, and remembers since when it is here. A request that is `used` has just
/// removed something; one that has not is refused if its author has too many of the sort (§16), `unused`
/// of them.
pub fn keep(
    event: &VerifiedEvent,
    used: bool,
    unused: usize,
    cx: Circumstances<'_>,
) -> Result<Batch, Rejection> {
    let max = cx.policy.requests.unused_per_author;
    if !used && unused >= max {
        return Err(Rejection::TooManyRequests { max });
    }
    let from_now = Uses {
        first_seen: cx.now,
        last: used.then_some(cx.now),
    };
    let request = Request::of(event, from_now, cx.policy);
    let (stage, deadline) = match request.life(&cx.policy.requests.retention, cx.now) {
        Life::Served { until } => (Stage::Served, Some(until)),
        Life::Gating { until } => (Stage::Held, until),
        Life::Over => (Stage::Held, Some(cx.now)),
    };
    Ok(vec![
        Change::Insert {
            event: event.clone(),
            stage,
            deadline,
            standing: Standing::Bare,
        },
        Change::KeepRequest {
            request: event.id(),
            uses: from_now,
        },
    ])
}
