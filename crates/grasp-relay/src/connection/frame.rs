//! What is sent to clients, as the text that goes out.
//!
//! An event's stored text is never taken apart again: a frame is the subscription's prefix, those
//! bytes, and a bracket. Live events are put together only when their socket takes them, so that many
//! queues share one copy of the event.

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes};
use bytes::{Bytes, BytesMut};

use crate::metrics::Sent;

/// What a queued frame costs beside its text.
const OVERHEAD: usize = 64;

/// One frame on its way to a client.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    body: Body,
    kind: Option<Sent>,
}

#[derive(Debug, Clone)]
enum Body {
    Text(String),
    Event { prefix: Arc<str>, json: Bytes },
    Ping,
    Close { code: u16, reason: &'static str },
}

impl Frame {
    /// `["OK", <id>, <accepted>, <message>]`.
    pub(crate) fn ok(id: &str, accepted: bool, message: &str) -> Self {
        Self::text(Sent::Ok, &serde_json::json!(["OK", id, accepted, message]))
    }

    /// `["EOSE", <id>]`.
    pub(crate) fn eose(id: &str) -> Self {
        Self::text(Sent::Eose, &serde_json::json!(["EOSE", id]))
    }

    /// `["CLOSED", <id>, <reason>]`.
    pub(crate) fn closed(id: &str, reason: &str) -> Self {
        Self::text(Sent::Closed, &serde_json::json!(["CLOSED", id, reason]))
    }

    /// `["NOTICE", <text>]`.
    pub(crate) fn notice(text: &str) -> Self {
        Self::text(Sent::Notice, &serde_json::json!(["NOTICE", text]))
    }

    /// `["COUNT", <id>, {"count": <count>}]`.
    pub(crate) fn count(id: &str, count: u64) -> Self {
        Self::text(
            Sent::Count,
            &serde_json::json!(["COUNT", id, {"count": count}]),
        )
    }

    /// `["AUTH", <challenge>]`.
    pub(crate) fn auth(challenge: &str) -> Self {
        Self::text(Sent::Auth, &serde_json::json!(["AUTH", challenge]))
    }

    /// `["NEG-MSG", <id>, <hex>]`.
    pub(crate) fn neg_message(id: &str, hex: &str) -> Self {
        Self::text(Sent::Neg, &serde_json::json!(["NEG-MSG", id, hex]))
    }

    /// `["NEG-ERR", <id>, <reason>]`.
    pub(crate) fn neg_error(id: &str, reason: &str) -> Self {
        Self::text(Sent::Neg, &serde_json::json!(["NEG-ERR", id, reason]))
    }

    /// An event for the subscription whose [`event_prefix`] this is.
    pub(crate) fn event(prefix: Arc<str>, json: Bytes) -> Self {
        Self {
            body: Body::Event { prefix, json },
            kind: Some(Sent::Event),
        }
    }

    /// Asks whether the client is still there.
    pub(crate) fn ping() -> Self {
        Self {
            body: Body::Ping,
            kind: None,
        }
    }

    /// The last frame of a connection.
    pub(crate) fn close(code: u16, reason: &'static str) -> Self {
        Self {
            body: Body::Close { code, reason },
            kind: None,
        }
    }

    fn text(kind: Sent, value: &serde_json::Value) -> Self {
        Self {
            body: Body::Text(value.to_string()),
            kind: Some(kind),
        }
    }

    /// What it takes of the bounds on queued bytes.
    pub(crate) fn weight(&self) -> usize {
        OVERHEAD
            + match &self.body {
                Body::Text(text) => text.len(),
                Body::Event { prefix, json } => prefix.len() + json.len() + 1,
                Body::Ping | Body::Close { .. } => 0,
            }
    }

    /// For the metrics.
    pub(crate) fn kind(&self) -> Option<Sent> {
        self.kind
    }

    /// The websocket message. `None` for an event whose bytes are no text, which the store never has.
    pub(crate) fn into_message(self) -> Option<Message> {
        Some(match self.body {
            Body::Text(text) => Message::Text(text.into()),
            Body::Event { prefix, json } => Message::Text(join(&prefix, &json)?),
            Body::Ping => Message::Ping(Bytes::new()),
            Body::Close { code, reason } => Message::Close(Some(CloseFrame {
                code,
                reason: Utf8Bytes::from_static(reason),
            })),
        })
    }
}

fn join(prefix: &str, json: &[u8]) -> Option<Utf8Bytes> {
    let mut text = BytesMut::with_capacity(prefix.len() + json.len() + 1);
    text.extend_from_slice(prefix.as_bytes());
    text.extend_from_slice(json);
    text.extend_from_slice(b"]");
    Utf8Bytes::try_from(text.freeze()).ok()
}

/// The text before the event in each `EVENT` frame of a subscription.
pub(crate) fn event_prefix(subscription: &str) -> Arc<str> {
    format!(r#"["EVENT",{},"#, serde_json::Value::from(subscription)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(frame: Frame) -> String {
        match frame.into_message() {
            Some(Message::Text(text)) => text.as_str().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_event_frame_has_the_stored_bytes_as_they_are() {
        let json = Bytes::from_static(b"{\"content\": \"\xe2\x80\xa8 <&>\"}");
        let frame = Frame::event(event_prefix("a\"b"), json);
        assert_eq!(
            text(frame),
            "[\"EVENT\",\"a\\\"b\",{\"content\": \"\u{2028} <&>\"}]"
        );
    }

    #[test]
    fn answers_are_arrays_of_json() {
        assert_eq!(text(Frame::ok("x", true, "")), r#"["OK","x",true,""]"#);
        assert_eq!(
            text(Frame::closed("a\n", "error: \"y\"")),
            r#"["CLOSED","a\n","error: \"y\""]"#
        );
        assert_eq!(text(Frame::count("x", 3)), r#"["COUNT","x",{"count":3}]"#);
    }
}
