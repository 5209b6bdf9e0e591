//! What is said to a peer and heard from it: subscriptions, reconciliations, a proof of identity, signs of life.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, SplitStream};
use grasp_core::EventId;
use grasp_core::filter::Filter;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::check::Raw;
use super::intake::{Item, What};
use super::message::{self, Malformed, RelayMessage};
use super::reconcile::{self, Round};
use super::{Command, Context};
use crate::dial::Socket;
use crate::engine::{ConnectionId, Input, PeerMessage, SubscriptionId};
use crate::home::{Home, LocalSet};
use crate::relay_url::RelayUrl;

/// Bytes of what a peer said and that waits for its turn. One message may be longer and then waits alone.
const WAITING_BYTES_MAX: u32 = 1_024 * 1_024;
/// After so many messages that are none a peer is left.
const UNREADABLE_MAX: u32 = 100;
/// While so much is unsaid no further command is taken.
const OUTBOX_MAX: usize = 16;

/// What the engine is told when a difference could not be found; the words mean to it that it failed.
const SET_NOT_READ: &str = "error: the reconciliation cannot be read";

/// What stands under a name.
#[derive(Debug)]
enum Open {
    Asked(Arc<[Arc<Filter>]>),
    Gathering,
    Gathered(LocalSet),
    /// The difference so far, unless a message is being worked at.
    Reconciling(LocalSet, Option<Vec<EventId>>),
}

/// Work of our own whose end the conversation waits for.
enum Done {
    Gathered(SubscriptionId, Option<LocalSet>),
    /// `None` if the peer's message cannot be read.
    Answered(SubscriptionId, Option<Round>),
    /// There is no key to prove an identity with.
    Unproven,
}

/// Why a conversation is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nobody commands any more.
    Ours,
    /// It closed the connection, or broke its rules.
    Theirs,
    /// It takes nothing, or says nothing.
    Dead,
}

/// A conversation with one peer.
pub(super) struct Conversation<H> {
    context: Arc<Context<H>>,
    connection: ConnectionId,
    relay: RelayUrl,
    items: mpsc::Sender<Item>,
    /// What may wait in `items`.
    room: Arc<Semaphore>,
    /// As many as the engine opens.
    open: BTreeMap<SubscriptionId, Open>,
    outbox: VecDeque<Message>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// The proof of identity that has no answer yet.
    proof: Option<EventId>,
    unreadable: u32,
    heard: Instant,
    has_pinged: bool,
}

impl<H: Home> Conversation<H> {
    pub(super) fn new(
        context: Arc<Context<H>>,
        connection: ConnectionId,
        relay: RelayUrl,
        items: mpsc::Sender<Item>,
    ) -> Self {
        Self {
            context,
            connection,
            relay,
            items,
            room: Arc::new(Semaphore::new(WAITING_BYTES_MAX as usize)),
            open: BTreeMap::new(),
            outbox: VecDeque::new(),
            work: FuturesUnordered::new(),
            proof: None,
            unreadable: 0,
            heard: Instant::now(),
            has_pinged: false,
        }
    }

    /// Talks until the conversation is over.
    pub(super) async fn hold(
        mut self,
        stream: SplitStream<Socket>,
        commands: mpsc::Receiver<Command>,
        unwritten: mpsc::Sender<Message>,
    ) {
        let end = self.talk(stream, commands, &unwritten).await;
        tracing::debug!(relay = %self.relay, ?end, "a connection to a relay ended");
    }

    async fn talk(
        &mut self,
        mut stream: SplitStream<Socket>,
        mut commands: mpsc::Receiver<Command>,
        unwritten: &mpsc::Sender<Message>,
    ) -> End {
        // What was heard and finds no room: until it does, nothing more is read.
        let mut parked: Option<(What, u32)> = None;
        loop {
            let (items, room) = (self.items.clone(), Arc::clone(&self.room));
            let weight = parked.as_ref().map_or(0, |(_, weight)| *weight);
            let find_room = async move {
                let weight = room.acquire_many_owned(weight).await.ok()?;
                Some((items.reserve_owned().await.ok()?, weight))
            };
            let next_sign = self.next_sign();
            tokio::select! {
                Ok(place) = unwritten.reserve(), if !self.outbox.is_empty() => {
                    if let Some(message) = self.outbox.pop_front() {
                        place.send(message);
                    }
                }
                () = unwritten.closed() => return End::Dead,
                command = commands.recv(), if self.outbox.len() < OUTBOX_MAX => match command {
                    Some(command) => self.obey(command),
                    None => return End::Ours,
                },
                found = find_room, if parked.is_some() => {
                    let (Some((place, weight)), Some((what, _))) = (found, parked.take()) else {
                        return End::Theirs;
                    };
                    place.send(Item { what, weight });
                    self.hears();
                }
                frame = stream.next(), if parked.is_none() => {
                    let Some(Ok(frame)) = frame else {
                        return End::Theirs;
                    };
                    self.hears();
                    parked = self.listen(&frame);
                    if self.unreadable > UNREADABLE_MAX {
                        return End::Theirs;
                    }
                }
                Some(done) = self.work.next() => self.finish(done).await,
                () = tokio::time::sleep_until(next_sign), if parked.is_none() => {
                    if self.has_pinged {
                        return End::Dead;
                    }
                    self.has_pinged = true;
                    self.outbox.push_back(Message::Ping(Bytes::new()));
                }
            }
        }
    }

    fn hears(&mut self) {
        self.heard = Instant::now();
        self.has_pinged = false;
    }

    /// When a silent peer is asked whether it is there, or believed to be gone.
    fn next_sign(&self) -> Instant {
        let patience = &self.context.patience;
        self.heard
            + if self.has_pinged {
                patience.silence_max
            } else {
                patience.ping_after
            }
    }

    fn say(&mut self, text: String) {
        self.outbox.push_back(Message::text(text));
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Subscribe(subscription, filters) => {
                self.say(message::req(subscription, &filters));
                self.open.insert(subscription, Open::Asked(filters.into()));
            }
            Command::Unsubscribe(subscription) => self.unsubscribe(subscription),
            Command::Gather(subscription, filter) => self.gather(subscription, filter),
            Command::Reconcile(subscription, filter) => self.reconcile(subscription, &filter),
            Command::Authenticate(challenge) => self.authenticate(&challenge),
        }
    }

    /// A peer that ended it itself is not told again.
    fn unsubscribe(&mut self, subscription: SubscriptionId) {
        match self.open.remove(&subscription) {
            Some(Open::Asked(_)) => self.say(message::close(subscription)),
            Some(Open::Reconciling(..)) => self.say(message::neg_close(subscription)),
            Some(Open::Gathering | Open::Gathered(_)) | None => {}
        }
    }

    fn gather(&mut self, subscription: SubscriptionId, filter: Filter) {
        self.open.insert(subscription, Open::Gathering);
        let home = Arc::clone(&self.context.home);
        let gathered = async move { Done::Gathered(subscription, home.gather(filter).await) };
        self.work.push(Box::pin(gathered));
    }

    fn reconcile(&mut self, subscription: SubscriptionId, filter: &Filter) {
        let Some(Open::Gathered(set)) = self.open.remove(&subscription) else {
            return;
        };
        // A sealed set and frames of our size always have a first message.
        if let Ok(first) = reconcile::open(&set) {
            self.say(message::neg_open(subscription, filter, &first));
            let reconciling = Open::Reconciling(set, Some(Vec::new()));
            self.open.insert(subscription, reconciling);
        }
    }

    fn authenticate(&mut self, challenge: &str) {
        match self.context.home.authenticate(&self.relay, challenge) {
            Some(proof) => {
                self.proof = Some(proof.id);
                self.say(message::auth(&proof));
            }
            None => self.work.push(Box::pin(async { Done::Unproven })),
        }
    }

    /// Reads a frame: what of it has to wait for its turn, and how much it weighs.
    fn listen(&mut self, frame: &Message) -> Option<(What, u32)> {
        let message = match frame {
            Message::Text(text) => RelayMessage::parse(text),
            Message::Binary(_) => Err(Malformed),
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {
                return None;
            }
        };
        let Ok(message) = message else {
            self.unreadable += 1;
            return None;
        };
        let weight = u32::try_from(frame.len()).unwrap_or(WAITING_BYTES_MAX);
        let what = self.heed(message)?;
        Some((what, weight.min(WAITING_BYTES_MAX)))
    }

    /// What is about nothing that we have open is nothing.
    fn heed(&mut self, message: RelayMessage<'_>) -> Option<What> {
        let message = match message {
            RelayMessage::Event(subscription, text) => {
                let Some(Open::Asked(asked)) = self.open.get(&subscription) else {
                    return None;
                };
                let (text, asked) = (text.to_owned(), Arc::clone(asked));
                return Some(What::Event(subscription, Raw { text, asked }));
            }
            RelayMessage::Eose(subscription) => {
                self.open.get(&subscription)?;
                PeerMessage::Eose { subscription }
            }
            RelayMessage::Closed(subscription, reason)
            | RelayMessage::NegError(subscription, reason) => {
                self.open.remove(&subscription)?;
                PeerMessage::Closed {
                    subscription,
                    reason,
                }
            }
            RelayMessage::Notice(text) => PeerMessage::Notice { text },
            RelayMessage::Auth(challenge) => PeerMessage::Auth { challenge },
            RelayMessage::Ok(id, accepted) => {
                self.proof.take_if(|proof| *proof == id)?;
                let connection = self.connection;
                return Some(What::Input(Input::Authenticated {
                    connection,
                    accepted,
                }));
            }
            RelayMessage::NegMessage(subscription, bytes) => {
                return self.work_out(subscription, bytes);
            }
        };
        Some(What::Input(self.received(message)))
    }

    /// Works an answer out. A peer that speaks out of its turn ends the reconciliation.
    fn work_out(&mut self, subscription: SubscriptionId, bytes: Vec<u8>) -> Option<What> {
        let Some(Open::Reconciling(set, missing)) = self.open.get_mut(&subscription) else {
            return None;
        };
        let Some(missing) = missing.take() else {
            return Some(What::Input(self.breaks_off(subscription)));
        };
        let (set, cores) = (set.clone(), self.context.cores.clone());
        let home = Arc::clone(&self.context.home);
        let work = move || reconcile::answer(&set, &bytes, missing, &*home).ok();
        let answered = async move { Done::Answered(subscription, cores.run(work).await.flatten()) };
        self.work.push(Box::pin(answered));
        None
    }

    /// Ends a reconciliation that leads nowhere.
    fn breaks_off(&mut self, subscription: SubscriptionId) -> Input {
        self.unsubscribe(subscription);
        self.received(failed(subscription, SET_NOT_READ))
    }

    async fn finish(&mut self, done: Done) {
        let connection = self.connection;
        let input = match done {
            Done::Gathered(subscription, set) => self.gathered(subscription, set),
            Done::Answered(subscription, round) => self.answered(subscription, round),
            Done::Unproven => Some(Input::Authenticated {
                connection,
                accepted: false,
            }),
        };
        if let Some(input) = input {
            self.context.tell(input).await;
        }
    }

    fn gathered(&mut self, subscription: SubscriptionId, set: Option<LocalSet>) -> Option<Input> {
        let Some(Open::Gathering) = self.open.remove(&subscription) else {
            return None;
        };
        let Some(set) = set else {
            return Some(Input::LocalNotGathered {
                connection: self.connection,
                subscription,
            });
        };
        self.open.insert(subscription, Open::Gathered(set));
        Some(Input::LocalGathered {
            connection: self.connection,
            subscription,
        })
    }

    fn answered(&mut self, subscription: SubscriptionId, round: Option<Round>) -> Option<Input> {
        let Some(Open::Reconciling(_, so_far)) = self.open.get_mut(&subscription) else {
            return None;
        };
        match round {
            Some(Round::Next(next, missing)) => {
                *so_far = Some(missing);
                self.say(message::neg_message(subscription, &next));
                None
            }
            Some(Round::Done(missing)) => Some(Input::Reconciled {
                connection: self.connection,
                subscription,
                missing,
            }),
            None => Some(self.breaks_off(subscription)),
        }
    }

    fn received(&self, message: PeerMessage) -> Input {
        Input::Received {
            connection: self.connection,
            message,
        }
    }
}

/// A question that failed here, in the words of a peer that refuses it.
fn failed(subscription: SubscriptionId, reason: &str) -> PeerMessage {
    PeerMessage::Closed {
        subscription,
        reason: reason.to_owned(),
    }
}
