//! One order: from whom to ask to what is here.

use std::collections::BTreeSet;

use grasp_core::oid::Oid;
use grasp_git::IngestError;
use grasp_sync::fetch::{FetchError, FetchRequest, Fetching, Progress};
use grasp_sync::hunt::{FetchEnd, FetchOrder, FetchOutcome};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::Home;
use super::watched::{Arrived, Watched};
use crate::metrics::Sought;
use crate::service::{Landing, TakeError, Taken};

/// What whoever ordered a fetch holds of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Strings {
    /// Ends it early.
    pub(super) stop: CancellationToken,
    /// Bytes that the other side has sent.
    pub(super) progress: Progress,
    /// Whether what takes time is our own work.
    pub(super) arrived: Arrived,
}

/// Carries out an order. Nothing of it runs once this returns.
pub(super) async fn carry_out(home: &Home, order: FetchOrder, strings: Strings) -> FetchEnd {
    let mut fetch = Fetch {
        home,
        order: &order,
        strings,
        installed: BTreeSet::new(),
    };
    let outcome = fetch.run().await.unwrap_or_else(|outcome| outcome);
    let installed = fetch.installed;
    match &outcome {
        FetchOutcome::Complete => {
            info!(repository = %order.into, source = %order.source, objects = installed.len(), "git data was found");
        }
        outcome => {
            debug!(repository = %order.into, source = %order.source, ?outcome, "git data was not found, or not all");
        }
    }
    FetchEnd { installed, outcome }
}

struct Fetch<'a> {
    home: &'a Home,
    order: &'a FetchOrder,
    strings: Strings,
    /// What is here now of what is wanted.
    installed: BTreeSet<Oid>,
}

impl Fetch<'_> {
    /// `Err` is an end as well.
    async fn run(&mut self) -> Result<FetchOutcome, FetchOutcome> {
        let wanted: BTreeSet<Oid> = self.order.wants.iter().copied().collect();
        let landing = self.home.service.land(&self.order.into, &wanted);
        let Some(landing) = landing.await.map_err(|error| ours(&error))? else {
            self.installed = wanted;
            return Ok(FetchOutcome::Overtaken);
        };
        self.installed = wanted.difference(landing.wants()).copied().collect();
        let request = FetchRequest {
            source: self.order.source.clone(),
            wants: landing.wants().clone(),
            haves: landing.haves().await,
            lenders: landing.leases().cloned().collect(),
            unless: self.order.unless,
        };
        let beginning = self
            .home
            .fetcher
            .fetch(request, self.strings.progress.clone());
        let fetching = unless_stopped(&self.strings.stop, beginning).await?;
        self.take_all(fetching, &landing).await
    }

    async fn take_all(
        &mut self,
        mut fetching: Fetching<'_>,
        landing: &Landing,
    ) -> Result<FetchOutcome, FetchOutcome> {
        let end = self.take_each(&mut fetching, landing).await;
        self.count(&fetching);
        end
    }

    async fn take_each(
        &mut self,
        fetching: &mut Fetching<'_>,
        landing: &Landing,
    ) -> Result<FetchOutcome, FetchOutcome> {
        loop {
            // It holds a whole conversation with a host, too much for the futures around it.
            let next = Box::pin(fetching.next());
            let Some(pack) = unless_stopped(&self.strings.stop, next).await? else {
                break;
            };
            let pack = Watched::new(pack, self.strings.arrived.clone());
            let taken = landing.take(pack, self.strings.stop.clone()).await;
            self.strings.arrived.set(false);
            match taken.map_err(|error| self.failed(error))? {
                Taken::Overtaken => return Ok(FetchOutcome::Overtaken),
                Taken::Kept { whole, .. } => self.installed.extend(whole),
            }
            if self.missing().is_empty() {
                return Ok(FetchOutcome::Complete);
            }
            fetching.brought(&self.installed);
        }
        Ok(FetchOutcome::Lacks {
            missing: self.missing(),
            advertisement: fetching.advertisement(),
        })
    }

    /// How the objects were asked for.
    fn count(&self, fetching: &Fetching<'_>) {
        let tally = fetching.tally();
        let oids = &self.home.service.metrics.hunting.oids;
        for (sought, count) in [
            (Sought::Listed, tally.listed),
            (Sought::Attempted, tally.singly),
            (Sought::Skipped, tally.skipped),
        ] {
            oids.add(sought, count as u64);
        }
    }

    fn missing(&self) -> BTreeSet<Oid> {
        let wants = self.order.wants.iter().copied();
        wants.filter(|oid| !self.installed.contains(oid)).collect()
    }

    /// What a pack that was not taken says of whoever sent it.
    fn failed(&self, error: TakeError) -> FetchOutcome {
        match error {
            _ if self.strings.stop.is_cancelled() => FetchOutcome::Stopped,
            TakeError::Ingest(IngestError::Read(source)) => FetchError::of(source).outcome(),
            TakeError::Ingest(IngestError::Truncated) => FetchOutcome::Unavailable,
            error if error.is_ours() => ours(&error),
            error => {
                let reason = error.to_string();
                info!(repository = %self.order.into, source = %self.order.source, reason, "a fetched pack is refused");
                FetchOutcome::Harmful { reason }
            }
        }
    }
}

fn ours(error: &TakeError) -> FetchOutcome {
    let cause: &dyn std::error::Error = error;
    tracing::error!(
        error = cause,
        "what was found elsewhere could not be stored"
    );
    FetchOutcome::Ours {
        reason: error.to_string(),
    }
}

/// Waits for the other side until this is stopped; then the connection ends.
async fn unless_stopped<T>(
    stop: &CancellationToken,
    work: impl Future<Output = Result<T, FetchError>>,
) -> Result<T, FetchOutcome> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(FetchOutcome::Stopped),
        done = work => done.map_err(|error| {
            debug!(error = &error as &dyn std::error::Error, "nothing was fetched");
            error.outcome()
        }),
    }
}
