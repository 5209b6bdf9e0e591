//! Claims a git folder at the start: ours, alone, and clean.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::{layout, probe};
use crate::durable::{create_folders, remove_folder, sync_folder, write_file};

/// The content of `.grasp/format`. The number grows when an older program could no longer read the folder.
const FORMAT: &str = "ngit-grasp git 1\n";
const FORMAT_NAME: &str = "ngit-grasp git ";

/// What other servers keep in a git folder.
const FOREIGN: [&str; 4] = [
    "purgatory-state.json",
    "rejected-events-cache.json",
    ".archive",
    "data.mdb",
];

/// Why a git folder cannot be used. Each is a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else's data (CLI-4). Nothing was written.
    #[error(
        "the git folder {} was not made by this program ({found} is in it); name an empty folder, or import it",
        root.display()
    )]
    Foreign {
        /// The folder.
        root: PathBuf,
        /// What gives it away.
        found: String,
    },
    /// A later version of this program wrote it.
    #[error(
        "the git folder {} has the format {found:?}, which this version cannot read",
        root.display()
    )]
    Format {
        /// The folder.
        root: PathBuf,
        /// What its format file says.
        found: String,
    },
    /// Another process uses it (CLI-2).
    #[error("the git folder {} is in use by another process", root.display())]
    InUse {
        /// The folder.
        root: PathBuf,
    },
    /// Different identifiers would share a folder (NAME-4).
    #[error(
        "the file system of {} does not tell names apart that differ in {by}; use another file system",
        root.display()
    )]
    FoldsNames {
        /// The folder.
        root: PathBuf,
        /// What it does not tell apart.
        by: &'static str,
    },
    /// The file system refused.
    #[error("cannot {action} {}; the git folder must belong to the user that runs the server, or be writable for it", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
}

/// A folder that is ours now.
#[derive(Debug)]
pub(super) struct Opened {
    /// Its absolute path.
    pub(super) root: PathBuf,
    /// What makes it ours.
    pub(super) claim: Claim,
}

/// The locked format file.
#[derive(Debug)]
pub(super) struct Claim(File);

impl Drop for Claim {
    /// Closing is not enough: a child that is between its fork and its exec has the file open too.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

pub(super) fn open(root: &Path) -> Result<Opened, OpenError> {
    refuse_foreign(root)?;
    create_folders(root).or_else(|error| failed("create", root, error))?;
    let root = fs::canonicalize(root).or_else(|error| failed("find", root, error))?;
    let ours = layout::ours(&root);
    create_folders(&ours).or_else(|error| failed("create", &ours, error))?;
    let claim = claim(&root, &ours.join(layout::FORMAT))?;
    refuse_folding(&root, &ours)?;
    for name in [layout::QUARANTINE, layout::TRASH, layout::CACHE] {
        let folder = ours.join(name);
        remove_folder(&folder).or_else(|error| failed("empty", &folder, error))?;
        fs::create_dir(&folder).or_else(|error| failed("create", &folder, error))?;
    }
    Ok(Opened { root, claim })
}

/// Whether the folder is ours already. Writes nothing; what is not ours is refused.
pub(super) fn is_at(root: &Path) -> Result<bool, OpenError> {
    refuse_foreign(root)?;
    Ok(layout::ours(root).join(layout::FORMAT).is_file())
}

/// A folder is ours if it has our format file, or nothing that looks like repositories of anyone.
fn refuse_foreign(root: &Path) -> Result<(), OpenError> {
    let format = layout::ours(root).join(layout::FORMAT);
    match fs::read_to_string(&format) {
        Ok(found) if found == FORMAT => return Ok(()),
        Ok(found) if found.starts_with(FORMAT_NAME) => {
            let root = root.to_owned();
            return Err(OpenError::Format { root, found });
        }
        Ok(_) => return foreign(root, ".grasp/format"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return failed("read", &format, error),
    }
    if fs::read_dir(layout::ours(root)).is_ok_and(|mut entries| entries.next().is_some()) {
        return foreign(root, ".grasp");
    }
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return failed("read", root, error),
    };
    for entry in entries {
        let name = entry
            .or_else(|error| failed("read", root, error))?
            .file_name();
        let name = name.to_string_lossy();
        if FOREIGN.contains(&&*name) || name.starts_with("npub1") || name == "prs" {
            return foreign(root, &name);
        }
    }
    Ok(())
}

fn foreign<T>(root: &Path, found: &str) -> Result<T, OpenError> {
    let (root, found) = (root.to_owned(), found.to_owned());
    Err(OpenError::Foreign { root, found })
}

/// Writes the format file if there is none, and locks it as long as the process lives.
fn claim(root: &Path, path: &Path) -> Result<Claim, OpenError> {
    if !path.exists() {
        let fresh = path.with_extension("new");
        write_file(&fresh, FORMAT.as_bytes()).or_else(|error| failed("write", &fresh, error))?;
        fs::rename(&fresh, path).or_else(|error| failed("write", path, error))?;
        let folder = path.parent().unwrap_or(root);
        sync_folder(folder).or_else(|error| failed("sync", folder, error))?;
    }
    let file = File::open(path).or_else(|error| failed("read", path, error))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Claim(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::InUse {
            root: root.to_owned(),
        }),
        Err(error) => failed("lock", path, error.into()),
    }
}

fn refuse_folding(root: &Path, ours: &Path) -> Result<(), OpenError> {
    let by = match probe::folding(ours).or_else(|error| failed("write into", ours, error))? {
        None => return Ok(()),
        Some(probe::Folding::Case) => "upper and lower case",
        Some(probe::Folding::Normalisation) => "how accents are written",
    };
    let root = root.to_owned();
    Err(OpenError::FoldsNames { root, by })
}

fn failed<T>(action: &'static str, path: &Path, source: io::Error) -> Result<T, OpenError> {
    Err(OpenError::Io {
        action,
        path: path.to_owned(),
        source,
    })
}
