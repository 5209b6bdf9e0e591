//! Where events go: the seam between speaking Nostr and deciding what to take.

use std::future::Future;
use std::sync::Arc;

use nostr::event::Event;
use nostr::key::PublicKey;

use crate::address::ClientAddress;

/// Takes events in. The server's service is one, and each test of this crate has its own.
pub trait Intake: Send + Sync + 'static {
    /// Decides on one event and answers when what it answers is durable (EV-7). Id and signature are
    /// not checked yet. The call runs to its end even if its client leaves meanwhile.
    fn submit(&self, event: Event, from: Submitter) -> impl Future<Output = Answered> + Send;

    /// Whether `url` is a name of this relay: what a NIP-42 answer must carry. While it is always
    /// `false`, nobody can authenticate.
    fn is_this_relay(&self, _url: &str) -> bool {
        false
    }
}

/// What becomes of a submitted event: the last two parts of its `OK`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Whether it was taken, or was here already.
    pub accepted: bool,
    /// Empty, or `prefix: words` (§5).
    pub message: String,
}

/// Who submits.
#[derive(Debug, Clone)]
pub struct Submitter {
    /// Where the connection comes from.
    pub address: ClientAddress,
    /// The keys that authenticated on it (NIP-42).
    pub authenticated: Arc<Vec<PublicKey>>,
}
