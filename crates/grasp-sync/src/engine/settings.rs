//! The figures of the engine. Those an operator may change are fields; those that only make sense together are
//! constants.

use std::time::Duration;

use grasp_core::service::ServiceAddress;

use crate::relay_url::RelayUrl;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A pause up to this length costs a quick reconnect; after a longer one nothing confirmed is trusted.
pub const QUICK_RECONNECT_MAX: Duration = secs(900);
/// How far `since` reaches back before the moment it means (SYNC-6).
pub const SINCE_OVERLAP: Duration = secs(900);
/// Live filters of a relay, above what cannot be merged away, that start a consolidation.
pub const CONSOLIDATE_ABOVE: usize = 70;
/// All is asked for again after a time between these two.
pub const DAILY_SYNC: (Duration, Duration) = (secs(23 * 3_600), secs(25 * 3_600));
/// Relays that became due between two ticks wait for the next (SYNC-7).
pub const RETRY_TICK: Duration = Duration::from_millis(500);
/// At most so many connections are dialled at once, so far apart (SYNC-22).
pub const CONNECTS_MAX: usize = 8;
/// See [`CONNECTS_MAX`].
pub const CONNECT_GAP: Duration = Duration::from_millis(250);
/// At most so many relays are read back at once, one batch each (SYNC-22).
pub const HISTORIES_MAX: usize = 8;
/// Background questions to one relay start so far apart (SYNC-22).
pub const BACKGROUND_GAP: Duration = secs(1);
/// Without an answer for so long a question failed (SYNC-23).
pub const ANSWER_MAX: Duration = secs(120);
/// A relay that has no answer for so long makes room for others (SYNC-24).
pub const SLOW_AFTER: Duration = secs(10);
/// For so long nothing else is asked while the first subscription has no answer.
pub const FIRST_ANSWER_MAX: Duration = secs(10);
/// Subscriptions a connection may have if the peer does not say (SYNC-21).
pub const SUBSCRIPTIONS_DEFAULT: usize = 20;
/// So many of them stay unused (SYNC-21).
pub const SUBSCRIPTIONS_RESERVE: usize = 2;
/// At most so many questions of a batch are open at once (SYNC-21).
pub const TRANSIENT_MAX: usize = 5;
/// Values of one filter at first (SYNC-20).
pub const FILTER_VALUES: usize = 100;
/// Bytes of the values of one filter, as JSON (SYNC-20).
pub const FILTER_BYTES_MAX: usize = 32 * 1_024;
/// Bytes of one REQ (SYNC-20).
pub const REQ_BYTES_MAX: usize = 96 * 1_024;
/// Filters of one REQ (SYNC-20), and what is tried after refusals (SYNC-44).
pub const REQ_FILTERS: [usize; 4] = [10, 5, 2, 1];
/// At most so many set reconciliations at once (SYNC-25).
pub const RECONCILIATIONS_MAX: usize = 4;
/// How long one may take to name the difference (SYNC-25).
pub const RECONCILIATION_MAX: Duration = secs(15);
/// A peer that broke off meanwhile is not asked for a difference for so long.
pub const BREAKS_OFF_FOR: Duration = secs(7 * 24 * 3_600);
/// A difference of more ids is not believed: the history is read page by page instead.
pub const DIFFERENCE_MAX: usize = 100_000;
/// Ids of one REQ (SYNC-26).
pub const IDS_PER_REQ: usize = 300;
/// A history is checked once more after so long (SYNC-29).
pub const RECHECK_AFTER: Duration = secs(6);
/// What is not followed live is asked for so often (SYNC-45).
pub const POLL_EVERY: Duration = secs(300);
/// By how much two polls overlap (SYNC-45).
pub const POLL_OVERLAP: Duration = secs(60);
/// Between two proofs of identity on one connection (SYNC-36).
pub const AUTH_GAP: Duration = secs(60);
/// How long questions wait for a proof of identity to be taken.
pub const AUTH_MAX: Duration = secs(10);
/// How often the cursor of a relay that stays connected is written: less than the fifteen minutes it serves.
pub const CURSOR_EVERY: Duration = secs(300);
/// At most so many notices wait for the next batch of the self-subscriber; at the brim the batch comes early.
pub const NOTICES_MAX: usize = 10_000;

/// What the operator decides about following other servers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Our own address: relays at it are never dialled (SYNC-9).
    pub service: Option<ServiceAddress>,
    /// Always connected, never dropped.
    pub bootstrap: Option<RelayUrl>,
    /// Whether set reconciliation is used at all.
    pub negentropy: bool,
    /// How long notices of our own store collect before they are acted on. Later ones do not prolong it.
    pub batch_window: Duration,
    /// At the start relays are dialled after a random time up to this (SYNC-22).
    pub startup_jitter: Duration,
    /// The wait after the first failure (SYNC-40).
    pub backoff_base: Duration,
    /// The longest wait after failures, until a relay counts as dead (SYNC-40).
    pub backoff_max: Duration,
    /// How long a dial may take in all.
    pub connect_timeout: Duration,
    /// How often relays without work are dropped (SYNC-8).
    pub disconnect_check: Duration,
    /// For how long a relay whose name, certificate or protocol is broken is left alone (SYNC-46).
    pub naughty_pause: Duration,
    /// At most so many relays are known; what announcements list beyond is not followed until some go.
    pub relays_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            service: None,
            bootstrap: None,
            negentropy: true,
            batch_window: secs(5),
            startup_jitter: secs(10),
            backoff_base: secs(5),
            backoff_max: secs(3_600),
            connect_timeout: secs(5),
            disconnect_check: secs(60),
            naughty_pause: secs(12 * 3_600),
            relays_max: 20_000,
        }
    }
}
