//! Brings back what was held with a scope that is served again (DEL-6).
//!
//! The commit that serves the announcement marks the archive of its repository as returning; `reconcile`
//! moves the objects back, and then what needs them can be judged. *Invariant:* the mark stays until all is
//! back, so what a crash or a fault cuts short goes on from it.

use grasp_core::failpoint;
use grasp_core::lifecycle::{Batch, Change};
use grasp_core::name::RepoAddress;
use grasp_core::recovery::{self, Purpose, STEP_MAX};
use grasp_core::settle;
use grasp_store::{CommitError, Committed, History, StoreError, View};
use tracing::{error, info};

use super::facts::{self, Measured, Wanted};
use super::{Aftermath, Service, reconcile};
use crate::metrics::Recovery;

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
            let recoveries = &self.metrics.holding.recoveries;
            recoveries.count(Recovery::Attempted);
            match self.finish_return(&repository).await {
                Ok(more) => after.merge(more),
                Err(failure) => {
                    recoveries.count(Recovery::Failed);
                    error!(
                        %repository,
                        error = &failure as &dyn std::error::Error,
                        "what was held with a repository is not back yet"
                    );
                }
            }
        }
        after
    }

    async fn finish_return(&self, repository: &RepoAddress) -> Result<Aftermath, CommitError> {
        let mut after: Aftermath = self.return_repository(repository).await?.into();
        let (service, at) = (self.clone(), repository.clone());
        let found = self
            .blocking(move || {
                let snapshot = service.store.snapshot()?;
                let view = snapshot.view();
                let repo = reconcile::view_of(&view, &at, History::WithSuperseded)?;
                let start = recovery::names_of_scope(&at.coordinate().owner, &repo);
                let requests = &service.policy.requests;
                recovery::held_around(start, &view, Purpose::Return, requests)
            })
            .await?;
        let events = found.events.len();
        for step in found.events.chunks(STEP_MAX) {
            let (service, at, step) = (self.clone(), repository.clone(), step.to_vec());
            let committed = self
                .store
                .commit(move |view| {
                    let batch = if returning(view, &at)? {
                        recovery::return_step(&step, view, service.at_present())?
                    } else {
                        Batch::new()
                    };
                    Ok((batch, ()))
                })
                .await?;
            failpoint::pass("return.step");
            after.merge(committed.into());
        }
        let at = repository.clone();
        let done = self
            .store
            .commit(move |view| {
                let repository = at.clone();
                let over = returning(view, &at)?.then_some(Change::DropArchive { repository });
                Ok((over.into_iter().collect(), ()))
            })
            .await?;
        after.merge(done.into());
        let result = if found.capped {
            Recovery::Partial
        } else {
            Recovery::Succeeded
        };
        self.metrics.holding.recoveries.count(result);
        info!(%repository, events, "a repository is back");
        Ok(after)
    }

    /// States and proposals whose objects are there again.
    async fn return_repository(
        &self,
        repository: &RepoAddress,
    ) -> Result<Committed<()>, CommitError> {
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
            .commit(move |view| {
                if !returning(view, &at)? {
                    return Ok((Batch::new(), ()));
                }
                let owner = at.coordinate().owner;
                let repo = reconcile::view_of(view, &at, History::WithSuperseded)?;
                let batch = settle::returned(&owner, &repo, &facts, service.at_present());
                Ok((batch, ()))
            })
            .await?;
        drop(measured.leases);
        Ok(committed)
    }
}

/// It may have left again meanwhile.
fn returning(view: &View<'_>, repository: &RepoAddress) -> Result<bool, StoreError> {
    let archive = view.archive_of(repository)?;
    Ok(archive.is_some_and(|archive| archive.returns))
}
