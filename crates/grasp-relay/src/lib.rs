//! Speaks Nostr to clients: connections, subscriptions, fan-out and their limits.
//!
//! The room knows how to talk, not what to take: whether an event is accepted is the business of the
//! [`Intake`] it is given, what exists is the business of the store. It promises that no event is lost
//! or sent twice between the stored and the live part of a subscription (RLY-1), that answers are never
//! dropped however slow a client is (RLY-3), and that a bad message costs its sender an answer, never
//! the connection. *Invariant:* every queue a client can fill is counted in bytes and has a bound
//! ([`RelayLimits`]).

#![forbid(unsafe_code)]

pub mod address;
mod auth;
mod connection;
mod count;
mod fanout;
mod intake;
pub mod limits;
pub mod message;
pub mod metrics;
mod negentropy;
pub mod nip11;
mod query;
mod relay;
mod subscription;

pub use fanout::Fanout;
pub use intake::{Answered, Intake, Submitter, Turn};
pub use limits::{NegentropyLimits, RelayLimits};
pub use metrics::Metrics;
pub use relay::{Parts, Relay};

/// Tells the time: the server's, or a test's.
pub type Clock = std::sync::Arc<dyn Fn() -> nostr::types::Timestamp + Send + Sync>;
