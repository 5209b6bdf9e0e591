//! The look at all repositories that follows a start (GIT-13, REF-5, REF-8).
//!
//! Marks bring in line what a crash left. Nothing marks what somebody did to the disk while no server ran, and
//! what was frozen or degraded before is unknown to a new process. So the folder and the refs of each repository
//! are compared with its events once; objects are left to `integrity-check`. *Invariant:* it marks, and reconciling
//! does the rest, so a push in between is in nobody's way; only ref files that nobody can read it mends itself.

use std::time::Duration;

use grasp_core::lifecycle::Change;
use grasp_core::name::{Identifier, RepoAddress};
use grasp_core::refplan::{self, Desired, DesiredRefs};
use grasp_git::OnDisk;
use grasp_store::{CommitError, History, StoreError};
use tracing::{error, info};

use super::{Service, reconcile};

/// So many are looked at in one go; then others have their turn.
const CHUNK: usize = 50;
/// The pause after it: a start with many repositories takes a little of one core.
const PAUSE: Duration = Duration::from_millis(20);

/// What a look at all repositories came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Surveyed {
    /// Repositories that were looked at.
    pub looked_at: usize,
    /// Those of them that are not as their events say, or frozen. They are brought in line.
    pub marked: usize,
}

impl Service {
    /// Runs to its end, and tells what came of it.
    pub(crate) async fn run_survey(self, identifiers: Vec<Identifier>) {
        match self.survey(&identifiers).await {
            Ok(Surveyed { looked_at, marked }) => {
                info!(
                    looked_at,
                    marked, "repositories were compared with their events"
                );
            }
            Err(failure) => error!(
                error = &failure as &dyn std::error::Error,
                "the look at all repositories ended early; the next start begins anew"
            ),
        }
    }

    /// Looks once at every announced repository, or at those of `identifiers` if there are any.
    pub async fn survey(&self, identifiers: &[Identifier]) -> Result<Surveyed, CommitError> {
        let mut surveyed = Surveyed::default();
        if identifiers.is_empty() {
            self.survey_those_of(None, &mut surveyed).await?;
        }
        for identifier in identifiers {
            self.survey_those_of(Some(identifier), &mut surveyed)
                .await?;
        }
        Ok(surveyed)
    }

    async fn survey_those_of(
        &self,
        identifier: Option<&Identifier>,
        surveyed: &mut Surveyed,
    ) -> Result<(), CommitError> {
        let mut after = None;
        loop {
            let (found, next) = {
                let snapshot = self.store.snapshot()?;
                snapshot.view().announced(identifier, after.as_ref())?
            };
            let found: Vec<_> = found.into_iter().map(RepoAddress::Announced).collect();
            for chunk in found.chunks(CHUNK) {
                surveyed.looked_at += chunk.len();
                surveyed.marked += self.survey_some(chunk.to_vec()).await?;
                tokio::time::sleep(PAUSE).await;
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// How many of them are marked now.
    async fn survey_some(&self, repositories: Vec<RepoAddress>) -> Result<usize, CommitError> {
        let service = self.clone();
        let unusual = self
            .blocking(move || {
                let mut unusual = Vec::new();
                for repository in repositories {
                    if !service.is_as_it_should(&repository)? {
                        service.make_readable(&repository);
                        unusual.push(repository);
                    }
                }
                Ok::<_, StoreError>(unusual)
            })
            .await?;
        let count = unusual.len();
        if count > 0 {
            let marks: Vec<_> = unusual.into_iter().map(Change::Dirty).collect();
            let commit = self.store.commit(move |_| Ok((marks.clone(), ())));
            let marked = commit.await?;
            self.finish(marked, None).await;
        }
        Ok(count)
    }

    /// Whether folder and refs are what events say, as far as that can be told without objects. Blocking.
    fn is_as_it_should(&self, repository: &RepoAddress) -> Result<bool, StoreError> {
        if self.store.dirty().contains(repository) {
            return Ok(true); // It is brought in line anyway.
        }
        let snapshot = self.store.snapshot()?;
        let view = reconcile::view_of(&snapshot.view(), repository, History::Current)?;
        drop(snapshot);
        let desired = refplan::desired(repository, &view, &self.policy);
        Ok(match self.git.refs_on_disk(repository) {
            Ok(None) => !desired.exists,
            Ok(Some(refs)) => desired.exists && refs.are_sound() && shows(&refs, desired),
            Err(_) => false, // Reconciling says why.
        })
    }

    /// Files that git cannot read, or that shadow others, are in the way of reconciling. Blocking.
    fn make_readable(&self, repository: &RepoAddress) {
        let on_disk = self.git.refs_on_disk(repository);
        if on_disk.is_ok_and(|refs| refs.is_none_or(|refs| refs.are_sound())) {
            return;
        }
        if let Err(failure) = self.mend(repository, &[]) {
            let error = &failure as &dyn std::error::Error;
            error!(%repository, error, "refs could not be made readable; see integrity-check");
        }
    }
}

/// Whether refs are exactly these.
fn shows(on_disk: &OnDisk, desired: Desired) -> bool {
    let mut should = desired.proposals;
    match desired.refs {
        DesiredRefs::Winner { refs, head, .. } => {
            should.extend(refs);
            head == on_disk.head && should == on_disk.refs
        }
        DesiredRefs::Empty => should == on_disk.refs,
        DesiredRefs::Frozen => false,
    }
}
