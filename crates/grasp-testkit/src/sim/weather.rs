//! How bad it gets, and how long it takes until nothing can be missing.

use std::time::Duration;

use super::dice::Dice;

const fn hours(n: u64) -> Duration {
    Duration::from_secs(n * 3_600)
}

/// What a server says that has enough of us for now.
const PASSING: &[&str] = &[
    "rate-limited: slow down",
    "rate-limited: too many queries",
    "error: too many subscriptions",
    "error: subscription bytes exceed the limit",
    "error: the database is on fire",
];

/// The same, and what keeps us away for a day (SYNC-42).
const ALL: &[&str] = &[
    "rate-limited: slow down",
    "rate-limited: too many queries",
    "error: too many subscriptions",
    "error: subscription bytes exceed the limit",
    "invalid: too many tag values",
    "restricted: not today",
    "blocked: go away",
    "auth-required: who are you",
    "error: the database is on fire",
    "",
];

/// What may go wrong in a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// Everything may fail that long.
    pub(crate) faults: Duration,
    pub(crate) refusals: &'static [&'static str],
    /// Whether servers forget to send some of what they have.
    pub(crate) loses_events: bool,
    /// By how many seconds a server's clock may be wrong.
    pub(crate) skew: u64,
    pub(crate) judged_after: Duration,
}

/// Nothing keeps us away for a day and nothing gets lost without a trace, so nothing may be left for the daily run. Clocks
/// are wrong by less than two questions about what is new overlap (SYNC-45).
const SHOWERS: Weather = Weather {
    faults: hours(1),
    refusals: PASSING,
    loses_events: false,
    skew: 10,
    judged_after: hours(12),
};

/// A relay that did not want us is asked again after a day, and what it refused comes with the day after.
const STORM: Weather = Weather {
    faults: hours(1),
    refusals: ALL,
    loses_events: true,
    skew: 600,
    judged_after: hours(76),
};

impl Weather {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        if dice.one_in(8) { STORM } else { SHOWERS }
    }
}
