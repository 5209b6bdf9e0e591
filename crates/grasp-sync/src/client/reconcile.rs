//! The asking side of set reconciliation (NIP-77).
//!
//! Our set is sealed before the first message and each answer is worked out from it alone. What the peer claims reserves
//! nothing: a message is as long as it is, and a difference that has become too large is not followed to its end.

use grasp_core::EventId;
use negentropy::{Error, Negentropy};

use crate::engine::settings::DIFFERENCE_MAX;
use crate::home::{Home, LocalSet};

/// Bytes of one message of ours; twice as many as hex. Common relays take no frames above 128 KiB.
const MESSAGE_MAX: u64 = 60_000;

/// What follows from a message of the peer.
#[derive(Debug)]
pub(super) enum Round {
    /// The next message of ours, and what the peer has and we lack so far.
    Next(Vec<u8>, Vec<EventId>),
    /// The difference.
    Done(Vec<EventId>),
}

/// The first message of ours.
pub(super) fn open(set: &LocalSet) -> Result<Vec<u8>, Error> {
    Negentropy::borrowed(set.items(), MESSAGE_MAX)?.initiate()
}

/// Reads a message of the peer. What we know, though it is not in our set, is not missing. Call it off the async workers.
pub(super) fn answer(
    set: &LocalSet,
    message: &[u8],
    mut missing: Vec<EventId>,
    home: &impl Home,
) -> Result<Round, Error> {
    let mut here = Negentropy::borrowed(set.items(), MESSAGE_MAX)?;
    here.set_initiator();
    let (mut ours_alone, mut theirs) = (Vec::new(), Vec::new());
    let next = here.reconcile_with_ids(message, &mut ours_alone, &mut theirs)?;
    let named = theirs
        .iter()
        .map(|id| EventId::from_byte_array(id.to_bytes()));
    missing.extend(named.filter(|id| !home.knows(id)));
    Ok(match next {
        Some(message) if missing.len() <= DIFFERENCE_MAX => Round::Next(message, missing),
        _ => Round::Done(missing),
    })
}
