//! What clients say, taken apart without trusting any of it.
//!
//! A message is read in one pass into slices of its text: nothing is allocated for parts that the verb
//! does not need, so a message costs no more memory than it weighs. What the slices hold is read by the
//! room that answers, which knows what to say about a mistake.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// So many parts of a message are kept; how many there were is known all the same.
const PARTS_MAX: usize = 256;

/// A message of a client.
#[derive(Debug)]
pub enum ClientMessage<'a> {
    /// `["EVENT", <event>]`: the event's text.
    Event(&'a str),
    /// `["REQ", <id>, <filter>…]`.
    Req(Request<'a>),
    /// `["COUNT", <id>, <filter>…]` (NIP-45).
    Count(Request<'a>),
    /// `["CLOSE", <id>]`.
    Close(String),
    /// `["AUTH", <event>]` (NIP-42): the event's text.
    Auth(&'a str),
    /// `["NEG-OPEN", <id>, <filter>, <hex>]` (NIP-77).
    NegOpen {
        /// The session.
        id: String,
        /// Which events both sides compare.
        filter: &'a str,
        /// The initiator's first message, as hex.
        message: String,
    },
    /// `["NEG-MSG", <id>, <hex>]`.
    NegMessage {
        /// The session.
        id: String,
        /// The initiator's next message, as hex.
        message: String,
    },
    /// `["NEG-CLOSE", <id>]`.
    NegClose(String),
}

/// Filters under a name.
#[derive(Debug)]
pub struct Request<'a> {
    /// The name, chosen by the client.
    pub id: String,
    /// The filters' texts, the first ones if there are very many.
    pub filters: Vec<&'a str>,
    /// How many filters there were.
    pub filter_count: usize,
}

/// The text is no message that a client may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid client message")]
pub struct Malformed;

impl<'a> ClientMessage<'a> {
    /// Reads one message.
    pub fn parse(text: &'a str) -> Result<Self, Malformed> {
        let parts: Parts<'a> = serde_json::from_str(text).map_err(|_| Malformed)?;
        match parts.verb.as_ref() {
            "EVENT" => Ok(Self::Event(parts.get(0)?)),
            "REQ" => Ok(Self::Req(parts.request()?)),
            "COUNT" => Ok(Self::Count(parts.request()?)),
            "CLOSE" => Ok(Self::Close(parts.text(0)?)),
            "AUTH" => Ok(Self::Auth(parts.get(0)?)),
            "NEG-OPEN" => Ok(Self::NegOpen {
                id: parts.text(0)?,
                filter: parts.get(1)?,
                message: parts.text(2)?,
            }),
            "NEG-MSG" => Ok(Self::NegMessage {
                id: parts.text(0)?,
                message: parts.text(1)?,
            }),
            "NEG-CLOSE" => Ok(Self::NegClose(parts.text(0)?)),
            _ => Err(Malformed),
        }
    }
}

/// The id that an event claims, if it can be read at all: whoever sent it waits for an `OK` with just
/// these characters, whatever else is wrong with the event.
pub fn claimed_id(event: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Claim<'a> {
        #[serde(borrow)]
        id: Cow<'a, str>,
    }
    let claim: Claim<'_> = serde_json::from_str(event).ok()?;
    let is_id = claim.id.len() == 64 && claim.id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| claim.id.into_owned())
}

struct Parts<'a> {
    verb: Cow<'a, str>,
    rest: Vec<&'a RawValue>,
    rest_count: usize,
}

impl<'a> Parts<'a> {
    fn get(&self, index: usize) -> Result<&'a str, Malformed> {
        self.rest.get(index).map(|raw| raw.get()).ok_or(Malformed)
    }

    fn text(&self, index: usize) -> Result<String, Malformed> {
        serde_json::from_str(self.get(index)?).map_err(|_| Malformed)
    }

    fn request(&self) -> Result<Request<'a>, Malformed> {
        Ok(Request {
            id: self.text(0)?,
            filters: self.rest[1..].iter().map(|raw| raw.get()).collect(),
            filter_count: self.rest_count - 1,
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Parts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PartsVisitor)
    }
}

struct PartsVisitor;

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Parts<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array that starts with a verb")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Parts<'de>, A::Error> {
        let verb: &RawValue = seq
            .next_element()?
            .ok_or_else(|| de::Error::custom("empty"))?;
        let verb = serde_json::from_str(verb.get()).map_err(de::Error::custom)?;
        let mut parts = Parts {
            verb,
            rest: Vec::new(),
            rest_count: 0,
        };
        while let Some(raw) = seq.next_element()? {
            parts.rest_count += 1;
            if parts.rest.len() < PARTS_MAX {
                parts.rest.push(raw);
            }
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_is_read() {
        let parse = |text| ClientMessage::parse(text).expect(text);
        assert!(
            matches!(parse(r#"["EVENT",{"id":1}]"#), ClientMessage::Event(raw) if raw == r#"{"id":1}"#)
        );
        assert!(matches!(parse(r#" [ "REQ" , "s" , {} , {"limit":0} ] "#),
            ClientMessage::Req(Request { id, filters, filter_count: 2 }) if id == "s" && filters.len() == 2));
        assert!(matches!(
            parse(r#"["COUNT","s",{}]"#),
            ClientMessage::Count(_)
        ));
        assert!(
            matches!(parse(r#"["CLOSE","\u00e4\n"]"#), ClientMessage::Close(id) if id == "ä\n")
        );
        assert!(matches!(parse(r#"["AUTH",{}]"#), ClientMessage::Auth("{}")));
        assert!(matches!(parse(r#"["NEG-OPEN","n",{},"61"]"#),
            ClientMessage::NegOpen { id, filter: "{}", message } if id == "n" && message == "61"));
        assert!(matches!(
            parse(r#"["NEG-MSG","n","61"]"#),
            ClientMessage::NegMessage { .. }
        ));
        assert!(matches!(
            parse(r#"["NEG-CLOSE","n"]"#),
            ClientMessage::NegClose(_)
        ));
    }

    #[test]
    fn whatever_else_comes_is_malformed() {
        let deep = "[".repeat(200_000);
        for bad in [
            "",
            " ",
            "x",
            "{}",
            "[]",
            "null",
            "[1]",
            r#"["EVENT"]"#,
            r#"["REQ"]"#,
            r#"["REQ",1,{}]"#,
            r#"["CLOSE",{}]"#,
            r#"["CLOSE"]"#,
            r#"["NOPE",1]"#,
            r#"["NEG-MSG","a",5]"#,
            r#"["REQ","a",{}"#,
            r#"["REQ","a",{}] x"#,
            r#"["REQ","\ud800",{}]"#,
            "[\"EVENT\",{}\0]",
            &deep,
        ] {
            assert!(ClientMessage::parse(bad).is_err(), "{bad:.40}");
        }
    }

    #[test]
    fn very_many_filters_are_counted_and_not_kept() {
        let text = format!(r#"["REQ","s"{}]"#, ",{}".repeat(100_000));
        let Ok(ClientMessage::Req(request)) = ClientMessage::parse(&text) else {
            panic!("readable");
        };
        assert_eq!(request.filter_count, 100_000);
        assert!(request.filters.len() < PARTS_MAX);
    }

    #[test]
    fn the_claimed_id_of_a_broken_event_is_found() {
        let id = "Ab".repeat(32);
        assert_eq!(
            claimed_id(&format!(r#"{{"kind":"x","id":"{id}","tags":[[]]}}"#)),
            Some(id)
        );
        for bad in [
            "{}",
            "[]",
            r#"{"id":5}"#,
            r#"{"id":"abc"}"#,
            r#"{"id":"a","id":"b"}"#,
        ] {
            assert_eq!(claimed_id(bad), None, "{bad}");
        }
    }
}
