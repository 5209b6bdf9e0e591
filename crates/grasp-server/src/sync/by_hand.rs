//! Following without sockets and timers: whoever holds it hands in what came, and does what the engine wants.

use std::sync::Arc;

use grasp_core::EventId;
use grasp_core::filter::Filter;
use grasp_store::StoreError;
use grasp_sync::client;
use grasp_sync::engine::{Cursor, Delivery, Input, Time};
use grasp_sync::home::Home as _;
use grasp_sync::intake;
use grasp_sync::relay_url::RelayUrl;
use nostr::key::Keys;

use super::feed::Feed;
use super::home::Home;
use super::{asking, notices, retry};
use crate::service::Service;

/// A server's side of following: the part between the engine and the store, with a caller in the driver's place.
/// A network of servers can be simulated with it.
pub struct Follower {
    home: Arc<Home>,
    feed: Feed,
}

impl Follower {
    /// Begins to listen to what this server commits.
    pub fn new(
        service: &Service,
        owner: Keys,
        settings: intake::Settings,
        descendants: usize,
    ) -> Self {
        let changes = service.store.changes();
        let home = Home::new(service.clone(), owner, settings, descendants);
        let home = Arc::new(home);
        Self {
            feed: Feed::new(service.store.clone(), changes, Arc::clone(&home)),
            home,
        }
    }

    /// What the engine takes first: what is followed, and what is remembered of relays.
    pub fn loaded(&self) -> Result<Input, StoreError> {
        let (store, now) = (&self.home.service().store, self.home.service().clock.now());
        self.home.ask_about(asking::recent_replies(store, now)?);
        let (notices, cursors) = notices::load(store)?;
        Ok(Input::Loaded { notices, cursors })
    }

    /// What the commits since the last call mean for the engine.
    pub fn heard(&mut self) -> Result<Vec<Input>, StoreError> {
        self.feed.heard()
    }

    /// Hears an event as a relay sent it, for what it was asked. Returns once it is committed, or remembered as refused,
    /// with what the engine is to hear of it.
    pub async fn hear(&self, from: &RelayUrl, text: String, asked: Arc<[Filter]>) -> Delivery {
        client::hear(&*self.home, from, text, asked).await
    }

    /// Whether an event need not be asked for.
    pub fn knows(&self, id: &EventId) -> bool {
        self.home.knows(id)
    }

    /// Writes down, or forgets, how far a relay was followed.
    pub async fn remember(&self, relay: RelayUrl, cursor: Option<Cursor>) {
        self.home.remember(vec![(relay, cursor)]).await;
    }

    /// When [`Self::pass`] has something to do, if nothing happens before.
    pub fn next_pass(&self) -> Option<Time> {
        let is_due = self.home.intake().has_retries();
        is_due
            .then(|| self.home.now())
            .or_else(|| retry::next_deadline(&self.home))
    }

    /// Tries again what had to wait, and says what to ask of whom.
    pub async fn pass(&self) -> Vec<Input> {
        retry::try_again(&self.home).await;
        let errands = retry::errands(&self.home).into_iter();
        let asked = errands.map(|errand| Input::Asked {
            relay: errand.relay,
            filters: errand.filters,
        });
        asked.collect()
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Follower").finish_non_exhaustive()
    }
}
