//! Mends a repository: what cannot be read moves aside, what relatives have is taken, the rest shows as degraded.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grasp_core::lifecycle::Change;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_git::{Inspection, Problem, RepoLock};

use super::look::{Ground, named};
use super::{CheckError, Checked, Finding, Service};
use crate::service::facts;
use crate::service::reconcile::Trust;

impl Service {
    /// Does what can be done about findings, and looks again. No data is deleted: what cannot be read is moved
    /// aside within the repository, what no event asks for is left alone.
    pub async fn repair(
        &self,
        checked: &Checked,
        given_up: &Arc<AtomicBool>,
    ) -> Result<Checked, CheckError> {
        if !checked.findings.iter().any(Finding::is_repairable) {
            return Ok(checked.clone());
        }
        let repository = checked.repository.clone();
        let (service, at, damaged) = (self.clone(), repository.clone(), damaged(checked));
        self.blocking(move || service.mend(&at, &damaged)).await?;
        let mark = Change::Dirty(repository.clone());
        let hunt = Change::Hunt {
            identifier: repository.identifier().clone(),
            not_before_ms: self.clock.now().as_secs().saturating_mul(1000),
        };
        let committed = self
            .store
            .commit(move |_| Ok((vec![mark.clone(), hunt.clone()], ())))
            .await?;
        let (service, at) = (self.clone(), repository.clone());
        self.blocking(move || service.reconcile_with(&at, Trust::Nothing))
            .await?;
        // What came along may complete what waits.
        self.finish(committed, None).await;
        self.check(&repository, given_up).await
    }

    /// What has to be done before reconciling can do the rest. Blocking.
    pub(in crate::service) fn mend(
        &self,
        repository: &RepoAddress,
        damaged: &[Oid],
    ) -> Result<(), CheckError> {
        let lock = self.git.lock(repository);
        let ground = self.ground(&lock)?;
        let Some(found) = &ground.found else {
            lock.forget(); // reconciling makes it anew
            return Ok(());
        };
        if !damaged.is_empty() && found.unreadable_packs.is_empty() {
            self.replace_packs(&lock, &ground, found, damaged)?;
        }
        lock.mend(found, damaged)?;
        Ok(())
    }

    /// Packs with damaged objects move aside if every object that is needed of them can be had elsewhere.
    fn replace_packs(
        &self,
        lock: &RepoLock,
        ground: &Ground,
        found: &Inspection,
        damaged: &[Oid],
    ) -> Result<(), CheckError> {
        let objects = self.git.objects(&ground.lease)?;
        let packs = objects.packs_damaged_at(damaged);
        if packs.is_empty() {
            return Ok(());
        }
        let mut tips: BTreeSet<Oid> = found.refs.values().copied().collect();
        tips.extend(named(&ground.view).into_keys());
        let tips: Vec<Oid> = tips
            .into_iter()
            .filter(|oid| objects.contains(oid))
            .collect();
        let relatives: Vec<_> = facts::repositories(&ground.view)
            .into_iter()
            .filter(|other| other != lock.address() && self.git.exists(other))
            .map(|other| self.git.lease(&other))
            .collect();
        let replace = |whole: &BTreeSet<Oid>| {
            if tips.iter().all(|tip| whole.contains(tip)) {
                lock.set_packs_aside(&packs)?;
            }
            Ok(())
        };
        grasp_git::refill(&self.git, &ground.lease, &relatives, &tips, &packs, replace)?;
        Ok(())
    }
}

fn damaged(checked: &Checked) -> Vec<Oid> {
    let findings = checked.findings.iter();
    findings
        .filter_map(|finding| match finding {
            Finding::Object { hole, .. } if matches!(hole.problem, Problem::Damaged(_)) => {
                Some(hole.oid)
            }
            _ => None,
        })
        .collect()
}
