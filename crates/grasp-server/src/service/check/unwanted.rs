//! Folders that no event asks for: what a crash, a copied backup or a hand left (REF-6).

use grasp_core::lifecycle::Change;
use grasp_core::name::RepoAddress;
use grasp_core::refplan;
use grasp_store::History;

use super::{CheckError, Service};
use crate::service::reconcile;

/// A folder that no event asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwanted {
    /// In whose place.
    pub repository: RepoAddress,
    /// There are no objects in it.
    pub is_empty: bool,
}

impl Service {
    /// Looks whether a folder is one that no event asks for.
    pub async fn orphaned(&self, repository: &RepoAddress) -> Result<Option<Unwanted>, CheckError> {
        let (service, at) = (self.clone(), repository.clone());
        self.blocking(move || service.orphaned_now(&at)).await
    }

    fn orphaned_now(&self, repository: &RepoAddress) -> Result<Option<Unwanted>, CheckError> {
        let _lock = self.git.lock(repository);
        let snapshot = self.store.snapshot()?;
        let view = reconcile::view_of(&snapshot.view(), repository, History::Current)?;
        let wanted = refplan::desired(repository, &view, &self.policy).exists;
        if wanted || self.store.dirty().contains(repository) {
            return Ok(None); // or it will be seen to anyway
        }
        let found = self.git.inspect(repository)?;
        Ok(found.map(|found| Unwanted {
            repository: repository.clone(),
            is_empty: found.is_empty,
        }))
    }

    /// Has an unwanted folder taken away, if it still is one when reconciling looks.
    pub async fn clear_orphan(&self, unwanted: &Unwanted) -> Result<(), CheckError> {
        let mark = Change::Dirty(unwanted.repository.clone());
        let committed = self
            .store
            .commit(move |_| Ok((vec![mark.clone()], ())))
            .await?;
        self.finish(committed, None).await;
        Ok(())
    }
}
