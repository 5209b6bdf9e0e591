//! All numbers as one text.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use grasp_core::lifecycle::Stage;
use grasp_git::http::Fetches;
use grasp_metrics::{Sort, Text};
use grasp_store::{Overview, Stats, StoreError};
use tracing::error;

use super::labels::Waiting;
use super::{Bound, Metrics, SyncState, process};
use crate::hunt::HuntingView;
use crate::service::Service;
use crate::settings::Build;
use crate::sync::FollowingView;

/// The `stage` of an event.
const STAGES: [(Stage, &str); 5] = [
    (Stage::Served, "served"),
    (Stage::Waiting, "waiting"),
    (Stage::Parked, "parked"),
    (Stage::Superseded, "superseded"),
    (Stage::Held, "held"),
];

/// Everything that has numbers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Monitoring {
    /// The server's own, and what is stored now.
    pub(crate) service: Service,
    /// The relay's.
    pub(crate) relay: Arc<grasp_relay::Metrics>,
    /// The store's.
    pub(crate) store: Arc<grasp_store::Metrics>,
    /// Counts the fetches it turned away.
    pub(crate) fetches: Arc<Fetches>,
    /// More connections of one address than this are conspicuous.
    pub(crate) abuse_threshold: usize,
    /// Relays with series of their own.
    pub(crate) relays_listed: usize,
    /// Which program this is.
    pub(crate) build: Build,
    /// How following other servers is doing, while it runs.
    pub(crate) following: Arc<OnceLock<FollowingView>>,
    /// How looking for git data is doing, while it runs.
    pub(crate) hunting: Arc<OnceLock<HuntingView>>,
}

impl Monitoring {
    /// Other servers are followed from now on.
    pub(crate) fn follow(&self, view: FollowingView) {
        // A server runs once.
        let _ = self.following.set(view);
    }

    /// Git data is looked for from now on.
    pub(crate) fn hunt(&self, view: HuntingView) {
        let _ = self.hunting.set(view);
    }

    /// The whole page.
    pub(crate) async fn text(&self) -> String {
        let sync = match self.following.get() {
            Some(following) => Some(following.state().await),
            None => None,
        };
        let monitoring = self.clone();
        let rendering = move || monitoring.render(sync.as_ref());
        self.service.blocking(rendering).await
    }

    fn render(&self, sync: Option<&SyncState>) -> String {
        let mut text = Text::default();
        self.websocket(&mut text);
        self.events(&mut text);
        self.git(&mut text);
        self.limits(&mut text);
        self.repositories(&mut text);
        self.metrics().holding.render(&mut text);
        if let (Some(state), Some(following)) = (sync, self.following.get()) {
            let bootstrap = following.bootstrap();
            let metrics = &self.metrics().sync;
            metrics.render(&mut text, state, bootstrap, self.relays_listed);
        }
        if self.hunting.get().is_some() {
            self.metrics().hunting.render(&mut text);
        }
        self.store(&mut text);
        self.program(&mut text);
        process::render(&mut text);
        text.into_string()
    }

    fn metrics(&self) -> &Metrics {
        &self.service.metrics
    }

    fn websocket(&self, text: &mut Text) {
        let relay = &self.relay;
        text.gauge(
            "ngit_websocket_connections_active",
            "Open connections.",
            relay.connections_active.load(Relaxed),
        );
        text.counter(
            "ngit_websocket_connections_total",
            "Connections taken.",
            relay.connections_total.load(Relaxed),
        );
        text.gauge(
            "ngit_websocket_unique_ips",
            "Client addresses with an open connection.",
            relay.clients.unique(),
        );
        text.gauge(
            "ngit_websocket_flagged_abusers",
            "Client addresses with more open connections than NGIT_METRICS_CONNECTION_PER_IP_ABUSE_THRESHOLD.",
            relay.clients.above(self.abuse_threshold),
        );
        text.histogram(
            "ngit_websocket_connection_duration_seconds",
            "How long connections that have ended lasted.",
            &relay.connection_duration,
        );
        text.family(
            "ngit_websocket_messages_received_total",
            "Messages of clients.",
            "type",
            &relay.received,
        );
        text.family(
            "ngit_websocket_messages_sent_total",
            "Messages to clients.",
            "type",
            &relay.sent,
        );
        text.gauge(
            "ngit_websocket_outbound_bytes",
            "Bytes that wait for all sockets together.",
            relay.outbound_bytes.load(Relaxed),
        );
        text.gauge(
            "ngit_websocket_subscriptions",
            "Open subscriptions.",
            self.service.fanout.subscriptions(),
        );
        text.histogram(
            "ngit_fanout_lag_seconds",
            "From a commit to the moment its events were handed to subscriptions.",
            &self.metrics().fanout_lag,
        );
    }

    fn events(&self, text: &mut Text) {
        let metrics = self.metrics();
        text.family(
            "ngit_events_received_total",
            "Events that were looked at.",
            "kind",
            &metrics.events_received,
        );
        text.family(
            "ngit_events_stored_total",
            "Events that became visible.",
            "kind",
            &metrics.events_stored,
        );
        text.table(
            "ngit_events_rejected_total",
            "Events that were not taken.",
            ["kind", "reason"],
            &metrics.events_rejected,
        );
        metrics.request_cleanups.render(text);
    }

    fn git(&self, text: &mut Text) {
        let metrics = self.metrics();
        text.table(
            "ngit_git_operations_total",
            "Requests for objects, and pushes.",
            ["operation", "status"],
            &metrics.git_operations,
        );
        text.histograms(
            "ngit_git_operation_duration_seconds",
            "From the request to the end of the answer.",
            "operation",
            &metrics.git_duration,
        );
        text.family(
            "ngit_git_bytes_total",
            "Bytes of fetches and pushes.",
            "direction",
            &metrics.git_bytes,
        );
        text.family(
            "ngit_git_push_authorization_total",
            "What signed events said of pushes.",
            "result",
            &metrics.push_authorization,
        );
    }

    fn limits(&self, text: &mut Text) {
        let mut metric = text.metric(
            "ngit_limit_refusals_total",
            Sort::Counter,
            "How often a limit said no.",
        );
        metric.family("limit", self.relay.refusals.iter());
        metric.family(
            "limit",
            self.metrics()
                .refusals
                .iter()
                .map(|(bound, count)| match bound {
                    Bound::FetchesQueued => (bound, self.fetches.refused()),
                    Bound::RequestBytes => (bound, self.fetches.too_large()),
                    _ => (bound, count),
                }),
        );
    }

    fn repositories(&self, text: &mut Text) {
        let conditions = &self.metrics().conditions;
        text.gauge(
            "ngit_repositories_frozen",
            "Repositories whose refs stay as they are, since no state decides about them.",
            conditions.frozen(),
        );
        text.gauge(
            "ngit_repositories_degraded",
            "Repositories that do not show all their refs, since objects are gone.",
            conditions.degraded(),
        );
        text.gauge(
            "ngit_repositories_dirty",
            "Repositories that are still to be brought in line with their events.",
            self.service.store.dirty().list().len(),
        );
        let removal = &self.metrics().removal;
        text.counter(
            "ngit_removed_events_total",
            "Events that went because the repository or the author they hung on left.",
            removal.events(),
        );
        text.counter(
            "ngit_removals_capped_total",
            "Repositories that left without what hung on them, since that was too much to look at.",
            removal.capped(),
        );
    }

    fn store(&self, text: &mut Text) {
        text.histogram(
            "ngit_store_commit_duration_seconds",
            "Deciding, writing and syncing one group of commits.",
            &self.store.commit_duration,
        );
        text.histogram(
            "ngit_store_commit_members",
            "Commits that shared one sync.",
            &self.store.commit_members,
        );
        match self.stored() {
            Ok(overview) => {
                stored(text, &overview.stats);
                self.purgatory(text, &overview);
            }
            Err(failure) => error!(%failure, "monitoring cannot see what is stored"),
        }
    }

    fn stored(&self) -> Result<Overview, StoreError> {
        self.service.store.snapshot()?.view().overview()
    }

    /// What waits beside what the counters of stages say.
    fn purgatory(&self, text: &mut Text, overview: &Overview) {
        let now = self.service.clock.now();
        text.gauge(
            "ngit_purgatory_longest_wait_seconds",
            "Of the event that waits longest for its git data, since its time last began anew.",
            overview.longest_wait(now).unwrap_or_default(),
        );
        text.gauge(
            "ngit_purgatory_uploads",
            "Pushed commits whose event has not come.",
            overview.uploads,
        );
        text.gauge(
            "ngit_purgatory_hunts",
            "Identifiers whose git data is looked for.",
            overview.hunts,
        );
    }

    fn program(&self, text: &mut Text) {
        text.gauge(
            "ngit_uptime_seconds",
            "Since the server started.",
            self.metrics().started.elapsed().as_secs_f64(),
        );
        text.metric("ngit_build_info", Sort::Gauge, "Which program this is.")
            .sample(
                &[
                    ("version", self.build.version),
                    ("commit", self.build.commit),
                ],
                1,
            );
    }
}

/// What the store holds, by stage.
fn stored(text: &mut Text, stats: &Stats) {
    text.gauge(
        "ngit_repositories_total",
        "Announcements that are served.",
        stats.of(Stage::Served).announcements,
    );
    let waiting = stats.of(Stage::Waiting);
    text.metric(
        "ngit_purgatory_events",
        Sort::Gauge,
        "Events that wait for their git data.",
    )
    .family(
        "type",
        [
            (Waiting::Announcement, waiting.announcements),
            (Waiting::State, waiting.states),
            (Waiting::Proposal, waiting.proposals),
        ],
    );
    text.gauge("ngit_purgatory_bytes", "Their bytes.", waiting.bytes);
    let stages = STAGES.map(|(stage, name)| (name, stats.of(stage)));
    let mut metric = text.metric("ngit_store_events", Sort::Gauge, "Events by stage.");
    for (name, stage) in stages {
        metric.sample(&[("stage", name)], stage.events);
    }
    let mut metric = text.metric("ngit_store_bytes", Sort::Gauge, "Bytes of events by stage.");
    for (name, stage) in stages {
        metric.sample(&[("stage", name)], stage.bytes);
    }
}
