//! Requests of authors about their own events: to delete some (NIP-09), to vanish altogether (NIP-62).
//!
//! What follows from one at once is decided where it is admitted. Here stands what holds from then on:
//! whom it concerns, and what it gates.

pub mod vanish;

/// What keeps an event out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// A deletion request names its id, or its address at its time or later (DEL-1).
    Deletion,
    /// Its author asked to vanish, at its time or later (DEL-8).
    Vanish,
}
