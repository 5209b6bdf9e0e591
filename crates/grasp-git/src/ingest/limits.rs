//! How large a pack may be, and every way to be refused.

use std::io;
use std::path::Path;

use grasp_core::oid::Oid;

use crate::error::Error;

/// Bounds on one pack (GIT-9). Whoever exceeds one is told which.
#[derive(Debug, Clone)]
pub struct PackLimits {
    /// Bytes of the pack as sent.
    pub bytes: u64,
    /// Objects in it.
    pub objects: u32,
    /// Bytes of one object, inflated and with its delta applied.
    pub object_bytes: u64,
    /// Bytes of all entries, inflated.
    pub inflated_bytes: u64,
}

impl Default for PackLimits {
    fn default() -> Self {
        Self {
            bytes: 2 << 30,
            objects: 4_000_000,
            object_bytes: 512 << 20,
            inflated_bytes: 20 << 30,
        }
    }
}

/// Deltas upon deltas: git makes chains of 50 and cannot be told to make longer ones than 4,095.
pub(super) const DELTA_DEPTH_MAX: u16 = 4095;

/// A commit, tree or tag is read whole; a tree of a million entries comes to half of this.
pub(super) const STRUCTURE_BYTES: usize = 96 << 20;

/// All objects together may be so many times larger than the pack; history with long delta chains comes
/// to a few hundred.
pub(super) const RATIO_MAX: u64 = 2000;

/// A pack whose objects come to less than this is never too dense.
pub(super) const RATIO_FREE_BYTES: u64 = 1 << 30;

/// A pack that is not taken. Except for the last group it is the sender's doing.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// [`PackLimits::bytes`].
    #[error("the pack is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// [`PackLimits::objects`].
    #[error("the pack has {objects} objects, the limit is {limit}")]
    TooManyObjects {
        /// What its header says.
        objects: u32,
        /// The limit.
        limit: u32,
    },
    /// [`PackLimits::object_bytes`].
    #[error("the pack has an object of {bytes} bytes, the limit is {limit}")]
    ObjectTooLarge {
        /// What the object says of itself.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// [`PackLimits::inflated_bytes`].
    #[error("the objects of the pack are larger than the limit of {limit} bytes together")]
    InflatedTooLarge {
        /// The limit.
        limit: u64,
    },
    /// Far more content than pack.
    #[error("the objects of the pack are more than {limit} times as large as the pack")]
    TooDense {
        /// The limit.
        limit: u64,
    },
    /// Deltas upon deltas.
    #[error("the pack has a chain of more than {limit} deltas")]
    DeltaTooDeep {
        /// The limit.
        limit: u16,
    },
    /// A commit, tree, tag or `.gitmodules` that would have to be read whole.
    #[error("object {oid} is larger than the limit of {limit} bytes for what is no file")]
    StructureTooLarge {
        /// The object.
        oid: Oid,
        /// The limit.
        limit: usize,
    },
    /// The indexing took too long.
    #[error("indexing the pack takes more than the limit of {limit} seconds of computing")]
    TooSlow {
        /// The limit.
        limit: u64,
    },
    /// All pushes together fill the space for what is not checked yet.
    #[error(
        "the packs being received take more than the limit of {limit} bytes together, try again later"
    )]
    QuarantineFull {
        /// The limit.
        limit: u64,
    },
    /// The pack ends before it is whole.
    #[error("the pack ends too early")]
    Truncated,
    /// Something follows the pack.
    #[error("there is something after the end of the pack")]
    TrailingGarbage,
    /// The sum at the end is another.
    #[error("the checksum of the pack is wrong")]
    Checksum,
    /// It is no pack that git would write.
    #[error("the pack is broken: {0}")]
    Malformed(String),
    /// One object stands in it more than once.
    #[error("the pack has object {0} twice")]
    Twice(Oid),
    /// An object that would harm whoever reads it (GIT-11).
    #[error("object {oid} is refused: {finding}")]
    Harmful {
        /// The object.
        oid: Oid,
        /// What is wrong.
        finding: &'static str,
    },
    /// What the tips need is neither in the pack nor here (PUSH-17).
    #[error("object {missing} is missing{}", needed(by.as_ref()))]
    Missing {
        /// The object.
        missing: Oid,
        /// What names it; `None` for a tip.
        by: Option<Oid>,
    },
    /// The caller raised its flag, or went away.
    #[error("the transfer was interrupted")]
    Interrupted,
    /// The sender's stream failed.
    #[error("the pack cannot be read")]
    Read(#[source] io::Error),
    /// Our side failed.
    #[error("the pack cannot be stored")]
    Store(#[from] Error),
}

fn needed(by: Option<&Oid>) -> String {
    by.map_or_else(
        || ": a full history is needed, shallow ones are not taken".to_owned(),
        |by| format!(", {by} needs it: a full history is needed, shallow ones are not taken"),
    )
}

/// What a full disk is called.
pub(super) const NO_SPACE: &str = "No space left";

impl IngestError {
    /// The disk is full.
    pub(super) fn no_space(folder: &Path) -> Self {
        Self::Store(Error::Io {
            action: "write into",
            path: folder.to_owned(),
            source: io::ErrorKind::StorageFull.into(),
        })
    }

    /// Whether the sender can do something about it, and is told what it is.
    pub fn is_clients(&self) -> bool {
        !self.is_ours()
    }

    /// Whether the fault is this server's: to be logged, and no business of the sender.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}
