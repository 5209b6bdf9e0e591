//! What the relay counts. The server renders it; nothing here knows an exposition format.
//!
//! *Invariant:* labels come from the enums of this crate, never from a peer, so the number of series is
//! fixed however many clients come (design.md §2, idea 5).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use grasp_metrics::{Family, Histogram, labels};

use crate::limits::Limit;

labels! {
    /// What a client sent: the `type` of `ngit_websocket_messages_received_total`.
    pub Received {
        /// `EVENT`.
        Event = "event",
        /// `REQ`.
        Req = "req",
        /// `COUNT`.
        Count = "count",
        /// `CLOSE`.
        Close = "close",
        /// `AUTH`.
        Auth = "auth",
        /// Any message of NIP-77.
        Neg = "neg",
        /// Whatever could not be read.
        Malformed = "malformed",
    }
}

labels! {
    /// What a client was sent: the `type` of `ngit_websocket_messages_sent_total`.
    pub Sent {
        /// `EVENT`.
        Event = "event",
        /// `OK`.
        Ok = "ok",
        /// `EOSE`.
        Eose = "eose",
        /// `CLOSED`.
        Closed = "closed",
        /// `NOTICE`.
        Notice = "notice",
        /// `COUNT`.
        Count = "count",
        /// `AUTH`.
        Auth = "auth",
        /// `NEG-MSG` and `NEG-ERR`.
        Neg = "neg",
    }
}

/// How long connections last: the upper ends of the buckets, in seconds.
const DURATIONS: &[f64] = &[1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3600.0];

/// All series of the relay.
#[derive(Debug)]
pub struct Metrics {
    /// `ngit_websocket_connections_active`.
    pub connections_active: AtomicU64,
    /// `ngit_websocket_connections_total`.
    pub connections_total: AtomicU64,
    /// `ngit_websocket_connection_duration_seconds`, of connections that have ended.
    pub connection_duration: Histogram,
    /// `ngit_websocket_unique_ips` and `ngit_websocket_flagged_abusers`.
    pub clients: Clients,
    /// `ngit_websocket_messages_received_total{type}`.
    pub received: Family<Received>,
    /// `ngit_websocket_messages_sent_total{type}`.
    pub sent: Family<Sent>,
    /// `ngit_limit_refusals_total{limit}`, those of the relay and of client addresses.
    pub refusals: Family<Limit>,
    /// `ngit_websocket_outbound_bytes`: what waits for all sockets together.
    pub outbound_bytes: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            connections_active: AtomicU64::default(),
            connections_total: AtomicU64::default(),
            connection_duration: Histogram::new(DURATIONS),
            clients: Clients::default(),
            received: Family::default(),
            sent: Family::default(),
            refusals: Family::default(),
            outbound_bytes: AtomicU64::default(),
        }
    }
}

impl Metrics {
    /// A limit said no.
    pub fn refused(&self, limit: Limit) {
        self.refusals.count(limit);
    }

    /// How often a limit said no.
    pub fn refusals_of(&self, limit: Limit) -> u64 {
        self.refusals.get(limit)
    }

    /// A client sent a message.
    pub fn received(&self, what: Received) {
        self.received.count(what);
    }

    /// A client was sent a message.
    pub fn sent(&self, what: Sent) {
        self.sent.count(what);
    }
}

/// Whose connections are open, to say how many they are and never who. Proxies and private addresses count too.
/// No larger than the number of connections.
#[derive(Debug, Default)]
pub struct Clients(Mutex<HashMap<IpAddr, usize>>);

impl Clients {
    /// Addresses with an open connection.
    pub fn unique(&self) -> usize {
        self.lock().len()
    }

    /// Addresses with more than `threshold` open connections.
    pub fn above(&self, threshold: usize) -> usize {
        let counts = self.lock();
        counts.values().filter(|open| **open > threshold).count()
    }

    pub(crate) fn came(&self, address: IpAddr) {
        *self.lock().entry(address).or_default() += 1;
    }

    pub(crate) fn left(&self, address: IpAddr) {
        if let Entry::Occupied(mut open) = self.lock().entry(address) {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
    }

    /// Whole even after a panic: no step of a change leaves it half done.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_counts_once_and_is_forgotten_with_its_last_connection() {
        let clients = Clients::default();
        let (one, other) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        for address in [one, one, other] {
            clients.came(address);
        }
        assert_eq!((clients.unique(), clients.above(1)), (2, 1));
        clients.left(one);
        assert_eq!((clients.unique(), clients.above(1)), (2, 0));
        clients.left(one);
        clients.left(other);
        assert_eq!(clients.unique(), 0);
    }
}
