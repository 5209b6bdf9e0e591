//! Which repositories must be reconciled before they are served again.
//!
//! A repository is in here *before* the transaction that changes its view becomes visible, so
//! nobody can see the new events and trust the old refs. Filled from its table at open.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use grasp_core::name::RepoAddress;
use tokio::sync::Notify;

use crate::version::CommitVersion;

/// The dirty repositories, each with the commit that marked it last. As many as the repositories
/// that commits changed and `reconcile` has not brought in line.
#[derive(Debug, Default)]
pub struct DirtySet {
    marked: RwLock<BTreeMap<RepoAddress, CommitVersion>>,
    cleaned: Notify,
}

impl DirtySet {
    pub(crate) fn new(marked: BTreeMap<RepoAddress, CommitVersion>) -> Self {
        Self {
            marked: RwLock::new(marked),
            cleaned: Notify::new(),
        }
    }

    /// Whether `repository` is to be reconciled.
    pub fn contains(&self, repository: &RepoAddress) -> bool {
        self.read().contains_key(repository)
    }

    /// The commit that marked `repository` last, while it is dirty.
    pub fn version_of(&self, repository: &RepoAddress) -> Option<CommitVersion> {
        self.read().get(repository).copied()
    }

    /// All dirty repositories, those marked last first (GIT-13).
    pub fn list(&self) -> Vec<(RepoAddress, CommitVersion)> {
        let marked = self.read();
        let mut list: Vec<_> = marked
            .iter()
            .map(|(it, version)| (it.clone(), *version))
            .collect();
        list.sort_by_key(|(_, version)| std::cmp::Reverse(*version));
        list
    }

    /// Returns once `repository` is not dirty.
    pub async fn wait_clean(&self, repository: &RepoAddress) {
        loop {
            let mut cleaned = std::pin::pin!(self.cleaned.notified());
            cleaned.as_mut().enable();
            if !self.contains(repository) {
                return;
            }
            cleaned.await;
        }
    }

    /// Marks, and returns what was there before, for [`Self::restore`].
    pub(crate) fn mark<'a>(
        &self,
        repositories: impl Iterator<Item = (&'a RepoAddress, CommitVersion)>,
    ) -> Vec<(RepoAddress, Option<CommitVersion>)> {
        let mut marked = self.write();
        repositories
            .map(|(repository, version)| {
                (
                    repository.clone(),
                    marked.insert(repository.clone(), version),
                )
            })
            .collect()
    }

    /// The commit did not happen: as before, the last mark undone first.
    pub(crate) fn restore(&self, before: Vec<(RepoAddress, Option<CommitVersion>)>) {
        let mut marked = self.write();
        for (repository, version) in before.into_iter().rev() {
            match version {
                Some(version) => marked.insert(repository, version),
                None => marked.remove(&repository),
            };
        }
        drop(marked);
        self.cleaned.notify_waiters();
    }

    /// Whether the mark was there and not newer than `seen`: then it is gone.
    pub(crate) fn clear(&self, repository: &RepoAddress, seen: CommitVersion) -> bool {
        let mut marked = self.write();
        let clears = marked
            .get(repository)
            .is_some_and(|version| *version <= seen);
        if clears {
            marked.remove(repository);
            drop(marked);
            self.cleaned.notify_waiters();
        }
        clears
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<RepoAddress, CommitVersion>> {
        self.marked.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<RepoAddress, CommitVersion>> {
        self.marked.write().unwrap_or_else(PoisonError::into_inner)
    }
}
