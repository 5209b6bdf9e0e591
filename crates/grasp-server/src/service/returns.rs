//! Brings back what was held with a scope that is served again (DEL-6).
//!
//! The commit that serves the announcement marks the archive of its repository as returning; `reconcile`
//! moves the objects back, and then what needs them can be judged. *Invariant:* the mark stays until all is
//! back, so what a crash or a fault cuts short goes on from it.

use grasp_core::lifecycle::{Batch, Change};
use grasp_core::name::RepoAddress;
use grasp_core::settle;
use grasp_store::{CommitError, Committed, History, StoreError, View};
use tracing::{error, info};

use super::facts::{self, Measured, Wanted};
use super::{Aftermath, Service, reconcile};

impl Service {
    /// Goes on with what a crash or a fault cut short.
    pub(super) async fn resume_returns(&self) -> Result<(), StoreError> {
        let archives = self.store.snapshot()?.view().archives()?;
        let returning = archives.into_iter().filter(|(_, archive)| archive.returns);
        let returning = returning.map(|(repository, _)| repository).collect();
        let after = self.finish_returns(returning).await;
        self.follow(after, None).await;
        Ok(())
    }

    /// What comes back beside the archives themselves.
    pub(super) async fn finish_returns(&self, repositories: Vec<RepoAddress>) -> Aftermath {
        let mut after = Aftermath::default();
        for repository in repositories {
            if self.store.dirty().contains(&repository) {
                continue; // Its objects are not back yet.
            }
            match self.finish_return(&repository).await {
                Ok(committed) => after.merge(committed.into()),
                Err(failure) => error!(
                    %repository,
                    error = &failure as &dyn std::error::Error,
                    "what was held with a repository is not back yet"
                ),
            }
        }
        after
    }

    async fn finish_return(&self, repository: &RepoAddress) -> Result<Committed<()>, CommitError> {
        let (service, at) = (self.clone(), repository.clone());
        let measured = self
            .blocking(move || {
                let snapshot = service.store.snapshot()?;
                let view = reconcile::view_of(&snapshot.view(), &at, History::WithSuperseded)?;
                drop(snapshot);
                let wanted = Wanted {
                    announced: true,
                    returning: Some(at.coordinate().owner),
                    ..Wanted::default()
                };
                let measured = facts::measure(&service.git, &view, wanted);
                Ok::<_, CommitError>(measured.unwrap_or_else(|error| {
                    error!(%error, "objects could not be looked at");
                    Measured::default()
                }))
            })
            .await?;
        let (service, at, facts) = (self.clone(), repository.clone(), measured.facts);
        let committed = self
            .store
            .commit(move |view| Ok((service.returned(view, &at, &facts)?, ())))
            .await?;
        drop(measured.leases);
        info!(%repository, events = committed.served.len(), "a repository is back");
        Ok(committed)
    }

    fn returned(
        &self,
        view: &View<'_>,
        repository: &RepoAddress,
        facts: &grasp_core::view::ObjectFacts,
    ) -> Result<Batch, StoreError> {
        let archive = view.archive_of(repository)?;
        if !archive.is_some_and(|archive| archive.returns) {
            return Ok(Batch::new()); // It left again.
        }
        let owner = repository.coordinate().owner;
        let repo = reconcile::view_of(view, repository, History::WithSuperseded)?;
        let mut batch = settle::returned(&owner, &repo, facts, self.at_present());
        batch.push(Change::DropArchive {
            repository: repository.clone(),
        });
        Ok(batch)
    }
}
