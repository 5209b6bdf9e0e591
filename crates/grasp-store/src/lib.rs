//! Where events live: one home and one lifecycle for each, over LMDB.
//!
//! An event is stored once, in one stage; only served events are visible to subscribers. Whoever
//! changes something hands a decision to [`Store::commit`]: it runs inside the write transaction, on
//! that transaction's own view, and returns the changes to apply. Nothing is acknowledged before it
//! is on the disk, and whatever a change implies (indexes, deadlines, counters, marks of repositories
//! to reconcile) is written with it.
//!
//! *Invariants:* no type of the engine leaves this crate. Nothing is scanned at open. A snapshot
//! lives for seconds at most. The store decides nothing: it applies [`grasp_core::lifecycle::Change`]s.

#![deny(unsafe_code)]

mod announced;
mod archives;
mod authored;
mod check;
#[cfg(feature = "conformance")]
pub mod conformance;
mod conversation;
mod counters;
mod curated;
mod cursors;
mod deadlines;
mod dirty;
mod disk;
mod error;
mod export;
mod facts;
mod followed;
mod format;
mod gather;
mod graph;
mod hunts;
mod idle;
mod index;
mod keys;
mod lifecycle;
mod lmdb;
mod memory;
mod metrics;
mod overview;
mod plans;
mod proposals;
mod query;
mod record;
mod remains;
mod requests;
mod store;
mod tables;
mod upgrade;
mod uploads;
mod version;
mod view;
mod writer;

pub use announced::AnnouncedCursor;
pub use check::{EventFinding, EventsChecked};
pub use counters::{StageStats, Stats};
pub use deadlines::Due;
pub use dirty::DirtySet;
pub use error::{CommitError, EngineError, OpenError, StoreError};
pub use export::{ExportError, ImportError};
pub use followed::{FollowedRoot, RootsCursor};
pub use gather::History;
pub use hunts::Hunt;
pub use metrics::Metrics;
pub use overview::Overview;
pub use plans::StoredPlan;
pub use query::{Budget, Cursor, Emit, NegentropyItem, QueryLimits, Row};
pub use store::{Committed, Passage, ServedEvent, Snapshot, Store, StoreConfig};
pub use version::CommitVersion;
pub use view::{StoredEvent, View};
