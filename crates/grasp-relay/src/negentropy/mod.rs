//! The answering side of set reconciliation (NIP-77), over served events only (RLY-2).
//!
//! A session is a sealed set of ids; each message is answered from it without further memory. What a
//! peer claims of itself reserves nothing: the set is built from our own store and bounded, and the
//! decoder checks a claimed length against what the message holds (case 74).

mod set;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use grasp_core::filter::Filter;
use negentropy::Negentropy;

pub(crate) use set::{Set, SetError, Sets};

use crate::connection::frame::Frame;
use crate::connection::outbound::Outbound;
use crate::limits::{Limit, NegentropyLimits};
use crate::metrics::Metrics;
use crate::query::{Lane, Reader};

/// What a message that cannot be read is answered.
pub(crate) const INVALID: &str = "error: invalid negentropy message";
/// What a message without a session is answered.
pub(crate) const NOT_FOUND: &str = "closed: negentropy subscription not found";
/// What one session too many is answered.
pub(crate) const TOO_MANY_SESSIONS: &str = "rate-limited: too many negentropy subscriptions";
/// What a filter that matches too much is answered.
const TOO_MANY_ITEMS: &str = "rate-limited: too many negentropy items";

/// The sessions of one connection.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<String, Session>>,
}

#[derive(Debug)]
struct Session {
    /// `None` while it is being built.
    set: Option<Arc<Set>>,
    used: Instant,
}

impl Sessions {
    /// Makes place for a session; one of the same name ends. `false` if there are too many.
    pub(crate) fn begin(&self, id: &str, limits: &NegentropyLimits, now: Instant) -> bool {
        let mut open = self.lock();
        open.retain(|_, session| now.saturating_duration_since(session.used) < limits.idle_max);
        open.remove(id);
        let free = open.len() < limits.sessions_max;
        if free {
            let session = Session {
                set: None,
                used: now,
            };
            open.insert(id.to_owned(), session);
        }
        free
    }

    /// Forgets a session.
    pub(crate) fn end(&self, id: &str) {
        self.lock().remove(id);
    }

    /// The set of a session that is ready.
    pub(crate) fn set(&self, id: &str, now: Instant) -> Option<Arc<Set>> {
        let mut open = self.lock();
        let session = open.get_mut(id)?;
        session.used = now;
        session.set.clone()
    }

    fn fill(&self, id: &str, set: Arc<Set>) {
        if let Some(session) = self.lock().get_mut(id) {
            session.set = Some(set);
        }
    }

    /// A panic while the lock was held left whole sessions.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What answering needs of the connection and the relay.
#[derive(Debug, Clone)]
pub(crate) struct Responder {
    pub(crate) reader: Reader,
    pub(crate) sets: Arc<Sets>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) outbound: Arc<Outbound>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) frame_bytes_max: usize,
}

impl Responder {
    /// Builds the set of a session that was begun, and answers the first message.
    pub(crate) async fn open(self, id: String, filter: Filter, message: Vec<u8>) {
        match self.sets.build(&self.reader, filter).await {
            Ok(set) => {
                self.sessions.fill(&id, Arc::clone(&set));
                self.proceed(id, set, message).await;
            }
            Err(SetError::TooMany) => self.refuse(&id, Limit::NegentropyItems),
            Err(SetError::TooManyInAll) => self.refuse(&id, Limit::NegentropyItemsTotal),
            Err(SetError::Read(error)) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a reconciliation failed"
                );
                self.fail(&id, "error: the stored events cannot be read");
            }
        }
    }

    /// Answers a further message of a session.
    pub(crate) async fn proceed(self, id: String, set: Arc<Set>, message: Vec<u8>) {
        let frame_bytes_max = self.frame_bytes_max;
        let answer = self
            .reader
            .run(Lane::Quick, move |_| {
                Ok(reconcile(&set, frame_bytes_max, &message))
            })
            .await;
        self.answer(&id, answer.ok().flatten());
    }

    fn answer(&self, id: &str, answer: Option<Vec<u8>>) {
        match answer {
            Some(bytes) => self.outbound.push(Frame::neg_message(id, &to_hex(&bytes))),
            None => self.fail(id, INVALID),
        }
    }

    fn refuse(&self, id: &str, limit: Limit) {
        self.metrics.refused(limit);
        self.fail(id, TOO_MANY_ITEMS);
    }

    fn fail(&self, id: &str, reason: &str) {
        self.sessions.end(id);
        self.outbound.push(Frame::neg_error(id, reason));
    }
}

/// Answers one message; `None` if it cannot be read.
fn reconcile(set: &Set, frame_bytes_max: usize, message: &[u8]) -> Option<Vec<u8>> {
    Negentropy::borrowed(set.items(), frame_bytes_max as u64)
        .ok()?
        .reconcile(message)
        .ok()
}

/// Reads hex of either case.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    text.as_bytes()
        .chunks_exact(2)
        .map(|pair| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok())
        .collect()
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_read_and_written() {
        assert_eq!(from_hex("00fFa0"), Some(vec![0, 255, 160]));
        assert_eq!(to_hex(&[0, 255, 160]), "00ffa0");
        for bad in ["0", "0g", "ä", "é0"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }

    /// §16, BND-1
    #[test]
    fn sessions_are_bounded_replaced_and_forgotten_when_idle() {
        let sessions = Sessions::default();
        let limits = NegentropyLimits {
            sessions_max: 2,
            ..NegentropyLimits::default()
        };
        let now = Instant::now();
        assert!(sessions.begin("a", &limits, now) && sessions.begin("b", &limits, now));
        assert!(!sessions.begin("c", &limits, now));
        assert!(sessions.begin("a", &limits, now));
        assert!(sessions.set("a", now).is_none(), "not built yet");
        assert!(sessions.begin("c", &limits, now + limits.idle_max));
        assert_eq!(sessions.lock().len(), 1);
    }
}
