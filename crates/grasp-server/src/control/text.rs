//! Text for a terminal: aligned, plain, in the units that people use.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use grasp_core::Timestamp;
use tokio::sync::mpsc;

use super::Reply;

/// Labels up to this length decide where the whole text is aligned.
const LABEL_MAX: usize = 20;

/// Rows of a label and what it says, aligned.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<(String, String)>,
}

impl Rows {
    /// One row.
    pub(super) fn row(&mut self, label: &str, says: impl Display) {
        self.rows.push((label.to_owned(), says.to_string()));
    }

    /// A heading with an empty line above it.
    pub(super) fn heading(&mut self, title: &str) {
        self.rows.push((title.to_owned(), String::new()));
    }

    /// The text: headings at the margin, rows below them indented. What is said begins in one column; below a
    /// heading with longer labels further to the right.
    pub(super) fn text(&self) -> String {
        let common = self.rows.iter().map(width_of);
        let common = common.filter(|width| *width <= LABEL_MAX).max();
        let common = common.unwrap_or(0);
        let mut width = common;
        let mut out = String::new();
        for (number, (label, says)) in self.rows.iter().enumerate() {
            let written = if says.is_empty() {
                let below = &self.rows[number + 1..];
                let below = below.iter().take_while(|(_, says)| !says.is_empty());
                width = below.map(width_of).max().unwrap_or(0).max(common);
                let gap = if number == 0 { "" } else { "\n" };
                writeln!(out, "{gap}{label}")
            } else {
                let pad = width - label.chars().count().min(width);
                writeln!(out, "  {label}{:pad$}  {says}", "")
            };
            written.expect("a String takes everything");
        }
        out
    }
}

/// Of a row's label; a heading has none.
fn width_of((label, says): &(String, String)) -> usize {
    if says.is_empty() {
        0
    } else {
        label.chars().count()
    }
}

/// Bytes in the unit that leaves one to four digits.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut unit = 0;
    let mut tenths = count.saturating_mul(10) / 1024;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A duration in its two largest units.
pub(super) fn duration(length: Duration) -> String {
    let secs = length.as_secs();
    let parts = [
        (secs / 86_400, "d"),
        (secs / 3600 % 24, "h"),
        (secs / 60 % 60, "min"),
        (secs % 60, "s"),
    ];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let shown = parts[first..].iter().take(2);
    let words: Vec<String> = shown
        .filter(|(count, _)| *count > 0 || secs == 0)
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    words.join(" ")
}

/// A point in time as seen from `now`.
pub(super) fn from_now(at: Timestamp, now: Timestamp) -> String {
    let ahead = at.as_secs().saturating_sub(now.as_secs());
    if ahead > 0 {
        format!("in {}", duration(Duration::from_secs(ahead)))
    } else {
        let behind = now.as_secs().saturating_sub(at.as_secs());
        format!("{} ago", duration(Duration::from_secs(behind)))
    }
}

/// Sends a line of an answer; `false` if nobody listens any more.
pub(super) async fn tell(replies: &mpsc::Sender<Reply>, reply: Reply) -> bool {
    replies.send(reply).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_units_of_people() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(5 << 30), "5.0 GiB");
        assert_eq!(bytes(u64::MAX), "1638.3 PiB");
        assert_eq!(duration(Duration::from_secs(0)), "0 s");
        assert_eq!(duration(Duration::from_mins(1)), "1 min");
        assert_eq!(duration(Duration::from_secs(90_061)), "1 d 1 h");
        assert_eq!(duration(Duration::from_mins(1441)), "1 d");
        let now = Timestamp::from_secs(1000);
        assert_eq!(from_now(Timestamp::from_secs(1030), now), "in 30 s");
        assert_eq!(from_now(Timestamp::from_secs(880), now), "2 min ago");
    }

    #[test]
    fn rows_are_aligned_below_their_heading() {
        let mut rows = Rows::default();
        rows.heading("server");
        rows.row("a", 1);
        rows.row("long", "two words");
        rows.heading("rest");
        rows.row("b", 2);
        assert_eq!(
            rows.text(),
            "server\n  a     1\n  long  two words\n\nrest\n  b     2\n"
        );
    }

    #[test]
    fn a_long_label_moves_what_stands_below_its_heading_alone() {
        let mut rows = Rows::default();
        rows.heading("who");
        rows.row("npub1aaaaaaaaaaaaaaaaaaaaa", "one");
        rows.row("b", "two");
        rows.heading("what");
        rows.row("long", 3);
        assert_eq!(
            rows.text(),
            "who\n  npub1aaaaaaaaaaaaaaaaaaaaa  one\n  b                           two\n\nwhat\n  long  3\n"
        );
    }
}
