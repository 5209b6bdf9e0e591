//! Listening to our own store: what it accepts decides what we follow.
//!
//! Notices collect for a short time, so that a push of fifty issues is one change of what we ask for. The time runs
//! from the first of them: a steady stream delays nothing.

use std::time::Duration;

use super::io::Notice;
use super::settings::NOTICES_MAX;
use super::time::Time;
use crate::defect::Defect;

/// Collects notices for a time.
#[derive(Debug)]
pub struct SelfSubscriber {
    window: Duration,
    batch: Vec<Notice>,
    fires_at: Option<Time>,
}

impl SelfSubscriber {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            batch: Vec::new(),
            fires_at: None,
        }
    }

    /// Adds a notice. Returns when the batch fires.
    pub(super) fn add(&mut self, notice: Notice, now: Time) -> Time {
        self.batch.push(notice);
        let fires_at = *self.fires_at.get_or_insert(now + self.window);
        if self.batch.len() < NOTICES_MAX {
            fires_at
        } else {
            now
        }
    }

    /// Takes the batch, in the order of arrival.
    pub(super) fn fire(&mut self) -> Vec<Notice> {
        self.fires_at = None;
        if Defect::NoticeLost.is_on() && self.batch.len() > 1 {
            self.batch.pop();
        }
        std::mem::take(&mut self.batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::id;

    fn notice(n: u32) -> Notice {
        Notice::RootGone { id: id(n) }
    }

    /// Scenario 6: the timer is not reset.
    #[test]
    fn later_notices_do_not_delay_a_batch() {
        let at = Time::from_secs;
        let mut subscriber = SelfSubscriber::new(Duration::from_secs(5));
        for n in 0..5 {
            assert_eq!(subscriber.add(notice(n), at(10 + u64::from(n))), at(15));
        }
        assert_eq!(subscriber.fire().len(), 5);
        assert_eq!(
            subscriber.add(notice(9), at(20)),
            at(25),
            "the next begins anew"
        );
    }

    #[test]
    fn a_full_batch_fires_at_once() {
        let mut subscriber = SelfSubscriber::new(Duration::from_secs(5));
        let now = Time::from_secs(1);
        let last = (0..NOTICES_MAX)
            .map(|_| subscriber.add(notice(0), now))
            .last();
        assert_eq!(last, Some(now));
    }
}
