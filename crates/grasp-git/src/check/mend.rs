//! Mends what reconciling cannot see: files around refs, and packs that nobody can read.

use std::fs;
use std::io;
use std::path::Path;

use grasp_core::oid::Oid;

use super::inspect::{Inspection, LEFTOVERS};
use crate::durable::sync_folder;
use crate::error::{Attempt as _, Error};
use crate::refs;
use crate::repository::RepoLock;

/// Where a repository keeps what was moved aside.
const ASIDE: &str = "damaged";
/// The files of one pack.
const PARTS: [&str; 4] = ["idx", "pack", "rev", "bitmap"];

impl RepoLock {
    /// Makes a repository readable again, as far as that loses nothing: refs are written anew as they were last
    /// known, files that a cut-off program left are removed, unreadable packs and damaged loose objects are
    /// moved to `damaged/`. What is missing then, reconciling sees and shows (REF-8).
    pub fn mend(&self, found: &Inspection, damaged: &[Oid]) -> Result<(), Error> {
        let home = self.path();
        for name in LEFTOVERS {
            let file = home.join(name);
            match fs::remove_file(&file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.attempt("remove", &file)?,
            }
        }
        self.set_packs_aside(&found.unreadable_packs)?;
        for oid in damaged {
            let hex = oid.to_string();
            let (fan, rest) = hex.split_at(2);
            let loose = home.join("objects").join(fan).join(rest);
            if loose.is_file() {
                self.set_aside(&loose)?;
            }
        }
        if !found.refs_are_sound() {
            self.rewrite_refs()?;
        }
        self.forget();
        Ok(())
    }

    /// Moves packs to where they are in nobody's way.
    pub fn set_packs_aside(&self, names: &[String]) -> Result<(), Error> {
        let folder = self.path().join("objects/pack");
        for name in names {
            for part in PARTS {
                self.set_aside(&folder.join(format!("{name}.{part}")))?;
            }
        }
        Ok(())
    }

    /// Moves a file of the repository to where it is in nobody's way; one that is not there is no failure.
    fn set_aside(&self, file: &Path) -> Result<(), Error> {
        let aside = self.path().join(ASIDE);
        match fs::create_dir(&aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created.attempt("create", &aside)?,
        }
        // A loose object is named by its folder too.
        let relative = file.strip_prefix(self.path().join("objects"));
        let name = relative.unwrap_or(file).to_string_lossy().replace('/', "-");
        match fs::rename(file, aside.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            moved => moved.attempt("set aside", file)?,
        }
        sync_folder(&aside).attempt("sync", &aside)
    }

    /// Writes the refs that are shown, although they may be the same as before.
    fn rewrite_refs(&self) -> Result<(), Error> {
        let shown = self.shown()?;
        refs::rewrite(&self.path(), &shown)
    }
}
