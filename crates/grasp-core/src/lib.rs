//! The decisions of a GRASP server, and the types they are made of.
//!
//! Events are the truth and git is a view of them; this crate computes that view and everything that
//! leads to it: whose states count, what an event may do, which pushes agree with a signed state.
//! *Invariant:* nothing here performs IO, reads a clock, draws randomness or knows `async`; what a
//! decision needs is an argument, what follows from it is a value.

#![forbid(unsafe_code)]

pub mod admission;
pub mod announcement;
pub mod clock_step;
pub mod clone_url;
pub mod curation;
pub mod defect;
pub mod deletion;
pub mod event;
pub mod explain;
pub mod failpoint;
pub mod filter;
pub mod hunt;
pub mod lifecycle;
pub mod maintainers;
pub mod name;
pub mod oid;
pub mod policy;
pub mod proposal;
pub mod purgatory;
pub mod push;
pub mod recovery;
pub mod refname;
pub mod refplan;
pub mod related;
pub mod request;
mod retract;
pub mod service;
pub mod settle;
pub mod state;
pub mod view;

#[cfg(test)]
extern crate self as grasp_core; // the test support names this crate as its integration tests do
#[cfg(test)]
#[path = "../tests/rules/support/mod.rs"]
mod testing;

pub use nostr::event::{Event, EventId};
pub use nostr::key::PublicKey;
pub use nostr::types::Timestamp;
