//! Where events go: the seam between speaking Nostr and deciding what to take.

use std::future::Future;
use std::sync::Arc;

use nostr::event::Event;
use nostr::key::PublicKey;

use tokio::sync::oneshot;

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
#[derive(Debug)]
pub struct Submitter {
    /// Where the connection comes from.
    pub address: ClientAddress,
    /// The keys that authenticated on it (NIP-42).
    pub authenticated: Arc<Vec<PublicKey>>,
    /// The place of the event among those of its connection.
    pub turn: Turn,
}

/// The place of an event among those of its connection. They are checked side by side, and decided in the
/// order in which they were sent: a client need not wait for one answer to send what builds on it.
#[derive(Debug, Default)]
pub struct Turn {
    before: Option<oneshot::Receiver<()>>,
    follows: bool,
    /// Dropping it lets the next one go, whatever happened to this one.
    after: Option<oneshot::Sender<()>>,
}

impl Turn {
    /// The turn after the one that `last` belongs to, which becomes this one's. `follows`: see
    /// [`Turn::follows`].
    pub(crate) fn after(last: &mut Option<oneshot::Receiver<()>>, follows: bool) -> Self {
        let (after, passed) = oneshot::channel();
        Self {
            before: last.replace(passed),
            follows,
            after: Some(after),
        }
    }

    /// Whether something sent before has no answer yet: what it changes may not be readable.
    pub fn follows(&self) -> bool {
        self.follows
    }

    /// Waits until nothing sent before can still be overtaken.
    pub async fn come(&mut self) {
        if let Some(before) = self.before.take() {
            // It ends by being dropped, too.
            let _ = before.await;
        }
    }

    /// Lets the next one go. Call it when the decision of this one can no longer be overtaken.
    pub fn pass(self) {
        drop(self.after);
    }
}
