//! What can go wrong with a repository on disk.

use std::io;
use std::path::{Path, PathBuf};

use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;

/// A repository could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such repository.
    #[error("there is no repository {repo}")]
    NotFound {
        /// Which one.
        repo: RepoAddress,
    },
    /// A ref shall name an object that is not there.
    #[error("{repo} does not hold {oid}")]
    MissingObject {
        /// Which repository.
        repo: RepoAddress,
        /// The object.
        oid: Oid,
    },
    /// An object is there and cannot be read.
    #[error("cannot read object {oid}: {problem}")]
    Damaged {
        /// Which object.
        oid: Oid,
        /// What the decoder says.
        problem: String,
    },
    /// An object would take more memory than it may.
    #[error("an object in {} is too large to be read whole", path.display())]
    Memory {
        /// Its pack.
        path: PathBuf,
    },
    /// A pack or its index cannot be read.
    #[error("cannot read {}: {problem}", path.display())]
    Pack {
        /// The file.
        path: PathBuf,
        /// What the decoder says.
        problem: String,
    },
    /// The file system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
}

/// Says what was tried when the file system refuses.
pub(crate) trait Attempt<T> {
    fn attempt(self, action: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, action: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::Io {
            action,
            path: path.to_owned(),
            source,
        })
    }
}
