//! What a server may ask of a relay, counted from the relay's side. Whoever asks for more fails the run.

use std::collections::BTreeMap;
use std::time::Duration;

use grasp_core::filter::Filter;
use grasp_sync::engine::settings::{BACKGROUND_GAP, REQ_BYTES_MAX, REQ_FILTERS, TRANSIENT_MAX};
use grasp_sync::engine::{SubscriptionId, Time};

/// The shortest pause after `rate-limited` (SYNC-41).
const COOLDOWN: Duration = Duration::from_secs(65);
/// The shortest pause after a dial that failed (SYNC-40).
const REDIAL: Duration = Duration::from_secs(5);

const HOUR: Duration = Duration::from_hours(1);
/// More questions in an hour are no way to read what a relay has (SYNC-27, SYNC-28).
const QUESTIONS_MAX: usize = 1_500;

/// One server's account at one relay.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Open subscriptions, and whether they are for what is to come.
    open: BTreeMap<SubscriptionId, bool>,
    last_background: Option<Time>,
    /// Since when they are counted, and how many there were.
    questions: Option<(Time, usize)>,
    quiet_until: Option<Time>,
    failed_at: Option<Time>,
}

impl Budget {
    /// A connection stands: nothing is open on it yet.
    pub(crate) fn connected(&mut self) {
        self.open.clear();
        self.last_background = None;
        self.failed_at = None;
    }

    pub(crate) fn dial_failed(&mut self, now: Time) {
        self.failed_at = Some(now);
    }

    pub(crate) fn dials(&self, now: Time) {
        let pause = self.failed_at.map(|at| now.since(at));
        assert!(
            pause.is_none_or(|pause| pause >= REDIAL),
            "SYNC-40: dialled again after {pause:?}"
        );
    }

    /// The server was told that it was refused.
    pub(crate) fn is_refused(&mut self, subscription: SubscriptionId, reason: &str, now: Time) {
        self.open.remove(&subscription);
        if reason == "rate-limited: slow down" {
            let until = now + COOLDOWN;
            self.quiet_until = Some(self.quiet_until.unwrap_or(until));
        }
    }

    pub(crate) fn closes(&mut self, subscription: SubscriptionId) {
        self.open.remove(&subscription);
    }

    pub(crate) fn asks(&mut self, subscription: SubscriptionId, filters: &[Filter], now: Time) {
        if let Some(until) = self.quiet_until {
            assert!(now >= until, "SYNC-41: it asks although it was to be quiet");
            self.quiet_until = None;
        }
        let most = REQ_FILTERS[0];
        assert!(filters.len() <= most, "SYNC-20: {} filters", filters.len());
        let bytes: usize = filters.iter().map(weight).sum();
        assert!(bytes <= REQ_BYTES_MAX, "SYNC-20: {bytes} bytes of values");
        let is_live = filters.iter().all(|filter| filter.limit == Some(0));
        self.open.insert(subscription, is_live);
        if is_live {
            return;
        }
        let pause = self.last_background.map(|last| now.since(last));
        assert!(
            pause.is_none_or(|pause| pause >= BACKGROUND_GAP),
            "SYNC-22: the next question after {pause:?}"
        );
        self.last_background = Some(now);
        let (since, count) = self.questions.unwrap_or((now, 0));
        self.questions = if now.since(since) < HOUR {
            Some((since, count + 1))
        } else {
            Some((now, 1))
        };
        assert!(count < QUESTIONS_MAX, "{count} questions in an hour");
        let transient = self.open.values().filter(|is_live| !**is_live).count();
        assert!(
            transient <= TRANSIENT_MAX,
            "SYNC-21: {transient} questions at once"
        );
    }

    /// SYNC-21, for a relay that said how many it allows.
    pub(crate) fn counts(&self, allowed: Option<usize>) {
        let open = self.open.len();
        let within = allowed.is_none_or(|most| open <= most);
        assert!(within, "SYNC-21: {open} subscriptions of {allowed:?}");
    }
}

/// Bytes of its values as JSON.
fn weight(filter: &Filter) -> usize {
    let tags = filter.tags.values().flatten();
    let tags: usize = tags.map(|value| value.len() + 3).sum();
    tags + filter.ids.as_ref().map_or(0, |ids| ids.len() * 67)
}
