//! Works a plan out, and does its steps.

use std::collections::BTreeSet;

use grasp_core::deletion::{self, Cascade, Limits, STEP_MAX, Step, Work};
use grasp_core::failpoint;
use grasp_core::lifecycle::{Batch, Change, Stage};
use grasp_core::name::Coordinate;
use grasp_core::{EventId, PublicKey};
use grasp_store::{CommitError, StoreError, View};
use tracing::{debug, info, warn};

use super::super::Service;
use super::data::Data;

impl Service {
    /// Works one plan out if that is still to be done, and does its steps to the end.
    pub(super) async fn finish_plan(&self, work: &Work) -> Result<(), CommitError> {
        // Ends: whatever a step adds hangs on what went with it, and nothing new can come to hang on that.
        while let Some(due) = self.what_is_due(work)? {
            match due {
                Due::Planning => {
                    if let Work::Vanish { author, .. } = work {
                        self.remove_remains(author).await?;
                    }
                    self.work_out(work).await?;
                }
                Due::Step => self.next_step(work).await?,
            }
        }
        Ok(())
    }

    fn what_is_due(&self, work: &Work) -> Result<Option<Due>, StoreError> {
        let snapshot = self.store.snapshot()?;
        let stored = snapshot.view().plan(work)?;
        Ok(stored.map(|stored| match stored.horizon {
            None => Due::Planning,
            Some(_) => Due::Step,
        }))
    }

    async fn work_out(&self, work: &Work) -> Result<(), CommitError> {
        let (service, planned) = (self.clone(), work.clone());
        let Found {
            horizon,
            goes,
            unburdened,
        } = self.blocking(move || service.look_around(&planned)).await?;
        failpoint::pass("removal.planned");
        debug!(?work, events = goes.len(), "what is to go is known");
        let work = work.clone();
        let committed = self
            .store
            .commit(move |view| {
                let mut batch = still_served(&unburdened, view)?;
                batch.push(Change::Steps {
                    work: work.clone(),
                    horizon,
                    steps: goes.chunks(STEP_MAX).map(<[_]>::to_vec).collect(),
                });
                Ok((batch, ()))
            })
            .await?;
        self.finish(committed, None).await;
        Ok(())
    }

    /// On one snapshot. Blocking.
    fn look_around(&self, work: &Work) -> Result<Found, StoreError> {
        let snapshot = self.store.snapshot()?;
        let view = snapshot.view();
        let horizon = view.horizon()?;
        let (goes, unburdened) = match work {
            Work::Cascade { scope, .. } => self.look_around_scope(work, scope, view)?,
            Work::Vanish { author, until } => (view.authored(author, *until)?, Vec::new()),
        };
        Ok(Found {
            horizon,
            goes,
            unburdened,
        })
    }

    fn look_around_scope(
        &self,
        work: &Work,
        scope: &Coordinate,
        view: View<'_>,
    ) -> Result<(Vec<EventId>, Vec<EventId>), StoreError> {
        let lost = view.plan(work)?.map(|stored| stored.plan.lost);
        let lost = lost.unwrap_or_default();
        let data = Data::new(&self.git, view);
        let backed = |node: &_| data.backs(node);
        let limits = Limits::default();
        match deletion::cascade(&lost, &view, &backed, limits, &self.policy)? {
            Cascade::Found { goes, unburdened } => Ok((goes, unburdened)),
            Cascade::Capped(cap) => {
                warn!(
                    scope = %scope.address(), ?cap,
                    "too much hangs on a repository that left: only itself went"
                );
                self.metrics.removal.was_capped();
                Ok((Vec::new(), Vec::new()))
            }
        }
    }

    async fn next_step(&self, work: &Work) -> Result<(), CommitError> {
        let (service, planned) = (self.clone(), work.clone());
        // The leases of the look end with it: a proposal whose data goes in that moment is degraded, and
        // hunted like any other (REF-8).
        let Some((number, backed)) = self
            .blocking(move || service.backed_in_step(&planned))
            .await?
        else {
            return Ok(());
        };
        let (service, planned) = (self.clone(), work.clone());
        let committed = self
            .store
            .commit(move |view| {
                let batch = service.take_step(&planned, number, &backed, view)?;
                let gone = batch.iter().filter(|change| removes(change)).count();
                Ok((batch, gone))
            })
            .await?;
        failpoint::pass("removal.step");
        let gone = committed.value;
        self.metrics.removal.went(gone);
        info!(?work, events = gone, "events went with what they hung on");
        self.finish(committed, None).await;
        Ok(())
    }

    fn backed_in_step(&self, work: &Work) -> Result<Option<(u32, BTreeSet<EventId>)>, StoreError> {
        let snapshot = self.store.snapshot()?;
        let view = snapshot.view();
        let Some((number, members)) = view.next_step(work)? else {
            return Ok(None);
        };
        let backed = Data::new(&self.git, view).backed_among(&members)?;
        Ok(Some((number, backed)))
    }

    /// In the commit. Nothing, if the step is not the next any more.
    fn take_step(
        &self,
        work: &Work,
        number: u32,
        backed: &BTreeSet<EventId>,
        view: &View<'_>,
    ) -> Result<Batch, StoreError> {
        let (Some(stored), Some((next, members))) = (view.plan(work)?, view.next_step(work)?)
        else {
            return Ok(Batch::new());
        };
        if next != number {
            return Ok(Batch::new());
        }
        let cx = self.at_present();
        let mut batch = match work {
            Work::Cascade { cause, .. } => {
                let horizon = stored.horizon.unwrap_or_default();
                let step = Step {
                    members: &members,
                    remaining: &view.planned(work)?,
                    horizon,
                    backed,
                };
                let outcome = deletion::step(&step, view, &self.policy)?;
                let targets = view.removal_facts(&outcome.goes)?;
                let mut batch = deletion::remove_dependents(&targets, *cause, cx);
                batch.extend(further_step(work, horizon, outcome.follows));
                batch
            }
            Work::Vanish { author, .. } => {
                let batch = deletion::remove_author_step(&view.removal_facts(&members)?, cx);
                kept_for_others(batch, author, view)?
            }
        };
        let work = work.clone();
        batch.push(Change::StepDone { work, step: number });
        Ok(batch)
    }
}

/// What a look around found.
struct Found {
    horizon: u64,
    goes: Vec<EventId>,
    unburdened: Vec<EventId>,
}

/// DEL-8: git data of one who vanished is kept for a while if somebody else may miss it, else nothing of it is, nor
/// of what was coming back from the archive. That of another maintainer, who loses the last state by it, is kept in
/// any case (DEL-2).
fn kept_for_others(
    mut batch: Batch,
    author: &PublicKey,
    view: &View<'_>,
) -> Result<Batch, StoreError> {
    for change in &mut batch {
        if let Change::Archive { repository, .. } = change
            && repository.coordinate().owner == *author
            && !view.is_named_by_others(&repository.coordinate().address())?
        {
            let repository = repository.clone();
            *change = Change::DropArchive { repository };
        }
    }
    Ok(batch)
}

/// What came to hang on members meanwhile goes after them.
fn further_step(work: &Work, horizon: u64, follows: Vec<EventId>) -> Option<Change> {
    (!follows.is_empty()).then(|| Change::Steps {
        work: work.clone(),
        horizon,
        steps: vec![follows],
    })
}

/// What is to be done next.
enum Due {
    Planning,
    Step,
}

fn removes(change: &Change) -> bool {
    match change {
        Change::Remove { .. } => true,
        Change::Move { stage, .. } => *stage == Stage::Held,
        _ => false,
    }
}

/// REL-6, for those that are still there.
fn still_served(events: &[EventId], view: &View<'_>) -> Result<Batch, StoreError> {
    let mut batch = Batch::new();
    for event in events {
        let stored = view.event(event)?;
        let served = stored.is_some_and(|stored| stored.stage == Stage::Served);
        batch.extend(served.then_some(Change::Unburden { event: *event }));
    }
    Ok(batch)
}
