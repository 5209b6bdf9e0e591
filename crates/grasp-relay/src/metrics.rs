//! What the relay counts. The server renders it; nothing here knows an exposition format.
//!
//! *Invariant:* labels come from the enums of this room, never from a peer, so the number of series is
//! fixed however many clients come (design.md §2, idea 5).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::limits::Limit;

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }
        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The value of the label.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}
pub(crate) use labels;

labels! {
    /// What a client sent: the `type` of `ngit_websocket_messages_received_total`.
    Received {
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
    Sent {
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

/// One counter for each value of a label.
#[derive(Debug)]
pub struct Family<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Family<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const N: usize> Family<N> {
    pub(crate) fn add(&self, index: usize, count: u64) {
        self.0[index].fetch_add(count, Relaxed);
    }

    /// The count at the position of a value in its enum's `ALL`.
    pub fn get(&self, index: usize) -> u64 {
        self.0[index].load(Relaxed)
    }
}

/// All series of the relay.
#[derive(Debug, Default)]
pub struct Metrics {
    /// `ngit_websocket_connections_active`.
    pub connections_active: AtomicU64,
    /// `ngit_websocket_connections_total`.
    pub connections_total: AtomicU64,
    /// `ngit_websocket_messages_received_total{type}`, by [`Received`].
    pub received: Family<{ Received::ALL.len() }>,
    /// `ngit_websocket_messages_sent_total{type}`, by [`Sent`].
    pub sent: Family<{ Sent::ALL.len() }>,
    /// `ngit_limit_refusals_total{limit}`, by [`Limit`].
    pub refusals: Family<{ Limit::ALL.len() }>,
    /// Bytes waiting for all sockets together.
    pub outbound_bytes: AtomicU64,
    /// Open subscriptions.
    pub subscriptions: AtomicU64,
}

impl Metrics {
    /// A limit said no.
    pub fn refused(&self, limit: Limit) {
        self.refusals.add(limit as usize, 1);
    }

    /// How often a limit said no.
    pub fn refusals_of(&self, limit: Limit) -> u64 {
        self.refusals.get(limit as usize)
    }

    /// A client sent a message.
    pub fn received(&self, what: Received) {
        self.received.add(what as usize, 1);
    }

    /// A client was sent a message.
    pub fn sent(&self, what: Sent) {
        self.sent.add(what as usize, 1);
    }
}
