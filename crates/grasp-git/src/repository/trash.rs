//! Deletes folders off the path of whoever let go of them.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::{fs, io};

use super::locked;
use crate::durable::{create_folders, remove_folder};
use crate::error::{Attempt as _, Error};

/// A thread that deletes, started with the first folder. Its queue holds paths of folders that are in the
/// trash already, so it is no longer than the trash; what it does not get to is wiped at the next start.
#[derive(Debug, Clone)]
pub(super) struct Trash(Arc<Mutex<Option<Sender<PathBuf>>>>);

impl Trash {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Deletes `folder` soon.
    pub(super) fn delete(&self, folder: PathBuf) {
        let mut sender = locked(&self.0);
        let sender = sender.get_or_insert_with(start);
        // Fails only without the thread, and then the next start deletes it.
        let _ = sender.send(folder);
    }
}

/// Moves `folder` to `place` in the trash. Whether there was something to move. The trash itself may be gone,
/// where somebody tidied up: it is made again, or what is to leave would stay and nobody hear of it.
pub(super) fn throw_away(folder: &Path, place: &Path) -> Result<bool, Error> {
    let renamed = match fs::rename(folder, place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if !folder.try_exists().attempt("read", folder)? {
                return Ok(false);
            }
            if let Some(trash) = place.parent() {
                create_folders(trash).attempt("create", trash)?;
            }
            fs::rename(folder, place)
        }
        renamed => renamed,
    };
    renamed.attempt("remove", folder)?;
    Ok(true)
}

fn start() -> Sender<PathBuf> {
    let (sender, folders) = mpsc::channel::<PathBuf>();
    let work = move || {
        for folder in folders {
            if let Err(error) = remove_folder(&folder) {
                tracing::warn!(%error, folder = %folder.display(), "a removed repository cannot be deleted");
            }
        }
    };
    let started = std::thread::Builder::new()
        .name("git-trash".into())
        .spawn(work);
    if let Err(error) = started {
        tracing::warn!(%error, "removed repositories stay until the next start");
    }
    sender
}
