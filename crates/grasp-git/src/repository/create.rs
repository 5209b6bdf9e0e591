//! Writes an empty bare repository, without a process.

use std::fs;
use std::io;
use std::path::Path;

use grasp_core::failpoint;

use crate::durable::{create_folders, sync_folder, write_file};
use crate::error::{Attempt, Error};

/// What plain git needs to know when an operator uses it here. `gc.auto=0`: this server packs and prunes
/// by its own rules, and an object that no ref names may still be owed to a waiting event.
const CONFIG: &[u8] = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n[gc]\n\tauto = 0\n";

/// Its owner's folder may vanish, when another repository in it is removed, this often while we create.
const TRIES: usize = 8;

/// Builds it at `fresh` and moves it to `home`, so that it is never half there.
pub(super) fn create(fresh: &Path, home: &Path) -> Result<(), Error> {
    build(fresh)?;
    failpoint::pass("repository.built");
    let above = home.parent().unwrap_or(home);
    for last in (0..TRIES).map(|nth| nth + 1 == TRIES) {
        create_folders(above).attempt("create", above)?;
        match fs::rename(fresh, home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !last => {}
            renamed => {
                renamed.attempt("create", home)?;
                break;
            }
        }
    }
    failpoint::pass("repository.renamed");
    sync_folder(above).attempt("sync", above)
}

fn build(fresh: &Path) -> Result<(), Error> {
    let folders = [
        fresh.to_owned(),
        fresh.join("objects"),
        fresh.join("objects/pack"),
        fresh.join("refs"),
    ];
    for folder in &folders {
        fs::create_dir(folder).attempt("create", folder)?;
    }
    let files: [(_, &[u8]); 2] = [
        (fresh.join("HEAD"), b"ref: refs/heads/main\n"),
        (fresh.join("config"), CONFIG),
    ];
    for (path, content) in &files {
        write_file(path, content).attempt("write", path)?;
    }
    for folder in folders.iter().rev().skip(1) {
        sync_folder(folder).attempt("sync", folder)?;
    }
    Ok(())
}
