//! The repositories of one git folder: where they lie, who uses them, and who may change them.
//!
//! Each is an ordinary bare repository that plain git can read. What this process knows about them (who
//! holds a lease, which refs they show) lives in [`Repositories`] and can be rebuilt from the disk.
//! *Invariants:* paths are built from a [`RepoAddress`] only; a removed repository stays readable until
//! its last lease ends; at most one [`RepoLock`] per thread.

mod archive;
mod create;
mod layout;
mod lease;
mod lock;
mod open;
mod probe;
mod trash;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use grasp_core::name::RepoAddress;

use crate::error::{Attempt as _, Error};
use crate::ingest::Quarantine;
use crate::objects::Objects;
use crate::refs::{self, RefSnapshot};

pub use lease::Lease;
pub use lock::RepoLock;
pub use open::OpenError;

use lease::Incarnation;
use lock::Locks;

/// What an operator may set about the git folder.
#[derive(Debug, Clone)]
pub struct GitConfig {
    /// Of the free space, how many percent all packs in quarantine may take together.
    pub quarantine_percent: u8,
    /// Refs kept in memory, over all repositories. At the brim snapshots are dropped and read again.
    pub refs_cached_max: usize,
}

impl Default for GitConfig {
    fn default() -> Self {
        Self {
            quarantine_percent: 20,
            refs_cached_max: 2_000_000,
        }
    }
}

/// All repositories below one folder. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Repositories(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    config: GitConfig,
    /// By address, what is there now. What was removed lives on in its leases only.
    incarnations: Mutex<HashMap<RepoAddress, Arc<Incarnation>>>,
    /// What lies in the archive and is still in use, by its place.
    archived: Mutex<HashMap<PathBuf, Weak<Incarnation>>>,
    snapshots: RwLock<Snapshots>,
    generation: AtomicU64,
    locks: Locks,
    names: AtomicU64,
    quarantine: Quarantine,
    trash: trash::Trash,
    /// Held as long as the folder is ours.
    _claim: open::Claim,
}

#[derive(Debug, Default)]
struct Snapshots {
    by_repo: HashMap<RepoAddress, Arc<RefSnapshot>>,
    /// Refs in all of them.
    refs: usize,
    /// Counts writes and removals: a reader that saw another number may have read what is gone.
    writes: u64,
}

/// Locks a mutex whose data is whole after every step, so that a panic elsewhere does not spread.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Repositories without a lease whose memory is given up first beyond this many.
const INCARNATIONS_MAX: usize = 50_000;

/// A snapshot that is written again and again while it is read is handed out uncached after so many tries.
const READ_TRIES: usize = 4;

impl Repositories {
    /// Opens the folder, creating it if it is not there: checks that it is ours (CLI-4) and tells names
    /// apart (NAME-4), and throws away what a former process left in quarantine and trash.
    pub fn open(root: &Path, config: GitConfig) -> Result<Self, OpenError> {
        let opened = open::open(root)?;
        let inner = Inner {
            quarantine: Quarantine::new(&opened.root, config.quarantine_percent),
            trash: trash::Trash::new(),
            root: opened.root,
            config,
            incarnations: Mutex::default(),
            archived: Mutex::default(),
            snapshots: RwLock::default(),
            generation: AtomicU64::new(1),
            locks: Locks::default(),
            names: AtomicU64::new(0),
            _claim: opened.claim,
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Whether `root` is a git folder of ours. Writes nothing; one that is not ours is refused as
    /// [`Self::open`] does (CLI-4).
    pub fn is_at(root: &Path) -> Result<bool, OpenError> {
        open::is_at(root)
    }

    /// Size of the disk that the repositories lie on, in bytes.
    pub fn disk_bytes(&self) -> Result<u64, Error> {
        let disk = rustix::fs::statvfs(self.root())
            .map_err(std::io::Error::from)
            .attempt("measure the disk of", self.root())?;
        Ok(disk.f_blocks.saturating_mul(disk.f_frsize))
    }

    /// The folder that everything lies in.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// Where caches of git data belong; wiped when the folder is opened.
    pub fn cache(&self) -> PathBuf {
        layout::ours(&self.0.root).join(layout::CACHE)
    }

    /// What was set.
    pub fn config(&self) -> &GitConfig {
        &self.0.config
    }

    /// Where the repository lies (CLI-3).
    pub fn path(&self, repo: &RepoAddress) -> PathBuf {
        layout::path(&self.0.root, repo)
    }

    /// Whether the repository is there.
    pub fn exists(&self, repo: &RepoAddress) -> bool {
        self.cached_refs(repo).is_some() || self.path(repo).join("HEAD").is_file()
    }

    /// Takes part in the use of a repository (REF-7): as long as the lease is held, what was there stays
    /// readable through it. The repository need not exist yet.
    pub fn lease(&self, repo: &RepoAddress) -> Lease {
        let mut incarnations = locked(&self.0.incarnations);
        if let Some(incarnation) = incarnations.get(repo) {
            return Lease::new(Arc::clone(incarnation));
        }
        if incarnations.len() >= INCARNATIONS_MAX {
            incarnations.retain(|_, incarnation| Arc::strong_count(incarnation) > 1);
        }
        let incarnation = Arc::new(Incarnation::new(
            repo.clone(),
            self.path(repo),
            self.0.trash.clone(),
        ));
        incarnations.insert(repo.clone(), Arc::clone(&incarnation));
        Lease::new(incarnation)
    }

    /// Whether anyone holds a lease on it.
    pub fn is_leased(&self, repo: &RepoAddress) -> bool {
        locked(&self.0.incarnations)
            .get(repo)
            .is_some_and(|incarnation| Arc::strong_count(incarnation) > 1)
    }

    /// Waits until nobody else writes the refs of `repo`, or creates or removes it. Blocks.
    ///
    /// # Panics
    /// In debug builds, if this thread holds another lock: two threads could wait for each other.
    pub fn lock(&self, repo: &RepoAddress) -> RepoLock {
        RepoLock::acquire(self.clone(), repo.clone())
    }

    /// The refs of a repository, as last written. From memory but for the first time.
    pub fn refs(&self, repo: &RepoAddress) -> Result<Arc<RefSnapshot>, Error> {
        if let Some(snapshot) = self.cached_refs(repo) {
            return Ok(snapshot);
        }
        for _ in 1..READ_TRIES {
            let writes = self.snapshots_read().writes;
            let read = self.read_refs(repo);
            let mut snapshots = self.snapshots_write();
            if snapshots.writes == writes {
                let snapshot = Arc::new(read?);
                snapshots.put(repo, &snapshot, self.0.config.refs_cached_max);
                return Ok(snapshot);
            }
            if let Some(snapshot) = snapshots.by_repo.get(repo) {
                return Ok(Arc::clone(snapshot));
            }
        }
        self.read_refs(repo).map(Arc::new)
    }

    /// The refs of a repository if they are in memory; never reads.
    pub fn cached_refs(&self, repo: &RepoAddress) -> Option<Arc<RefSnapshot>> {
        self.snapshots_read().by_repo.get(repo).cloned()
    }

    /// A handle over the objects of a leased repository.
    pub fn objects(&self, lease: &Lease) -> Result<Objects, Error> {
        Objects::open(lease)
    }

    fn read_refs(&self, repo: &RepoAddress) -> Result<RefSnapshot, Error> {
        let home = self.path(repo);
        if !home.join("HEAD").is_file() {
            return Err(Error::NotFound { repo: repo.clone() });
        }
        let mut snapshot = refs::read(&home, || Objects::open(&self.lease(repo)))?;
        snapshot.generation = self.next_generation();
        Ok(snapshot)
    }

    /// Shows `snapshot` from now on; `None`: the repository is gone.
    fn publish(&self, repo: &RepoAddress, snapshot: Option<&Arc<RefSnapshot>>) {
        let mut snapshots = self.snapshots_write();
        snapshots.writes += 1;
        match snapshot {
            Some(snapshot) => snapshots.put(repo, snapshot, self.0.config.refs_cached_max),
            None => snapshots.take(repo),
        }
    }

    #[cfg(test)]
    pub(crate) fn publish_for_test(&self, repo: &RepoAddress, snapshot: RefSnapshot) {
        self.publish(repo, Some(&Arc::new(snapshot)));
    }

    fn next_generation(&self) -> u64 {
        self.0.generation.fetch_add(1, Ordering::Relaxed)
    }

    /// A name below `.grasp/` that no one else in this process has.
    fn next_name(&self) -> String {
        self.0.names.fetch_add(1, Ordering::Relaxed).to_string()
    }

    /// A fresh path in quarantine; nothing is created.
    pub(crate) fn quarantine_path(&self) -> PathBuf {
        layout::ours(&self.0.root)
            .join(layout::QUARANTINE)
            .join(self.next_name())
    }

    /// A place in the trash that no one else has.
    fn trash_place(&self) -> PathBuf {
        layout::ours(&self.0.root)
            .join(layout::TRASH)
            .join(self.next_name())
    }

    pub(crate) fn quarantine(&self) -> &Quarantine {
        &self.0.quarantine
    }

    fn snapshots_read(&self) -> std::sync::RwLockReadGuard<'_, Snapshots> {
        self.0
            .snapshots
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshots_write(&self) -> std::sync::RwLockWriteGuard<'_, Snapshots> {
        self.0
            .snapshots
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshots {
    fn put(&mut self, repo: &RepoAddress, snapshot: &Arc<RefSnapshot>, refs_max: usize) {
        self.take(repo);
        while self.refs + snapshot.refs.len() > refs_max
            && let Some(some) = self.by_repo.keys().next().cloned()
        {
            self.take(&some);
        }
        self.refs += snapshot.refs.len();
        self.by_repo.insert(repo.clone(), Arc::clone(snapshot));
    }

    fn take(&mut self, repo: &RepoAddress) {
        if let Some(old) = self.by_repo.remove(repo) {
            self.refs -= old.refs.len();
        }
    }
}

#[cfg(test)]
mod tests;
