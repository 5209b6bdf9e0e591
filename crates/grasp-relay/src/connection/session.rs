//! What one client may do, and the answers to what it says.

use std::sync::Arc;
use std::time::Instant;

use grasp_core::event::VerifiedEvent;
use nostr::event::Event;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use super::frame::Frame;
use super::outbound::Outbound;
use super::rates::Rates;
use super::subscriptions::Subscriptions;
use crate::address::{ClientAddress, Rate};
use crate::auth::{self, Auth, Refusal};
use crate::intake::{Answered, Intake, Submitter, Turn};
use crate::limits::Limit;
use crate::message::{ClientMessage, claimed_id};
use crate::metrics::Received;
use crate::negentropy::Sessions;
use crate::query::Lane;
use crate::relay::Shared;

/// Queries of one connection that run at a time: four keep a fast client busy, and bound what a slow one
/// holds.
const QUERIES_MAX: usize = 4;

/// What an event is answered that comes too fast. Clients and other relays know just these words, so
/// it is the counter of refusals that tells which rate it was.
const SLOW_DOWN: &str = "rate-limited: slow down";

/// The state of one connection.
pub(super) struct Session<I> {
    pub(super) shared: Arc<Shared<I>>,
    pub(super) client: ClientAddress,
    pub(super) outbound: Arc<Outbound>,
    pub(super) subscriptions: Subscriptions,
    pub(super) negentropy: Arc<Sessions>,
    pub(super) rates: Rates,
    /// Work that ends with the connection.
    pub(super) jobs: JoinSet<()>,
    pub(super) queries_free: Arc<Semaphore>,
    auth: Auth,
    submissions_free: Arc<Semaphore>,
    /// Ends when the event submitted last has passed its turn on.
    last_turn: Option<oneshot::Receiver<()>>,
}

impl<I: Intake> Session<I> {
    pub(super) fn new(
        shared: Arc<Shared<I>>,
        client: ClientAddress,
        outbound: Arc<Outbound>,
    ) -> Self {
        let places = |count: usize| Arc::new(Semaphore::new(count.clamp(1, MAX_PERMITS)));
        Self {
            client,
            outbound,
            subscriptions: Subscriptions::new(Arc::clone(&shared.fanout)),
            negentropy: Arc::default(),
            rates: Rates::new(&shared.limits),
            jobs: JoinSet::new(),
            queries_free: places(QUERIES_MAX),
            last_turn: None,
            auth: Auth::default(),
            submissions_free: places(shared.limits.submissions_max),
            shared,
        }
    }

    /// Answers one message. Whatever is wrong with it, the connection goes on.
    pub(super) async fn handle(&mut self, text: &str) {
        while self.jobs.try_join_next().is_some() {}
        let in_time = self.rates.messages.take(Instant::now());
        if !in_time {
            self.shared.metrics.refused(Limit::Messages);
        }
        let Ok(message) = ClientMessage::parse(text) else {
            self.shared.metrics.received(Received::Malformed);
            return self.notice(if in_time {
                "invalid client message"
            } else {
                TOO_MANY_MESSAGES
            });
        };
        self.shared.metrics.received(kind_of(&message));
        match message {
            ClientMessage::Close(id) => self.subscriptions.close(&id),
            ClientMessage::NegClose(id) => self.negentropy.end(&id),
            message if !in_time => self.refuse_unread(&message),
            ClientMessage::Event(event) => self.handle_event(event).await,
            ClientMessage::Auth(event) => self.handle_auth(event).await,
            ClientMessage::Req(request) => self.handle_req(&request).await,
            ClientMessage::Count(request) => self.handle_count(request).await,
            ClientMessage::NegOpen {
                id,
                filter,
                message,
            } => self.handle_neg_open(id, filter, &message).await,
            ClientMessage::NegMessage { id, message } => {
                self.handle_neg_message(id, &message).await;
            }
        }
    }

    /// Answers a message in a form that Nostr has no use for.
    pub(super) fn handle_binary(&mut self) {
        self.shared.metrics.received(Received::Malformed);
        if !self.rates.messages.take(Instant::now()) {
            self.shared.metrics.refused(Limit::Messages);
        }
        self.notice("binary messages are not processed by this relay");
    }

    /// Lets go of everything but the events that are being decided.
    pub(super) fn stop(&mut self) {
        self.subscriptions.clear();
        self.jobs.abort_all();
    }

    /// Waits until each submitted event has its answer in the queue.
    pub(super) async fn submissions_answered(&self) {
        let all = u32::try_from(self.shared.limits.submissions_max.clamp(1, MAX_PERMITS))
            .unwrap_or(u32::MAX);
        let _ = self.submissions_free.acquire_many(all).await;
    }

    pub(super) fn notice(&self, text: &str) {
        self.outbound.push(Frame::notice(text));
    }

    /// A message too many in this minute, answered in the terms of its kind.
    fn refuse_unread(&self, message: &ClientMessage<'_>) {
        match message {
            ClientMessage::Event(event) | ClientMessage::Auth(event) => match claimed_id(event) {
                Some(id) => self.outbound.push(Frame::ok(&id, false, SLOW_DOWN)),
                None => self.notice(TOO_MANY_MESSAGES),
            },
            ClientMessage::Req(request) | ClientMessage::Count(request) => {
                self.outbound
                    .push(Frame::closed(&request.id, TOO_MANY_MESSAGES));
            }
            ClientMessage::NegOpen { id, .. } | ClientMessage::NegMessage { id, .. } => {
                self.outbound.push(Frame::neg_error(id, TOO_MANY_MESSAGES));
            }
            ClientMessage::Close(_) | ClientMessage::NegClose(_) => {}
        }
    }

    async fn handle_event(&mut self, text: &str) {
        match self.screen(text) {
            Ok((id, event)) => self.submit(id, event).await,
            Err(refusal) => match claimed_id(text) {
                Some(id) => self.outbound.push(Frame::ok(&id, false, &refusal)),
                None => self.notice("invalid client message"),
            },
        }
    }

    /// EV-1 up to the JSON shape: what can be refused without looking at anything but the text.
    fn screen(&mut self, text: &str) -> Result<(String, Event), String> {
        let limits = &self.shared.limits;
        if !self.rates.events.take(Instant::now()) {
            self.shared.metrics.refused(Limit::Events);
            return Err(SLOW_DOWN.to_owned());
        }
        if self
            .shared
            .addresses
            .allow(&self.client, Rate::Events)
            .is_err()
        {
            return Err(SLOW_DOWN.to_owned());
        }
        if text.len() > limits.event_bytes_max {
            self.shared.metrics.refused(Limit::EventBytes);
            return Err(format!(
                "blocked: event size ({} bytes) exceeds maximum allowed size ({} bytes)",
                text.len(),
                limits.event_bytes_max
            ));
        }
        let event: Event = serde_json::from_str(text).map_err(|error| {
            let what: String = error
                .to_string()
                .chars()
                .filter(|c| !c.is_control())
                .take(200)
                .collect();
            format!("invalid: malformed event: {what}")
        })?;
        let tags = event.tags.len();
        if tags > limits.event_tags_max {
            self.shared.metrics.refused(Limit::EventTags);
            let most = limits.event_tags_max;
            return Err(format!(
                "blocked: event has {tags} tags, the most it may have are {most}"
            ));
        }
        Ok((id_as_sent(&event, text), event))
    }

    /// Hands an event in and goes on reading: its answer comes when it is decided.
    async fn submit(&mut self, id: String, event: Event) {
        let own = Arc::clone(&self.submissions_free).acquire_owned().await;
        let common = Arc::clone(&self.shared.submissions_free)
            .acquire_owned()
            .await;
        let most = self.shared.limits.submissions_max.clamp(1, MAX_PERMITS);
        let follows = self.submissions_free.available_permits() + 1 < most;
        let from = Submitter {
            address: self.client,
            authenticated: self.auth.keys(),
            turn: Turn::after(&mut self.last_turn, follows),
        };
        let challenge = self.auth.challenge().to_owned();
        let (intake, answer) = (
            Arc::clone(&self.shared.intake),
            Answer::new(id, &self.outbound),
        );
        self.shared.submissions.spawn(async move {
            let answered = intake.submit(event, from).await;
            answer.give(&answered, &challenge);
            drop((own, common));
        });
    }

    async fn handle_auth(&mut self, text: &str) {
        let Some(id) = claimed_id(text) else {
            return self.notice("invalid client message");
        };
        if !self.rates.auth.take(Instant::now()) {
            self.shared.metrics.refused(Limit::Auth);
            let refusal = "rate-limited: too many authentication attempts";
            return self.outbound.push(Frame::ok(&id, false, refusal));
        }
        let event = self.verified(text).await;
        let frame = match event.ok_or(Refusal::Invalid).and_then(|it| self.meet(&it)) {
            Ok(()) => Frame::ok(&id, true, ""),
            Err(refusal) => Frame::ok(&id, false, &refusal.to_string()),
        };
        self.outbound.push(frame);
    }

    /// Whether an answer meets the challenge.
    fn meet(&mut self, event: &VerifiedEvent) -> Result<(), Refusal> {
        let shared = &self.shared;
        let (now, keys_max) = ((shared.clock)(), shared.limits.auth_keys_max);
        let is_this_relay = |url: &str| shared.intake.is_this_relay(url);
        let met = self.auth.accept(event, now, keys_max, is_this_relay);
        if let Err(Refusal::TooManyKeys(_)) = met {
            shared.metrics.refused(Limit::AuthKeys);
        }
        met
    }

    async fn verified(&self, text: &str) -> Option<VerifiedEvent> {
        if text.len() > self.shared.limits.event_bytes_max {
            return None;
        }
        let event: Event = serde_json::from_str(text).ok()?;
        self.shared
            .reader
            .run(Lane::Quick, move |_| Ok(auth::verify(event)))
            .await
            .ok()?
    }
}

const MAX_PERMITS: usize = u32::MAX as usize >> 3;
const TOO_MANY_MESSAGES: &str = "rate-limited: too many messages";

fn kind_of(message: &ClientMessage<'_>) -> Received {
    match message {
        ClientMessage::Event(_) => Received::Event,
        ClientMessage::Req(_) => Received::Req,
        ClientMessage::Count(_) => Received::Count,
        ClientMessage::Close(_) => Received::Close,
        ClientMessage::Auth(_) => Received::Auth,
        ClientMessage::NegOpen { .. }
        | ClientMessage::NegMessage { .. }
        | ClientMessage::NegClose(_) => Received::Neg,
    }
}

/// The id in the characters its sender used: upper-case hex is read, too.
fn id_as_sent(event: &Event, text: &str) -> String {
    let id = event.id.to_hex();
    if text.contains(&id) {
        return id;
    }
    claimed_id(text).unwrap_or(id)
}

/// An `OK` that is owed: if deciding fails in a way nobody foresaw, the client still hears of it.
struct Answer {
    id: String,
    outbound: Arc<Outbound>,
    given: bool,
}

impl Answer {
    fn new(id: String, outbound: &Arc<Outbound>) -> Self {
        Self {
            id,
            outbound: Arc::clone(outbound),
            given: false,
        }
    }

    fn give(mut self, answered: &Answered, challenge: &str) {
        self.given = true;
        if answered.message.starts_with("auth-required:") {
            self.outbound.push(Frame::auth(challenge));
        }
        self.outbound
            .push(Frame::ok(&self.id, answered.accepted, &answered.message));
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.given {
            self.outbound.push(Frame::ok(
                &self.id,
                false,
                "error: the server failed to decide",
            ));
        }
    }
}
