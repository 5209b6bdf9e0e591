//! Writes an empty bare repository, without a process.

use std::fs;
use std::io;
use std::path::Path;

use grasp_core::failpoint;

use crate::durable::{remove_folder, sync_folder, write_file};
use crate::error::{Attempt, Error};

/// What plain git needs to know when an operator uses it here. `gc.auto=0`: this server packs and prunes
/// by its own rules, and an object that no ref names may still be owed to a waiting event.
const CONFIG: &[u8] = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n[gc]\n\tauto = 0\n";

/// Its owner's folder may vanish, when another repository in it is removed, this often while we create.
const TRIES: usize = 8;

/// Builds it at `fresh` and moves it to `home` below `root`, so that it is never half there.
pub(super) fn create(fresh: &Path, home: &Path, root: &Path) -> Result<(), Error> {
    let created = build(fresh).and_then(|()| {
        failpoint::pass("repository.built");
        put(fresh, home)?;
        failpoint::pass("repository.renamed");
        sync_above(home, root)
    });
    if created.is_err() {
        // What cannot be removed now goes at the next start.
        let _ = remove_folder(fresh);
    }
    created
}

/// Moves a folder to where the folders above it may not be there yet.
pub(super) fn put(from: &Path, to: &Path) -> Result<(), Error> {
    let above = to.parent().unwrap_or(to);
    for last in (0..TRIES).map(|nth| nth + 1 == TRIES) {
        fs::create_dir_all(above).attempt("create", above)?;
        match fs::rename(from, to) {
            // Also when what is to be moved is gone: then the last try says so.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !last => {}
            renamed => {
                renamed.attempt("create", to)?;
                break;
            }
        }
    }
    Ok(())
}

/// Makes the entry of `place` durable, and those of the folders above it up to `root`.
pub(super) fn sync_above(place: &Path, root: &Path) -> Result<(), Error> {
    let above = place.ancestors().skip(1);
    // From below: once the lowest is durable the others cost nothing on most file systems.
    for folder in above.take_while(|folder| folder.starts_with(root)) {
        sync_folder(folder).attempt("sync", folder)?;
    }
    Ok(())
}

fn build(fresh: &Path) -> Result<(), Error> {
    let objects = fresh.join("objects");
    let folders = [
        fresh.to_owned(),
        objects.clone(),
        fresh.join("objects/pack"),
        fresh.join("refs"),
    ];
    for folder in &folders {
        fs::create_dir(folder).attempt("create", folder)?;
    }
    // Git does as well without it, so nobody waits for the disk.
    let config = fresh.join("config");
    fs::write(&config, CONFIG).attempt("write", &config)?;
    let head = fresh.join("HEAD");
    write_file(&head, b"ref: refs/heads/main\n").attempt("write", &head)?;
    for folder in [objects.as_path(), fresh] {
        sync_folder(folder).attempt("sync", folder)?;
    }
    Ok(())
}
