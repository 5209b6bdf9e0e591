//! The space that packs take before anyone has judged them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::limits::IngestError;
use crate::durable::remove_folder;
use crate::error::{Attempt, Error};
use crate::repository::{Lease, Repositories};

/// How much lies in quarantine, and how much may.
#[derive(Debug)]
pub(crate) struct Quarantine {
    root: PathBuf,
    percent: u8,
    bytes: AtomicU64,
}

impl Quarantine {
    pub(crate) fn new(root: &Path, percent: u8) -> Self {
        Self {
            root: root.to_owned(),
            percent: percent.min(100),
            bytes: AtomicU64::new(0),
        }
    }

    /// What all packs may take together: a share of the space that would be free without them.
    fn limit(&self) -> Result<u64, Error> {
        let space = rustix::fs::statvfs(&self.root)
            .map_err(std::io::Error::from)
            .attempt("measure the free space of", &self.root)?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let free = free.saturating_add(self.bytes.load(Ordering::Relaxed));
        Ok(free / 100 * u64::from(self.percent))
    }
}

/// One folder in quarantine. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    repositories: Repositories,
    path: PathBuf,
    bytes: u64,
    limit: u64,
}

impl Folder {
    pub(crate) fn create(repositories: &Repositories) -> Result<Self, Error> {
        let path = repositories.quarantine_path();
        fs::create_dir(&path).attempt("create", &path)?;
        let mut folder = Self {
            repositories: repositories.clone(),
            path,
            bytes: 0,
            limit: 0,
        };
        // After the folder has its owner, which removes it if the space cannot be measured.
        folder.limit = repositories.quarantine().limit()?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Counts `bytes` that are about to be written here.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), IngestError> {
        let total = &self.repositories.quarantine().bytes;
        self.bytes += bytes;
        let taken = total.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if taken > self.limit {
            return Err(IngestError::QuarantineFull { limit: self.limit });
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let total = &self.repositories.quarantine().bytes;
        total.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Err(error) = remove_folder(&self.path) {
            tracing::warn!(%error, folder = %self.path.display(), "a quarantine folder stays until the next start");
        }
    }
}

/// Makes a bare repository at `path` that borrows the objects of others, for as long as a child works in it.
pub(crate) fn borrowing_repository<'a>(
    path: &Path,
    lenders: impl IntoIterator<Item = &'a Lease>,
) -> Result<(), Error> {
    for folder in ["objects/info", "objects/pack", "refs"] {
        let folder = path.join(folder);
        fs::create_dir_all(&folder).attempt("create", &folder)?;
    }
    let mut alternates = Vec::new();
    for lender in lenders {
        alternates.extend(lender.path().join("objects").as_os_str().as_encoded_bytes());
        alternates.push(b'\n');
    }
    let head: &[u8] = b"ref: refs/heads/main\n";
    for (name, content) in [("HEAD", head), ("objects/info/alternates", &alternates)] {
        let file = path.join(name);
        fs::write(&file, content).attempt("write", &file)?;
    }
    Ok(())
}
