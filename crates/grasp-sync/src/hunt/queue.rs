//! When an identifier is looked at next (HUNT-1, HUNT-3, HUNT-4).

use std::time::Duration;

use super::settings::{BACKOFF_BASE, BACKOFF_MAX};
use crate::engine::Time;

/// Says of one identifier when the next attempt is due, and whether one runs. The founding design's entry, with time as an
/// argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncQueueEntry {
    /// No attempt before this time.
    pub next_attempt: Time,
    /// Attempts since the last new event: decides the backoff.
    pub attempt_count: u32,
    /// Whether an attempt runs. At most one does.
    pub in_progress: bool,
}

impl SyncQueueEntry {
    /// An entry whose first attempt is due after `delay`.
    pub fn new(delay: Duration, now: Time) -> Self {
        Self {
            next_attempt: now + delay,
            attempt_count: 0,
            in_progress: false,
        }
    }

    /// The wait after the attempt that was counted last: 20, 40, 80, 120, 120 … seconds (HUNT-3).
    pub fn backoff(&self) -> Duration {
        let doublings = self.attempt_count.saturating_sub(1).min(3);
        BACKOFF_BASE.saturating_mul(1 << doublings).min(BACKOFF_MAX)
    }

    /// Whether an attempt may begin.
    pub fn is_ready(&self, now: Time) -> bool {
        !self.in_progress && self.next_attempt <= now
    }

    /// A new event of the identifier waits: it is looked at after `delay`, or sooner if that was planned. The backoff begins
    /// anew.
    pub fn on_new_event(&mut self, delay: Duration, now: Time) {
        self.attempt_count = 0;
        self.next_attempt = self.next_attempt.min(now + delay);
    }

    /// An attempt is over, whatever it brought. Called twice it does nothing more: only what is due is put off.
    pub fn on_sync_complete(&mut self, now: Time) {
        self.in_progress = false;
        if self.next_attempt <= now {
            self.attempt_count = self.attempt_count.saturating_add(1);
            self.next_attempt = now + self.backoff();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_000_000);

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// HUNT-3: the founding test of this name.
    #[test]
    fn backoff_doubles_up_to_cap() {
        let mut entry = SyncQueueEntry::new(secs(0), NOW);
        for (attempts, wait) in [
            (0, 20),
            (1, 20),
            (2, 40),
            (3, 80),
            (4, 120),
            (5, 120),
            (100, 120),
        ] {
            entry.attempt_count = attempts;
            assert_eq!(entry.backoff(), secs(wait), "{attempts}");
        }
        entry.attempt_count = u32::MAX;
        assert_eq!(entry.backoff(), secs(120));
    }

    /// HUNT-4: the founding test of this name.
    #[test]
    fn new_event_resets_attempt_count() {
        let mut entry = SyncQueueEntry::new(secs(60), NOW);
        entry.attempt_count = 5;
        entry.next_attempt = NOW + secs(120);
        entry.on_new_event(secs(10), NOW);
        assert_eq!(entry.attempt_count, 0);
        assert_eq!(entry.next_attempt, NOW + secs(10));
    }

    /// HUNT-4: the founding test of this name.
    #[test]
    fn new_event_does_not_delay_if_already_sooner() {
        let mut entry = SyncQueueEntry::new(secs(5), NOW);
        entry.on_new_event(secs(60), NOW);
        assert_eq!(entry.attempt_count, 0);
        assert_eq!(entry.next_attempt, NOW + secs(5));
    }

    /// HUNT-1, HUNT-4: the founding test of this name.
    #[test]
    fn is_ready_checks_both_conditions() {
        let mut entry = SyncQueueEntry::new(secs(1), NOW);
        assert!(!entry.is_ready(NOW + Duration::from_millis(999)));
        assert!(entry.is_ready(NOW + secs(1)));
        entry.in_progress = true;
        assert!(!entry.is_ready(NOW + secs(1)));
        entry.in_progress = false;
        entry.next_attempt = NOW + secs(60);
        assert!(!entry.is_ready(NOW + secs(1)));
    }

    /// HUNT-4: the founding test of this name.
    #[test]
    fn on_sync_complete_increments_and_schedules() {
        let mut entry = SyncQueueEntry::new(secs(0), NOW);
        entry.in_progress = true;
        let later = NOW + secs(7);
        entry.on_sync_complete(later);
        assert!(!entry.in_progress);
        assert_eq!(entry.attempt_count, 1);
        assert_eq!(entry.next_attempt, later + secs(20));
    }

    /// HUNT-4: an event that came meanwhile and is to be looked at later is not put off further.
    #[test]
    fn a_completion_puts_off_only_what_is_due() {
        let mut entry = SyncQueueEntry::new(secs(0), NOW);
        entry.in_progress = true;
        entry.on_sync_complete(NOW);
        entry.on_sync_complete(NOW + secs(19));
        assert_eq!(
            (entry.attempt_count, entry.next_attempt),
            (1, NOW + secs(20))
        );
        entry.on_sync_complete(NOW + secs(20));
        assert_eq!(
            (entry.attempt_count, entry.next_attempt),
            (2, NOW + secs(60))
        );
    }
}
