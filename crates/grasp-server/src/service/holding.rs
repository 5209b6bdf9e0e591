//! What was deleted and can still come back: its clean-up, and what operators do with it (DEL-5, DEL-6).

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::admission::{Answer, Rejection};
use grasp_core::announcement::Announcement;
use grasp_core::lifecycle::{Archive, Change, Stage};
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::policy::{Hosting, Origin, Policy};
use grasp_core::recovery::{self, Purpose, STEP_MAX};
use grasp_core::{EventId, Timestamp};
use grasp_relay::Turn;
use grasp_store::{CommitError, History, StoreError, View};
use tracing::{error, info};

use super::Service;
use super::sweep::Among;

/// A scope that left and can come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldScope {
    /// Whose repository.
    pub scope: Coordinate,
    /// When the last of its announcements is gone.
    pub until: Option<Timestamp>,
    /// Its git data.
    pub archive: Option<Archive>,
    /// Its owner asked for it to be deleted: nobody else brings it back.
    pub requested: bool,
}

/// What became of a wish to bring a scope back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// It is served.
    Served,
    /// It waits for git data like a new one: what it had is not complete any more.
    Waits,
    /// It is here already.
    Live,
    /// Nothing of it is held.
    Gone,
    /// Its owner asked for it to be deleted.
    Requested,
    /// It may not come back.
    Refused(Rejection),
}

/// What an ejection removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ejected {
    /// Held events.
    pub events: u64,
    /// Whether there was git data.
    pub archive: bool,
}

impl Service {
    /// Removes what was replaced or deleted and has been kept long enough (DEL-5, DEL-12).
    pub async fn clean_up_holding(&self) -> Result<(), StoreError> {
        let events = self.let_expire(Among::Kept).await?;
        let archives = self.clean_up_archives().await?;
        if let Err(failure) = self.forget_curated().await {
            let error = &failure as &dyn std::error::Error;
            error!(
                error,
                "what the lists did is looked at again with the next clean-up"
            );
        }
        self.metrics.holding.cleaned(events, archives);
        if events + archives > 0 {
            info!(
                events,
                archives, "what was deleted long ago is gone for good"
            );
        }
        Ok(())
    }

    async fn clean_up_archives(&self) -> Result<u64, StoreError> {
        let now = self.clock.now();
        let known = self.store.snapshot()?.view().archives()?;
        let mut removed = 0;
        for (repository, archive) in &known {
            let is_on_its_way = archive.returns && self.store.dirty().contains(repository);
            if archive.until > now || is_on_its_way {
                continue;
            }
            match self
                .drop_archive(repository, move |archive| archive.until <= now)
                .await
            {
                Ok(dropped) => removed += u64::from(dropped),
                Err(failure) => error!(
                    %repository,
                    error = &failure as &dyn std::error::Error,
                    "an archive could not be removed; it is tried again"
                ),
            }
        }
        let service = self.clone();
        let known: BTreeSet<_> = known
            .into_iter()
            .map(|(repository, archive)| (repository, archive.since))
            .collect();
        Ok(removed + self.blocking(move || service.discard_strays(&known)).await)
    }

    /// Ends an archive that is still `over` in the commit, and throws its copy away.
    async fn drop_archive(
        &self,
        repository: &RepoAddress,
        over: impl Fn(&Archive) -> bool + Send + 'static,
    ) -> Result<bool, CommitError> {
        let at = repository.clone();
        let committed = self
            .store
            .commit(move |view| {
                let archive = view.archive_of(&at)?.filter(|archive| over(archive));
                let repository = at.clone();
                let drop = archive.map(|_| Change::DropArchive { repository });
                Ok((drop.into_iter().collect(), archive))
            })
            .await?;
        let Some(archive) = committed.value else {
            return Ok(false);
        };
        let (service, at) = (self.clone(), repository.clone());
        self.blocking(move || service.discard_archive(&at, archive.since))
            .await;
        Ok(true)
    }

    /// Copies that a crash left without a row. `known` may be older than they are: what has a row now stays.
    fn discard_strays(&self, known: &BTreeSet<(RepoAddress, Timestamp)>) -> u64 {
        let copies = self.git.archives().unwrap_or_else(|error| {
            error!(%error, "the archive cannot be read");
            Vec::new()
        });
        let mut discarded = 0;
        for (repository, since) in copies {
            if !known.contains(&(repository.clone(), since)) && self.is_stray(&repository, since) {
                self.discard_archive(&repository, since);
                discarded += 1;
            }
        }
        discarded
    }

    /// What cannot be read may be in use, and what is to be brought in line is about to be.
    fn is_stray(&self, repository: &RepoAddress, since: Timestamp) -> bool {
        let snapshot = self.store.snapshot();
        let row = snapshot.and_then(|snapshot| snapshot.view().archive_of(repository));
        let other = |row: Option<Archive>| row.is_none_or(|row| row.since != since);
        row.is_ok_and(other) && !self.store.dirty().contains(repository)
    }

    /// The scopes that left and can come back.
    pub async fn holding_list(&self) -> Result<Vec<HeldScope>, StoreError> {
        let service = self.clone();
        self.blocking(move || {
            let snapshot = service.store.snapshot()?;
            held_scopes(&snapshot.view(), &service.policy)
        })
        .await
    }

    /// Brings a scope back as its owner's announcing it again would (DEL-6).
    pub async fn holding_restore(&self, scope: &Coordinate) -> Result<Restored, CommitError> {
        let event = match self.newest_held(scope)? {
            Ok(event) => event,
            Err(answer) => return Ok(answer),
        };
        let answer = self
            .admit_answer(event, Origin::Client, Turn::default())
            .await?;
        self.sweep().await?;
        Ok(match answer {
            Answer::Stored => Restored::Served,
            Answer::Rejected(rejection) => Restored::Refused(rejection),
            Answer::Purgatory | Answer::DuplicateWaiting => Restored::Waits,
            // An announcement is none of the first two.
            Answer::Ephemeral
            | Answer::DuplicateRequest
            | Answer::Duplicate
            | Answer::Superseded => Restored::Live,
        })
    }

    /// The announcement by which a scope can come back.
    fn newest_held(
        &self,
        scope: &Coordinate,
    ) -> Result<Result<grasp_core::event::VerifiedEvent, Restored>, StoreError> {
        let snapshot = self.store.snapshot()?;
        let seeds = [scope.owner];
        let repo = snapshot
            .view()
            .repo_view(&scope.identifier, &seeds, History::WithSuperseded)?;
        if repo.announcement(&scope.owner).is_some() {
            return Ok(Err(Restored::Live));
        }
        let versions = repo.announcements.get(&scope.owner).into_iter().flatten();
        let hosted = |it: &Announcement| self.policy.hosting(it) == Hosting::Listed;
        let held: Vec<_> = versions
            .filter(|entry| entry.stage == Stage::Held && hosted(&entry.item))
            .collect();
        let free = held
            .iter()
            .filter(|entry| !repo.is_kept_away(&entry.id(), &self.policy));
        Ok(match free.max_by_key(|entry| entry.version()) {
            Some(entry) => Ok(entry.item.event().clone()),
            None if held.is_empty() => Err(Restored::Gone),
            None => Err(Restored::Requested),
        })
    }

    /// Removes for good what is held of a scope: its events, what hangs on them, its git data.
    pub async fn holding_eject(&self, scope: &Coordinate) -> Result<Ejected, CommitError> {
        let (service, at) = (self.clone(), scope.clone());
        let events = self
            .blocking(move || {
                let snapshot = service.store.snapshot()?;
                held_of(&snapshot.view(), &at, &service.policy)
            })
            .await?;
        let mut ejected = Ejected::default();
        for step in events.chunks(STEP_MAX) {
            let step = step.to_vec();
            let committed = self
                .store
                .commit(move |view| {
                    let mut batch = Vec::new();
                    for event in &step {
                        let stored = view.event(event)?;
                        if stored.is_some_and(|stored| stored.stage == Stage::Held) {
                            batch.push(Change::Remove { event: *event });
                        }
                    }
                    let removed = batch.len() as u64;
                    Ok((batch, removed))
                })
                .await?;
            ejected.events += committed.value;
        }
        let repository = RepoAddress::Announced(scope.clone());
        ejected.archive = self
            .drop_archive(&repository, |archive| !archive.returns)
            .await?;
        self.metrics
            .holding
            .was_ejected(ejected.events, u64::from(ejected.archive));
        info!(%scope, events = ejected.events, archive = ejected.archive, "an operator ejected what was held");
        Ok(ejected)
    }
}

/// The held events of a scope that is away, and of what hangs on it. Of one that is here nothing: what is held
/// of it may withhold authority (DEL-3).
fn held_of(
    view: &View<'_>,
    scope: &Coordinate,
    policy: &Policy,
) -> Result<Vec<EventId>, StoreError> {
    let seeds = [scope.owner];
    let repo = view.repo_view(&scope.identifier, &seeds, History::WithSuperseded)?;
    if repo.announcement(&scope.owner).is_some() {
        return Ok(Vec::new());
    }
    let start = recovery::names_of_scope(&scope.owner, &repo);
    let hanging = recovery::held_around(start, view, Purpose::Eject, &policy.requests)?;
    let mut events = hanging.events;
    let announcements = repo.announcements.get(&scope.owner).into_iter().flatten();
    let held = announcements.filter(|entry| entry.stage == Stage::Held);
    events.extend(held.map(grasp_core::view::Entry::id));
    let states = repo.states.get(&scope.owner).into_iter().flatten();
    let held = states.filter(|entry| entry.stage == Stage::Held);
    events.extend(held.map(grasp_core::view::Entry::id));
    let proposals = repo.proposals.values();
    let held = proposals.filter(|entry| entry.stage == Stage::Held);
    events.extend(held.map(|entry| entry.event));
    Ok(events)
}

fn held_scopes(view: &View<'_>, policy: &Policy) -> Result<Vec<HeldScope>, StoreError> {
    let mut scopes: BTreeMap<Coordinate, bool> = BTreeMap::new();
    for (scope, stage) in view.announcements()? {
        let here = scopes.entry(scope).or_default();
        *here |= matches!(stage, Stage::Served | Stage::Waiting | Stage::Parked);
    }
    let mut held = Vec::new();
    for (scope, _) in scopes.into_iter().filter(|(_, here)| !here) {
        let seeds = [scope.owner];
        let repo = view.repo_view(&scope.identifier, &seeds, History::WithSuperseded)?;
        let versions = repo.announcements.get(&scope.owner).into_iter().flatten();
        let versions: Vec<_> = versions
            .filter(|entry| entry.stage == Stage::Held)
            .collect();
        if versions.is_empty() {
            continue;
        }
        let archive = repo.archives.get(&scope.owner).copied();
        held.push(HeldScope {
            until: versions.iter().filter_map(|entry| entry.deadline).max(),
            requested: versions
                .iter()
                .all(|entry| repo.is_kept_away(&entry.id(), policy)),
            archive,
            scope,
        });
    }
    Ok(held)
}
