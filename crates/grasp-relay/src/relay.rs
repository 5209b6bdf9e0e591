//! The relay as a whole: what its connections share.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use grasp_store::Store;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Clock;
use crate::address::{Addresses, ClientAddress, Refused, Slot};
use crate::connection;
use crate::fanout::Fanout;
use crate::intake::Intake;
use crate::limits::{Limit, RelayLimits};
use crate::metrics::Metrics;
use crate::negentropy::Sets;
use crate::query::Reader;

/// Per connection and zeroed, so it decides what an idle connection costs.
const READ_BUFFER: usize = 4 * 1024;
/// What is gathered before a write: small, so that a slow socket shows soon (RLY-3).
const WRITE_BUFFER: usize = 16 * 1024;

/// What a relay is made of.
pub struct Parts<I> {
    /// Where events are read from.
    pub store: Store,
    /// Where events go.
    pub intake: Arc<I>,
    /// Shared with whoever publishes.
    pub fanout: Arc<Fanout>,
    /// Shared with the git routes.
    pub addresses: Addresses,
    /// Shared with whoever renders them.
    pub metrics: Arc<Metrics>,
    /// The bounds.
    pub limits: RelayLimits,
    /// The server's clock.
    pub clock: Clock,
}

/// A Nostr relay. Cheap to clone.
pub struct Relay<I> {
    shared: Arc<Shared<I>>,
}

pub(crate) struct Shared<I> {
    pub(crate) intake: Arc<I>,
    pub(crate) fanout: Arc<Fanout>,
    pub(crate) addresses: Addresses,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: RelayLimits,
    pub(crate) clock: Clock,
    pub(crate) reader: Reader,
    pub(crate) sets: Arc<Sets>,
    /// Events being decided: they outlive the connections that brought them.
    pub(crate) submissions: TaskTracker,
    pub(crate) submissions_free: Arc<Semaphore>,
    connections_free: Option<Arc<Semaphore>>,
}

/// Leave for one connection; gone with it.
#[derive(Debug)]
struct Admitted {
    metrics: Arc<Metrics>,
    ip: IpAddr,
    since: Instant,
    _place: Option<tokio::sync::OwnedSemaphorePermit>,
    _address: Slot,
}

impl<I: Intake> Relay<I> {
    /// Puts a relay together.
    pub fn new(parts: Parts<I>) -> Self {
        let limits = parts.limits;
        let places = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        let shared = Shared {
            intake: parts.intake,
            fanout: parts.fanout,
            addresses: parts.addresses,
            metrics: parts.metrics,
            reader: Reader::new(parts.store, limits.queries_running_max),
            sets: Arc::new(Sets::new(
                limits.negentropy.clone(),
                Arc::clone(&parts.clock),
            )),
            clock: parts.clock,
            submissions: TaskTracker::new(),
            submissions_free: places(limits.submissions_total_max),
            connections_free: limits.connections_max.map(places),
            limits,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Sets the sizes of an upgrade: what an idle connection costs, and the longest message.
    pub fn configure(&self, upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
        let message_max = self.shared.limits.message_bytes_max;
        upgrade
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(WRITE_BUFFER)
            .max_message_size(message_max)
            .max_frame_size(message_max)
    }

    /// Talks to one client until it leaves, or until `shutdown`.
    pub async fn serve(
        &self,
        socket: WebSocket,
        client: ClientAddress,
        shutdown: CancellationToken,
    ) {
        match self.admit(&client) {
            Ok(_admitted) => {
                connection::run(Arc::clone(&self.shared), socket, client, shutdown).await;
            }
            Err(refusal) => connection::turn_away(socket, &refusal).await,
        }
    }

    /// Waits until all events that clients have submitted are decided. Call it after `shutdown`, when no
    /// connection can bring more.
    pub async fn finish_submissions(&self) {
        self.shared.submissions.close();
        self.shared.submissions.wait().await;
    }

    /// Where events are published.
    pub fn fanout(&self) -> &Arc<Fanout> {
        &self.shared.fanout
    }

    /// The bounds, for the information document.
    pub fn limits(&self) -> &RelayLimits {
        &self.shared.limits
    }

    fn admit(&self, client: &ClientAddress) -> Result<Admitted, String> {
        let shared = &self.shared;
        let place = match &shared.connections_free {
            Some(free) => Some(Arc::clone(free).try_acquire_owned().map_err(|_| {
                shared.metrics.refused(Limit::Connections);
                "rate-limited: this relay has as many connections as it may have".to_owned()
            })?),
            None => None,
        };
        let address = shared.addresses.connect(client);
        let address = address.map_err(|refused: Refused| format!("rate-limited: {refused}"))?;
        shared.metrics.connections_active.fetch_add(1, Relaxed);
        shared.metrics.connections_total.fetch_add(1, Relaxed);
        shared.metrics.clients.came(client.ip());
        Ok(Admitted {
            metrics: Arc::clone(&shared.metrics),
            ip: client.ip(),
            since: Instant::now(),
            _place: place,
            _address: address,
        })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.metrics.connections_active.fetch_sub(1, Relaxed);
        self.metrics.clients.left(self.ip);
        self.metrics.connection_duration.took(self.since.elapsed());
    }
}

impl<I> Clone for Relay<I> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<I> fmt::Debug for Relay<I> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Relay").finish_non_exhaustive()
    }
}

impl<I> fmt::Debug for Parts<I> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Parts")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
