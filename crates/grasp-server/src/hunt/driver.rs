//! Does what the hunt wants, and tells it what came of it.
//!
//! One task owns the [`Hunt`]. A fetch is a task of its own, with a handle that ends it; there are never more than the hunt
//! ordered, and it orders within its bounds. *Invariant:* the hunt hears of the end of a fetch when nothing of it runs.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use grasp_core::lifecycle::Change;
use grasp_core::name::Identifier;
use grasp_store::{Committed, StoreError};
use grasp_sync::engine::Time;
use grasp_sync::hunt::{
    FetchEnd, FetchId, FetchOrder, FetchOutcome, Host, Hunt, HuntSettings, Input, Output,
    StoredEntry,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tracing::{error, warn};

use super::Home;
use super::clock::HuntClock;
use super::fetching::{Strings, carry_out};
use super::gather::Gathered;
use super::ledger::{Fetch, Ledger};
use super::pending::Pending;
use super::rows::Rows;
use crate::metrics::{Role, Sought};
use crate::service::Service;
use crate::sync::seed;

/// Requests that wait for the driver. Whoever sends one more waits.
const QUEUE: usize = 16;
/// How often the hunt is told how far fetches are.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// While a pack is here and our own work on it goes on, the other side counts as if it sent so much at each look: it is
/// neither silent nor slow (HUNT-9).
const OWN_WORK: u64 = 1 << 20;
/// Rows that are read at once at the start.
const PAGE: usize = 1_000;

/// What the rest of the server wants of the driver.
enum Request {
    Report(oneshot::Sender<Ledger>),
    Stop,
}

/// Reaches a driver. Cheap to clone; a driver outlives its handles.
#[derive(Debug, Clone)]
pub(super) struct Handle(mpsc::Sender<Request>);

impl Handle {
    pub(super) async fn report(&self) -> Ledger {
        let (answer, report) = oneshot::channel();
        // A driver that has ended looks for nothing.
        let _ = self.0.send(Request::Report(answer)).await;
        report.await.unwrap_or_default()
    }

    pub(super) async fn stop(&self) {
        let _ = self.0.send(Request::Stop).await;
    }
}

/// What a task did.
enum Done {
    Gathered(Gathered),
    Fetched(FetchId, FetchEnd),
    Probed(Host, bool),
}

/// What a task is about, should it fail.
enum Doing {
    Gather(Identifier),
    Fetch(FetchId),
    Probe(Host),
}

/// A fetch that runs.
struct Running {
    order: FetchOrder,
    strings: Strings,
    since: Instant,
    /// What the hunt knows of its bytes.
    told: u64,
    /// What our own work counted for.
    own: u64,
}

pub(super) struct Driver {
    hunt: Hunt,
    clock: HuntClock,
    home: Arc<Home>,
    changes: Receiver<Arc<Committed<()>>>,
    requests: mpsc::Receiver<Request>,
    running: BTreeMap<FetchId, Running>,
    tasks: JoinSet<Done>,
    doing: BTreeMap<Id, Doing>,
    rows: Rows,
    ledger: Ledger,
    pending: Pending,
}

/// What the store has for the hunt.
struct Loaded {
    entries: Vec<(Identifier, StoredEntry)>,
    pending: Pending,
}

impl Driver {
    /// A driver that has not begun, which hears of `changes`.
    pub(super) fn new(
        home: Arc<Home>,
        settings: HuntSettings,
        changes: Receiver<Arc<Committed<()>>>,
    ) -> (Self, Handle) {
        let (handle, requests) = mpsc::channel(QUEUE);
        let service = &home.service;
        let driver = Self {
            hunt: Hunt::new(settings, seed()),
            clock: HuntClock::start(service.clock.clone()),
            changes,
            requests,
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
            doing: BTreeMap::new(),
            rows: Rows::new(service.store.clone()),
            ledger: Ledger::default(),
            pending: Pending::default(),
            home,
        };
        (driver, Handle(handle))
    }

    /// Looks for what is owed until it is stopped.
    pub(super) async fn run(mut self) {
        match Self::load(self.home.service.clone()).await {
            Ok(Loaded { entries, pending }) => {
                self.pending = pending;
                for (identifier, entry) in &entries {
                    self.ledger.saved(identifier, *entry);
                }
                self.handle(Input::Loaded { entries });
            }
            Err(failure) => {
                error!(
                    error = &failure as &dyn std::error::Error,
                    "git data is not looked for elsewhere: what is owed cannot be read"
                );
                return;
            }
        }
        self.drive().await;
        self.end().await;
    }

    async fn load(service: Service) -> Result<Loaded, StoreError> {
        let store = service.store.clone();
        let reading = move || {
            let snapshot = store.snapshot()?;
            let mut pending = Pending::default();
            let proposals = snapshot.view().pending_proposals()?;
            pending.heard(snapshot.version(), &proposals);
            let mut entries: Vec<(Identifier, StoredEntry)> = Vec::new();
            loop {
                let last = entries.last().map(|(identifier, _)| identifier.clone());
                let page = snapshot.view().hunts(last.as_ref(), PAGE)?;
                if page.is_empty() {
                    return Ok(Loaded { entries, pending });
                }
                entries.extend(page.into_iter().map(|hunt| {
                    let entry = StoredEntry {
                        next_attempt: Time::from_millis(hunt.next_attempt_ms),
                        attempt_count: hunt.attempt_count,
                        is_parked: hunt.is_parked,
                    };
                    (hunt.identifier, entry)
                }));
            }
        };
        service.blocking(reading).await
    }

    async fn drive(&mut self) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let wake = self.hunt.next_deadline();
            let wake_at = wake.map(|time| self.clock.instant(time));
            let waking = async {
                match wake_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => pending().await,
                }
            };
            // In this order: how far a fetch came is told before its end.
            tokio::select! {
                biased;
                request = self.requests.recv() => match request {
                    // Whoever asked may have left.
                    Some(Request::Report(answer)) => drop(answer.send(self.report())),
                    Some(Request::Stop) | None => return,
                },
                _ = look.tick(), if !self.running.is_empty() => self.look(),
                () = self.rows.written() => {}
                heard = self.changes.recv() => match heard {
                    Ok(committed) => self.heard(&committed),
                    Err(RecvError::Lagged(lost)) => self.fell_behind(lost).await,
                    Err(RecvError::Closed) => return,
                },
                Some(done) = self.tasks.join_next_with_id() => self.done(done),
                () = waking => self.handle(Input::Wake),
            }
        }
    }

    fn report(&self) -> Ledger {
        self.ledger.with(self.running.values().map(|running| {
            let fetch = Fetch {
                source: running.order.source.clone(),
                seconds: running.since.elapsed().as_secs(),
                bytes: running.strings.progress.bytes(),
            };
            (&running.order.identifier, fetch)
        }))
    }

    /// What the store committed may be owed (HUNT-2).
    fn heard(&mut self, committed: &Committed<()>) {
        self.pending.heard(committed.version, &committed.moved);
        for change in &committed.batch {
            if let Change::Hunt {
                identifier,
                not_before_ms,
            } = change
            {
                self.enqueue(identifier.clone(), Time::from_millis(*not_before_ms));
            }
        }
    }

    fn enqueue(&mut self, identifier: Identifier, not_before: Time) {
        self.ledger.enqueued(&identifier, not_before);
        self.handle(Input::Enqueued {
            identifier,
            not_before,
        });
    }

    async fn fell_behind(&mut self, lost: u64) {
        warn!(
            lost,
            "the hunt fell behind the store; what is owed is read again"
        );
        match Self::load(self.home.service.clone()).await {
            Ok(Loaded { entries, pending }) => {
                self.pending = pending;
                for (identifier, entry) in entries {
                    self.enqueue(identifier, entry.next_attempt);
                }
            }
            Err(failure) => error!(
                error = &failure as &dyn std::error::Error,
                "some git data may not be looked for before the next start"
            ),
        }
    }

    /// Tells how far fetches are.
    fn look(&mut self) {
        let mut moved = Vec::new();
        for (fetch, running) in &mut self.running {
            if running.strings.arrived.get() {
                running.own += OWN_WORK;
            }
            let bytes = running.strings.progress.bytes() + running.own;
            if bytes != running.told {
                running.told = bytes;
                moved.push((*fetch, bytes));
            }
        }
        for (fetch, bytes) in moved {
            self.handle(Input::Progressed { fetch, bytes });
        }
    }

    fn handle(&mut self, input: Input) {
        let outputs = self.hunt.handle(input, self.clock.now());
        let metrics = &self.home.service.metrics.hunting;
        metrics.put_off(self.hunt.deferred());
        for output in outputs {
            self.perform(output);
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Gather { identifier } => self.gather(identifier),
            Output::Fetch(order) => self.fetch(order),
            Output::Stop { fetch } => {
                if let Some(running) = self.running.get(&fetch) {
                    running.strings.stop.cancel();
                }
            }
            Output::Silent { fetch } => {
                if let Some(running) = self.running.get(&fetch) {
                    warn!(source = %running.order.source, "another server has sent nothing for a minute");
                }
            }
            Output::Save { identifier, entry } => {
                self.ledger.saved(&identifier, entry);
                let row = Change::HuntLater {
                    identifier: identifier.clone(),
                    next_attempt_ms: entry.next_attempt.as_millis(),
                    attempt_count: entry.attempt_count,
                    is_parked: entry.is_parked,
                };
                self.rows.remember(identifier, row);
            }
            Output::Forget { identifier, seen } => {
                self.ledger.forgotten(&identifier);
                let row = Change::HuntOver {
                    identifier: identifier.clone(),
                    seen,
                };
                self.rows.remember(identifier, row);
            }
            Output::Probe { host, at } => {
                let home = Arc::clone(&self.home);
                let asked = host.clone();
                self.spawn(Doing::Probe(host), async move {
                    Done::Probed(asked, home.fetcher.probe_host(&at).await)
                });
            }
        }
    }

    fn gather(&mut self, identifier: Identifier) {
        let home = Arc::clone(&self.home);
        let asked = identifier.clone();
        let pending = self.pending.of(&identifier);
        self.spawn(Doing::Gather(identifier), async move {
            Done::Gathered(home.gatherer.gather(asked, pending).await)
        });
    }

    fn fetch(&mut self, order: FetchOrder) {
        let fetch = order.fetch;
        let strings = Strings::default();
        let (home, ordered, held) = (Arc::clone(&self.home), order.clone(), strings.clone());
        self.spawn(Doing::Fetch(fetch), async move {
            Done::Fetched(fetch, carry_out(&home, ordered, held).await)
        });
        self.home.service.metrics.hunting.began(role(&order));
        let running = Running {
            order,
            strings,
            since: Instant::now(),
            told: 0,
            own: 0,
        };
        self.running.insert(fetch, running);
    }

    fn spawn(&mut self, doing: Doing, work: impl Future<Output = Done> + Send + 'static) {
        let task = self.tasks.spawn(work);
        self.doing.insert(task.id(), doing);
    }

    fn done(&mut self, done: Result<(Id, Done), JoinError>) {
        let done = match done {
            Ok((task, done)) => {
                self.doing.remove(&task);
                done
            }
            Err(failure) => {
                error!(%failure, "a part of the hunt failed");
                match self.doing.remove(&failure.id()) {
                    Some(Doing::Gather(identifier)) => return self.gather(identifier),
                    Some(Doing::Fetch(fetch)) => Done::Fetched(fetch, broken()),
                    Some(Doing::Probe(host)) => Done::Probed(host, false),
                    None => return,
                }
            }
        };
        match done {
            Done::Gathered(gathered) => {
                if !gathered.owed.is_empty() {
                    self.home.service.metrics.hunting.passed();
                }
                self.ledger.gathered(&gathered.identifier, &gathered.owed);
                self.handle(Input::Gathered {
                    identifier: gathered.identifier,
                    owed: gathered.owed,
                    seen: gathered.seen,
                });
            }
            Done::Fetched(fetch, end) => {
                if let Some(running) = self.running.remove(&fetch) {
                    self.count(&running, &end);
                    let (outcome, now) = (end.outcome.clone(), self.clock.now());
                    self.ledger.ended(&running.order, outcome, now);
                }
                self.handle(Input::Ended { fetch, end });
            }
            Done::Probed(host, is_grasp) => self.handle(Input::HostProbed { host, is_grasp }),
        }
    }

    fn count(&self, running: &Running, end: &FetchEnd) {
        let metrics = &self.home.service.metrics.hunting;
        let bytes = running.strings.progress.bytes();
        let took = running.since.elapsed();
        metrics.ended(role(&running.order), &end.outcome, took, bytes);
        metrics
            .oids
            .add(Sought::Fetched, end.installed.len() as u64);
        if let FetchOutcome::Lacks { missing, .. } = &end.outcome {
            metrics.oids.add(Sought::Missing, missing.len() as u64);
        }
    }

    /// Ends all fetches, and waits until nothing of them runs.
    async fn end(mut self) {
        for running in self.running.values() {
            running.strings.stop.cancel();
        }
        self.running.clear();
        self.doing
            .retain(|_, doing| matches!(doing, Doing::Fetch(_)));
        while !self.doing.is_empty()
            && let Some(ended) = self.tasks.join_next_with_id().await
        {
            let task = ended.map_or_else(|failure| failure.id(), |(task, _)| task);
            self.doing.remove(&task);
        }
        self.tasks.shutdown().await;
        self.rows.write_all().await;
    }
}

fn broken() -> FetchEnd {
    FetchEnd {
        installed: std::collections::BTreeSet::new(),
        outcome: FetchOutcome::Ours {
            reason: "the fetch failed by itself".to_owned(),
        },
    }
}

fn role(order: &FetchOrder) -> Role {
    if order.is_hedge {
        Role::Hedge
    } else {
        Role::Primary
    }
}
