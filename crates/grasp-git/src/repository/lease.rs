//! Who uses a repository, and what waits for them (REF-7).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;

use super::locked;
use super::trash::Trash;

/// Tips remembered as complete per repository. At the brim all are forgotten: they cost a walk.
const COMPLETE_MAX: usize = 20_000;

/// One life of a repository, from its creation to its removal. A later one at the same address is another.
#[derive(Debug)]
pub(super) struct Incarnation {
    address: RepoAddress,
    /// Where it lies: its own place, and after its removal the trash.
    home: RwLock<PathBuf>,
    removed: AtomicBool,
    complete: Mutex<BTreeSet<Oid>>,
    trash: Trash,
}

impl Incarnation {
    pub(super) fn new(address: RepoAddress, home: PathBuf, trash: Trash) -> Self {
        Self {
            address,
            home: RwLock::new(home),
            removed: AtomicBool::new(false),
            complete: Mutex::default(),
            trash,
        }
    }

    /// Notes that the folder lies in the trash now, to be deleted with the last lease.
    pub(super) fn moved_to_trash(&self, place: PathBuf) {
        self.moved(place);
        self.removed.store(true, Ordering::Release);
    }

    /// Notes that the folder lies elsewhere now, and stays.
    pub(super) fn moved(&self, place: PathBuf) {
        *self.home.write().unwrap_or_else(PoisonError::into_inner) = place;
    }

    fn home(&self) -> PathBuf {
        self.home
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Incarnation {
    fn drop(&mut self) {
        if self.removed.load(Ordering::Acquire) {
            self.trash.delete(self.home());
        }
    }
}

/// The right to read a repository and to add objects to it. While it is held, what was there stays:
/// a removal only moves the folder, and pruning waits. Clones are the same lease.
#[derive(Debug, Clone)]
pub struct Lease(Arc<Incarnation>);

impl Lease {
    pub(super) fn new(incarnation: Arc<Incarnation>) -> Self {
        Self(incarnation)
    }

    /// The repository.
    pub fn address(&self) -> &RepoAddress {
        &self.0.address
    }

    /// Where it lies at the moment. A child process that is started with this as its working folder, and
    /// names it `.`, does not notice when it moves.
    pub fn path(&self) -> PathBuf {
        self.0.home()
    }

    /// Whether the repository was removed since the lease was taken.
    pub fn is_removed(&self) -> bool {
        self.0.removed.load(Ordering::Acquire)
    }

    /// Tips that this process has seen complete.
    pub(crate) fn known_complete(&self) -> Vec<Oid> {
        locked(&self.0.complete).iter().copied().collect()
    }

    /// Takes nothing for complete any more that was seen so.
    pub fn forget_complete(&self) {
        locked(&self.0.complete).clear();
    }

    pub(crate) fn remember_complete(&self, tips: impl IntoIterator<Item = Oid>) {
        let mut complete = locked(&self.0.complete);
        complete.extend(tips);
        if complete.len() > COMPLETE_MAX {
            complete.clear();
        }
    }
}
