//! How much one client may ask of the relay, and what it is told at the brim (§16, BND-1).
//!
//! Rates are counted twice: per connection here, and per client address in [`addresses`], which the git
//! routes share. Every bound has a setting in [`RelayLimits`], a counter in
//! [`Metrics`](crate::Metrics), and words that name it.

pub mod addresses;
mod bucket;

use std::time::Duration;

use grasp_metrics::labels;

pub(crate) use bucket::TokenBucket;

labels! {
    /// Which bound said no: the `limit` of `ngit_limit_refusals_total`.
    pub Limit {
        /// Connections of all clients.
        Connections = "connections",
        /// Messages a minute on one connection.
        Messages = "messages",
        /// Events a minute on one connection.
        Events = "events",
        /// `REQ` and `COUNT` a minute on one connection.
        Queries = "queries",
        /// `NEG-OPEN` and `NEG-MSG` a minute on one connection.
        Negentropy = "negentropy_messages",
        /// `AUTH` a minute on one connection.
        Auth = "auth",
        /// Keys that one connection has proven to hold.
        AuthKeys = "auth_keys",
        /// Bytes of one message: its connection ends.
        MessageBytes = "message_bytes",
        /// Bytes of one event.
        EventBytes = "event_bytes",
        /// Tags of one event.
        EventTags = "event_tags",
        /// Length of a subscription id.
        SubscriptionId = "subscription_id",
        /// Subscriptions of one connection.
        Subscriptions = "subscriptions",
        /// What the subscriptions of one connection weigh.
        SubscriptionBytes = "subscription_bytes",
        /// Filters of one `REQ` or `COUNT`.
        Filters = "filters",
        /// Negentropy sessions of one connection.
        NegentropySessions = "negentropy_sessions",
        /// Items of one negentropy session.
        NegentropyItems = "negentropy_items",
        /// Items of all negentropy sessions.
        NegentropyItemsTotal = "negentropy_items_total",
        /// Bytes queued to one socket: a subscription was closed.
        Outbound = "outbound_bytes",
        /// Bytes queued to all sockets: a subscription was closed.
        OutboundTotal = "outbound_total_bytes",
        /// A socket took nothing for too long.
        SlowReader = "slow_reader",
        /// Connections of one address.
        AddressConnections = "address_connections",
        /// Events a minute of one address.
        AddressEvents = "address_events",
        /// Queries a minute of one address.
        AddressQueries = "address_queries",
        /// Git requests a minute of one address.
        AddressGit = "address_git",
        /// Git requests of one address running and queued.
        AddressGitQueued = "address_git_queued",
        /// Pushes of one address running.
        AddressPushes = "address_pushes",
        /// Uploads without an event of one address in an hour.
        AddressUploads = "address_uploads",
    }
}

/// The bounds of the relay. [`Default`] has the published figures (§16).
#[derive(Debug, Clone)]
pub struct RelayLimits {
    /// Sockets open at a time; `None` for as many as the system gives.
    pub connections_max: Option<usize>,
    /// Subscriptions of one connection.
    pub subscriptions_max: usize,
    /// What the subscriptions of one connection weigh together, in bytes.
    pub subscription_bytes_max: usize,
    /// Bytes of a subscription id.
    pub subscription_id_max: usize,
    /// Filters of one `REQ` or `COUNT`.
    pub filters_max: usize,
    /// Stored events that one filter brings, at most and if it names no `limit`.
    pub filter_limit: usize,
    /// Bytes of an event.
    pub event_bytes_max: usize,
    /// Tags of an event.
    pub event_tags_max: usize,
    /// Bytes of a message; a longer one ends the connection.
    pub message_bytes_max: usize,
    /// Messages a minute on one connection.
    pub messages_per_minute: u32,
    /// Events a minute on one connection.
    pub events_per_minute: u32,
    /// `REQ` and `COUNT` a minute on one connection.
    pub queries_per_minute: u32,
    /// `AUTH` a minute on one connection.
    pub auth_per_minute: u32,
    /// Keys that one connection may prove to hold (NIP-42).
    pub auth_keys_max: usize,
    /// Events of one connection that are being decided at a time; the next one is read when one is done.
    pub submissions_max: usize,
    /// Events of all connections that are being decided at a time.
    pub submissions_total_max: usize,
    /// Store queries running at a time, of all connections; further ones wait in line.
    pub queries_running_max: usize,
    /// Bytes queued to one socket. At the brim a live event closes its subscription, and nothing more is
    /// read from the client.
    pub outbound_bytes_max: usize,
    /// Bytes queued to all sockets. At the brim, sockets with more than their small share lose
    /// subscriptions as above.
    pub outbound_total_bytes_max: usize,
    /// A socket that takes nothing for so long is closed (RLY-3).
    pub slow_reader_timeout: Duration,
    /// After so much silence the client is pinged; three unanswered end the connection.
    pub ping_interval: Duration,
    /// Set reconciliation (NIP-77).
    pub negentropy: NegentropyLimits,
}

/// The bounds of set reconciliation.
#[derive(Debug, Clone)]
pub struct NegentropyLimits {
    /// Whether it is offered at all.
    pub enabled: bool,
    /// `NEG-OPEN` and `NEG-MSG` a minute on one connection.
    pub messages_per_minute: u32,
    /// Sessions of one connection.
    pub sessions_max: usize,
    /// Events of one session.
    pub items_max: usize,
    /// Events of a session whose filter names one kind and nothing else: such a set is built once and
    /// shared between sessions.
    pub items_shared_max: usize,
    /// Events of all sessions; 40 bytes each.
    pub items_total_max: usize,
    /// Bytes of one answer, before hex.
    pub frame_bytes_max: usize,
    /// A session that nobody used for so long is forgotten.
    pub idle_max: Duration,
}

impl Default for RelayLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            connections_max: None,
            subscriptions_max: 500,
            subscription_bytes_max: 5 * 1024 * 1024,
            subscription_id_max: 250,
            filters_max: 20,
            filter_limit: 500,
            event_bytes_max: 196_608,
            event_tags_max: 5_000,
            message_bytes_max: 5 * 1024 * 1024,
            messages_per_minute: 6_000,
            events_per_minute: 60,
            queries_per_minute: 1_200,
            auth_per_minute: 30,
            auth_keys_max: 16,
            submissions_max: 64,
            submissions_total_max: 8_192,
            queries_running_max: 4 * cores,
            outbound_bytes_max: 5 * 1024 * 1024,
            outbound_total_bytes_max: 256 * 1024 * 1024,
            slow_reader_timeout: Duration::from_mins(1),
            ping_interval: Duration::from_mins(1),
            negentropy: NegentropyLimits::default(),
        }
    }
}

impl Default for NegentropyLimits {
    fn default() -> Self {
        Self {
            enabled: true,
            messages_per_minute: 1_200,
            sessions_max: 10,
            items_max: 50_000,
            items_shared_max: 1_000_000,
            items_total_max: 8_000_000,
            frame_bytes_max: 60_000,
            idle_max: Duration::from_mins(10),
        }
    }
}
