//! What an event lacks, and what meets the want.

use grasp_core::admission::Rejection;
use grasp_core::event::VerifiedEvent;
use grasp_core::name::Identifier;
use grasp_core::related::References;
use grasp_core::{EventId, PublicKey};

/// Something whose arrival may change what was said of an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// This event, which it refers to.
    Event(EventId),
    /// The event at this address, which it refers to.
    Address(String),
    /// An event that refers to it, by this id (hex) or address (REL-2).
    Mention(String),
    /// An announcement of this identifier: authority for it comes from there.
    Identifier(Identifier),
    /// Anything that its author takes part in (EV-2).
    Author(PublicKey),
}

impl Lack {
    /// Everything that the arrival of an event meets.
    pub fn met_by(event: &VerifiedEvent) -> Vec<Self> {
        let references = References::of(event);
        let mut met = vec![Self::Event(event.id()), Self::Author(event.author())];
        met.extend(event.address().map(Self::Address));
        let named = references.events.iter().map(EventId::to_hex);
        met.extend(named.chain(references.addresses).map(Self::Mention));
        met
    }
}

/// What becomes of an event that was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// Nothing that can arrive changes it.
    Final,
    /// There was no room for it. That says nothing of the event.
    Passing,
    /// Whatever changes it cannot be asked for.
    Changes(Vec<Lack>),
    /// It hangs on nothing that is here; what it refers to can be asked for.
    Lacks(Vec<Lack>),
}

impl Outlook {
    pub(super) fn of(event: &VerifiedEvent, rejection: &Rejection) -> Self {
        match rejection {
            Rejection::Unrelated => Self::unrelated(event),
            Rejection::NotParticipant => Self::Changes(vec![Lack::Author(event.author())]),
            Rejection::NoAnnouncement | Rejection::NotAuthorised | Rejection::ServiceNotListed => {
                let named = event.identifier().map(Lack::Identifier);
                named.map_or(Self::Final, |lack| Self::Changes(vec![lack]))
            }
            Rejection::OverBudget { .. }
            | Rejection::PurgatoryFull(_)
            | Rejection::TooManyRequests { .. }
            | Rejection::TooFarAhead { .. } => Self::Passing,
            _ => Self::Final,
        }
    }

    fn unrelated(event: &VerifiedEvent) -> Self {
        let references = References::of(event);
        let is_empty = references.is_empty();
        let events = references.events.into_iter().map(Lack::Event);
        let addresses = references.addresses.into_iter().map(Lack::Address);
        let mut lacks: Vec<_> = events.chain(addresses).collect();
        lacks.push(Lack::Mention(event.id().to_hex()));
        lacks.extend(event.address().map(Lack::Mention));
        if is_empty {
            Self::Changes(lacks)
        } else {
            Self::Lacks(lacks)
        }
    }
}
