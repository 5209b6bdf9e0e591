//! What following other servers counts (§20).
//!
//! Relays come and go by what strangers announce. So only the few with the most repositories have series of their own,
//! and all others share one; a relay that leaves the list takes its series along.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use grasp_metrics::{Sort, Text};
use grasp_sync::dial::Outcome;
use grasp_sync::engine::{Counted, HealthState, Progress, Refusal, RelayReport};
use grasp_sync::home::{Phase, Tally, Verdict};
use grasp_sync::intake::{self, BySort, Tallies};
use grasp_sync::relay_url::RelayUrl;

/// The label of all relays without series of their own.
const OTHER: &str = "other";
/// What became of a delivered event, as a label.
const VERDICTS: [(Verdict, &str); 3] = [
    (Verdict::Fresh, "new"),
    (Verdict::Known, "known"),
    (Verdict::Junk, "invalid"),
];
/// What an event was asked for by, as a label.
const PHASES: [(Phase, &str); 2] = [(Phase::Live, "live"), (Phase::Historic, "historic")];
/// What of a dial's outcomes leaves a relay alone for long (SYNC-46).
const NAUGHTY: [Outcome; 3] = [Outcome::Name, Outcome::Certificate, Outcome::Protocol];

/// What was counted at one relay, or at all others together.
#[derive(Debug, Default)]
struct Counts {
    dials: BTreeMap<&'static str, u64>,
    refusals: BTreeMap<Refusal, u64>,
    deliveries: BTreeMap<(Phase, Verdict), u64>,
}

/// Everything that is counted while other servers are followed.
#[derive(Debug, Default)]
pub(crate) struct Sync {
    synced: AtomicU64,
    long_reconnects: AtomicU64,
    unanswered: AtomicU64,
    relays_full: AtomicU64,
    by_relay: Mutex<ByRelay>,
}

#[derive(Debug, Default)]
struct ByRelay {
    listed: BTreeMap<RelayUrl, Counts>,
    others: Counts,
    /// By category, whichever relay it was.
    naughty: BTreeMap<&'static str, u64>,
}

/// How following is doing at the moment.
#[derive(Debug)]
pub(crate) struct SyncState {
    /// All relays.
    pub(crate) relays: Vec<RelayReport>,
    /// What is remembered of events that were not taken in.
    pub(crate) sizes: intake::Sizes,
    /// Whole events by sort, and ids.
    pub(crate) by_sort: (BySort, BySort),
    /// What happened to them.
    pub(crate) tallies: Tallies,
}

impl Sync {
    /// An event of another server was taken in.
    pub(crate) fn took_in(&self) {
        self.synced.fetch_add(1, Relaxed);
    }

    /// Something happened at a relay.
    pub(crate) fn count(&self, relay: &RelayUrl, what: Tally) {
        let mut by_relay = self.by_relay.lock().unwrap_or_else(PoisonError::into_inner);
        let ByRelay {
            listed,
            others,
            naughty,
        } = &mut *by_relay;
        let counts = listed.get_mut(relay).unwrap_or(others);
        match what {
            Tally::Dialled(outcome) => {
                *counts.dials.entry(outcome.label()).or_default() += 1;
                if NAUGHTY.contains(&outcome) {
                    *naughty.entry(outcome.label()).or_default() += 1;
                }
            }
            Tally::Delivered(phase, verdict) => {
                *counts.deliveries.entry((phase, verdict)).or_default() += 1;
            }
            Tally::Noted(Counted::Refused(refusal)) => {
                *counts.refusals.entry(refusal).or_default() += 1;
            }
            Tally::Noted(Counted::DialTimedOut) => {
                let outcome = Outcome::TimedOut.label();
                *counts.dials.entry(outcome).or_default() += 1;
            }
            Tally::Noted(Counted::LongReconnect) => one_more(&self.long_reconnects),
            Tally::Noted(Counted::Unanswered) => one_more(&self.unanswered),
            Tally::Noted(Counted::RelaysFull) => one_more(&self.relays_full),
            Tally::Noted(Counted::NegentropyUnsupported) => {
                tracing::info!(%relay, "relay has no negentropy; its history is read page by page");
            }
        }
    }

    /// Lists these from now on, and no others.
    fn list(&self, relays: &BTreeSet<&RelayUrl>) {
        let mut by_relay = self.by_relay.lock().unwrap_or_else(PoisonError::into_inner);
        by_relay.listed.retain(|relay, _| relays.contains(relay));
        for relay in relays {
            by_relay.listed.entry((*relay).clone()).or_default();
        }
    }

    pub(super) fn render(
        &self,
        text: &mut Text,
        state: &SyncState,
        bootstrap: Option<&RelayUrl>,
        top: usize,
    ) {
        let mut by_size: Vec<&RelayReport> = state.relays.iter().collect();
        by_size.sort_by_key(|report| {
            let is_bootstrap = Some(&report.url) == bootstrap;
            (!is_bootstrap, usize::MAX - report.repositories)
        });
        let count = top + usize::from(bootstrap.is_some());
        let listed: Vec<&RelayReport> = by_size.into_iter().take(count).collect();
        self.list(&listed.iter().map(|report| &report.url).collect());
        render_relays(text, &listed);
        self.render_counts(text);
        self.render_totals(text, state);
        render_refused(text, state);
    }

    fn render_counts(&self, text: &mut Text) {
        let by_relay = self.by_relay.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = by_relay.listed.iter();
        let listed = listed.map(|(relay, counts)| (relay.as_str(), counts));
        let all: Vec<_> = listed.chain([(OTHER, &by_relay.others)]).collect();
        let mut metric = text.metric(
            "ngit_sync_connection_attempts_total",
            Sort::Counter,
            "Dials of other servers' relays, by how they ended.",
        );
        for (relay, counts) in &all {
            for outcome in Outcome::ALL {
                let result = outcome.label();
                let count = counts.dials.get(result).copied().unwrap_or(0);
                metric.sample(&[("relay", relay), ("result", result)], count);
            }
        }
        let mut metric = text.metric(
            "ngit_sync_policy_refusals_total",
            Sort::Counter,
            "What relays refused.",
        );
        for (relay, counts) in &all {
            for refusal in Refusal::ALL {
                let category = refusal.label();
                let count = counts.refusals.get(&refusal).copied().unwrap_or(0);
                metric.sample(&[("relay", relay), ("category", category)], count);
            }
        }
        let mut metric = text.metric(
            "ngit_sync_hydration_events_total",
            Sort::Counter,
            "Events that relays delivered, by what became of them.",
        );
        for (relay, counts) in &all {
            for (key, phase, outcome) in deliveries() {
                let count = counts.deliveries.get(&key).copied().unwrap_or(0);
                let labels = [("relay", *relay), ("phase", phase), ("outcome", outcome)];
                metric.sample(&labels, count);
            }
        }
        let mut metric = text.metric(
            "ngit_sync_naughty_relays_total",
            Sort::Counter,
            "Dials that met a broken name, certificate or protocol; the relay is left alone for long.",
        );
        for outcome in NAUGHTY {
            let category = outcome.label();
            let count = by_relay.naughty.get(category).copied().unwrap_or(0);
            metric.sample(&[("category", category)], count);
        }
    }

    fn render_totals(&self, text: &mut Text, state: &SyncState) {
        let count = |is: fn(&RelayReport) -> bool| state.relays.iter().filter(|it| is(it)).count();
        text.gauge(
            "ngit_sync_relays_tracked_total",
            "Relays that are known.",
            state.relays.len(),
        );
        text.gauge(
            "ngit_sync_relays_connected_total",
            "Relays with a connection.",
            count(|report| report.progress >= Progress::Syncing),
        );
        text.gauge(
            "ngit_sync_relays_dead_total",
            "Relays that fail for a day and are tried once a day.",
            count(|report| report.health == HealthState::Dead),
        );
        text.counter(
            "ngit_sync_events_synced_total",
            "Events that other servers sent and that were taken in.",
            self.synced.load(Relaxed),
        );
        text.counter(
            "ngit_sync_long_reconnects_total",
            "Connections that came back after more than 15 minutes, so that all was asked for again.",
            self.long_reconnects.load(Relaxed),
        );
        text.counter(
            "ngit_sync_transient_req_watchdog_total",
            "Questions that had no answer in time.",
            self.unanswered.load(Relaxed),
        );
        text.counter(
            "ngit_sync_relays_refused_total",
            "Times an announcement listed a relay for which there was no room.",
            self.relays_full.load(Relaxed),
        );
    }
}

fn one_more(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

/// All that a delivery can be, with its two labels.
fn deliveries() -> impl Iterator<Item = ((Phase, Verdict), &'static str, &'static str)> {
    PHASES.into_iter().flat_map(|(phase, phase_label)| {
        let verdicts = VERDICTS.into_iter();
        verdicts.map(move |(verdict, label)| ((phase, verdict), phase_label, label))
    })
}

fn render_relays(text: &mut Text, listed: &[&RelayReport]) {
    let mut metric = text.metric(
        "ngit_sync_relay_connected",
        Sort::Gauge,
        "0 disconnected, 1 connecting, 2 syncing, 3 connected, 4 connected while questions fail.",
    );
    for report in listed {
        metric.sample(&[("relay", report.url.as_str())], report.progress as u8);
    }
    let mut metric = text.metric(
        "ngit_sync_relay_status",
        Sort::Gauge,
        "1 healthy, 2 disconnected, 3 degraded, 4 dead, 5 rate-limited, 6 policy-limited.",
    );
    for report in listed {
        metric.sample(&[("relay", report.url.as_str())], status(report));
    }
    let mut metric = text.metric(
        "ngit_sync_relay_failures",
        Sort::Gauge,
        "Failures in a row.",
    );
    for report in listed {
        metric.sample(&[("relay", report.url.as_str())], report.failures);
    }
}

fn status(report: &RelayReport) -> u8 {
    match report.health {
        HealthState::Healthy if report.progress == Progress::Disconnected => 2,
        HealthState::Healthy => 1,
        HealthState::Degraded => 3,
        HealthState::Dead => 4,
        HealthState::RateLimited => 5,
        HealthState::PolicyLimited => 6,
    }
}

fn render_refused(text: &mut Text, state: &SyncState) {
    let sizes = state.sizes;
    let mut metric = text.metric(
        "ngit_sync_retained_state_current",
        Sort::Gauge,
        "What is remembered of events that were not taken in.",
    );
    for (class, size) in [
        ("orphans", sizes.orphans),
        ("orphan_bytes", sizes.orphan_bytes),
        ("marks", sizes.marks),
        ("dependencies", sizes.dependencies),
    ] {
        metric.sample(&[("class", class)], size);
    }
    let (hot, cold) = state.by_sort;
    let tallies = state.tallies;
    for (name, sort, help, numbers) in [
        (
            "ngit_sync_rejected_hot_cache_current",
            Sort::Gauge,
            "Refused events that are kept whole.",
            hot,
        ),
        (
            "ngit_sync_rejected_cold_index_current",
            Sort::Gauge,
            "Ids of refused events that are remembered.",
            cold,
        ),
        (
            "ngit_sync_rejected_hot_cache_hits_total",
            Sort::Counter,
            "Refused events that were tried again from memory.",
            tallies.hits,
        ),
        (
            "ngit_sync_rejected_hot_cache_misses_total",
            Sort::Counter,
            "Refused events that have to come again, since only their ids were known.",
            tallies.misses,
        ),
        (
            "ngit_sync_rejected_hot_cache_expired_total",
            Sort::Counter,
            "Refused events that were kept long enough.",
            tallies.orphans_expired,
        ),
        (
            "ngit_sync_rejected_cold_index_expired_total",
            Sort::Counter,
            "Ids that were remembered long enough.",
            tallies.marks_expired,
        ),
        (
            "ngit_sync_rejected_invalidated_total",
            Sort::Counter,
            "Refusals that were forgotten because what the event lacked arrived.",
            tallies.invalidated(),
        ),
    ] {
        let mut metric = text.metric(name, sort, help);
        for event_type in intake::Sort::ALL {
            let labels = [("event_type", event_type.label())];
            metric.sample(&labels, numbers.get(event_type));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(url: &RelayUrl) -> RelayReport {
        RelayReport {
            url: url.clone(),
            progress: Progress::ConnectedWithFailures,
            health: HealthState::Dead,
            failures: 3,
            repositories: 1,
            confirmed: 1,
            pending: 1,
            missing: 1,
            batches: 1,
            live: 1,
            polled: 1,
            undelivered: 1,
            next_attempt: None,
            daily_at: None,
        }
    }

    fn happens(sync: &Sync, relay: &RelayUrl) {
        let dials = Outcome::ALL.into_iter();
        let dials = dials.filter(|outcome| *outcome != Outcome::TimedOut);
        let noted = [
            Counted::DialTimedOut,
            Counted::LongReconnect,
            Counted::Unanswered,
            Counted::RelaysFull,
            Counted::NegentropyUnsupported,
        ];
        let refused = Refusal::ALL.into_iter().map(Counted::Refused);
        let all = dials
            .map(Tally::Dialled)
            .chain(noted.into_iter().chain(refused).map(Tally::Noted))
            .chain(deliveries().map(|((phase, verdict), ..)| Tally::Delivered(phase, verdict)));
        all.for_each(|what| sync.count(relay, what));
    }

    /// §20: whatever happens moves a series, at a relay with series of its own and at all others.
    #[test]
    fn whatever_happens_at_a_relay_moves_a_series() {
        let [listed, other]: [RelayUrl; 2] =
            ["wss://a.example.com", "wss://b.example.com"].map(|url| url.parse().expect("valid"));
        let state = SyncState {
            relays: vec![failing(&listed)],
            sizes: intake::Sizes {
                orphans: 1,
                orphan_bytes: 1,
                marks: 1,
                dependencies: 1,
            },
            by_sort: (BySort::default(), BySort::default()),
            tallies: Tallies::default(),
        };
        let sync = Sync::default();
        sync.render(&mut Text::default(), &state, None, 1);
        happens(&sync, &listed);
        happens(&sync, &other);
        sync.took_in();
        let mut text = Text::default();
        sync.render(&mut text, &state, None, 1);
        let text = text.into_string();
        // What was refused is counted by the intake, whose tests move it.
        let is_ours = |line: &&str| !line.starts_with('#') && !line.contains("_rejected_");
        let still: Vec<_> = text.lines().filter(is_ours).collect();
        let still = still.iter().filter(|line| line.ends_with(" 0"));
        assert_eq!(still.collect::<Vec<_>>(), Vec::<&&str>::new(), "{text}");
    }
}
