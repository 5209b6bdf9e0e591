//! What holds of the queue whatever comes (HUNT-1, HUNT-3, HUNT-4).

use std::time::Duration;

use grasp_sync::hunt::{Output, SyncQueueEntry, Time};
use proptest::prelude::*;

use crate::sim::{START, Sim, secs};

/// The founding text, read naively: seconds as numbers.
#[derive(Debug, Clone)]
struct Founding {
    next_attempt: u64,
    attempt_count: u32,
    in_progress: bool,
}

impl Founding {
    fn backoff(&self) -> u64 {
        let doublings = self.attempt_count.max(1) - 1;
        (0..doublings).fold(20_u64, |wait, _| (wait * 2).min(120))
    }

    fn on_new_event(&mut self, delay: u64, now: u64) {
        self.attempt_count = 0;
        if now + delay < self.next_attempt {
            self.next_attempt = now + delay;
        }
    }

    fn on_sync_complete(&mut self, now: u64) {
        self.in_progress = false;
        if self.next_attempt <= now {
            self.attempt_count += 1;
            self.next_attempt = now + self.backoff();
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    News(u64),
    Begin,
    Complete,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..200_u64).prop_map(Step::Pass),
        (0..200_u64).prop_map(Step::News),
        Just(Step::Begin),
        Just(Step::Complete),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// HUNT-1, HUNT-3, HUNT-4
    #[test]
    fn the_entry_is_that_of_the_founding_text(delay in 0..200_u64, steps in steps()) {
        let mut now = 1_000_000;
        let at = Time::from_secs;
        let mut entry = SyncQueueEntry::new(secs(delay), at(now));
        let mut founding = Founding { next_attempt: now + delay, attempt_count: 0, in_progress: false };
        for step in steps {
            match step {
                Step::Pass(n) => now += n,
                Step::News(delay) => {
                    entry.on_new_event(secs(delay), at(now));
                    founding.on_new_event(delay, now);
                }
                Step::Begin if entry.is_ready(at(now)) => {
                    entry.in_progress = true;
                    founding.in_progress = true;
                }
                Step::Begin => {}
                Step::Complete => {
                    entry.on_sync_complete(at(now));
                    founding.on_sync_complete(now);
                }
            }
            prop_assert_eq!(entry.next_attempt, at(founding.next_attempt));
            prop_assert_eq!(entry.attempt_count, founding.attempt_count);
            prop_assert_eq!(entry.backoff(), secs(founding.backoff()));
            let is_ready = !founding.in_progress && now >= founding.next_attempt;
            prop_assert_eq!(entry.is_ready(at(now)), is_ready);
        }
    }

    /// HUNT-3, HUNT-4: the machine looks exactly when the founding entry is ready, news or not. Everything is dead, so an attempt
    /// takes no time.
    #[test]
    fn the_machine_looks_when_the_entry_is_ready(
        news in proptest::collection::vec((1..400_u64, prop_oneof![Just(0_u64), Just(180)]), 0..12),
    ) {
        let mut sim = Sim::new();
        sim.owe("x", 1, &[1], &["dead.example"]);
        sim.enqueue_after("x", secs(0));
        let mut founding = Founding { next_attempt: 0, attempt_count: 0, in_progress: false };
        let (mut now, mut expected) = (0, Vec::new());
        let run_until = |founding: &mut Founding, expected: &mut Vec<u64>, end: u64| {
            while founding.next_attempt < end {
                let at = founding.next_attempt;
                expected.push(at);
                founding.on_sync_complete(at);
            }
        };
        for (pause, delay) in news {
            now += pause;
            run_until(&mut founding, &mut expected, now);
            founding.on_new_event(delay, now);
            // Half a second before the full one, so that nothing happens at once with the news.
            let until = START + secs(now);
            sim.pass(until.since(sim.now).saturating_sub(Duration::from_millis(500)));
            sim.enqueue_after("x", secs(delay) + Duration::from_millis(500));
        }
        run_until(&mut founding, &mut expected, now + 1_000);
        sim.pass((START + secs(now + 999)).since(sim.now) + Duration::from_millis(500));
        let looks = sim.log.iter().filter(|(_, output)| matches!(output, Output::Gather { .. }));
        // An attempt takes a millisecond here, and none there.
        let looks: Vec<u64> = looks.map(|(at, _)| at.since(START).as_secs()).collect();
        prop_assert_eq!(looks, expected);
    }
}
