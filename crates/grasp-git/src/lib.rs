//! Bare repositories, their refs and packs, and git's smart HTTP protocol.
//!
//! Keeps and moves objects; decides nothing about who may. What a signed event allows is
//! `grasp-core`'s business, and only the service's `reconcile` asks this crate to write refs.
//! *Invariants:* what lies in a repository's `objects/` is complete, so nothing is moved there whose
//! closure is not there already; refs change under a [`RepoLock`] only, all at once; no repository has
//! alternates at rest.

#![forbid(unsafe_code)]

pub mod check;
pub mod child;
pub mod http;
pub mod ingest;
pub mod objects;
pub mod pktline;
pub mod propagate;
pub mod refs;
pub mod repository;
pub mod scratch;

#[cfg(all(test, feature = "failpoints"))]
mod crash_tests;
mod durable;
mod error;
mod packing;
#[cfg(test)]
mod testing;

pub use check::{Hole, Inspection, Listed, Problem, Walked};
pub use error::Error;
pub use ingest::{IngestError, Installed, Kept, PackLimits, Quarantined, ingest, scan_pack};
pub use objects::{ObjectKind, Objects};
pub use propagate::{propagate, refill};
pub use refs::{OnDisk, RefSnapshot, RefValue};
pub use repository::{GitConfig, Lease, OpenError, RepoLock, Repositories};
