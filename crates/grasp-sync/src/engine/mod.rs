//! Decides what to ask of which relay, and when.
//!
//! Three indexes carry everything: [`RepoSyncIndex`] is what we want, [`RelaySyncIndex`] what is confirmed,
//! [`PendingSyncIndex`] what is in flight. Whatever happens, the answer to "what next" is wanted − in flight −
//! confirmed (`actions`), so nothing is asked for twice and what got lost is missing again by itself.
//!
//! The engine opens no socket, reads no clock and draws no chance: [`Engine::handle`] takes an [`Input`] and a time and
//! returns [`Output`]s, [`Engine::next_deadline`] says when to come back. The driver that does the doing is
//! boring on purpose; the simulator in `tests/` does the same with a seed in place of a network.
//!
//! Where things are: `lifecycle` connects, `scenarios` says what a connection begins with, `history` works through
//! batches, `answers` and `refusals` read what the peer says, `notices` what our own store says.

mod actions;
mod answers;
pub(crate) mod chance;
mod cursor;
mod filters;
mod health;
mod history;
mod io;
mod lifecycle;
mod live;
mod negentropy;
mod notices;
mod number;
mod paging;
mod pending;
mod query;
mod refusal;
mod refusals;
mod relay_index;
mod repo_index;
mod scenarios;
mod self_subscriber;
mod session;
pub mod settings;
mod slots;
mod status;
#[cfg(test)]
mod testing;
mod time;
pub(crate) mod timers;
mod written;

use std::collections::{BTreeMap, BTreeSet};

pub use actions::{AddFilters, RelaySyncNeeds, derive_relay_targets};
pub use cursor::{Cursor, FILTER_VERSION, SetDigest};
pub use filters::{
    Packing, PlannedFilter, Shape, Tier, build_announcement_filter,
    build_layer2_and_layer3_filters, build_repo_tag_filters, build_root_event_tag_filters,
};
pub use health::{DialFailure, HealthState, RelayHealth, RelayHealthTracker};
pub use io::{Counted, Delivery, Input, Notice, Output, PeerInfo, PeerMessage};
pub use live::{LiveBudget, LiveSet, LiveSubscription};
pub use number::{BatchId, ConnectionId, RelayId, RepoId, RootId, SubscriptionId};
pub use pending::{PendingBatch, PendingItems, PendingSyncIndex, Purpose, SyncMethod};
pub use refusal::Refusal;
pub use relay_index::{ConnectionStatus, Items, RelayState, RelaySyncIndex};
pub use repo_index::{Item, RepoSyncIndex, RepoSyncNeeds, SyncLevel};
pub use self_subscriber::SelfSubscriber;
pub use settings::Settings;
pub use status::{Progress, RelayReport};
pub use time::Time;

use chance::Chance;
use session::Session;
use slots::Slots;
use timers::Timers;
use written::Written;

/// What can be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The self-subscriber's batch fires.
    Batch,
    /// Some relay may be dialled.
    Retry,
    /// Relays without work are dropped.
    DisconnectCheck,
    /// A dial took too long.
    Dialling(RelayId),
    /// Something may be asked that had to wait.
    Pump(RelayId),
    /// A question has no answer.
    Answer(RelayId, SubscriptionId),
    /// A question keeps us waiting.
    Slow(RelayId),
    /// All is asked for again.
    Daily(RelayId),
    /// The cursor is written.
    Cursor(RelayId),
    /// What is not live is asked for.
    Poll(RelayId),
    /// Ids that were not delivered are asked for.
    Recover(RelayId),
    /// A history is checked once more.
    Recheck(RelayId),
    /// Live subscriptions that the peer closed are opened again.
    Reopen(RelayId),
    /// A challenge may be answered.
    Authenticate(RelayId),
}

/// The sync engine. See the [module](self).
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    now: Time,
    chance: Chance,
    timers: Timers<Timer>,
    wants: RepoSyncIndex,
    relays: RelaySyncIndex,
    pending: PendingSyncIndex,
    health: RelayHealthTracker,
    subscriber: SelfSubscriber,
    /// The connections that stand.
    sessions: BTreeMap<RelayId, Session>,
    /// The connections that are being dialled.
    dials: BTreeMap<RelayId, ConnectionId>,
    /// Whose connection it is, dialled or standing.
    connections: BTreeMap<ConnectionId, RelayId>,
    /// When relays are to be dialled that are not connected.
    dialling: Timers<RelayId>,
    last_dial: Option<Time>,
    histories: Slots,
    reconciliations: Slots,
    last_connection: ConnectionId,
    last_subscription: SubscriptionId,
    last_batch: BatchId,
    /// Relays to look at before the current input is done with.
    stirred: BTreeSet<RelayId>,
    written: Written,
    out: Vec<Output>,
}

impl Engine {
    /// An engine that knows nothing. All its chance comes from `seed`.
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            now: Time::default(),
            chance: Chance::new(seed),
            timers: Timers::new(),
            wants: RepoSyncIndex::new(seed),
            relays: RelaySyncIndex::new(seed),
            pending: PendingSyncIndex::default(),
            health: RelayHealthTracker::new(&settings),
            subscriber: SelfSubscriber::new(settings.batch_window),
            sessions: BTreeMap::new(),
            dials: BTreeMap::new(),
            connections: BTreeMap::new(),
            dialling: Timers::new(),
            last_dial: None,
            histories: Slots::new(settings::HISTORIES_MAX),
            reconciliations: Slots::new(settings::RECONCILIATIONS_MAX),
            last_connection: ConnectionId::default(),
            last_subscription: SubscriptionId::default(),
            last_batch: BatchId::default(),
            stirred: BTreeSet::new(),
            written: Written::default(),
            out: Vec::new(),
            settings,
        }
    }

    /// Takes one input and returns what follows from it at `now`.
    pub fn handle(&mut self, input: Input, now: Time) -> Vec<Output> {
        self.now = self.now.max(now);
        self.take(input);
        while let Some(timer) = self.timers.pop(self.now) {
            self.ring(timer);
        }
        while let Some(relay) = self.stirred.pop_first() {
            self.pump(relay);
        }
        self.written.forget();
        std::mem::take(&mut self.out)
    }

    /// When to hand in [`Input::Wake`] if nothing happens before. A question rather than an output: the driver keeps one
    /// timer, and none can pile up.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Loaded { notices, cursors } => self.load(notices, cursors),
            Input::Noticed(notice) => {
                let fires_at = self.subscriber.add(notice, self.now);
                self.timers.set(Timer::Batch, fires_at);
            }
            Input::Reloaded { notices } => self.reload(notices),
            Input::Asked { relay, filters } => self.asked(&relay, filters),
            Input::Connected { connection, peer } => {
                if let Some(relay) = self.dialled(connection) {
                    self.handle_connect_or_reconnect(relay, connection, peer);
                }
            }
            Input::ConnectFailed {
                connection,
                failure,
            } => {
                if let Some(relay) = self.dialled(connection) {
                    self.dial_failed(relay, failure);
                }
            }
            Input::Disconnected { connection } => {
                if let Some(relay) = self.connected(connection) {
                    self.connection_lost(relay);
                }
            }
            Input::Received {
                connection,
                message,
            } => {
                if let Some(relay) = self.connected(connection) {
                    self.received(relay, message);
                }
            }
            Input::LocalGathered {
                connection,
                subscription,
            } => {
                if let Some(relay) = self.connected(connection) {
                    self.reconcile(relay, subscription);
                }
            }
            Input::LocalNotGathered {
                connection,
                subscription,
            } => {
                if let Some(relay) = self.connected(connection) {
                    self.read_instead(relay, subscription);
                }
            }
            Input::Reconciled {
                connection,
                subscription,
                missing,
            } => {
                if let Some(relay) = self.connected(connection) {
                    self.reconciled(relay, subscription, &missing);
                }
            }
            Input::Authenticated {
                connection,
                accepted,
            } => {
                if let Some(relay) = self.connected(connection) {
                    self.authenticated(relay, accepted);
                }
            }
            Input::Stopping => self.save_all_cursors(),
            Input::Wake => {}
        }
    }

    fn ring(&mut self, timer: Timer) {
        match timer {
            Timer::Batch => self.fire_batch(),
            Timer::Retry => self.retry_disconnected_relays(),
            Timer::DisconnectCheck => self.check_disconnects(),
            Timer::Dialling(relay) => self.dial_timed_out(relay),
            Timer::Pump(relay) => self.stir(relay),
            Timer::Answer(relay, subscription) => self.unanswered(relay, subscription),
            Timer::Slow(relay) => self.is_slow(relay),
            Timer::Daily(relay) => self.day_is_over(relay),
            Timer::Cursor(relay) => self.save_cursor_again(relay),
            Timer::Poll(relay) => self.poll(relay),
            Timer::Recover(relay) => self.recover(relay),
            Timer::Recheck(relay) => self.recheck(relay),
            Timer::Reopen(relay) => self.reopen(relay),
            Timer::Authenticate(relay) => self.try_authenticate(relay),
        }
    }

    /// The relay whose dial this is.
    fn dialled(&self, connection: ConnectionId) -> Option<RelayId> {
        let relay = *self.connections.get(&connection)?;
        (self.dials.get(&relay) == Some(&connection)).then_some(relay)
    }

    /// The relay whose standing connection this is. What comes late from an old one is nobody's.
    fn connected(&self, connection: ConnectionId) -> Option<RelayId> {
        let relay = *self.connections.get(&connection)?;
        let session = self.sessions.get(&relay)?;
        (session.connection == connection).then_some(relay)
    }

    /// Looks at the relay before the current input is done with.
    fn stir(&mut self, relay: RelayId) {
        self.stirred.insert(relay);
    }

    fn count(&mut self, relay: RelayId, what: Counted) {
        if let Some(url) = self.relays.url(relay) {
            let relay = url.clone();
            self.out.push(Output::Count { relay, what });
        }
    }

    /// What we want.
    pub fn repo_sync_index(&self) -> &RepoSyncIndex {
        &self.wants
    }

    /// What is confirmed.
    pub fn relay_sync_index(&self) -> &RelaySyncIndex {
        &self.relays
    }

    /// What is in flight.
    pub fn pending_sync_index(&self) -> &PendingSyncIndex {
        &self.pending
    }

    /// How relays are doing.
    pub fn health(&self) -> &RelayHealthTracker {
        &self.health
    }

    /// The connection to `relay` that stands.
    pub fn connection(&self, relay: RelayId) -> Option<ConnectionId> {
        self.sessions.get(&relay).map(|session| session.connection)
    }

    /// What is followed live at `relay`, if it is connected.
    pub fn live(&self, relay: RelayId) -> Option<&LiveSet> {
        self.sessions.get(&relay).map(|session| &session.live)
    }
}
