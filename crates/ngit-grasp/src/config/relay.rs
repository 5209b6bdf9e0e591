//! Limits of the relay and of each client address (§16).

use std::num::NonZero;

use super::setting::settings;
use super::value::Bytes;

settings! {
    /// What one connection may do, and all of them together.
    Relay "Relay limits" {
        /// Connections in all.
        max_connections: Option<NonZero<usize>> = "" ["unlimited"];
        /// Subscriptions of one connection.
        relay_max_subscriptions: NonZero<usize> = "500";
        /// Filters of one REQ.
        relay_max_filters: NonZero<usize> = "20";
        /// Events one filter returns at most, also without a `limit`.
        relay_filter_limit: NonZero<usize> = "500";
        /// Largest event.
        relay_max_event_size_bytes: Bytes = "196608";
        /// Tags of one event.
        relay_max_event_tags: NonZero<usize> = "5000";
        /// Events a minute that one connection may send.
        relay_events_per_minute: NonZero<u32> = "60";
        /// REQ and COUNT a minute and connection.
        relay_queries_per_minute: NonZero<u32> = "1200";
        /// NEG-MSG a minute and connection.
        relay_neg_per_minute: NonZero<u32> = "1200";
        /// AUTH a minute and connection.
        relay_auth_per_minute: NonZero<u32> = "30";
        /// Keys that one connection may authenticate as.
        relay_auth_keys: NonZero<usize> = "16";
        /// Messages of any kind a minute and connection.
        relay_messages_per_minute: NonZero<u32> = "6000";
        /// Memory of one connection's subscriptions.
        relay_subscription_bytes: Bytes = "5MiB";
        /// Bytes queued to one connection; a subscription that overflows it is closed.
        relay_outbound_bytes: Bytes = "5MiB";
        /// Bytes queued to all connections together.
        relay_outbound_total_bytes: Bytes = "256MiB";
        /// Negentropy sessions of one connection.
        relay_neg_sessions: NonZero<usize> = "10";
        /// Events one negentropy session may cover.
        relay_neg_items: NonZero<usize> = "50000";
        /// Largest negentropy frame.
        relay_neg_frame_bytes: Bytes = "60000";
        /// Events a negentropy filter on one kind may cover; the set is shared between sessions.
        relay_neg_items_shared: NonZero<usize> = "1000000";
        /// Events that all negentropy sessions together may cover; each takes 40 bytes of memory.
        relay_neg_items_total: NonZero<usize> = "8000000";
    }
}

settings! {
    /// What one client address (an IPv4 address or an IPv6 /64) may do. Private and loopback addresses and
    /// trusted proxies are exempt.
    Address "Limits per client address" {
        /// Relay connections.
        address_connections: NonZero<usize> = "100";
        /// Events a minute.
        address_events_per_minute: NonZero<u32> = "600";
        /// Queries a minute.
        address_queries_per_minute: NonZero<u32> = "6000";
        /// Git requests a minute.
        address_git_per_minute: NonZero<u32> = "600";
        /// Git requests running.
        address_git_running: NonZero<usize> = "8";
        /// Git requests waiting for their turn.
        address_git_queued: NonZero<usize> = "24";
        /// Pushes running.
        address_pushes: NonZero<usize> = "4";
    }
}
