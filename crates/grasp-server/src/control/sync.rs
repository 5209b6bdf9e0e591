//! `sync status`: which servers are followed, in which state, why, what is pending, and what comes next.

use grasp_core::Timestamp;
use grasp_sync::engine::{HealthState, Progress, RelayReport, Time};
use grasp_sync::intake::Sizes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::desk::Failure;
use super::text::{Rows, from_now, tell};
use super::{Desk, Reply, hunt};
use crate::hunt::Ledger;

/// So many identifiers are told of on a terminal.
const HUNTS_MAX: usize = 20;

impl Desk {
    pub(super) async fn sync_status(
        &self,
        json: bool,
        replies: &mpsc::Sender<Reply>,
    ) -> Result<u64, Failure> {
        let following = self.monitoring.following.get();
        let state = match following {
            Some(following) => following.state().await,
            None => return Err(Failure::NotFollowing),
        };
        let mut relays = state.relays;
        relays.sort_by(|a, b| a.url.cmp(&b.url));
        let ledger = match self.monitoring.hunting.get() {
            Some(hunting) => hunting.report().await,
            None => Ledger::default(),
        };
        if json {
            for report in &relays {
                if !tell(replies, Reply::Value(value(report))).await {
                    return Ok(0);
                }
            }
            for (identifier, page) in ledger.pages() {
                if !tell(replies, Reply::Value(hunt::value(identifier, page))).await {
                    break;
                }
            }
            return Ok(0);
        }
        let now = self.service().clock.now();
        let mut rows = rows(&relays, state.sizes, now);
        looked_for(&mut rows, &ledger, now);
        tell(replies, Reply::Text(rows.text())).await;
        Ok(0)
    }
}

/// The git data that is due soonest.
fn looked_for(rows: &mut Rows, ledger: &Ledger, now: Timestamp) {
    let mut pages: Vec<_> = ledger.pages().collect();
    pages.sort_by_key(|(_, page)| page.next_attempt);
    for (identifier, page) in pages.iter().take(HUNTS_MAX) {
        hunt::rows(rows, identifier, page, now);
    }
    if pages.len() > HUNTS_MAX {
        let others = pages.len() - HUNTS_MAX;
        rows.heading(&format!("and git data of {others} more (--json has all)"));
    }
}

fn rows(relays: &[RelayReport], sizes: Sizes, now: Timestamp) -> Rows {
    let mut rows = Rows::default();
    if relays.is_empty() {
        rows.heading("no other server is followed: no announcement here lists another relay");
    }
    for report in relays {
        rows.heading(report.url.as_str());
        rows.row("state", state(report.progress));
        rows.row("health", health(report));
        rows.row("repositories", report.repositories);
        let (confirmed, pending, missing) = (report.confirmed, report.pending, report.missing);
        let items = format!("{confirmed} confirmed, {pending} pending, {missing} to ask for");
        rows.row("repositories and roots", items);
        let (live, polled) = (report.live, report.polled);
        let followed = format!("{live} live, {polled} filters polled");
        rows.row("subscriptions", followed);
        if report.undelivered > 0 {
            rows.row("named, not delivered", report.undelivered);
        }
        if let Some(at) = report.next_attempt {
            rows.row("next attempt", when(at, now));
        }
        if let Some(at) = report.daily_at {
            rows.row("all is asked again", when(at, now));
        }
    }
    rows.heading("events that were not taken in");
    rows.row("kept, to be tried again", sizes.orphans);
    rows.row("what they hang on, asked for", sizes.dependencies);
    rows.row("remembered by id", sizes.marks);
    rows
}

pub(super) fn when(at: Time, now: Timestamp) -> String {
    if at.as_secs() <= now.as_secs() {
        return "now".to_owned();
    }
    from_now(Timestamp::from_secs(at.as_secs()), now)
}

fn state(progress: Progress) -> &'static str {
    match progress {
        Progress::Disconnected => "disconnected",
        Progress::Connecting => "connecting",
        Progress::Syncing => "syncing",
        Progress::Connected => "connected",
        Progress::ConnectedWithFailures => "connected, and it refuses questions for now",
    }
}

fn health(report: &RelayReport) -> String {
    let words = match report.health {
        HealthState::Healthy => "healthy",
        HealthState::Degraded => "failed lately",
        HealthState::Dead => "dead: it fails for a day and is tried once a day",
        HealthState::RateLimited => "asked for a pause",
        HealthState::PolicyLimited => "does not want us, or may not be dialled: tried once a day",
    };
    match report.failures {
        0 => words.to_owned(),
        1 => format!("{words}, 1 failure"),
        failures => format!("{words}, {failures} failures in a row"),
    }
}

fn value(report: &RelayReport) -> Value {
    let progress = match report.progress {
        Progress::ConnectedWithFailures => "connected-with-failures",
        progress => state(progress),
    };
    let health = match report.health {
        HealthState::Healthy => "healthy",
        HealthState::Degraded => "degraded",
        HealthState::Dead => "dead",
        HealthState::RateLimited => "rate-limited",
        HealthState::PolicyLimited => "policy-limited",
    };
    json!({
        "relay": report.url.as_str(),
        "state": progress,
        "health": health,
        "failures": report.failures,
        "repositories": report.repositories,
        "confirmed": report.confirmed,
        "pending": report.pending,
        "missing": report.missing,
        "batches": report.batches,
        "live": report.live,
        "polled": report.polled,
        "undelivered": report.undelivered,
        "next_attempt": report.next_attempt.map(Time::as_secs),
        "daily_at": report.daily_at.map(Time::as_secs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> RelayReport {
        RelayReport {
            url: "wss://a.example.com".parse().expect("valid"),
            progress: Progress::Disconnected,
            health: HealthState::Degraded,
            failures: 3,
            repositories: 2,
            confirmed: 1,
            pending: 0,
            missing: 4,
            batches: 0,
            live: 0,
            polled: 0,
            undelivered: 7,
            next_attempt: Some(Time::from_secs(1_030)),
            daily_at: None,
        }
    }

    #[test]
    fn an_operator_reads_why_a_relay_is_away_and_when_it_is_tried() {
        let now = Timestamp::from_secs(1_000);
        let text = rows(&[report()], Sizes::default(), now).text();
        for part in [
            "wss://a.example.com\n",
            "disconnected",
            "failed lately, 3 failures in a row",
            "1 confirmed, 0 pending, 4 to ask for",
            "in 30 s",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        let nobody = rows(&[], Sizes::default(), now).text();
        assert!(nobody.contains("no other server is followed"));
        assert_eq!(value(&report())["next_attempt"], 1_030);
    }
}
