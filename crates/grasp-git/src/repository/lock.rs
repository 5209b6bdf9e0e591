//! The right to change what a repository shows.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use grasp_core::failpoint;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::refname::RefName;

use super::{Repositories, create, locked, trash};
use crate::durable::sync_folder;
use crate::error::{Attempt, Error};
use crate::objects::Objects;
use crate::refs::{self, RefSnapshot};

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// Which repositories are locked.
#[derive(Debug, Default)]
pub(super) struct Locks {
    held: Mutex<HashSet<RepoAddress>>,
    freed: Condvar,
}

/// Excludes every other writer of one repository's refs until it is dropped. It stays on its thread.
///
/// It lives in memory: the data folder has one process, so a crash leaves no lock behind and a stale
/// `*.lock` file of some git blocks nothing.
#[derive(Debug)]
pub struct RepoLock {
    pub(super) repositories: Repositories,
    pub(super) repo: RepoAddress,
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl RepoLock {
    pub(super) fn acquire(repositories: Repositories, repo: RepoAddress) -> Self {
        debug_assert!(!HELD.get(), "a thread holds at most one repository lock");
        let locks = &repositories.0.locks;
        let mut held = locked(&locks.held);
        while held.contains(&repo) {
            held = locks
                .freed
                .wait(held)
                .unwrap_or_else(PoisonError::into_inner);
        }
        held.insert(repo.clone());
        drop(held);
        HELD.set(true);
        Self {
            repositories,
            repo,
            _stays_on_its_thread: PhantomData,
        }
    }

    /// The repository.
    pub fn address(&self) -> &RepoAddress {
        &self.repo
    }

    /// Where the repository lies.
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.repositories.path(&self.repo)
    }

    /// The refs that are shown: as last written, or else as they lie on the disk.
    pub(crate) fn shown(&self) -> Result<Arc<RefSnapshot>, Error> {
        self.repositories.refs(&self.repo)
    }

    /// Forgets what was seen of the repository: refs are read from the disk again, nothing counts as complete.
    pub fn forget(&self) {
        self.repositories.publish(&self.repo, None);
        self.repositories.lease(&self.repo).forget_complete();
    }

    /// Makes the repository exist, empty and durable. One that exists stays as it is.
    pub fn create(&self) -> Result<(), Error> {
        if self.repositories.exists(&self.repo) {
            return Ok(());
        }
        let fresh = self.repositories.quarantine_path();
        let home = self.repositories.path(&self.repo);
        create::create(&fresh, &home, self.repositories.root())?;
        let snapshot = RefSnapshot {
            refs: BTreeMap::new(),
            head: refs::default_head(),
            generation: self.repositories.next_generation(),
        };
        self.repositories
            .publish(&self.repo, Some(&Arc::new(snapshot)));
        Ok(())
    }

    /// Makes the repository not exist. Who holds a lease reads on; the folder is deleted with the last
    /// lease. One that does not exist is no failure.
    pub fn remove(&self) -> Result<(), Error> {
        let home = self.repositories.path(&self.repo);
        let place = self.repositories.trash_place();
        {
            let mut incarnations = locked(&self.repositories.0.incarnations);
            let moved = trash::throw_away(&home, &place)?;
            self.repositories.publish(&self.repo, None);
            if !moved {
                return Ok(());
            }
            match incarnations.remove(&self.repo) {
                Some(incarnation) => incarnation.moved_to_trash(place),
                None => self.repositories.0.trash.delete(place),
            }
        }
        failpoint::pass("repository.removed");
        sync_left(&home)
    }

    /// Makes refs and HEAD exactly these, in one step each, and shows them from then on. Refuses refs to
    /// objects that are not there.
    pub fn write_refs(
        &self,
        refs: &BTreeMap<RefName, Oid>,
        head: RefName,
    ) -> Result<Arc<RefSnapshot>, Error> {
        let old = self.repositories.refs(&self.repo)?;
        let home = self.repositories.path(&self.repo);
        let objects = || Objects::open(&self.repositories.lease(&self.repo));
        let written = refs::write(&self.repo, &home, &old, refs, head, objects);
        let mut snapshot = written.inspect_err(|_| {
            // Half of it may be on the disk: read again what is there.
            self.repositories.publish(&self.repo, None);
        })?;
        if snapshot.refs == old.refs && snapshot.head == old.head {
            return Ok(old);
        }
        snapshot.generation = self.repositories.next_generation();
        let snapshot = Arc::new(snapshot);
        self.repositories.publish(&self.repo, Some(&snapshot));
        Ok(snapshot)
    }

    /// Gives the repository a new generation, so that what was cached of it is not used again (GIT-14).
    pub fn renew(&self) -> Result<Arc<RefSnapshot>, Error> {
        let old = self.repositories.refs(&self.repo)?;
        let snapshot = Arc::new(RefSnapshot {
            generation: self.repositories.next_generation(),
            ..(*old).clone()
        });
        self.repositories.publish(&self.repo, Some(&snapshot));
        Ok(snapshot)
    }
}

impl Drop for RepoLock {
    fn drop(&mut self) {
        let locks = &self.repositories.0.locks;
        locked(&locks.held).remove(&self.repo);
        locks.freed.notify_all();
        HELD.set(false);
    }
}

/// Makes it durable that something is no longer at `place`. The owner's folder goes with the last
/// repository; one that is not empty refuses, which is right.
pub(super) fn sync_left(place: &Path) -> Result<(), Error> {
    let Some(above) = place.parent() else {
        return Ok(());
    };
    match sync_folder(above) {
        // Another removal took the owner's folder with it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        synced => synced.attempt("sync", above)?,
    }
    let _ = fs::remove_dir(above);
    Ok(())
}
