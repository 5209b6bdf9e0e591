//! What follows when the wall clock jumps (PUR-16).
//!
//! Deadlines are wall clock, so a corrected clock would end at once what has just begun, or keep it for
//! hours. Two clocks tell a jump from time that passed: the wall's, and one that cannot be set.

use std::time::Duration;

use nostr::event::EventId;
use nostr::types::Timestamp;

use crate::lifecycle::{Batch, Change, UploadRecord};
use crate::purgatory::WAITING;

/// A clock that drifts by less between two ticks is believed.
pub const STEP_MIN: Duration = Duration::from_mins(5);

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// The wall clock, which somebody may set.
    pub wall: Timestamp,
    /// Time since some moment in this process, which nobody can.
    pub steady: Duration,
}

/// A jump of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// By how many seconds; negative is back.
    pub secs: i64,
    /// The wall clock after it.
    now: Timestamp,
    /// What really passed since the tick before it.
    elapsed: Duration,
}

/// A deadline that was set while something waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitingDeadline {
    /// Of an event.
    Event {
        /// Which.
        event: EventId,
        /// When it ends.
        deadline: Timestamp,
        /// NIP-40: no shift goes beyond it.
        expiration: Option<Timestamp>,
    },
    /// Of an upload without an event.
    Upload(UploadRecord),
}

/// Whether the wall clock jumped between two ticks.
pub fn clock_step(before: Tick, after: Tick) -> Option<ClockStep> {
    let elapsed = after.steady.saturating_sub(before.steady);
    let expected = before.wall.as_secs().saturating_add(elapsed.as_secs());
    let secs = signed(after.wall.as_secs()).saturating_sub(signed(expected));
    (secs.unsigned_abs() > STEP_MIN.as_secs()).then_some(ClockStep {
        secs,
        now: after.wall,
        elapsed,
    })
}

impl ClockStep {
    /// Moves the deadlines that the clock before the jump gave. One that the clock after it may have
    /// given already stays: it is right, or longer than it had to be.
    pub fn shift(self, waiting: impl IntoIterator<Item = WaitingDeadline>) -> Batch {
        waiting
            .into_iter()
            .filter_map(|entry| self.shift_one(entry))
            .collect()
    }

    fn shift_one(self, entry: WaitingDeadline) -> Option<Change> {
        match entry {
            WaitingDeadline::Event {
                event,
                deadline,
                expiration,
            } => {
                let usual = self.moved(deadline)?;
                let deadline = expiration.map_or(usual, |end| end.min(usual));
                Some(Change::Extend {
                    event,
                    deadline: Some(deadline),
                })
            }
            WaitingDeadline::Upload(upload) => {
                let deadline = self.moved(upload.deadline)?;
                Some(Change::Upload(UploadRecord { deadline, ..upload }))
            }
        }
    }

    fn moved(self, deadline: Timestamp) -> Option<Timestamp> {
        let latest = self.now.as_secs().saturating_add(WAITING.as_secs());
        let earliest = latest.saturating_sub(self.elapsed.as_secs());
        let is_new = (earliest..=latest).contains(&deadline.as_secs());
        (!is_new).then(|| Timestamp::from_secs(deadline.as_secs().saturating_add_signed(self.secs)))
    }
}

fn signed(secs: u64) -> i64 {
    i64::try_from(secs).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::project::{repo, upload};
    use crate::testing::{key, oid};

    const NOON: u64 = 1_700_000_000;

    fn tick(wall: u64, steady: u64) -> Tick {
        Tick {
            wall: Timestamp::from_secs(wall),
            steady: Duration::from_secs(steady),
        }
    }

    fn event(deadline: u64, expiration: Option<u64>) -> WaitingDeadline {
        WaitingDeadline::Event {
            event: EventId::from_byte_array([1; 32]),
            deadline: Timestamp::from_secs(deadline),
            expiration: expiration.map(Timestamp::from_secs),
        }
    }

    fn deadline_after(step: ClockStep, entry: WaitingDeadline) -> Option<u64> {
        match step.shift([entry]).as_slice() {
            [Change::Extend { deadline, .. }] => deadline.map(|at| at.as_secs()),
            _ => None,
        }
    }

    /// PUR-16
    #[test]
    fn five_minutes_are_drift_and_one_second_more_is_a_step() {
        let before = tick(NOON, 100);
        for (wall, step) in [
            (60, None),
            (360, None),
            (361, Some(301)),
            (-240, None),
            (-241, Some(-301)),
        ] {
            let after = tick(NOON.saturating_add_signed(wall), 160);
            assert_eq!(
                clock_step(before, after).map(|step| step.secs),
                step,
                "{wall}"
            );
        }
    }

    /// PUR-16
    #[test]
    fn a_waiting_deadline_keeps_its_distance_from_now() {
        for secs in [3600_i64, -3600, 86_400 * 365, -400] {
            let after = tick(NOON.saturating_add_signed(secs + 5), 5);
            let step = clock_step(tick(NOON, 0), after).expect("a step");
            let due = deadline_after(step, event(NOON + 1000, None)).expect("shifted");
            assert_eq!(due - step.now.as_secs(), 995, "{secs}");
        }
    }

    /// PUR-16: what the new clock gave is right already.
    #[test]
    fn a_deadline_set_after_the_step_stays() {
        for secs in [3600_i64, -3600] {
            let after = tick(NOON.saturating_add_signed(secs + 5), 5);
            let step = clock_step(tick(NOON, 0), after).expect("a step");
            for ago in 0..=5 {
                let given = step.now.as_secs() - ago + WAITING.as_secs();
                assert_eq!(
                    deadline_after(step, event(given, None)),
                    None,
                    "{secs} {ago}"
                );
            }
        }
    }

    /// PUR-16, EV-4
    #[test]
    fn no_shift_goes_beyond_the_event_s_own_time() {
        let step = clock_step(tick(NOON, 0), tick(NOON + 3600, 0)).expect("a step");
        let entry = event(NOON + 1000, Some(NOON + 2000));
        assert_eq!(deadline_after(step, entry), Some(NOON + 2000));
        let entry = event(NOON + 1000, Some(NOON + 9000));
        assert_eq!(deadline_after(step, entry), Some(NOON + 4600));
    }

    /// PUR-16, PR-4: an upload moves like an event, and nothing else of it changes.
    #[test]
    fn an_upload_keeps_its_distance_from_now() {
        let step = clock_step(tick(NOON, 0), tick(NOON + 3600, 0)).expect("a step");
        let id = EventId::from_byte_array([1; 32]);
        let record = |deadline: u64| UploadRecord {
            deadline: Timestamp::from_secs(deadline),
            ..upload(id, oid(1), repo(key(1)))
        };
        let shifted = step.shift([WaitingDeadline::Upload(record(NOON + 1000))]);
        assert_eq!(shifted, [Change::Upload(record(NOON + 4600))]);
        let given_after = record(NOON + 3600 + WAITING.as_secs());
        assert_eq!(step.shift([WaitingDeadline::Upload(given_after)]), []);
    }
}
