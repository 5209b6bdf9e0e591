//! Brings each new event to whoever asked for it.
//!
//! The fan-out is made before the relay and shared with whoever commits events. Publishing costs by the
//! subscriptions that may want the event, not by those that exist, and never waits for a client: a
//! subscription without room is closed instead.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use grasp_core::event::VerifiedEvent;
use grasp_store::ServedEvent;

use crate::subscription::index::{Index, Key};
use crate::subscription::{LiveEvent, Offered, Subscription};

/// All live subscriptions.
#[derive(Debug, Default)]
pub struct Fanout {
    index: RwLock<Index>,
}

impl Fanout {
    /// Nobody listens yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends an event that a commit made visible. Call it after the commit can be read, more or less in
    /// the order of the commits.
    pub fn publish(&self, event: &ServedEvent) {
        self.deliver(LiveEvent {
            event: event.event.event(),
            json: &event.json,
            version: Some(event.version),
        });
    }

    /// Sends an event that is kept nowhere (EV-3). `json` is its canonical text.
    pub fn publish_ephemeral(&self, event: &VerifiedEvent, json: &Bytes) {
        self.deliver(LiveEvent {
            event: event.event(),
            json,
            version: None,
        });
    }

    /// How many subscriptions are open.
    pub fn subscriptions(&self) -> usize {
        self.read().len()
    }

    fn deliver(&self, live: LiveEvent<'_>) {
        let overflowed: Vec<Key> = self
            .read()
            .candidates(live.event)
            .into_iter()
            .filter(|(_, subscription)| subscription.offer(live) == Offered::Overflowed)
            .map(|(key, _)| key)
            .collect();
        if !overflowed.is_empty() {
            let mut index = self.write();
            for key in overflowed {
                index.remove(key);
            }
        }
    }

    pub(crate) fn subscribe(&self, subscription: Arc<Subscription>) -> Key {
        self.write().insert(subscription)
    }

    pub(crate) fn unsubscribe(&self, key: Key) {
        self.write().remove(key);
    }

    /// A panic while the lock was held can leave a filed key without an entry, which is skipped.
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }
}
