//! Deletes folders off the path of whoever let go of them.

use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};

use super::locked;
use crate::durable::remove_folder;

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
