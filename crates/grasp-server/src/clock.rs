//! The server's clock: the one place where decisions get their `now` from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use grasp_core::Timestamp;

/// Tells the wall-clock time. Handed in, so that tests can let thirty minutes pass at once.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's.
    System,
    /// One that stands still until it is moved.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that shows `at` until [`Clock::advance`].
    pub fn manual(at: Timestamp) -> Self {
        Self::Manual(Arc::new(AtomicU64::new(at.as_secs())))
    }

    /// Seconds since 1970.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                Timestamp::from_secs(since.map_or(0, |time| time.as_secs()))
            }
            Self::Manual(secs) => Timestamp::from_secs(secs.load(Ordering::SeqCst)),
        }
    }

    /// The clock in the form that the relay takes.
    pub(crate) fn for_relay(&self) -> grasp_relay::Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }

    /// Moves a manual clock on; the machine's clock cannot be moved.
    pub fn advance(&self, secs: u64) {
        if let Self::Manual(now) = self {
            now.fetch_add(secs, Ordering::SeqCst);
        }
    }
}
