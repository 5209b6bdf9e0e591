//! Time as the engine sees it: an argument.

use std::ops::Add;
use std::time::Duration;

/// Milliseconds since 1970. The driver reads the wall clock once and counts on with a clock that never goes
/// back, so that a step of the wall clock neither wakes everything nor stops anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// So many milliseconds after 1970.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// So many seconds after 1970.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000)
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since 1970, as `created_at` and `since` count.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000
    }

    /// How long after `earlier` this is; nothing if it is before.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// So much earlier.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(millis(span)))
    }

    /// The next moment whose milliseconds are a multiple of `grid`, this one included.
    #[must_use]
    pub(super) fn up_to(self, grid: Duration) -> Self {
        Self(self.0.next_multiple_of(millis(grid).max(1)))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
