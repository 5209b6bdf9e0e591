//! What packs have in common, whoever sends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grasp_core::name::RepoAddress;
use grasp_git::Lease;
use grasp_store::{History, StoreError};

use super::{Service, facts, reconcile};

impl Service {
    /// Repositories whose objects a thin pack may build on (GIT-4a, HUNT-5a).
    pub(super) fn relatives(&self, repository: &RepoAddress) -> Result<Vec<Lease>, StoreError> {
        let snapshot = self.store.snapshot()?;
        let view = reconcile::view_of(&snapshot.view(), repository, History::Current)?;
        let others = facts::repositories(&view)
            .into_iter()
            .filter(|other| other != repository && self.git.exists(other));
        Ok(others.map(|other| self.git.lease(&other)).collect())
    }
}

/// Stops work on a pack when whoever waits for it gives up.
#[derive(Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// For the work: raised when it shall end.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Ends the work soon.
    pub(super) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.raise();
    }
}
