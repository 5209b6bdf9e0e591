//! What happens by itself: deadlines pass, and repositories that could not be brought in line are tried
//! again.

mod requests;

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use grasp_core::clock_step::clock_step;
use grasp_core::event::kind;
use grasp_core::lifecycle::{Batch, Change, Stage, UploadRecord};
use grasp_core::name::{Coordinate, Identifier, RepoAddress};
use grasp_core::policy::{Circumstances, Origin};
use grasp_core::proposal::Proposal;
use grasp_core::purgatory;
use grasp_core::request::is_request;
use grasp_core::view::ObjectFacts;
use grasp_core::{EventId, PublicKey};
use grasp_store::{CommitError, Due, History, StoreError, View};
use tracing::{error, warn};

use self::requests::DueRequest;
use super::facts::{self, Wanted};
use super::{Service, reconcile};

/// Deadlines looked at in one commit: a sweep after a long pause must not hold the writer.
const CHUNK: usize = 256;

/// The longest pause between two tries to bring a marked repository in line.
const RETRY_MAX: Duration = Duration::from_secs(5);

impl Service {
    /// Runs until it is aborted: sweeps, and reconciles what is marked (start-up included).
    pub(crate) async fn run_housekeeping(self) {
        let mut tick = tokio::time::interval(self.timers.sweep.min(RETRY_MAX));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut since_sweep = self.timers.sweep;
        let mut since_clean_up = self.timers.holding_clean_up;
        self.retry_marked().await;
        if let Err(failure) = self.apply_lists().await {
            error!(
                error = &failure as &dyn std::error::Error,
                "the lists of repositories are not carried out; the next start tries again"
            );
        }
        let mut since_tests = self.timers.tests.unwrap_or_default();
        loop {
            tick.tick().await;
            // Often, so that little is admitted between a jump and its notice.
            if let Err(failure) = self.notice_clock_step().await {
                error!(
                    error = &failure as &dyn std::error::Error,
                    "deadlines could not follow the clock"
                );
            }
            self.retry_marked().await;
            since_sweep += tick.period();
            since_clean_up = since_clean_up.saturating_add(tick.period());
            if since_clean_up >= self.timers.holding_clean_up {
                since_clean_up = Duration::ZERO;
                if let Err(failure) = self.clean_up_holding().await {
                    error!(
                        error = &failure as &dyn std::error::Error,
                        "the clean-up of what was deleted stopped early and goes on with the next"
                    );
                }
            }
            if since_sweep >= self.timers.sweep {
                since_sweep = Duration::ZERO;
                if let Err(failure) = self.sweep().await {
                    error!(
                        error = &failure as &dyn std::error::Error,
                        "the sweep stopped early and goes on with the next"
                    );
                }
            }
            since_tests += tick.period();
            if self.timers.tests.is_some_and(|pause| since_tests >= pause) {
                since_tests = Duration::ZERO;
                if let Err(failure) = self.clean_up_tests().await {
                    error!(
                        error = &failure as &dyn std::error::Error,
                        "old test events could not be removed and are tried again"
                    );
                }
            }
        }
    }

    /// Brings in line what a crash or a failure left marked (GIT-13). Newest marks first.
    pub async fn retry_marked(&self) {
        let mut marked = self.store.dirty().list();
        marked.sort_by_key(|(_, version)| std::cmp::Reverse(*version));
        self.bring_in_line(
            marked
                .into_iter()
                .map(|(repository, _)| repository)
                .collect(),
        )
        .await;
    }

    /// Moves what waits along with the wall clock if that jumped since the last look (PUR-16). After a
    /// failure the jump is noticed again.
    pub async fn notice_clock_step(&self) -> Result<(), CommitError> {
        let tick = self.clock.tick();
        let before = *self
            .last_tick
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(step) = clock_step(before, tick) {
            warn!(
                seconds = step.secs,
                "the wall clock jumped: what waits keeps its time"
            );
            let shifted = self
                .store
                .commit(move |view| Ok((step.shift(view.waiting_deadlines()?), ())))
                .await?;
            self.finish(shifted, None).await;
        }
        *self
            .last_tick
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = tick;
        Ok(())
    }

    /// Lets everything whose deadline has passed by now expire (PUR-*, DEL-12, EV-4). One commit for each
    /// identifier: what does not succeed holds up nothing else. Whoever sweeps notices a jump of the clock
    /// first ([`Service::notice_clock_step`]).
    pub async fn sweep(&self) -> Result<(), StoreError> {
        self.resume_returns().await?;
        self.metrics.request_cleanups.ran();
        self.run_plans().await;
        self.let_expire(Among::Living).await?;
        Ok(())
    }

    /// Lets what is due expire; how many events that removed.
    pub(super) async fn let_expire(&self, among: Among) -> Result<u64, StoreError> {
        let now = self.clock.now();
        let (mut skipped, mut removed) = (0, 0);
        loop {
            let groups = {
                let snapshot = self.store.snapshot()?;
                let view = snapshot.view();
                let due = match among {
                    Among::Living => view.due(now, skipped + CHUNK)?,
                    Among::Kept => view.due_holding(now, skipped + CHUNK)?,
                };
                grouped(due.into_iter().skip(skipped).collect(), &view)?
            };
            if groups.is_empty() {
                return Ok(removed);
            }
            for group in groups {
                let members = group.members();
                match self.expire(group).await {
                    Ok(Some(gone)) => removed += gone,
                    Ok(None) => skipped += members,
                    Err(failure) => {
                        skipped += members;
                        error!(
                            error = &failure as &dyn std::error::Error,
                            "something due did not expire; it is tried again"
                        );
                    }
                }
            }
        }
    }

    /// Expires a group in one commit; how many events that removed, if anything changed. What is in use stays
    /// for the next sweep.
    async fn expire(&self, group: Group) -> Result<Option<u64>, CommitError> {
        // The leases of the look do not count: expiry skips what is in use.
        let objects = self.objects_for(&group).await?;
        let service = self.clone();
        let now = self.clock.now();
        let requests = match &group {
            Group::Requests(due) => due.clone(),
            _ => Vec::new(),
        };
        let committed = self
            .store
            .commit(move |view| {
                let cx = Circumstances {
                    policy: &service.policy,
                    now,
                    origin: Origin::Client,
                };
                let leased = |repository: &RepoAddress| service.git.is_leased(repository);
                let batch = group.expire(view, &leased, &objects, cx)?;
                let is_removal = |change: &&Change| matches!(change, Change::Remove { .. });
                let removals = batch.iter().filter(is_removal).count() as u64;
                let changed = (!batch.is_empty()).then_some(removals);
                Ok((batch, changed))
            })
            .await?;
        let changed = committed.value;
        requests::count(&requests, &committed.batch, &self.metrics.request_cleanups);
        self.finish(committed, None).await;
        Ok(changed)
    }

    /// What repositories hold of the states that may come back when something served ends (DEL-2a, EV-4).
    async fn objects_for(&self, group: &Group) -> Result<ObjectFacts, CommitError> {
        let Group::Repositories {
            identifier,
            seeds,
            returning: true,
            ..
        } = group
        else {
            return Ok(ObjectFacts::none());
        };
        let (service, identifier, seeds) = (self.clone(), identifier.clone(), seeds.clone());
        self.blocking(move || {
            let snapshot = service.store.snapshot()?;
            let view = snapshot
                .view()
                .repo_view(&identifier, &seeds, History::WithSuperseded)?;
            drop(snapshot);
            let wanted = Wanted {
                leaving: true,
                ..Wanted::default()
            };
            Ok(match facts::measure(&service.git, &view, wanted) {
                Ok(measured) => measured.facts,
                // What cannot be read counts as absent.
                Err(error) => {
                    error!(%error, "objects could not be looked at");
                    ObjectFacts::none()
                }
            })
        })
        .await
    }
}

/// Which deadlines are looked at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Among {
    /// Those of what is served, waits or is parked, and of requests.
    Living,
    /// Those of what was replaced or deleted.
    Kept,
}

/// Due things that must be decided together.
#[derive(Debug, Clone)]
enum Group {
    /// Announcements, states and proposals of one identifier, and whose they are.
    Repositories {
        identifier: Identifier,
        seeds: Vec<PublicKey>,
        events: Vec<EventId>,
        /// Something that is served ends: what it had replaced may come back (EV-4, DEL-2a).
        returning: bool,
    },
    /// An upload without an event.
    Upload(UploadRecord),
    /// Requests to delete and to vanish (DEL-9).
    Requests(Vec<DueRequest>),
    /// What no view depends on.
    Alone(Batch),
}

impl Group {
    fn members(&self) -> usize {
        match self {
            Self::Repositories { events, .. } => events.len(),
            Self::Requests(requests) => requests.len(),
            Self::Upload(_) => 1,
            Self::Alone(batch) => batch.len(),
        }
    }

    fn expire(
        &self,
        view: &View<'_>,
        leased: &dyn Fn(&RepoAddress) -> bool,
        objects: &ObjectFacts,
        cx: Circumstances<'_>,
    ) -> Result<Batch, StoreError> {
        Ok(match self {
            Self::Repositories {
                identifier,
                seeds,
                events,
                ..
            } => {
                let repo = view.repo_view(identifier, seeds, History::WithSuperseded)?;
                purgatory::expire_all(events, &repo, leased, objects, cx)
            }
            Self::Upload(upload) => {
                let repo = reconcile::view_of(view, &upload.repository, History::Current)?;
                purgatory::expire_upload(upload, &repo, leased, cx)
            }
            Self::Requests(due) => requests::clean_up(due, view, cx)?,
            Self::Alone(batch) => batch.clone(),
        })
    }
}

/// Sorts due things into groups.
fn grouped(due: Vec<Due>, view: &View<'_>) -> Result<Vec<Group>, StoreError> {
    let mut repositories: BTreeMap<Identifier, Ending> = BTreeMap::new();
    let mut groups = Vec::new();
    let mut requests = Vec::new();
    let mut alone = Batch::new();
    for due in due {
        match due {
            Due::Upload(upload) => groups.push(Group::Upload(upload)),
            Due::Mark { event, reason } => alone.push(Change::Unmark { event, reason }),
            Due::Event { event, kind, .. } if is_request(kind) => {
                requests.push(DueRequest { event, kind });
            }
            Due::Event { event, stage, .. } => match seed(&event, view)? {
                Some(seed) => {
                    let ending = repositories.entry(seed.identifier).or_default();
                    ending.seeds.push(seed.owner);
                    ending.events.push(event);
                    ending.returning |= stage == Stage::Served;
                }
                None => alone.push(Change::Remove { event }),
            },
        }
    }
    groups.extend(
        repositories
            .into_iter()
            .map(|(identifier, ending)| Group::Repositories {
                identifier,
                seeds: ending.seeds,
                events: ending.events,
                returning: ending.returning,
            }),
    );
    let steps = requests.chunks(requests::STEP);
    groups.extend(steps.map(|step| Group::Requests(step.to_vec())));
    if !alone.is_empty() {
        groups.push(Group::Alone(alone));
    }
    Ok(groups)
}

/// What ends in one identifier.
#[derive(Default)]
struct Ending {
    seeds: Vec<PublicKey>,
    events: Vec<EventId>,
    returning: bool,
}

/// The repository around a due event; `None` for what is no part of one and just goes (EV-4).
fn seed(event: &EventId, view: &View<'_>) -> Result<Option<Coordinate>, StoreError> {
    let Some(stored) = view.event(event)? else {
        return Ok(None);
    };
    let event = stored.event;
    Ok(match (event.kind(), event.identifier()) {
        (kind::ANNOUNCEMENT | kind::STATE, Some(identifier)) => {
            Some(Coordinate::new(event.author(), identifier))
        }
        _ => Proposal::parse(event)
            .ok()
            .and_then(|proposal| proposal.targets().first().cloned()),
    })
}
