//! How many fetches run at a time.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The slots of running fetches, and the short queue in front of them. A slot is taken before a child
/// starts and given back when it is reaped, so children never outnumber slots.
#[derive(Debug)]
pub struct Fetches {
    running: Arc<Semaphore>,
    /// One permit for whoever runs or waits.
    admitted: Arc<Semaphore>,
    refused: AtomicU64,
    too_large: AtomicU64,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// A place among the running.
#[derive(Debug)]
pub(super) struct Slot {
    /// Cancelled when the fetch must end at once.
    pub(super) stopping: CancellationToken,
    _admitted: OwnedSemaphorePermit,
    _running: OwnedSemaphorePermit,
}

impl Fetches {
    /// Slots for `running` children; at most `queued` requests wait for one, first come first served,
    /// and the next one is told to come back.
    pub fn new(running: usize, queued: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(running)),
            admitted: Arc::new(Semaphore::new(running.saturating_add(queued))),
            refused: AtomicU64::new(0),
            too_large: AtomicU64::new(0),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }
    }

    /// How many children run now.
    pub fn running(&self) -> usize {
        self.tasks.len()
    }

    /// How many requests found the queue full.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// How many requests were larger than they may be.
    pub fn too_large(&self) -> u64 {
        self.too_large.load(Relaxed)
    }

    pub(super) fn count_too_large(&self) {
        self.too_large.fetch_add(1, Relaxed);
    }

    /// Lets no further fetch start, gives those that run `grace` to end, ends the rest, and returns
    /// when the last child is reaped. For the shutdown (cases 88).
    pub async fn close(&self, grace: Duration) {
        self.running.close();
        self.tasks.close();
        if timeout(grace, self.tasks.wait()).await.is_err() {
            self.stopping.cancel();
            self.tasks.wait().await;
        }
    }

    /// A slot, as soon as one is free; `None` if too many wait already, or none will be given any more.
    pub(super) async fn slot(&self) -> Option<Slot> {
        let Ok(admitted) = Arc::clone(&self.admitted).try_acquire_owned() else {
            self.refused.fetch_add(1, Relaxed);
            return None;
        };
        let running = Arc::clone(&self.running).acquire_owned().await.ok()?;
        Some(Slot {
            stopping: self.stopping.clone(),
            _admitted: admitted,
            _running: running,
        })
    }

    /// Runs a fetch to its end, even if nobody waits for it.
    pub(super) fn run(&self, fetch: impl Future<Output = ()> + Send + 'static) {
        drop(self.tasks.spawn(fetch));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn slots_and_queue_are_bounded() {
        let fetches = Fetches::new(1, 1);
        let first = fetches.slot().await.expect("free");
        let mut second = Box::pin(fetches.slot());
        assert!(poll!(&mut second).is_pending());
        assert!(fetches.slot().await.is_none());
        assert_eq!(fetches.refused(), 1);
        drop(first);
        assert!(second.await.is_some());
    }

    #[tokio::test]
    async fn nothing_starts_once_closed() {
        let fetches = Fetches::new(1, 1);
        fetches.close(Duration::ZERO).await;
        assert!(fetches.slot().await.is_none());
    }
}
