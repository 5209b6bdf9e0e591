//! Following other servers: what happens here becomes what is asked there, and what comes from there is admitted here.
//!
//! [`feed`] turns what the store commits into notices for the sync engine, in process: our own relay is never dialled
//! (SYNC-9). [`home`] is what the engine's driver needs of us: the way in for events, the sets that reconciliations
//! compare, the cursors, our key. [`retry`] tries again what had to wait, and has asked for what it hangs on.
//! *Invariant:* an event from another server is admitted as a client's, by the same decision (SYNC-31), and nothing is
//! followed but what the store holds.

mod asking;
mod by_hand;
mod cursor;
mod feed;
mod home;
mod notices;
mod retry;
mod settings;

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use grasp_store::StoreError;
use grasp_sync::dial::{self, Dialler};
use grasp_sync::driver::{Driver, Handle};
use grasp_sync::engine::RelayReport;
use grasp_sync::relay_url::RelayUrl;
use tokio::task::JoinSet;
use tracing::{error, warn};

use crate::metrics::SyncState;
use crate::service::Service;
pub use by_hand::Follower;
use feed::Feed;
use home::Home;
pub use settings::FollowSettings;

/// How long a stop waits for cursors to be written and connections to be closed.
const STOP: Duration = Duration::from_secs(10);

/// What follows other servers. It begins when it is made, and ends with [`Following::stop`] or when it goes.
#[derive(Debug)]
pub(crate) struct Following {
    view: FollowingView,
    tasks: JoinSet<()>,
}

/// How following is doing, for whoever asks. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FollowingView {
    handle: Handle,
    home: Arc<Home>,
    bootstrap: Option<RelayUrl>,
}

impl std::fmt::Debug for FollowingView {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("FollowingView").finish_non_exhaustive()
    }
}

impl Following {
    /// Reads what is followed and goes on with it. Must be called inside a tokio runtime.
    pub(crate) fn start(service: &Service, settings: FollowSettings) -> Self {
        let bootstrap = settings.engine.bootstrap.clone();
        let dialler = Dialler::new(settings.dial, dial::web_roots());
        let home = Arc::new(Home::new(
            service.clone(),
            settings.owner,
            settings.intake,
            settings.descendants,
        ));
        let (driver, handle) = Driver::new(
            settings.engine,
            seed(),
            Arc::new(dialler),
            Arc::clone(&home),
        );
        // Before the store is read: nothing is missed between.
        let changes = service.store.changes();
        let mut tasks = JoinSet::new();
        let feed = Feed::new(service.store.clone(), changes, Arc::clone(&home));
        tasks.spawn(follow(driver, handle.clone(), feed, Arc::clone(&home)));
        tasks.spawn(retry::run(Arc::clone(&home), handle.clone()));
        Self {
            view: FollowingView {
                handle,
                home,
                bootstrap,
            },
            tasks,
        }
    }

    /// For whoever asks how it is doing.
    pub(crate) fn view(&self) -> FollowingView {
        self.view.clone()
    }

    /// Ends: cursors are written and connections closed. Call it before the store is closed.
    pub(crate) async fn stop(mut self) {
        if tokio::time::timeout(STOP, self.view.handle.stop())
            .await
            .is_err()
        {
            warn!("other servers were left without a farewell: it took too long");
        }
        self.tasks.shutdown().await;
    }
}

impl FollowingView {
    /// How all relays are doing.
    pub(crate) async fn relays(&self) -> Vec<RelayReport> {
        self.handle.status().await
    }

    /// The relay that is always connected.
    pub(crate) fn bootstrap(&self) -> Option<&RelayUrl> {
        self.bootstrap.as_ref()
    }

    /// All that monitoring tells of the moment.
    pub(crate) async fn state(&self) -> SyncState {
        let relays = self.relays().await;
        let intake = self.home.intake();
        SyncState {
            relays,
            sizes: intake.sizes(),
            by_sort: intake.by_sort(),
            tallies: intake.tallies(),
        }
    }
}

/// Reads what is followed, and follows it until the driver is stopped.
async fn follow(driver: Driver<Home>, handle: Handle, feed: Feed, home: Arc<Home>) {
    let service = home.service();
    let (store, now) = (service.store.clone(), service.clock.now());
    let loading = move || {
        let replies = asking::recent_replies(&store, now)?;
        Ok::<_, StoreError>((notices::load(&store)?, replies))
    };
    match service.blocking(loading).await {
        Ok(((notices, cursors), replies)) => {
            home.ask_about(replies);
            tokio::join!(driver.run(notices, cursors), feed.run(handle));
        }
        Err(failure) => error!(
            error = &failure as &dyn std::error::Error,
            "other servers are not followed: what to follow cannot be read"
        ),
    }
}

/// Where the engine's chance comes from: a start differs from the next, no more is needed.
pub(crate) fn seed() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
