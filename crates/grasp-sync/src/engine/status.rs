//! What operators see of each relay: which state it is in, why, what is pending, when something happens next.

use super::Engine;
use super::health::HealthState;
use super::number::RelayId;
use super::relay_index::{ConnectionStatus, RelayState};
use super::time::Time;
use crate::relay_url::RelayUrl;

/// How far we are with a relay. The order is that of the gauge `ngit_sync_relay_connected` (0 to 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// Not connected.
    Disconnected,
    /// Dialling.
    Connecting,
    /// Connected, and histories are not all read.
    Syncing,
    /// Connected, and all that is wanted is confirmed.
    Connected,
    /// Connected, while questions fail or are refused.
    ConnectedWithFailures,
}

/// One relay, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayReport {
    /// Which.
    pub url: RelayUrl,
    /// How far we are.
    pub progress: Progress,
    /// How it is doing.
    pub health: HealthState,
    /// Failures in a row.
    pub failures: u32,
    /// Repositories that are followed there.
    pub repositories: usize,
    /// Repositories and roots that are confirmed.
    pub confirmed: usize,
    /// Repositories and roots that are in flight.
    pub pending: usize,
    /// Repositories and roots that wait to be asked for.
    pub missing: usize,
    /// Batches in flight.
    pub batches: usize,
    /// Live subscriptions.
    pub live: usize,
    /// Filters that are polled because no live subscription could be had for them.
    pub polled: usize,
    /// Ids that it named and did not deliver.
    pub undelivered: usize,
    /// When it is dialled next, while it is not connected.
    pub next_attempt: Option<Time>,
    /// When all is asked for again.
    pub daily_at: Option<Time>,
}

impl Engine {
    /// All relays.
    pub fn reports(&self) -> impl Iterator<Item = RelayReport> {
        let all = self.relays.iter();
        all.map(|(relay, url, state)| self.report(relay, url, state))
    }

    fn report(&self, relay: RelayId, url: &RelayUrl, state: &RelayState) -> RelayReport {
        let health = self.health.get(relay);
        let live = self.live(relay);
        let is_connected = state.connection_status == ConnectionStatus::Connected;
        let pending = self.pending.items(relay);
        RelayReport {
            url: url.clone(),
            progress: self.progress(relay, state),
            health: health.map_or(HealthState::Healthy, |health| health.state(self.now)),
            failures: health.map_or(0, super::health::RelayHealth::failures),
            repositories: state.repos.len() + pending.repos.len() + state.missing.repos.len(),
            confirmed: state.repos.len() + state.root_events.len(),
            pending: pending.len(),
            missing: state.missing.len(),
            batches: self.pending.batches(relay).count(),
            live: live.map_or(0, super::LiveSet::len),
            polled: live.map_or(0, |live| live.polled().len()),
            undelivered: state.undelivered.len(),
            next_attempt: self.dialling.at(&relay).filter(|_| !is_connected),
            daily_at: state.daily_at,
        }
    }

    fn progress(&self, relay: RelayId, state: &RelayState) -> Progress {
        let quiet = self.health.quiet_until(relay, self.now);
        let background = self.health.background_until(relay, self.now);
        let is_caught_up = state.missing.is_empty() && self.pending.is_caught_up(relay);
        match state.connection_status {
            ConnectionStatus::Disconnected => Progress::Disconnected,
            ConnectionStatus::Connecting => Progress::Connecting,
            ConnectionStatus::Connected if quiet.max(background).is_some() => {
                Progress::ConnectedWithFailures
            }
            ConnectionStatus::Connected if is_caught_up => Progress::Connected,
            ConnectionStatus::Connected => Progress::Syncing,
        }
    }
}
