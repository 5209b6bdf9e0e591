//! Decides where to look for git data that is owed, and when (protocol.md §14).
//!
//! One entry for each identifier says when the next attempt is due ([`SyncQueueEntry`]). An attempt asks what is owed,
//! then goes round the addresses of each maintainer group, politely: the hosts are shared by all identifiers, and
//! each has its limits. What a fetch brings is not its business; who fetches says how it ended.
//!
//! It opens no socket, reads no clock and draws no chance: what happened goes in, what to do comes out.

mod host;
mod io;
mod queue;
pub mod settings;

pub use grasp_core::clone_url::CloneUrl;
pub use grasp_core::hunt::{GroupKey, GroupOwed, Owed};
pub use host::Host;
pub use io::{
    Broken, FetchEnd, FetchId, FetchOrder, FetchOutcome, Fingerprint, Input, Output, StoredEntry,
};
pub use queue::SyncQueueEntry;
pub use settings::HuntSettings;

pub use crate::engine::Time;
