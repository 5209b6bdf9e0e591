//! Hunting for git data that is owed and that other servers may have (GRASP-02, protocol.md §14).
//!
//! What the store commits becomes what the hunt decides about, and what it decides becomes fetches: [`driver`] owns the pure
//! [`grasp_sync::hunt`] and does what it wants, [`gather`] says what is owed, [`fetching`] carries out one order, and [`rows`]
//! writes down when to look again. *Invariants:* what comes is taken in as a push is
//! ([`Service::land`](crate::service::Service::land)); nothing of a fetch runs once its end was told.

mod clock;
mod driver;
mod evidence;
mod fetching;
mod gather;
mod ledger;
mod pending;
mod rows;
mod watched;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use grasp_git::scratch::Bounds;
use grasp_sync::dial;
use grasp_sync::fetch::{Fetcher, Scratch};
use tokio::task::JoinHandle;
use tracing::warn;

use crate::service::Service;
use crate::sync::FollowSettings;
use driver::{Driver, Handle};
use gather::Gatherer;
pub(crate) use ledger::{Ledger, Page, words};

/// How long a stop waits for fetches to end and rows to be written.
const STOP: Duration = Duration::from_secs(15);

/// What the hunt works with.
pub(super) struct Home {
    service: Service,
    fetcher: Fetcher,
    gatherer: Gatherer,
}

/// A hunt that runs. It ends with [`Hunting::stop`], or when this goes.
pub(crate) struct Hunting {
    handle: Handle,
    task: JoinHandle<()>,
    evidence: JoinHandle<()>,
}

impl Hunting {
    /// Reads what is owed and goes on looking for it. Must be called inside a tokio runtime.
    pub(crate) fn start(service: &Service, settings: &FollowSettings) -> Self {
        let scratch = Scratch {
            repositories: service.repositories().clone(),
            bounds: Bounds {
                pack_bytes: service.pack_limits().bytes,
                ..Bounds::default()
            },
        };
        let home = Arc::new(Home {
            service: service.clone(),
            fetcher: Fetcher::new(settings.dial.clone(), dial::web_roots(), scratch),
            gatherer: Gatherer::new(service.clone(), settings.proposal_urls),
        });
        // Before the store is read: nothing is missed between.
        let changes = service.store().changes();
        let evidence = tokio::spawn(evidence::run(Arc::clone(&home)));
        let (driver, handle) = Driver::new(home, settings.hunt.clone(), changes);
        Self {
            handle,
            task: tokio::spawn(driver.run()),
            evidence,
        }
    }

    /// For whoever asks how it is doing.
    pub(crate) fn view(&self) -> HuntingView {
        HuntingView(self.handle.clone())
    }

    /// Ends fetches, with their children, and writes down what is owed. Call it before the store is closed.
    pub(crate) async fn stop(mut self) {
        self.evidence.abort();
        self.handle.stop().await;
        if tokio::time::timeout(STOP, &mut self.task).await.is_err() {
            warn!("fetches from other servers did not end in time and are cut off");
        }
    }
}

impl Drop for Hunting {
    fn drop(&mut self) {
        self.task.abort();
        self.evidence.abort();
    }
}

/// How the hunt is doing, for whoever asks. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HuntingView(Handle);

impl HuntingView {
    /// Everything that is looked for; nothing if the hunt has ended.
    pub(crate) async fn report(&self) -> Ledger {
        self.0.report().await
    }
}

impl fmt::Debug for HuntingView {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HuntingView").finish_non_exhaustive()
    }
}
