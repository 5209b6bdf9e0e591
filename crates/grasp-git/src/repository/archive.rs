//! Takes a repository out of sight so that it can come back whole (DEL-5): a rename there, a rename back.
//!
//! A copy is named by the time that it was taken away at, so whoever knows that time finds it, and doing
//! the same step again after a crash finds it done. *Invariant:* once a repository is archived there is a
//! folder for that time, be it an empty one: what is made at the same address later is never mistaken for
//! what was to be archived.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use grasp_core::Timestamp;
use grasp_core::failpoint;
use grasp_core::name::{Coordinate, RepoAddress, parse_npub};

use super::lease::Incarnation;
use super::lock::{RepoLock, sync_left};
use super::{Lease, Repositories, create, layout, locked, trash};
use crate::error::{Attempt as _, Error};
use crate::ingest::install;
use crate::objects::Objects;
use crate::refs::{self, RefSnapshot};

impl Repositories {
    /// Takes part in the use of what was archived at `since`; `None` if nothing was, or it is back.
    pub fn archived(&self, repo: &RepoAddress, since: Timestamp) -> Option<Lease> {
        let place = self.archive_place(repo, since);
        let mut archived = locked(&self.0.archived);
        if !is_repository(&place) {
            return None;
        }
        let known = archived.get(&place).and_then(Weak::upgrade);
        let incarnation = known.unwrap_or_else(|| {
            let trash = self.0.trash.clone();
            Arc::new(Incarnation::new(repo.clone(), place.clone(), trash))
        });
        archived.insert(place, Arc::downgrade(&incarnation));
        Some(Lease::new(incarnation))
    }

    /// What an archived copy showed when it was taken away.
    pub fn archived_refs(&self, copy: &Lease) -> Result<RefSnapshot, Error> {
        refs::read(&copy.path(), || Objects::open(copy))
    }

    /// Everything in the archive area of announced repositories, with the times it was taken away at.
    pub fn archives(&self) -> Result<Vec<(RepoAddress, Timestamp)>, Error> {
        let mut archives = Vec::new();
        for (owner, folder) in entries(&self.root().join(layout::ARCHIVE))? {
            let Some(owner) = parse_npub(&owner) else {
                continue;
            };
            for (name, place) in entries(&folder)? {
                let Some((identifier, seconds)) = layout::archived(&name) else {
                    continue;
                };
                let repo = RepoAddress::Announced(Coordinate::new(owner, identifier));
                match seconds {
                    Some(seconds) => archives.push((repo, Timestamp::from_secs(seconds))),
                    None => archives.extend(
                        entries(&place)?
                            .iter()
                            .filter_map(|(name, _)| Some((repo.clone(), seconds_of(name)?))),
                    ),
                }
            }
        }
        Ok(archives)
    }

    fn archive_place(&self, repo: &RepoAddress, since: Timestamp) -> PathBuf {
        let (folder, begin) = layout::archive(self.root(), repo);
        folder.join(format!("{begin}{}", since.as_secs()))
    }

    /// The times at which the repository was archived and of which a copy is left, the newest first.
    pub(super) fn copies(&self, repo: &RepoAddress) -> Result<Vec<Timestamp>, Error> {
        let (folder, begin) = layout::archive(self.root(), repo);
        let entries = entries(&folder)?;
        let seconds = entries
            .iter()
            .filter_map(|(name, _)| seconds_of(name.strip_prefix(&begin)?));
        let mut copies: Vec<Timestamp> = seconds.collect();
        copies.sort_by(|one, two| two.cmp(one));
        Ok(copies)
    }

    /// What lies at `from` lies at `to` from now on, for whoever uses it too.
    fn follow(&self, from: &Path, to: &Path) {
        let mut archived = locked(&self.0.archived);
        archived.retain(|_, user| user.strong_count() > 0);
        if let Some(user) = archived.remove(from) {
            if let Some(incarnation) = user.upgrade() {
                incarnation.moved(to.to_owned());
            }
            archived.insert(to.to_owned(), user);
        }
    }
}

impl RepoLock {
    /// Takes the repository out of sight, as it is at `since`. Who holds a lease reads on. If that was
    /// done before nothing happens, whatever was made at the address since.
    pub fn archive(&self, since: Timestamp) -> Result<(), Error> {
        let place = self.repositories.archive_place(&self.repo, since);
        if place.exists() {
            return Ok(());
        }
        let home = self.repositories.path(&self.repo);
        if home.exists() {
            self.put_away(&home, &place)?;
            failpoint::pass("repository.archived");
            create::sync_above(&place, self.repositories.root())?;
            return sync_left(&home);
        }
        // It left before it had come back from where it was.
        match self.repositories.copies(&self.repo)?.first() {
            Some(older) => {
                let from = self.repositories.archive_place(&self.repo, *older);
                create::put(&from, &place)?;
                self.repositories.follow(&from, &place);
            }
            None => fs::create_dir_all(&place).attempt("create", &place)?,
        }
        create::sync_above(&place, self.repositories.root())
    }

    /// Brings back what was archived at `since`; whether there was something. Only where the repository
    /// does not exist.
    pub fn restore(&self, since: Timestamp) -> Result<bool, Error> {
        let place = self.repositories.archive_place(&self.repo, since);
        let home = self.repositories.path(&self.repo);
        if !is_repository(&place) || home.exists() {
            return Ok(false);
        }
        self.bring_back(&place, &home)?;
        failpoint::pass("repository.restored");
        create::sync_above(&home, self.repositories.root())?;
        self.leave_archive(&place)?;
        Ok(true)
    }

    /// Gives the repository, which was made anew, all objects of what was archived at `since`, and throws the
    /// copy away.
    pub fn absorb(&self, since: Timestamp) -> Result<(), Error> {
        if let Some(copy) = self.repositories.archived(&self.repo, since) {
            let folder = copy.path().join("objects/pack");
            let mut indexes = Vec::new();
            for entry in fs::read_dir(&folder).attempt("read", &folder)? {
                let file = entry.attempt("read", &folder)?.path();
                let index = file.extension().is_some_and(|it| it == "idx");
                if index && file.with_extension("pack").exists() {
                    indexes.push(file);
                }
            }
            install(&indexes, &self.repositories.lease(&self.repo))?;
        }
        failpoint::pass("repository.absorbed");
        self.discard_archive(since)
    }

    /// Throws away what was archived at `since`. Who holds a lease reads on.
    pub fn discard_archive(&self, since: Timestamp) -> Result<(), Error> {
        let place = self.repositories.archive_place(&self.repo, since);
        let thrown = self.repositories.trash_place();
        {
            let mut archived = locked(&self.repositories.0.archived);
            if !trash::throw_away(&place, &thrown)? {
                return Ok(());
            }
            match archived.remove(&place).and_then(|user| user.upgrade()) {
                Some(incarnation) => incarnation.moved_to_trash(thrown),
                None => self.repositories.0.trash.delete(thrown),
            }
        }
        self.leave_archive(&place)
    }

    /// Folders of the archive go with the last copy in them.
    fn leave_archive(&self, place: &Path) -> Result<(), Error> {
        sync_left(place)?;
        let archive = self.repositories.root().join(layout::ARCHIVE);
        let above = place.ancestors().skip(1);
        for folder in above.take_while(|folder| **folder != archive) {
            // One that is not empty refuses, which is right.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    fn put_away(&self, home: &Path, place: &Path) -> Result<(), Error> {
        let mut incarnations = locked(&self.repositories.0.incarnations);
        create::put(home, place)?;
        self.repositories.publish(&self.repo, None);
        if let Some(incarnation) = incarnations.remove(&self.repo) {
            incarnation.moved(place.to_owned());
            let mut archived = locked(&self.repositories.0.archived);
            archived.insert(place.to_owned(), Arc::downgrade(&incarnation));
        }
        Ok(())
    }

    fn bring_back(&self, place: &Path, home: &Path) -> Result<(), Error> {
        let mut incarnations = locked(&self.repositories.0.incarnations);
        let mut archived = locked(&self.repositories.0.archived);
        create::put(place, home)?;
        self.repositories.publish(&self.repo, None);
        let users = archived.remove(place).and_then(|user| user.upgrade());
        if let Some(incarnation) = users {
            incarnation.moved(home.to_owned());
            incarnations.entry(self.repo.clone()).or_insert(incarnation);
        }
        Ok(())
    }
}

/// The entries of a folder that may not be there.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.attempt("read", folder)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.attempt("read", folder)?;
        let name = entry.file_name().into_string().ok();
        found.extend(name.map(|name| (name, entry.path())));
    }
    Ok(found)
}

/// An archive can be an empty folder: then there was nothing to keep.
fn is_repository(place: &Path) -> bool {
    place.join("HEAD").is_file()
}

fn seconds_of(text: &str) -> Option<Timestamp> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = text.parse().ok().filter(|_| digits)?;
    Some(Timestamp::from_secs(seconds))
}
