//! The time that the hunt is told.

use std::time::Duration;

use grasp_sync::engine::Time;
use tokio::time::Instant;

use crate::clock::Clock;

/// Reads the server's wall clock once and counts on with a clock that never goes back (see [`Time`]).
#[derive(Debug)]
pub(super) struct HuntClock {
    clock: Clock,
    began_at: Time,
    steady: Duration,
}

impl HuntClock {
    pub(super) fn start(clock: Clock) -> Self {
        Self {
            began_at: Time::from_millis(clock.millis()),
            steady: clock.tick().steady,
            clock,
        }
    }

    pub(super) fn now(&self) -> Time {
        self.began_at + self.clock.tick().steady.saturating_sub(self.steady)
    }

    /// When it is `time`, not before: the hunt counts in whole milliseconds, so the next whole one is waited for.
    pub(super) fn instant(&self, time: Time) -> Instant {
        Instant::now() + time.since(self.now()) + Duration::from_millis(1)
    }
}
