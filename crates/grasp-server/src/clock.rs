//! The server's clock: the one place where decisions get their `now` from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use grasp_core::Timestamp;
use grasp_core::clock_step::Tick;

/// Tells the wall-clock time, and beside it a time that nobody can set. Handed in, so that tests can let
/// thirty minutes pass at once.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's.
    System {
        /// Where the steady time begins.
        since: Instant,
    },
    /// One that stands still until it is moved.
    Manual(Arc<ManualClock>),
}

/// The hands of a clock that a test moves.
#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicU64,
    steady: AtomicU64,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::System {
            since: Instant::now(),
        }
    }

    /// A clock that shows `at` until [`Clock::advance`].
    pub fn manual(at: Timestamp) -> Self {
        Self::Manual(Arc::new(ManualClock {
            wall: AtomicU64::new(at.as_secs()),
            steady: AtomicU64::new(0),
        }))
    }

    /// Seconds since 1970.
    pub fn now(&self) -> Timestamp {
        self.tick().wall
    }

    /// Milliseconds since 1970.
    pub(crate) fn millis(&self) -> u64 {
        match self {
            Self::System { .. } => {
                let wall = SystemTime::now().duration_since(UNIX_EPOCH);
                let millis = wall.unwrap_or_default().as_millis();
                u64::try_from(millis).unwrap_or(u64::MAX)
            }
            Self::Manual(_) => self.now().as_secs() * 1_000,
        }
    }

    /// Both times at this moment.
    pub fn tick(&self) -> Tick {
        match self {
            Self::System { since } => {
                let wall = SystemTime::now().duration_since(UNIX_EPOCH);
                Tick {
                    wall: Timestamp::from_secs(wall.map_or(0, |time| time.as_secs())),
                    steady: since.elapsed(),
                }
            }
            Self::Manual(hands) => Tick {
                wall: Timestamp::from_secs(hands.wall.load(Ordering::SeqCst)),
                steady: Duration::from_secs(hands.steady.load(Ordering::SeqCst)),
            },
        }
    }

    /// The clock in the form that the relay takes.
    pub(crate) fn for_relay(&self) -> grasp_relay::Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }

    /// Lets time pass on a manual clock; the machine's clock cannot be moved.
    pub fn advance(&self, secs: u64) {
        if let Self::Manual(hands) = self {
            hands.wall.fetch_add(secs, Ordering::SeqCst);
            hands.steady.fetch_add(secs, Ordering::SeqCst);
        }
    }

    /// Sets a manual clock's wall time without letting time pass, as an operator or NTP does.
    pub fn set(&self, wall: Timestamp) {
        if let Self::Manual(hands) = self {
            hands.wall.store(wall.as_secs(), Ordering::SeqCst);
        }
    }
}
