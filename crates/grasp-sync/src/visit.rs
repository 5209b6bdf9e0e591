//! A short visit to a relay that is not followed: ask once, leave something, go.
//!
//! Whom we may visit decides the [`Dialler`]; for how long, whoever visits. *Invariant:* what a visit brings back was
//! asked for, and its id and signature are right.

use std::fmt;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use grasp_core::Event;
use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::client::message::{self, RelayMessage};
use crate::dial::{DialError, Dialler, Socket};
use crate::engine::SubscriptionId;
use crate::relay_url::RelayUrl;

/// A relay that says more before it comes to the point is left.
const MESSAGES_MAX: usize = 200;

/// Why a visit brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// We did not even get in.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The connection broke.
    #[error("the connection to the relay broke")]
    Broken(#[source] Box<tungstenite::Error>),
    /// It went without an answer.
    #[error("the relay closed the connection")]
    Gone,
    /// It does not answer such questions.
    #[error("the relay refuses the question: {0}")]
    Refused(String),
    /// It never comes to the point.
    #[error("the relay says too much")]
    Endless,
}

impl From<tungstenite::Error> for VisitError {
    fn from(error: tungstenite::Error) -> Self {
        Self::Broken(Box::new(error))
    }
}

/// A relay that we are at. It is left when this goes.
pub struct Visit {
    socket: Socket,
}

impl fmt::Debug for Visit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Visit").finish_non_exhaustive()
    }
}

impl Visit {
    /// Goes to `relay`, if the outbound policy allows it.
    pub async fn begin(dialler: &Dialler, relay: &RelayUrl) -> Result<Self, VisitError> {
        let (socket, _) = dialler.dial(relay, false).await?;
        Ok(Self { socket })
    }

    /// What the relay has of `filter`. What it hands out besides is passed over.
    pub async fn ask(&mut self, filter: Filter) -> Result<Vec<VerifiedEvent>, VisitError> {
        let question = SubscriptionId::of(1);
        let filter = Arc::new(filter);
        let asked = message::req(question, std::slice::from_ref(&filter));
        self.socket.send(Message::text(asked)).await?;
        let mut found = Vec::new();
        for _ in 0..MESSAGES_MAX {
            let text = self.hear().await?;
            match RelayMessage::parse(&text) {
                Ok(RelayMessage::Event(_, raw)) => found.extend(genuine(raw, &filter)),
                Ok(RelayMessage::Eose(_)) => {
                    let over = message::close(question);
                    self.socket.send(Message::text(over)).await?;
                    return Ok(found);
                }
                Ok(RelayMessage::Closed(_, reason)) => return Err(VisitError::Refused(reason)),
                _ => {}
            }
        }
        Err(VisitError::Endless)
    }

    /// Publishes `event` there. Whether it was taken.
    pub async fn leave(&mut self, event: &Event) -> Result<bool, VisitError> {
        let published = message::event(event);
        self.socket.send(Message::text(published)).await?;
        for _ in 0..MESSAGES_MAX {
            let text = self.hear().await?;
            match RelayMessage::parse(&text) {
                Ok(RelayMessage::Ok(id, is_taken)) if id == event.id => return Ok(is_taken),
                _ => {}
            }
        }
        Err(VisitError::Endless)
    }

    async fn hear(&mut self) -> Result<String, VisitError> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                Some(Ok(Message::Close(_))) | None => return Err(VisitError::Gone),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
            }
        }
    }
}

fn genuine(raw: &str, asked: &Filter) -> Option<VerifiedEvent> {
    let event = Event::from_json(raw).ok()?;
    let is_asked = asked.matches(&event);
    VerifiedEvent::verify(event).ok().filter(|_| is_asked)
}
