//! What can be wrong with a repository, in words.

use std::fmt;

use grasp_core::explain::Difference;
use grasp_git::{Hole, Problem};

use crate::words::counted;

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// An event here asks for the repository, and its folder is not there (REF-6).
    DirectoryMissing,
    /// The folder is there, and no event asks for it (REF-6). Repairing leaves it alone.
    DirectoryUnwanted {
        /// There are no objects in it.
        is_empty: bool,
    },
    /// Its events changed, and it does not follow.
    NotInLine,
    /// A ref is not where events say, or not where the server shows it.
    Ref(Difference),
    /// `packed-refs` holds lines that git cannot read.
    RefsDamaged {
        /// How many.
        lines: usize,
    },
    /// `HEAD` is not what git writes.
    HeadDamaged,
    /// Refs in files of their own, which shadow the packed ones.
    LooseRefs {
        /// How many.
        count: usize,
    },
    /// It reads objects from elsewhere, and so is not whole by itself.
    Alternates,
    /// A pack that cannot be opened, and with it no object.
    UnreadablePack {
        /// Its name, without ending.
        name: String,
    },
    /// A file that a cut-off program left.
    Leftover {
        /// Relative to the repository.
        file: String,
    },
    /// An object that should be there.
    Object {
        /// Which, and what is wrong.
        hole: Hole,
        /// Which ref or event needs it.
        needed_by: String,
    },
    /// More such objects.
    MoreObjects {
        /// How many.
        count: u64,
    },
    /// The folder cannot be looked at.
    Unreadable {
        /// Why.
        problem: String,
    },
}

impl Finding {
    /// One word for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DirectoryMissing => "directory_missing",
            Self::DirectoryUnwanted { .. } => "directory_unwanted",
            Self::NotInLine => "not_in_line",
            Self::Ref(_) => "ref",
            Self::RefsDamaged { .. } => "refs_damaged",
            Self::HeadDamaged => "head_damaged",
            Self::LooseRefs { .. } => "loose_refs",
            Self::Alternates => "alternates",
            Self::UnreadablePack { .. } => "unreadable_pack",
            Self::Leftover { .. } => "leftover",
            Self::Object { hole, .. } => match hole.problem {
                Problem::Missing => "object_missing",
                Problem::Damaged(_) => "object_damaged",
            },
            Self::MoreObjects { .. } => "more_objects",
            Self::Unreadable { .. } => "unreadable",
        }
    }

    /// Whether objects are not there, or not whole.
    pub fn is_of_objects(&self) -> bool {
        matches!(self, Self::Object { .. } | Self::MoreObjects { .. })
    }

    /// Whether a repair can do something about it.
    pub fn is_repairable(&self) -> bool {
        !matches!(self, Self::DirectoryUnwanted { .. } | Self::Alternates)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DirectoryMissing => {
                out.write_str("its folder is missing, although an event here asks for it")
            }
            Self::DirectoryUnwanted { is_empty: true } => out
                .write_str("an empty folder that no event here asks for; see cleanup-empty-repos"),
            Self::DirectoryUnwanted { is_empty: false } => {
                out.write_str("a folder that no event here asks for; see cleanup-empty-repos")
            }
            Self::NotInLine => {
                out.write_str("its events changed, and it does not follow; see the log")
            }
            Self::Ref(difference) => {
                let side = |at: &Option<String>| at.clone().unwrap_or_else(|| "absent".to_owned());
                let (is, should) = (side(&difference.is), side(&difference.should));
                write!(out, "{} is {is}, and should be {should}", difference.name)
            }
            Self::RefsDamaged { lines } => {
                write!(
                    out,
                    "packed-refs is damaged: git cannot read {} of it",
                    counted(*lines, "line", "lines")
                )
            }
            Self::HeadDamaged => out.write_str("HEAD is damaged"),
            Self::LooseRefs { count } => {
                write!(
                    out,
                    "{} in files of their own, which this server does not write",
                    counted(*count, "ref", "refs")
                )
            }
            Self::Alternates => {
                out.write_str("objects/info/alternates: it needs another folder to be whole")
            }
            Self::UnreadablePack { name } => {
                write!(out, "{name} cannot be opened, and so no object")
            }
            Self::Leftover { file } => write!(out, "{file} was left by a program that was cut off"),
            Self::Object { hole, needed_by } => {
                match &hole.problem {
                    Problem::Missing => write!(out, "object {} is missing", hole.oid)?,
                    Problem::Damaged(what) => {
                        write!(out, "object {} is damaged ({what})", hole.oid)?;
                    }
                }
                match hole.by {
                    Some(by) => write!(out, ", named by {by}, needed by {needed_by}"),
                    None => write!(out, ", needed by {needed_by}"),
                }
            }
            Self::MoreObjects { count } => {
                write!(out, "and {} more", counted(*count, "object", "objects"))
            }
            Self::Unreadable { problem } => write!(out, "cannot be looked at: {problem}"),
        }
    }
}
