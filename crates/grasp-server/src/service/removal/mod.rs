//! Takes scopes away, and carries out the plans for what hangs on them (§11).
//!
//! The commit that takes a scope away leaves a plan. It is worked out on a snapshot, off the async workers,
//! and done in steps, each of them a commit. *Invariant:* nothing is kept in memory between two commits: a
//! plan that a crash cut short goes on where its rows say.

mod audit;
mod data;
mod remains;
mod steps;

use std::collections::BTreeSet;

use grasp_core::deletion::{self, Cause, Work};
use grasp_core::lifecycle::Change;
use grasp_core::name::Coordinate;
use grasp_store::{CommitError, History};
use tracing::{error, info};

use super::Service;

/// Plans looked at in one go. What is left waits for the next.
const PLANS: usize = 256;

/// Whether a commit left something to be done in steps.
pub(super) fn is_planned(batch: &[Change]) -> bool {
    let plans = |change: &Change| matches!(change, Change::Plan(_));
    batch.iter().any(plans)
}

impl Service {
    /// Takes a whole scope away, and what only it supported (DEL-4). Returns whether there was one. What
    /// hangs on it is gone when this returns, unless that met a fault; then the sweep goes on with it.
    pub async fn remove_scope(
        &self,
        scope: &Coordinate,
        cause: Cause,
    ) -> Result<bool, CommitError> {
        let (service, at) = (self.clone(), scope.clone());
        let committed = self
            .store
            .commit(move |view| {
                let seeds = [at.owner];
                let repo = view.repo_view(&at.identifier, &seeds, History::WithSuperseded)?;
                let batch = deletion::remove_scope(at.owner, &repo, cause, service.at_present());
                Ok((batch, ()))
            })
            .await?;
        let found = !committed.batch.is_empty();
        if found {
            info!(scope = %scope.address(), ?cause, "a repository is taken off the service");
        }
        let planned = is_planned(&committed.batch);
        self.finish(committed, None).await;
        if planned {
            self.run_plans().await;
        }
        Ok(found)
    }

    /// Carries out what is planned, as far as there is no fault. Whoever waits for it may stop waiting: the
    /// work does not stop.
    pub async fn run_plans(&self) {
        let service = self.clone();
        let task = tokio::spawn(async move {
            let _one_at_a_time = service.planning.clone().lock_owned().await;
            service.finish_plans().await;
        });
        if let Err(failure) = task.await {
            error!(%failure, "a plan was cut short; the sweep goes on with it");
        }
    }

    /// A plan may leave others: of whom vanishes each repository leaves one for what hung on it. Each is
    /// tried once, what fails is left to the sweep.
    async fn finish_plans(&self) {
        let mut tried = BTreeSet::new();
        loop {
            let plans = self
                .store
                .snapshot()
                .and_then(|snapshot| snapshot.view().plans(PLANS));
            let plans = match plans {
                Ok(plans) => plans,
                Err(failure) => {
                    let error = &failure as &dyn std::error::Error;
                    error!(error, "what is planned could not be read");
                    return;
                }
            };
            let works = plans.into_iter().map(|stored| stored.plan.work);
            let untried: Vec<Work> = works.filter(|work| tried.insert(work.clone())).collect();
            if untried.is_empty() {
                return;
            }
            for work in untried {
                if let Err(failure) = self.finish_plan(&work).await {
                    let error = &failure as &dyn std::error::Error;
                    error!(error, "a plan met a fault; the sweep tries it again");
                }
            }
        }
    }
}
