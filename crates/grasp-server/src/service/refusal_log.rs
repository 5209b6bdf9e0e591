//! Says at `debug` which events of clients were refused, and why (cases.md 79).
//!
//! Whoever sends thousands of bad events must not fill a disk with them: a line has the id and never the
//! content, and beyond a few lines a second events are only counted. The next line says how many.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use grasp_core::EventId;
use tracing::{Level, debug, enabled};

/// As many lines as a person can follow.
const LINES_PER_SECOND: u32 = 10;

/// Of the words so many characters: they may quote the event.
const WORDS_MAX: usize = 200;

/// Who writes the lines. One for all connections.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<Pace>);

impl RefusalLog {
    /// An event is refused in these words.
    pub(super) fn note(&self, event: &EventId, kind: u16, words: &str) {
        if !enabled!(Level::DEBUG) {
            return;
        }
        let line = {
            let mut pace = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            pace.line(Instant::now())
        };
        if let Some(left_out) = line {
            debug!(%event, kind, words = short(words), left_out, "an event is refused");
        }
    }
}

/// What was written in this second, and what was not.
#[derive(Debug, Default)]
struct Pace {
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Pace {
    /// Leave for a line: how many were left out before it.
    fn line(&mut self, now: Instant) -> Option<u64> {
        let over = |since: Instant| now.saturating_duration_since(since) >= Duration::from_secs(1);
        if self.since.is_none_or(over) {
            (self.since, self.lines) = (Some(now), 0);
        }
        if self.lines == LINES_PER_SECOND {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// One line of it.
fn short(words: &str) -> String {
    let shown = words.chars().filter(|letter| !letter.is_control());
    shown.take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case 79
    #[test]
    fn a_flood_is_a_few_lines_and_a_number() {
        let begun = Instant::now();
        let mut pace = Pace::default();
        let lines = (0..1_000).filter(|_| pace.line(begun).is_some()).count();
        assert_eq!(lines, 10);
        assert_eq!(pace.line(begun + Duration::from_millis(999)), None);
        assert_eq!(pace.line(begun + Duration::from_secs(1)), Some(991));
        assert_eq!(pace.line(begun + Duration::from_secs(1)), Some(0));
    }

    #[test]
    fn words_are_one_short_line() {
        assert_eq!(short("invalid: a\nb\u{1b}[0m"), "invalid: ab[0m");
        assert_eq!(short(&"ä".repeat(1_000)).chars().count(), WORDS_MAX);
    }
}
