//! What git data is missing, from where it may come, when it is looked for next, and how that went last.

use std::time::Duration;

use grasp_core::Timestamp;
use grasp_core::name::Identifier;
use grasp_core::oid::Oid;
use grasp_sync::engine::Time;
use serde_json::{Value, json};

use super::sync::when;
use super::text::{Rows, bytes, duration, from_now};
use crate::hunt::{Page, words};
use crate::words::counted;

/// Of a long list so many are told; of the others the number.
const TOLD_MAX: usize = 3;

/// One identifier, for a terminal.
pub(super) fn rows(rows: &mut Rows, identifier: &Identifier, page: &Page, now: Timestamp) {
    rows.heading(&format!("git data of {identifier}"));
    tell(rows, page, now);
}

/// What is told of it below whatever heading.
pub(super) fn tell(rows: &mut Rows, page: &Page, now: Timestamp) {
    for group in &page.groups {
        let missing = counted(group.count as u64, "object", "objects");
        rows.row("missing", format!("{missing} for {}", group.into));
        for oid in group.first.iter().take(TOLD_MAX) {
            rows.row("", oid);
        }
        if group.count > TOLD_MAX {
            rows.row(
                "",
                format!("and {} more", group.count - TOLD_MAX.min(group.first.len())),
            );
        }
        for source in group.sources.iter().take(TOLD_MAX) {
            rows.row("to be asked", source);
        }
        if group.sources.len() > TOLD_MAX {
            rows.row("", format!("and {} more", group.sources.len() - TOLD_MAX));
        }
    }
    for fetch in &page.running {
        let since = duration(Duration::from_secs(fetch.seconds));
        let sent = bytes(fetch.bytes);
        rows.row(
            "being fetched",
            format!("{} since {since}, {sent}", fetch.source),
        );
    }
    let attempts = counted(u64::from(page.attempts), "attempt", "attempts");
    let kind = if page.is_parked { ", hourly" } else { "" };
    let next = when(page.next_attempt, now);
    rows.row("looked for", format!("{next}, after {attempts}{kind}"));
    for end in &page.ends {
        let at = Timestamp::from_secs(end.at.as_secs());
        let (how, ago) = (words(&end.outcome), from_now(at, now));
        rows.row("asked", format!("{}, {ago}: {how}", end.source));
    }
}

/// One identifier, for a program: times in seconds since 1970.
pub(super) fn value(identifier: &Identifier, page: &Page) -> Value {
    let groups = page.groups.iter().map(|group| {
        json!({
            "repository": group.into.to_string(),
            "missing": group.count,
            "first": group.first.iter().map(Oid::to_string).collect::<Vec<_>>(),
            "sources": group.sources.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    });
    let running = page.running.iter().map(|fetch| {
        json!({
            "source": fetch.source.as_str(),
            "seconds": fetch.seconds,
            "bytes": fetch.bytes,
        })
    });
    let asked = page.ends.iter().map(|end| {
        json!({
            "source": end.source.as_str(),
            "at": end.at.as_secs(),
            "outcome": words(&end.outcome),
        })
    });
    json!({
        "identifier": identifier.as_str(),
        "next_attempt": Time::as_secs(page.next_attempt),
        "attempts": page.attempts,
        "hourly": page.is_parked,
        "groups": groups.collect::<Vec<_>>(),
        "running": running.collect::<Vec<_>>(),
        "asked": asked.collect::<Vec<_>>(),
    })
}
