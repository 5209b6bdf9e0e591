//! The time that the engine is told.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::engine::Time;

/// Reads the wall clock once and counts on with one that never goes back (see [`Time`]).
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    began: Instant,
    began_at: Time,
}

impl Clock {
    pub(super) fn start() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "somebody has to tell the engine what time it is"
        )]
        let wall = SystemTime::now();
        let millis = wall
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis();
        Self {
            began: Instant::now(),
            began_at: Time::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)),
        }
    }

    pub(super) fn now(&self) -> Time {
        self.began_at + self.began.elapsed()
    }

    /// When it is `time`, not before. The engine counts in whole milliseconds, so the next whole one is waited for.
    pub(super) fn instant(&self, time: Time) -> Instant {
        self.began + time.since(self.began_at) + Duration::from_millis(1)
    }
}
