//! Moves packs from quarantine into a repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use grasp_core::failpoint;

use crate::durable::{sync_file, sync_folder};
use crate::error::{Attempt, Error};
use crate::repository::Lease;

/// What belongs to a pack, in the order it is put in place: git looks for the index and takes the rest
/// for granted.
const PARTS: [&str; 3] = ["pack", "rev", "idx"];

/// Makes the packs of `indexes` durable and links them into the repository of `lease`. All of them, or none:
/// together they are complete, one alone may not be. Returns their size.
pub(crate) fn install(indexes: &[PathBuf], lease: &Lease) -> Result<u64, Error> {
    let folder = lease.path().join("objects/pack");
    let mut bytes = 0;
    for index in indexes {
        for part in PARTS {
            let file = index.with_extension(part);
            match sync_file(&file) {
                Err(error) if part == "rev" && error.kind() == io::ErrorKind::NotFound => {}
                synced => synced.attempt("sync", &file)?,
            }
        }
        let pack = index.with_extension("pack");
        bytes += fs::metadata(&pack).attempt("measure", &pack)?.len();
    }
    failpoint::pass("ingest.synced");
    let mut linked = Linked::default();
    for part in PARTS {
        for index in indexes {
            let file = index.with_extension(part);
            if part != "rev" || file.exists() {
                linked.link(&file, &folder)?;
            }
        }
        if part == "pack" {
            failpoint::pass("ingest.linked");
        }
    }
    failpoint::pass("ingest.indexed-in-place");
    sync_folder(&folder).attempt("sync", &folder)?;
    failpoint::pass("ingest.durable");
    linked.keep();
    Ok(bytes)
}

/// Takes back what was linked unless all of it was.
#[derive(Default)]
struct Linked {
    files: Vec<PathBuf>,
}

impl Linked {
    fn link(&mut self, file: &Path, folder: &Path) -> Result<(), Error> {
        let target = folder.join(file.file_name().unwrap_or_default());
        match fs::hard_link(file, &target) {
            Ok(()) => self.files.push(target),
            // The name is the sum of the content: it is there already.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).attempt("link", &target),
        }
        Ok(())
    }

    fn keep(mut self) {
        self.files.clear();
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        // The index first: without it nobody looks at the rest.
        for file in self.files.iter().rev() {
            if let Err(error) = fs::remove_file(file) {
                tracing::warn!(%error, file = %file.display(), "a pack that is not needed stays");
            }
        }
    }
}
