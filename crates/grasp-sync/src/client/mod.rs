//! Talking with one relay over a connection that stands.
//!
//! One task holds a conversation, in three parts that wait for each other but never for another relay: it talks
//! (`conversation`), writes what is to be said (`writer`), and works through what was said in its order (`intake`). Every
//! queue between them has an end, so a peer that sends faster than we take is not read, and one that takes nothing
//! is left. *Invariant:* an event has no effect before its id and signature were checked (SYNC-30).

mod check;
mod conversation;
mod intake;
pub mod message;
mod reconcile;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use grasp_core::filter::Filter;
use tokio::sync::mpsc;

pub(crate) use check::Cores;
pub use intake::{INTAKE_AT_ONCE, hear};

use crate::dial::Socket;
use crate::engine::{ConnectionId, Input, SubscriptionId};
use crate::home::Home;
use crate::relay_url::RelayUrl;
use conversation::Conversation;

/// How long a peer may keep us waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// A peer that says nothing for so long is asked whether it is there.
    pub ping_after: Duration,
    /// A peer that says nothing for so long is not.
    pub silence_max: Duration,
    /// A peer that takes nothing for so long is left.
    pub write_max: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            ping_after: Duration::from_secs(45),
            silence_max: Duration::from_mins(2),
            write_max: Duration::from_secs(30),
        }
    }
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Context<H> {
    pub(crate) home: Arc<H>,
    pub(crate) cores: Cores,
    pub(crate) patience: Patience,
    /// To whoever owns the engine.
    pub(crate) inputs: mpsc::Sender<Input>,
}

impl<H> Context<H> {
    /// Tells the engine, and waits while it is behind. One that has ended hears nothing.
    pub(crate) async fn tell(&self, input: Input) {
        let _ = self.inputs.send(input).await;
    }
}

/// What the engine wants said to a peer.
#[derive(Debug)]
pub(crate) enum Command {
    Subscribe(SubscriptionId, Vec<Arc<Filter>>),
    Unsubscribe(SubscriptionId),
    Gather(SubscriptionId, Filter),
    Reconcile(SubscriptionId, Filter),
    Authenticate(String),
}

/// Commands that wait for a peer to take them. More than the subscriptions that we use of any peer, twice over, so
/// that only one that takes nothing ever has so many.
pub(crate) const COMMANDS_MAX: usize = 2_048;
/// Messages that wait for the socket.
const UNWRITTEN_MAX: usize = 4;
/// Things that a peer said and that wait for their turn.
const ITEMS_MAX: usize = 64;

/// Talks with a relay until it goes, or nobody commands any more. What it said until then is worked through.
pub(crate) async fn converse<H: Home>(
    context: Arc<Context<H>>,
    connection: ConnectionId,
    relay: RelayUrl,
    socket: Socket,
    commands: mpsc::Receiver<Command>,
) {
    let (sink, stream) = socket.split();
    let (unwritten, to_write) = mpsc::channel(UNWRITTEN_MAX);
    let (items, said) = mpsc::channel(ITEMS_MAX);
    let write = writer::write(sink, to_write, context.patience.write_max);
    let take_in = intake::take_in(Arc::clone(&context), connection, relay.clone(), said);
    let conversation = Conversation::new(context, connection, relay, items);
    // The conversation owns the ends of both queues: when it is over, the others finish what is left.
    tokio::join!(
        conversation.hold(stream, commands, unwritten),
        write,
        take_in
    );
}
