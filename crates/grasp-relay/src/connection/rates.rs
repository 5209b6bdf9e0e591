//! How much one connection does in a minute (§16).

use std::time::Instant;

use crate::limits::{RelayLimits, TokenBucket};

/// The buckets of one connection.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) messages: TokenBucket,
    pub(super) events: TokenBucket,
    pub(super) queries: TokenBucket,
    pub(super) negentropy: TokenBucket,
    pub(super) auth: TokenBucket,
}

impl Rates {
    pub(super) fn new(limits: &RelayLimits) -> Self {
        let now = Instant::now();
        let bucket = |rate| TokenBucket::per_minute(rate, now);
        Self {
            messages: bucket(limits.messages_per_minute),
            events: bucket(limits.events_per_minute),
            queries: bucket(limits.queries_per_minute),
            negentropy: bucket(limits.negentropy.messages_per_minute),
            auth: bucket(limits.auth_per_minute),
        }
    }
}
