//! What can go wrong in the store, told apart by what a caller does about it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use nostr::event::EventId;

/// A fault of the storage engine: of the disk, most likely.
#[derive(Debug, Clone)]
pub struct EngineError(Arc<heed::Error>);

impl fmt::Display for EngineError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl std::error::Error for EngineError {}

impl From<heed::Error> for EngineError {
    fn from(error: heed::Error) -> Self {
        Self(Arc::new(error))
    }
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder holds something that this program did not make (CLI-4). Nothing was written.
    #[error(
        "{path} was not made by this server: it contains {found}; choose an empty data directory"
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// What gives it away.
        found: String,
    },
    /// Made by another version of this program.
    #[error(
        "{path} has store format {found}, and this version reads {}",
        crate::format::FORMAT
    )]
    Format {
        /// The folder.
        path: PathBuf,
        /// What its format file says.
        found: String,
    },
    /// Another process has it open (CLI-2).
    #[error("{path} is in use by another process")]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The file system said no.
    #[error("cannot prepare {path}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// The engine said no, or what is stored cannot be read.
    #[error("cannot open the store in {path}")]
    Store {
        /// The folder.
        path: PathBuf,
        /// What it said.
        #[source]
        source: StoreError,
    },
}

/// Why a read or a change failed: a fault of the server, never of a peer (EV-6).
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The engine failed.
    #[error("the storage engine failed")]
    Engine(#[from] EngineError),
    /// A stored row does not read as what it should be.
    #[error("a row of the table {0:?} is damaged")]
    Corrupt(&'static str),
    /// A change names an event that is not stored.
    #[error("event {0} is not in the store")]
    UnknownEvent(EventId),
    /// Two events whose ids begin with the same 16 bytes.
    #[error("event {0} cannot be told apart from a stored one")]
    AmbiguousId(EventId),
    /// The disk failed the commits before; this one was not even tried.
    #[error("the storage engine fails repeatedly")]
    Unavailable,
    /// A decision failed for a reason of its own.
    #[error("{0}")]
    Decision(String),
}

impl From<heed::Error> for StoreError {
    fn from(error: heed::Error) -> Self {
        Self::Engine(error.into())
    }
}

/// Why a commit did not happen. Nothing of it is kept.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Less room than the floor, and the commit adds data (BND-2).
    #[error("disk space is below the floor")]
    DiskFull,
    /// Deciding or writing failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The decision panicked; others of its group are not concerned.
    #[error("the decision of this commit panicked")]
    Panicked,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}
