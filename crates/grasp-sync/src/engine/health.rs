//! How a relay has been doing, and when it may be bothered again (SYNC-40 … SYNC-46).
//!
//! Three kinds of trouble are kept apart, because they heal differently: no connection, too many questions, and not
//! being wanted. All of it is looked up when it matters; nothing here needs a timer of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use super::number::RelayId;
use super::settings::Settings;
use super::time::Time;
use crate::defect::Defect;

/// A connection that held for so long ends a streak of failures; so long without a refusal ends an escalation.
pub(super) const STABLE_AFTER: Duration = Duration::from_mins(5);
/// Failing for so long makes a relay dead, and is the distance of the tries from then on.
pub(super) const DEAD_AFTER: Duration = Duration::from_hours(24);
/// The first pause after `rate-limited` or failed questions; doubling to [`PAUSE_MAX`].
pub(super) const PAUSE_FIRST: Duration = Duration::from_secs(65);
/// See [`PAUSE_FIRST`].
pub(super) const PAUSE_MAX: Duration = Duration::from_hours(1);
/// How long a relay that does not want us is left alone; then comes one probe.
pub(super) const POLICY_PAUSE: Duration = Duration::from_hours(24);
/// The first distance between questions to a relay that found them too many; doubling to [`PACING_MAX`].
pub(super) const PACING_FIRST: Duration = Duration::from_millis(600);
/// See [`PACING_FIRST`].
pub(super) const PACING_MAX: Duration = Duration::from_secs(10);
/// Complaints within so long are one episode.
pub(super) const PACING_EPISODE: Duration = Duration::from_mins(1);

/// Why a dial failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialFailure {
    /// Nobody answered, or not in time.
    Unreachable,
    /// The name, the certificate or the protocol is broken: that does not heal by itself.
    Broken,
    /// We may not go there (NET-1, NET-2).
    Forbidden,
    /// It is this very server (SYNC-9).
    Ourselves,
}

/// How a relay is doing, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthState {
    /// Nothing is wrong.
    Healthy,
    /// Failed lately.
    Degraded,
    /// Failing for a day; one try a day.
    Dead,
    /// It asked for a pause.
    RateLimited,
    /// It does not want us; one probe a day.
    PolicyLimited,
}

/// A pause that grows while its cause persists.
#[derive(Debug, Clone, Copy, Default)]
struct Pause {
    level: u32,
    until: Option<Time>,
}

impl Pause {
    /// Begins a pause. A cause that repeats within it does not prolong it.
    fn begin(&mut self, now: Time) {
        match self.until {
            Some(until) if now < until => return,
            Some(until) if now.since(until) < STABLE_AFTER => {}
            _ => self.level = 0,
        }
        self.until = Some(now + doubled(PAUSE_FIRST, self.level, PAUSE_MAX));
        self.level += 1;
    }

    fn until(self, now: Time) -> Option<Time> {
        self.until.filter(|until| *until > now)
    }
}

fn doubled(first: Duration, times: u32, max: Duration) -> Duration {
    first
        .saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX))
        .min(max)
}

/// One relay's health.
#[derive(Debug, Default)]
pub struct RelayHealth {
    failures: u32,
    failing_since: Option<Time>,
    connected_at: Option<Time>,
    next_attempt: Option<Time>,
    rate_limit: Pause,
    request_failures: Pause,
    policy_until: Option<Time>,
    pacing: Option<(Duration, Time)>,
}

impl RelayHealth {
    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    fn is_dead(&self, now: Time) -> bool {
        self.failing_since
            .is_some_and(|since| now.since(since) >= DEAD_AFTER)
    }

    /// How it is doing.
    pub fn state(&self, now: Time) -> HealthState {
        let is_stable = self
            .connected_at
            .is_some_and(|at| now.since(at) >= STABLE_AFTER);
        if self.policy_until.is_some_and(|until| until > now) {
            HealthState::PolicyLimited
        } else if self.is_dead(now) && self.connected_at.is_none() {
            HealthState::Dead
        } else if self.rate_limit.until(now).is_some() {
            HealthState::RateLimited
        } else if self.failures > 0 && !is_stable {
            HealthState::Degraded
        } else {
            HealthState::Healthy
        }
    }
}

/// The health of all relays.
#[derive(Debug)]
pub struct RelayHealthTracker {
    backoff_base: Duration,
    backoff_max: Duration,
    naughty_pause: Duration,
    relays: BTreeMap<RelayId, RelayHealth>,
}

impl RelayHealthTracker {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            backoff_base: settings.backoff_base,
            backoff_max: settings.backoff_max,
            naughty_pause: settings.naughty_pause,
            relays: BTreeMap::new(),
        }
    }

    /// The health of `relay`, if anything was ever recorded.
    pub fn get(&self, relay: RelayId) -> Option<&RelayHealth> {
        self.relays.get(&relay)
    }

    fn of(&mut self, relay: RelayId) -> &mut RelayHealth {
        self.relays.entry(relay).or_default()
    }

    /// Whether it may be dialled.
    pub fn should_attempt_connection(&self, relay: RelayId, now: Time) -> bool {
        self.next_attempt(relay) <= now
    }

    /// When it may be dialled.
    pub fn next_attempt(&self, relay: RelayId) -> Time {
        let health = self.relays.get(&relay);
        let times = health.map(|health| health.next_attempt.max(health.policy_until));
        times.flatten().unwrap_or_default()
    }

    /// It is not dialled before `until`: start-up jitter.
    pub(super) fn postpone(&mut self, relay: RelayId, until: Time) {
        self.of(relay).next_attempt = Some(until);
    }

    /// A dial failed.
    pub(super) fn record_failure(&mut self, relay: RelayId, failure: DialFailure, now: Time) {
        let naughty_pause = self.naughty_pause;
        match failure {
            DialFailure::Unreachable => self.fail(relay, now),
            DialFailure::Broken | DialFailure::Forbidden | DialFailure::Ourselves => {
                self.fail(relay, now);
                let health = self.of(relay);
                health.next_attempt = health.next_attempt.max(Some(now + naughty_pause));
            }
        }
    }

    fn fail(&mut self, relay: RelayId, now: Time) {
        let (base, max) = (self.backoff_base, self.backoff_max);
        let health = self.of(relay);
        let wait = doubled(base, health.failures, max);
        health.failures = health.failures.saturating_add(1);
        health.failing_since.get_or_insert(now);
        health.connected_at = None;
        let wait = if health.is_dead(now) {
            DEAD_AFTER
        } else {
            wait
        };
        health.next_attempt = Some(now + wait);
    }

    /// A connection stands, so the relay is not dead. What it is worth otherwise shows when it ends: the waits go on
    /// growing until one was stable.
    pub(super) fn record_connected(&mut self, relay: RelayId, now: Time) {
        let health = self.of(relay);
        health.connected_at = Some(now);
        health.failing_since = None;
    }

    /// A connection was lost. If it was stable, that is the first failure of a new streak.
    pub(super) fn record_lost(&mut self, relay: RelayId, now: Time) {
        let health = self.of(relay);
        if health
            .connected_at
            .is_some_and(|at| now.since(at) >= STABLE_AFTER)
        {
            health.failures = 0;
            health.failing_since = None;
        }
        self.fail(relay, now);
    }

    /// SYNC-41
    pub(super) fn record_rate_limit(&mut self, relay: RelayId, now: Time) {
        self.of(relay).rate_limit.begin(now);
    }

    /// SYNC-42
    pub(super) fn record_policy_refusal(&mut self, relay: RelayId, now: Time) {
        let health = self.of(relay);
        health.policy_until = Some(now + POLICY_PAUSE);
        health.connected_at = None;
    }

    /// SYNC-43
    pub(super) fn record_too_many_queries(&mut self, relay: RelayId, now: Time) {
        let pacing = &mut self.of(relay).pacing;
        *pacing = Some(match *pacing {
            None => (PACING_FIRST, now),
            Some((gap, since)) if now.since(since) < PACING_EPISODE => (gap, since),
            Some((gap, _)) => (gap.saturating_mul(2).min(PACING_MAX), now),
        });
    }

    /// SYNC-46
    pub(super) fn record_request_failure(&mut self, relay: RelayId, now: Time) {
        self.of(relay).request_failures.begin(now);
    }

    /// The distance between two questions.
    pub(super) fn pacing(&self, relay: RelayId) -> Duration {
        let pacing = self.relays.get(&relay).and_then(|health| health.pacing);
        pacing.map_or(Duration::ZERO, |(gap, _)| gap)
    }

    /// Until when nothing at all is asked.
    pub(super) fn quiet_until(&self, relay: RelayId, now: Time) -> Option<Time> {
        if Defect::CooldownIgnored.is_on() {
            return None;
        }
        self.relays.get(&relay)?.rate_limit.until(now)
    }

    /// Until when no background question is asked.
    pub(super) fn background_until(&self, relay: RelayId, now: Time) -> Option<Time> {
        self.relays.get(&relay)?.request_failures.until(now)
    }

    pub(super) fn forget(&mut self, relay: RelayId) {
        self.relays.remove(&relay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::number::Number;

    const SECOND: Duration = Duration::from_secs(1);

    fn tracker() -> (RelayHealthTracker, RelayId) {
        let tracker = RelayHealthTracker::new(&Settings::default());
        (tracker, RelayId::from_index(0))
    }

    /// Fails `n` times, each as soon as it may, and returns the waits in seconds.
    fn waits(
        tracker: &mut RelayHealthTracker,
        relay: RelayId,
        n: usize,
        now: &mut Time,
    ) -> Vec<u64> {
        let mut once = || {
            tracker.record_failure(relay, DialFailure::Unreachable, *now);
            let next = tracker.next_attempt(relay);
            let wait = next.since(*now).as_secs();
            *now = next;
            wait
        };
        (0..n).map(|_| once()).collect()
    }

    /// SYNC-40
    #[test]
    fn failures_double_the_wait_up_to_an_hour() {
        let (mut tracker, relay) = tracker();
        let mut now = Time::from_secs(1_000);
        let expected = [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600];
        assert_eq!(waits(&mut tracker, relay, 12, &mut now), expected);
        assert!(!tracker.should_attempt_connection(relay, now.minus(SECOND)));
        assert!(tracker.should_attempt_connection(relay, now));
        let health = tracker.get(relay).expect("recorded");
        assert_eq!(health.state(now), HealthState::Degraded);
    }

    /// SYNC-40
    #[test]
    fn a_relay_that_failed_for_a_day_is_dead_and_tried_once_a_day() {
        let (mut tracker, relay) = tracker();
        let mut now = Time::from_secs(1_000);
        let all = waits(&mut tracker, relay, 40, &mut now);
        assert_eq!(all[39], DEAD_AFTER.as_secs());
        let health = tracker.get(relay).expect("recorded");
        assert_eq!(health.state(now), HealthState::Dead);
        tracker.record_connected(relay, now);
        let health = tracker.get(relay).expect("recorded");
        assert_eq!(health.state(now), HealthState::Degraded);
        assert_eq!(health.state(now + STABLE_AFTER), HealthState::Healthy);
    }

    /// SYNC-40
    #[test]
    fn only_a_stable_connection_ends_a_streak() {
        let (mut tracker, relay) = tracker();
        let mut now = Time::from_secs(1_000);
        waits(&mut tracker, relay, 4, &mut now);
        tracker.record_connected(relay, now);
        tracker.record_lost(relay, now + SECOND);
        assert_eq!(tracker.get(relay).expect("recorded").failures(), 5);
        let day_later = now + DEAD_AFTER;
        let health = tracker.get(relay).expect("recorded");
        assert_ne!(
            health.state(day_later.minus(SECOND)),
            HealthState::Dead,
            "it could be reached"
        );
        now = now + Duration::from_secs(100);
        tracker.record_connected(relay, now);
        tracker.record_lost(relay, now + STABLE_AFTER);
        assert_eq!(tracker.get(relay).expect("recorded").failures(), 1);
        let wait = tracker.next_attempt(relay).since(now + STABLE_AFTER);
        assert_eq!(wait, Duration::from_secs(5));
    }

    /// SYNC-41
    #[test]
    fn a_cooldown_doubles_is_not_prolonged_and_is_forgiven() {
        let (mut tracker, relay) = tracker();
        let mut now = Time::from_secs(1_000);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            tracker.record_rate_limit(relay, now);
            let until = tracker.quiet_until(relay, now).expect("quiet");
            tracker.record_rate_limit(relay, now + SECOND);
            assert_eq!(
                tracker.quiet_until(relay, now),
                Some(until),
                "not prolonged"
            );
            pauses.push(until.since(now).as_secs());
            now = until;
        }
        assert_eq!(pauses, [65, 130, 260, 520, 1_040, 2_080, 3_600, 3_600]);
        now = now + STABLE_AFTER;
        tracker.record_rate_limit(relay, now);
        assert_eq!(tracker.quiet_until(relay, now), Some(now + PAUSE_FIRST));
    }

    /// SYNC-42
    #[test]
    fn a_relay_that_does_not_want_us_is_left_alone_for_a_day() {
        let (mut tracker, relay) = tracker();
        let now = Time::from_secs(1_000);
        tracker.record_policy_refusal(relay, now);
        assert_eq!(tracker.next_attempt(relay), now + POLICY_PAUSE);
        let health = tracker.get(relay).expect("recorded");
        assert_eq!(health.state(now), HealthState::PolicyLimited);
    }

    /// SYNC-43
    #[test]
    fn pacing_doubles_by_episode() {
        let (mut tracker, relay) = tracker();
        let mut now = Time::from_secs(1_000);
        let mut gaps = Vec::new();
        for _ in 0..7 {
            tracker.record_too_many_queries(relay, now);
            tracker.record_too_many_queries(relay, now + SECOND);
            gaps.push(tracker.pacing(relay).as_millis());
            now = now + PACING_EPISODE;
        }
        assert_eq!(gaps, [600, 1_200, 2_400, 4_800, 9_600, 10_000, 10_000]);
    }

    /// SYNC-46
    #[test]
    fn what_does_not_heal_by_itself_is_left_alone_for_half_a_day() {
        let (mut tracker, relay) = tracker();
        let now = Time::from_secs(1_000);
        for failure in [DialFailure::Broken, DialFailure::Forbidden] {
            tracker.record_failure(relay, failure, now);
            let half_a_day = Duration::from_hours(12);
            assert_eq!(tracker.next_attempt(relay), now + half_a_day);
        }
        tracker.record_request_failure(relay, now);
        assert_eq!(
            tracker.background_until(relay, now),
            Some(now + PAUSE_FIRST)
        );
        assert_eq!(
            tracker.quiet_until(relay, now),
            None,
            "live subscriptions stay"
        );
    }
}
