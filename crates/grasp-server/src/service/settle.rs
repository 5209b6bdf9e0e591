//! Looks again at what waits around repositories that took objects from their relatives.
//!
//! Reconcile copies what a repository shall show, and a pack may hold more than that: what waited for it
//! there is complete from then on, and nobody else would come by to see it (ST-3, PR-3).

use grasp_core::name::RepoAddress;
use grasp_core::policy::{Circumstances, Origin};
use grasp_core::settle::settle;
use grasp_store::{CommitError, Committed};
use tracing::error;

use super::facts::{self, Wanted};
use super::{Aftermath, Service, reconcile};

impl Service {
    /// Serves what became complete in these repositories. Returns what follows: what is to be brought in
    /// line, and what to publish then.
    pub(super) async fn settle_gained(&self, repositories: Vec<RepoAddress>) -> Aftermath {
        let mut after = Aftermath::default();
        for repository in repositories {
            match self.settle_one(&repository).await {
                Ok(None) => {}
                Ok(Some(committed)) => after.merge(committed.into()),
                Err(failure) => error!(
                    %repository,
                    error = &failure as &dyn std::error::Error,
                    "what waits here could not be looked at again"
                ),
            }
        }
        after
    }

    async fn settle_one(
        &self,
        repository: &RepoAddress,
    ) -> Result<Option<Committed<()>>, CommitError> {
        let (service, at) = (self.clone(), repository.clone());
        let measured = self
            .blocking(move || {
                let snapshot = service.store.snapshot()?;
                let view = reconcile::view_to_settle(&snapshot.view(), &at, [])?;
                drop(snapshot);
                match facts::measure(&service.git, &view, Wanted::default()) {
                    Ok(found) => {
                        let ready = settle(&view, &found.facts, service.at_present());
                        Ok((!ready.is_empty()).then_some(found))
                    }
                    Err(error) => {
                        error!(%error, "objects could not be looked at");
                        Ok::<_, CommitError>(None)
                    }
                }
            })
            .await?;
        let Some(measured) = measured else {
            return Ok(None);
        };
        let (service, at, facts) = (self.clone(), repository.clone(), measured.facts);
        let committed = self
            .store
            .commit(move |view| {
                let view = reconcile::view_to_settle(view, &at, [])?;
                Ok((settle(&view, &facts, service.at_present()), ()))
            })
            .await?;
        drop(measured.leases);
        Ok(Some(committed))
    }

    pub(super) fn at_present(&self) -> Circumstances<'_> {
        Circumstances {
            policy: &self.policy,
            now: self.clock.now(),
            origin: Origin::Client,
        }
    }
}
