//! Takes an event in: verify, gather, decide, commit, bring repositories in line, publish.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;

use grasp_core::admission::{self, Answer, Decision, Rejection, VanishFacts};
use grasp_core::announcement::Announcement;
use grasp_core::defect::Defect;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::failpoint;
use grasp_core::lifecycle::{Change, MarkReason};
use grasp_core::name::{Coordinate, Identifier, RepoAddress};
use grasp_core::policy::{Circumstances, Origin};
use grasp_core::proposal::Proposal;
use grasp_core::purgatory::EXPIRED_MARK;
use grasp_core::related::References;
use grasp_core::state::StateEvent;
use grasp_core::view::{ObjectFacts, RepoView};
use grasp_core::{Event, EventId};
use grasp_git::Repositories;
use grasp_relay::{Answered, Intake, Submitter, Turn};
use grasp_store::{CommitError, History, StoreError, View};
use nostr::key::PublicKey;
use tokio::time::Instant;
use tracing::error;

use super::facts::{self, Measured, Wanted};
use super::{Service, removal};
use crate::metrics::{Kind, Reason};

/// An event that was verified and read as what its kind says it is.
#[derive(Debug, Clone)]
enum Arrival {
    /// Not what its kind promises. The checks before the kind still come first (EV-1).
    Malformed(VerifiedEvent, Rejection),
    Announcement(Announcement),
    State(StateEvent),
    Proposal(Proposal),
    Deletion(VerifiedEvent),
    Vanish(VerifiedEvent),
    Other(VerifiedEvent),
}

impl Arrival {
    fn read(event: VerifiedEvent) -> Self {
        Self::read_well_formed(event.clone())
            .unwrap_or_else(|rejection| Self::Malformed(event, rejection))
    }

    fn read_well_formed(event: VerifiedEvent) -> Result<Self, Rejection> {
        Ok(match event.kind() {
            kind::ANNOUNCEMENT => Self::Announcement(Announcement::parse(event)?),
            kind::STATE => Self::State(StateEvent::parse(event)?),
            kind::PULL_REQUEST | kind::PULL_REQUEST_UPDATE => {
                Self::Proposal(Proposal::parse(event)?)
            }
            kind::DELETION => Self::Deletion(event),
            kind::VANISH => Self::Vanish(event),
            _ => Self::Other(event),
        })
    }

    fn event(&self) -> &VerifiedEvent {
        match self {
            Self::Announcement(announcement) => announcement.event(),
            Self::State(state) => state.event(),
            Self::Proposal(proposal) => proposal.event(),
            Self::Deletion(event)
            | Self::Vanish(event)
            | Self::Other(event)
            | Self::Malformed(event, _) => event,
        }
    }

    /// Whose objects decide about it, one view for each identifier.
    fn views(&self, view: &View<'_>) -> Result<Vec<RepoView>, StoreError> {
        match self {
            Self::Announcement(announcement) => {
                let mut seeds = vec![announcement.owner()];
                seeds.extend(announcement.listing().active());
                Ok(vec![view.repo_view(
                    announcement.identifier(),
                    &seeds,
                    History::WithSuperseded,
                )?])
            }
            Self::State(state) => Ok(vec![view.repo_view(
                state.identifier(),
                &[state.author()],
                History::WithSuperseded,
            )?]),
            Self::Proposal(proposal) => proposal_views(proposal, view),
            Self::Deletion(request) => Ok(view.deletion_facts(request)?.views),
            Self::Vanish(_) | Self::Other(_) | Self::Malformed(..) => Ok(Vec::new()),
        }
    }

    /// What it needs and what waits, in one of its views.
    fn measure(&self, git: &Repositories, view: &RepoView) -> Result<Measured, grasp_git::Error> {
        match self {
            Self::Proposal(proposal) => {
                let own = Coordinate::new(proposal.author(), view.identifier.clone());
                let own = RepoAddress::Proposals(own);
                facts::measure_with([own], git, view, self.wanted())
            }
            _ => facts::measure(git, view, self.wanted()),
        }
    }

    /// The objects it needs that no waiting event of the views names yet.
    fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::default();
        match self {
            Self::State(state) => wanted.objects = state.oids(),
            Self::Proposal(proposal) => wanted.commits.extend(proposal.tip().commit()),
            Self::Announcement(announcement) => {
                wanted.announced = true;
                wanted.returning = Some(announcement.owner());
            }
            Self::Deletion(_) => wanted.leaving = true,
            Self::Vanish(_) | Self::Other(_) | Self::Malformed(..) => {}
        }
        wanted
    }
}

/// One view per identifier that the proposal names, with the uploads that were made for it (PR-4).
fn proposal_views(proposal: &Proposal, view: &View<'_>) -> Result<Vec<RepoView>, StoreError> {
    let identifiers: BTreeSet<&Identifier> = proposal
        .targets()
        .iter()
        .map(|target| &target.identifier)
        .collect();
    let uploads = view.uploads_of(&proposal.id())?;
    let mut views = Vec::new();
    for identifier in identifiers {
        let named = proposal
            .targets()
            .iter()
            .filter(|target| target.identifier == *identifier);
        let seeds: Vec<_> = named.map(|target| target.owner).collect();
        let mut found = view.repo_view(identifier, &seeds, History::WithSuperseded)?;
        for upload in &uploads {
            if upload.repository.identifier() == identifier && !found.uploads.contains(upload) {
                found.uploads.push(upload.clone());
            }
        }
        views.push(found);
    }
    Ok(views)
}

/// Who brings an event.
#[derive(Debug, Clone, Copy)]
enum Sender<'a> {
    /// A client, with the keys that its connection has proven to hold (NIP-42).
    Client(&'a [PublicKey]),
    /// Another server, by sync.
    Server,
}

impl Sender<'_> {
    fn origin(self) -> Origin {
        match self {
            Self::Client(_) => Origin::Client,
            Self::Server => Origin::Sync,
        }
    }

    /// NIP-70
    fn may_bring(self, event: VerifiedEvent) -> Result<VerifiedEvent, Rejection> {
        let refused = match self {
            Self::Client(authenticated) => admission::protection(&event, authenticated),
            Self::Server => None,
        };
        refused.map_or(Ok(event), Err)
    }
}

/// Awaits a commit, and passes the turn on as soon as it has its place in the queue: commits are decided in
/// the order of the queue.
async fn queued<T>(commit: impl Future<Output = T>, turn: Turn) -> T {
    tokio::pin!(commit);
    let first = poll_fn(|cx| Poll::Ready(commit.as_mut().poll(cx))).await;
    turn.pass();
    match first {
        Poll::Ready(done) => done,
        Poll::Pending => commit.await,
    }
}

impl Intake for Service {
    async fn submit(&self, event: Event, from: Submitter) -> Answered {
        let (id, kind) = (event.id, event.kind.as_u16());
        let sender = Sender::Client(&from.authenticated);
        let (accepted, message) = self.submit_in_turn(event, sender, from.turn).await;
        if !accepted {
            self.refusal_log.note(&id, kind, &message);
        }
        Answered { accepted, message }
    }

    fn is_this_relay(&self, url: &str) -> bool {
        self.policy.service.is_relay_url(url)
    }
}

impl Service {
    /// Takes one event in and says what the sender is told: whether it is accepted, and the words (§5).
    pub async fn submit(&self, event: Event, origin: Origin) -> (bool, String) {
        let sender = match origin {
            Origin::Client => Sender::Client(&[]),
            Origin::Sync => Sender::Server,
        };
        self.submit_in_turn(event, sender, Turn::default()).await
    }

    /// EV-1 in its order: what the event shows by itself and its signature, then who sent it, then what the
    /// store knows.
    async fn submit_in_turn(
        &self,
        event: Event,
        sender: Sender<'_>,
        mut turn: Turn,
    ) -> (bool, String) {
        let kind = event.kind.as_u16();
        self.metrics.events_received.count(Kind::of(kind));
        if Defect::MarkBeforeVerification.is_on() {
            self.mark_unverified(event.id).await;
        }
        let checked = match self.verifier.verify(event, self.clock.now()).await {
            Err(stopping) => return (false, format!("error: {stopping}")),
            Ok(verdict) => verdict.and_then(|event| sender.may_bring(event)),
        };
        let event = match checked {
            Ok(event) => event,
            Err(rejection) => {
                self.metrics.rejected(kind, &rejection);
                return (false, rejection.to_string());
            }
        };
        turn.come().await;
        match self.admit(event, sender.origin(), turn).await {
            Ok((accepted, words)) => (accepted, words),
            Err(CommitError::DiskFull) => {
                self.metrics.refused_event(kind, Reason::DiskFull);
                (false, "error: disk space is below the floor".to_owned())
            }
            Err(error) => {
                self.metrics.refused_event(kind, Reason::Fault);
                error!(%error, "an event could not be stored");
                (false, "error: the event could not be stored".to_owned())
            }
        }
    }

    /// What [`Defect::MarkBeforeVerification`] does, and nothing else.
    async fn mark_unverified(&self, event: EventId) {
        let (reason, until) = (MarkReason::Expired, self.clock.now() + EXPIRED_MARK);
        let mark = Change::Mark {
            event,
            reason,
            until,
        };
        let _ = self
            .store
            .commit(move |_| Ok((vec![mark.clone()], ())))
            .await;
    }

    async fn admit(
        &self,
        event: VerifiedEvent,
        origin: Origin,
        turn: Turn,
    ) -> Result<(bool, String), CommitError> {
        let (answer, in_time) = self.take_in(event, origin, turn).await?;
        if !in_time && answer.accepted() {
            return Ok((false, "error: stored, being applied".to_owned()));
        }
        Ok((answer.accepted(), answer.to_string()))
    }

    /// Takes in an event that was verified before; what is said of it.
    pub(crate) async fn admit_answer(
        &self,
        event: VerifiedEvent,
        origin: Origin,
        turn: Turn,
    ) -> Result<Answer, CommitError> {
        Ok(self.take_in(event, origin, turn).await?.0)
    }

    /// What is said of an event, and whether its repositories are in line in time (EV-7).
    async fn take_in(
        &self,
        event: VerifiedEvent,
        origin: Origin,
        turn: Turn,
    ) -> Result<(Answer, bool), CommitError> {
        let arrival = Arrival::read(event.clone());
        // What was sent before may change the verdict and is not readable yet: then only the commit decides.
        if !turn.follows()
            && let Some(answer) = self.refused_at_once(&arrival, origin)?
        {
            self.answered(&event, &answer);
            return Ok((answer, true));
        }
        let measured = self.measure_for(&arrival).await?;
        let policy = self.policy.clone();
        let now = self.clock.now();
        let facts = measured.facts;
        let commit = self.store.commit(move |view| {
            let cx = Circumstances {
                policy: &policy,
                now,
                origin,
            };
            let Decision { answer, batch } = decide(&arrival, view, &facts, cx)?;
            Ok((batch, answer))
        });
        let committed = queued(commit, turn).await?;
        drop(measured.leases);
        failpoint::pass("event.committed");
        let answer = committed.value.clone();
        self.answered(&event, &answer);
        if answer == Answer::Ephemeral {
            let json = event.event().as_json();
            self.fanout.publish_ephemeral(&event, &json.into());
        }
        let waits = committed.dirtied.clone();
        let planned = removal::is_planned(&committed.batch);
        let deadline = Instant::now() + self.timers.apply;
        let finished = tokio::time::timeout_at(deadline, self.finish(committed, None)).await;
        if planned && finished.is_ok() {
            // What hangs on it follows; whoever deleted it sees it gone, if it is not too much.
            let _ = tokio::time::timeout_at(deadline, self.run_plans()).await;
        }
        Ok((answer, finished.is_ok() || waits.is_empty()))
    }

    /// Counts and remembers what was said of an event.
    fn answered(&self, event: &VerifiedEvent, answer: &Answer) {
        self.metrics.answered(event.kind(), answer);
        if !answer.accepted() {
            self.refusals
                .event(event, &answer.to_string(), self.clock.now());
        }
    }

    /// Refusals and duplicates that a snapshot can tell, so that a flood of them never reaches the
    /// writer. Whatever has an effect is decided in the commit.
    fn refused_at_once(
        &self,
        arrival: &Arrival,
        origin: Origin,
    ) -> Result<Option<Answer>, CommitError> {
        let snapshot = self.store.snapshot()?;
        let view = snapshot.view();
        let cx = Circumstances {
            policy: &self.policy,
            now: self.clock.now(),
            origin,
        };
        let known = view.known(arrival.event(), cx.now)?;
        if let Some(decision) = admission::screen(arrival.event(), &known, cx) {
            return Ok(decision.batch.is_empty().then_some(decision.answer));
        }
        if !matches!(arrival, Arrival::Other(_) | Arrival::Malformed(..)) {
            return Ok(None);
        }
        let decision = decide(arrival, &view, &ObjectFacts::none(), cx)?;
        Ok(
            (decision.batch.is_empty() && decision.answer != Answer::Ephemeral)
                .then_some(decision.answer),
        )
    }

    async fn measure_for(&self, arrival: &Arrival) -> Result<Measured, CommitError> {
        if matches!(arrival, Arrival::Other(_) | Arrival::Malformed(..)) {
            return Ok(Measured::default());
        }
        let service = self.clone();
        let arrival = arrival.clone();
        self.blocking(move || {
            let snapshot = service.store.snapshot()?;
            let views = arrival.views(&snapshot.view())?;
            drop(snapshot);
            let mut measured = Measured::default();
            for view in &views {
                match arrival.measure(&service.git, view) {
                    Ok(found) => measured.merge(found),
                    // What cannot be read counts as absent: the event waits instead of being lost.
                    Err(error) => error!(%error, "objects could not be looked at"),
                }
            }
            Ok(measured)
        })
        .await
    }
}

/// Screens and decides on one view. Runs twice: on a snapshot to refuse early, and in the commit.
fn decide(
    arrival: &Arrival,
    view: &View<'_>,
    facts: &ObjectFacts,
    cx: Circumstances<'_>,
) -> Result<Decision, StoreError> {
    let event = arrival.event();
    let known = view.known(event, cx.now)?;
    if let Some(decision) = admission::screen(event, &known, cx) {
        return Ok(decision);
    }
    let load = view.purgatory_load(&event.author())?;
    let views = match arrival {
        Arrival::Deletion(_) => Vec::new(),
        _ => arrival.views(view)?,
    };
    Ok(match (arrival, views.as_slice()) {
        (Arrival::Announcement(announcement), [repo]) => {
            admission::admit_announcement(announcement, repo, facts, load, cx)
        }
        (Arrival::State(state), [repo]) => {
            admission::admit_state(state, repo, facts, &known, load, cx)
        }
        (Arrival::Proposal(proposal), views) => {
            let related = view.related_facts(event, &References::of(event))?;
            admission::admit_proposal(proposal, views, &related, facts, load, cx)
        }
        (Arrival::Deletion(_), _) => {
            let idle = view.idle_load(event, cx.policy.idle_events)?;
            let targets = view.deletion_facts(event)?;
            admission::admit_deletion(event, &targets, facts, idle.as_ref(), cx)
        }
        (Arrival::Malformed(_, rejection), _) => Decision::only(rejection.clone()),
        (Arrival::Vanish(_), _) => {
            let (author, until) = (event.author(), event.created_at());
            let facts = VanishFacts {
                found: view.has_authored(&author, until, &event.id())?
                    || !view.remains_of(&author)?.is_empty(),
                unused_requests: view.unused_requests(&author)?,
            };
            let idle = view.idle_load(event, cx.policy.idle_events)?;
            admission::admit_vanish(event, facts, idle.as_ref(), cx)
        }
        _ => {
            let related = view.related_facts(event, &References::of(event))?;
            let idle = view.idle_load(event, cx.policy.idle_events)?;
            admission::admit_related(event, &known, &related, idle.as_ref(), cx)
        }
    })
}
