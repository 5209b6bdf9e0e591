//! One push, from its first line to its report (design.md §6, GIT-5 … GIT-11, PUSH-*, AFTER-*).
//!
//! Judge the commands, take the pack into quarantine, install exactly what the accepted tips need, commit,
//! bring repositories in line, publish, report. *Invariant:* nothing is visible before the commit, and
//! after it the push cannot fail.

mod client;
mod ground;
mod outcome;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use grasp_core::failpoint;
use grasp_core::lifecycle::{Batch, Change, Stage};
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::policy::{Circumstances, Origin};
use grasp_core::push::{Push, PushPlan};
use grasp_core::refname::RefName;
use grasp_core::settle::settle;
use grasp_git::http::receive_pack::{self, Request, RequestFault, Responder};
use grasp_git::{IngestError, Lease, PackLimits};
use grasp_relay::address::Refused;
use grasp_store::{CommitError, View};
use tokio::io::AsyncRead;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::io::SyncIoBridge;
use tracing::{debug, error, info};

use super::Service;
use super::facts::{self, Wanted};
use super::pack::Interrupt;
use crate::metrics::{Authorization, Bound, Operation, Status};
use client::{Client, drain};
use ground::{Ground, is_proposal, is_upload, look, without_misfits, without_uploads};
use outcome::{Outcome, PushError, ending};

/// Chunks of the answer that wait for a slow client.
const ANSWER_QUEUE: usize = 16;

/// Counts one upload without an event against the client's address (§16).
pub(crate) type UploadTurn = Box<dyn FnOnce() -> Result<(), Refused> + Send>;

/// What bounds pushes on this server.
#[derive(Debug)]
pub(crate) struct PushLimits {
    /// Bounds of a pack.
    pub(crate) pack: PackLimits,
    /// Most commands.
    pub(crate) commands: usize,
    /// Those that run at once.
    pub(crate) running: Arc<Semaphore>,
}

impl Service {
    /// Runs a push of `body` to `repository` and yields the bytes of the answer. The work is a task of
    /// its own: once committed it ends, also when the client leaves.
    pub(crate) fn receive_pack(
        &self,
        repository: RepoAddress,
        body: impl AsyncRead + Send + Unpin + 'static,
        turn: UploadTurn,
    ) -> mpsc::Receiver<Bytes> {
        let (answer, bytes) = mpsc::channel(ANSWER_QUEUE);
        let service = self.clone();
        tokio::spawn(async move { service.run_push(repository, body, turn, answer).await });
        bytes
    }

    /// What bounds a pack, whoever sends it.
    pub(crate) fn pack_limits(&self) -> &PackLimits {
        &self.push_limits.pack
    }

    /// How many pushes run, of the `most` that may.
    pub(crate) fn pushes_running(&self, most: usize) -> usize {
        most.saturating_sub(self.push_limits.running.available_permits())
    }

    async fn run_push<R>(
        &self,
        repository: RepoAddress,
        mut body: R,
        turn: UploadTurn,
        answer: mpsc::Sender<Bytes>,
    ) where
        R: AsyncRead + Send + Unpin + 'static,
    {
        let Ok(_running) = Arc::clone(&self.push_limits.running).acquire_owned().await else {
            return;
        };
        let begun = Instant::now();
        let request = match receive_pack::read_request(&mut body, self.push_limits.commands).await {
            Ok(Some(request)) => request,
            Ok(None) => return, // HTTP-6: a probe
            Err(malformed) => {
                if matches!(malformed.fault, RequestFault::TooMany { .. }) {
                    self.metrics.refusals.count(Bound::PushCommands);
                }
                let took = begun.elapsed();
                self.metrics.git_ended(Operation::Push, Status::Error, took);
                if !malformed.fault.is_io() {
                    let responder = Responder::new(malformed.capabilities);
                    let _ = answer
                        .send(responder.fail(&malformed.fault.to_string()))
                        .await;
                    drain(body).await;
                }
                return;
            }
        };
        let client = Client {
            responder: Responder::new(request.capabilities.clone()),
            answer,
        };
        let outcome = self
            .carry_out(&repository, &request, body, turn, &client)
            .await;
        client
            .send(ending(&client.responder, &request.commands, &outcome))
            .await;
        self.count(&outcome, begun.elapsed());
        self.remember(&repository, &request, &outcome);
        if let Err(failure) = &outcome {
            let cause: &dyn std::error::Error = failure;
            if failure.is_ours() {
                error!(%repository, error = cause, "a push could not be stored");
            } else {
                info!(%repository, error = cause, "a push ended without effect");
            }
        }
        failpoint::pass("push.reported");
    }

    /// What did not move stays known for whoever asks why ([`Service::explain`]).
    fn remember(
        &self,
        repository: &RepoAddress,
        request: &Request,
        outcome: &Result<Outcome, PushError>,
    ) {
        let now = self.clock.now();
        match outcome {
            Ok(Outcome::Done(plan) | Outcome::Refused(plan)) => {
                self.refusals.push(repository, &request.commands, plan, now);
            }
            Ok(Outcome::Told) => {}
            Err(failure) => {
                let names = request.commands.iter().map(|command| command.name.as_str());
                self.refusals.refs(repository, names, &failure.words(), now);
            }
        }
    }

    fn count(&self, outcome: &Result<Outcome, PushError>, took: Duration) {
        let status = match outcome {
            Ok(Outcome::Done(_)) => Status::Success,
            Ok(Outcome::Refused(_) | Outcome::Told) | Err(_) => Status::Error,
        };
        self.metrics.git_ended(Operation::Push, status, took);
        match outcome {
            Ok(Outcome::Refused(_)) => {
                let overtaken = Authorization::Overtaken;
                self.metrics.push_authorization.count(overtaken);
            }
            Err(PushError::Ingest(error)) => self.metrics.refused_pack(error),
            Err(PushError::UploadTooLarge { .. }) => {
                self.metrics.refusals.count(Bound::UploadBytes);
            }
            Err(PushError::Commit(CommitError::DiskFull)) => {
                self.metrics.refusals.count(Bound::DiskFloor);
            }
            Ok(Outcome::Done(_) | Outcome::Told) | Err(_) => {}
        }
    }

    async fn carry_out<R>(
        &self,
        repository: &RepoAddress,
        request: &Request,
        body: R,
        turn: UploadTurn,
        client: &Client,
    ) -> Result<Outcome, PushError>
    where
        R: AsyncRead + Send + Unpin + 'static,
    {
        if self.store.below_disk_floor() {
            self.metrics.refusals.count(Bound::DiskFloor);
            let full = Err(PushError::Commit(CommitError::DiskFull)); // BND-2
            self.remember(repository, request, &full);
            client
                .send(ending(&client.responder, &request.commands, &full))
                .await;
            drain(body).await;
            return Ok(Outcome::Told);
        }
        let lease = self.git.lease(repository); // step 0: held to the end
        let judged = self.judge(repository, request, turn).await;
        let verdict = match &judged {
            Ok(plan) if plan.accepts_any() => Authorization::Allowed,
            Ok(_) => Authorization::Denied,
            Err(_) => Authorization::Error,
        };
        self.metrics.push_authorization.count(verdict);
        let plan = judged?;
        if !plan.accepts_any() {
            // GIT-10: said at once, then the body is read to its end and dropped.
            let refused = Ok(Outcome::Refused(plan));
            self.remember(repository, request, &refused);
            client
                .send(ending(&client.responder, &request.commands, &refused))
                .await;
            drain(body).await;
            return Ok(Outcome::Told);
        }
        failpoint::pass("push.authorized");
        if matches!(repository, RepoAddress::Proposals(_)) {
            self.ensure_exists(repository).await?;
        }
        let every = self.timers.keepalive;
        let taking = async {
            if !request.brings_pack() {
                return Ok(0);
            }
            client
                .while_waiting(
                    every,
                    "GRASP is receiving objects",
                    self.take_pack(repository, &lease, &plan, body),
                )
                .await
        };
        let ((), taken) = tokio::join!(self.extend(&plan), taking);
        let bytes = taken?;
        failpoint::pass("push.installed");
        client
            .while_waiting(
                every,
                "GRASP is finalizing the push",
                self.commit_push(repository, request, &plan, bytes),
            )
            .await
    }

    /// PUSH-12: what the push completes gets time for it, also if its pack turns out to be of no use. What
    /// no longer waits has no deadline to be moved.
    async fn extend(&self, plan: &PushPlan) {
        if plan.extend.is_empty() {
            return;
        }
        let extensions = plan.extend.clone();
        let extended = self.store.commit(move |view| {
            let mut batch = Batch::new();
            for change in &extensions {
                if let Change::Extend { event, .. } = change
                    && view
                        .event(event)?
                        .is_some_and(|stored| stored.stage == Stage::Waiting)
                {
                    batch.push(change.clone());
                }
            }
            Ok((batch, ()))
        });
        if let Err(failure) = extended.await {
            info!(
                error = &failure as &dyn std::error::Error,
                "a deadline could not be extended"
            );
        }
    }

    /// The decision before the pack is read.
    async fn judge(
        &self,
        repository: &RepoAddress,
        request: &Request,
        turn: UploadTurn,
    ) -> Result<PushPlan, PushError> {
        let service = self.clone();
        let (repository, request) = (repository.clone(), request.clone());
        self.blocking(move || {
            let snapshot = service.store.snapshot()?;
            let seen = look(&snapshot.view(), &repository, &request.commands)?;
            let current = service.current_refs(&repository)?;
            let push = Push {
                repo: &repository,
                commands: &request.commands,
                atomic: request.capabilities.atomic,
                current: &current,
                view: &seen.view,
                known_events: &seen.known,
                cx: Circumstances {
                    policy: &service.policy,
                    now: service.clock.now(),
                    origin: Origin::Client,
                },
            };
            let plan = push.authorize();
            if plan.crowded {
                let bound = Bound::UploadsPerRepository;
                service.metrics.refusals.count(bound);
            }
            if !plan.verdicts.iter().any(is_upload) {
                return Ok(plan);
            }
            Ok(match service.room_for_upload(&snapshot.view(), turn)? {
                Ok(()) => plan,
                Err(reason) => without_uploads(&plan, &request, &reason),
            })
        })
        .await
    }

    /// Whether one more upload without an event is taken; else the bound that it would break (§16).
    fn room_for_upload(
        &self,
        view: &View<'_>,
        turn: UploadTurn,
    ) -> Result<Result<(), String>, PushError> {
        let percent = self.policy.uploads.disk_percent;
        if view.uploads_bytes()? >= self.git.disk_bytes()? / 100 * u64::from(percent) {
            self.metrics.refusals.count(Bound::UploadsDisk);
            return Ok(Err(format!(
                "uploads without an event take {percent} % of the disk, the most they may; publish the event first"
            )));
        }
        Ok(turn().map_err(|refused| format!("rate-limited: {refused}")))
    }

    fn current_refs(
        &self,
        repository: &RepoAddress,
    ) -> Result<BTreeMap<RefName, Oid>, grasp_git::Error> {
        if !self.git.exists(repository) {
            return Ok(BTreeMap::new());
        }
        let refs = self.git.refs(repository)?;
        Ok(refs
            .refs
            .iter()
            .map(|(name, value)| (name.clone(), value.oid))
            .collect())
    }

    /// A `/prs/` repository is made by its first push (PUSH-19); the commit's upload record keeps it.
    async fn ensure_exists(&self, repository: &RepoAddress) -> Result<(), PushError> {
        let service = self.clone();
        let repository = repository.clone();
        self.blocking(move || {
            let lock = service.git.lock(&repository);
            if !service.git.exists(&repository) {
                lock.create()?;
            }
            Ok(())
        })
        .await
    }

    /// Steps 2 to 4. Returns the bytes that the pack weighed.
    async fn take_pack<R>(
        &self,
        repository: &RepoAddress,
        lease: &Lease,
        plan: &PushPlan,
        body: R,
    ) -> Result<u64, PushError>
    where
        R: AsyncRead + Send + Unpin + 'static,
    {
        let tips = plan.tips();
        if tips.is_empty() {
            drain(body).await; // everything is there already: nothing is installed (PUSH-18)
            return Ok(0);
        }
        let mut limits = self.push_limits.pack.clone();
        let uploads = self.policy.uploads.bytes;
        let is_upload = plan.brings_only_uploads() && uploads < limits.bytes;
        if is_upload {
            limits.bytes = uploads; // §16
        }
        let service = self.clone();
        let (repository, lease) = (repository.clone(), lease.clone());
        let mut reader = SyncIoBridge::new(body);
        let interrupt = Interrupt::default();
        let interrupted = interrupt.flag();
        self.blocking(move || {
            let relatives = service.relatives(&repository)?;
            let taken = grasp_git::ingest(
                &service.git,
                &lease,
                &relatives,
                &mut reader,
                &limits,
                &interrupted,
            );
            let finished = taken.and_then(|quarantined| {
                let bytes = quarantined.bytes();
                quarantined.finish(&tips).map(|_installed| bytes)
            });
            if finished.is_err() {
                // GIT-10: the client listens only when it could send everything.
                let _ = std::io::copy(&mut reader, &mut std::io::sink());
            }
            finished.map_err(|error| match error {
                IngestError::TooLarge { limit } if is_upload => PushError::UploadTooLarge { limit },
                error => error.into(),
            })
        })
        .await
    }

    /// Steps 5 to 7.
    async fn commit_push(
        &self,
        repository: &RepoAddress,
        request: &Request,
        plan: &PushPlan,
        bytes: u64,
    ) -> Result<Outcome, PushError> {
        let Ground {
            measured,
            current,
            misfits,
        } = self.measure_push(repository, request).await?;
        let plan = &without_misfits(plan, request, &misfits);
        if !plan.accepts_any() {
            return Ok(Outcome::Refused(plan.clone()));
        }
        let service = self.clone();
        let (at, request, planned) = (repository.clone(), request.clone(), plan.clone());
        let now = self.clock.now();
        let facts = measured.facts;
        let mut committed = self
            .store
            .commit(move |view| {
                let seen = look(view, &at, &request.commands)?;
                let push = Push {
                    repo: &at,
                    commands: &request.commands,
                    atomic: request.capabilities.atomic,
                    current: &current,
                    view: &seen.view,
                    known_events: &seen.known,
                    cx: Circumstances {
                        policy: &service.policy,
                        now,
                        origin: Origin::Client,
                    },
                };
                Ok(match push.complete(&planned, &facts, bytes) {
                    Ok(batch) => (batch, None),
                    // The objects came all the same: what they complete is not left behind (REF-1), unless
                    // the client wanted all or nothing (AFTER-1).
                    Err(overtaken) if push.atomic => (Batch::new(), Some(overtaken)),
                    Err(overtaken) => (settle(push.view, &facts, push.cx), Some(overtaken)),
                })
            })
            .await?;
        drop(measured.leases);
        let overtaken = committed.value.take();
        failpoint::pass("push.committed");
        debug!(%repository, version = ?committed.version, "a push is committed");
        self.finish(committed, Some(repository)).await;
        failpoint::pass("push.reconciled");
        Ok(overtaken.map_or_else(|| Outcome::Done(plan.clone()), Outcome::Refused))
    }

    /// What is complete where, now that the pack is in place.
    async fn measure_push(
        &self,
        repository: &RepoAddress,
        request: &Request,
    ) -> Result<Ground, PushError> {
        let service = self.clone();
        let (at, commands) = (repository.clone(), request.commands.clone());
        self.blocking(move || {
            let seen = look(&service.store.snapshot()?.view(), &at, &commands)?;
            let mut wanted = Wanted::default();
            for command in commands.iter().filter(|command| !command.new.is_zero()) {
                if is_proposal(&command.name) {
                    wanted.commits.insert(command.new);
                } else {
                    wanted.objects.insert(command.new);
                }
            }
            let objects = service.git.objects(&service.git.lease(&at))?;
            let commits = wanted.commits.iter().copied();
            Ok(Ground {
                misfits: commits
                    .filter(|oid| objects.peel_to_commit(oid).is_none())
                    .collect(),
                measured: facts::measure_with([at.clone()], &service.git, &seen.view, wanted)?,
                current: service.current_refs(&at)?,
            })
        })
        .await
    }
}
