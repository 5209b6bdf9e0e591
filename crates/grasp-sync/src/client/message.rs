//! What relays say, taken apart without trusting any of it, and what we say to them.
//!
//! A message is read in one pass into slices of its text: it costs no more memory than it weighs, whatever it claims
//! of itself.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use grasp_core::filter::Filter;
use grasp_core::{Event, EventId};
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::engine::SubscriptionId;

/// So many parts of a message mean something.
const PARTS_MAX: usize = 4;
/// Of a longer text of a peer only the beginning is kept.
const WORDS_MAX: usize = 1_024;

/// A message of a relay. Subscriptions are numbers: a name that is none is nobody's.
#[derive(Debug, PartialEq, Eq)]
pub enum RelayMessage<'a> {
    /// `["EVENT", <subscription>, <event>]`: the event's text.
    Event(SubscriptionId, &'a str),
    /// `["EOSE", <subscription>]`.
    Eose(SubscriptionId),
    /// `["CLOSED", <subscription>, <reason>]`.
    Closed(SubscriptionId, String),
    /// `["NOTICE", <text>]`.
    Notice(String),
    /// `["AUTH", <challenge>]` (NIP-42).
    Auth(String),
    /// `["OK", <event id>, <accepted>, <reason>]`.
    Ok(EventId, bool),
    /// `["NEG-MSG", <subscription>, <hex>]` (NIP-77).
    NegMessage(SubscriptionId, Vec<u8>),
    /// `["NEG-ERR", <subscription>, <reason>]`.
    NegError(SubscriptionId, String),
}

/// The text is no message that a relay may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid relay message")]
pub struct Malformed;

impl<'a> RelayMessage<'a> {
    /// Reads one message.
    pub fn parse(text: &'a str) -> Result<Self, Malformed> {
        let parts: Parts<'a> = serde_json::from_str(text).map_err(|_| Malformed)?;
        match parts.verb.as_ref() {
            "EVENT" => Ok(Self::Event(parts.subscription()?, parts.get(1)?)),
            "EOSE" => Ok(Self::Eose(parts.subscription()?)),
            "CLOSED" => Ok(Self::Closed(parts.subscription()?, parts.words(1))),
            "NOTICE" => Ok(Self::Notice(parts.words(0))),
            "AUTH" => Ok(Self::Auth(parts.text(0)?.into_owned())),
            "OK" => {
                let id = EventId::from_hex(&parts.text(0)?).map_err(|_| Malformed)?;
                Ok(Self::Ok(id, parts.get(1)? == "true"))
            }
            "NEG-MSG" => {
                let message = from_hex(&parts.text(1)?).ok_or(Malformed)?;
                Ok(Self::NegMessage(parts.subscription()?, message))
            }
            "NEG-ERR" => Ok(Self::NegError(parts.subscription()?, parts.words(1))),
            _ => Err(Malformed),
        }
    }
}

struct Parts<'a> {
    verb: Cow<'a, str>,
    rest: Vec<&'a RawValue>,
}

impl<'a> Parts<'a> {
    fn get(&self, index: usize) -> Result<&'a str, Malformed> {
        self.rest.get(index).map(|raw| raw.get()).ok_or(Malformed)
    }

    fn text(&self, index: usize) -> Result<Cow<'a, str>, Malformed> {
        let Words(text) = serde_json::from_str(self.get(index)?).map_err(|_| Malformed)?;
        Ok(text)
    }

    /// A subscription that is not a number of ours reads as one that we never have.
    fn subscription(&self) -> Result<SubscriptionId, Malformed> {
        let number = self.text(0)?.parse().unwrap_or(u64::MAX);
        Ok(SubscriptionId::of(number))
    }

    /// Prose, cut to what we care to read; nothing if there is none.
    fn words(&self, index: usize) -> String {
        let text = self.text(index).unwrap_or_default();
        text.chars().take(WORDS_MAX).collect()
    }
}

/// A text that is borrowed where it holds no escapes.
#[derive(serde::Deserialize)]
struct Words<'a>(#[serde(borrow)] Cow<'a, str>);

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
        let verb = seq.next_element::<Words<'de>>()?;
        let Words(verb) = verb.ok_or_else(|| de::Error::custom("empty"))?;
        let mut rest = Vec::new();
        while rest.len() < PARTS_MAX {
            match seq.next_element()? {
                Some(raw) => rest.push(raw),
                None => return Ok(Parts { verb, rest }),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Parts { verb, rest })
    }
}

/// `["REQ", …]`
pub(crate) fn req(subscription: SubscriptionId, filters: &[Arc<Filter>]) -> String {
    let head = [json!("REQ"), json!(name(subscription))];
    let parts = head
        .into_iter()
        .chain(filters.iter().map(|filter| filter.to_json()));
    parts.collect::<Value>().to_string()
}

/// `["EVENT", …]`
pub(crate) fn event(event: &Event) -> String {
    format!(r#"["EVENT",{}]"#, event.as_json())
}

/// `["CLOSE", …]`
pub(crate) fn close(subscription: SubscriptionId) -> String {
    json!(["CLOSE", name(subscription)]).to_string()
}

/// `["AUTH", …]`
pub(super) fn auth(proof: &Event) -> String {
    format!(r#"["AUTH",{}]"#, proof.as_json())
}

/// `["NEG-OPEN", …]`
pub(super) fn neg_open(subscription: SubscriptionId, filter: &Filter, message: &[u8]) -> String {
    let subscription = name(subscription);
    json!(["NEG-OPEN", subscription, filter.to_json(), to_hex(message)]).to_string()
}

/// `["NEG-MSG", …]`
pub(super) fn neg_message(subscription: SubscriptionId, message: &[u8]) -> String {
    json!(["NEG-MSG", name(subscription), to_hex(message)]).to_string()
}

/// `["NEG-CLOSE", …]`
pub(super) fn neg_close(subscription: SubscriptionId) -> String {
    json!(["NEG-CLOSE", name(subscription)]).to_string()
}

fn name(subscription: SubscriptionId) -> String {
    subscription.get().to_string()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs
        .iter()
        .map(|[high, low]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok());
    rest.is_empty().then(|| bytes.collect())?
}

fn to_hex(bytes: &[u8]) -> String {
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles
        .filter_map(|nibble| char::from_digit(nibble.into(), 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sub(number: u64) -> SubscriptionId {
        SubscriptionId::of(number)
    }

    #[test]
    fn each_verb_is_read() {
        let id = "ab".repeat(32);
        let ok = format!(r#"["OK","{id}",true,""]"#);
        let refused = format!(r#"["OK","{id}",false,"invalid: no"]"#);
        let event_id = EventId::from_hex(&id).expect("hex");
        for (text, message) in [
            (
                r#"["EVENT","7",{"id":1}]"#,
                RelayMessage::Event(sub(7), r#"{"id":1}"#),
            ),
            (
                r#" [ "EOSE" , "12" , 1, 2, 3, 4, 5 ] "#,
                RelayMessage::Eose(sub(12)),
            ),
            (
                r#"["CLOSED","1","\u00e4: no"]"#,
                RelayMessage::Closed(sub(1), "ä: no".to_owned()),
            ),
            (
                r#"["CLOSED","1"]"#,
                RelayMessage::Closed(sub(1), String::new()),
            ),
            (
                r#"["NOTICE","hello"]"#,
                RelayMessage::Notice("hello".to_owned()),
            ),
            (r#"["NOTICE",{"x":1}]"#, RelayMessage::Notice(String::new())),
            (r#"["AUTH","xyz"]"#, RelayMessage::Auth("xyz".to_owned())),
            (&ok, RelayMessage::Ok(event_id, true)),
            (&refused, RelayMessage::Ok(event_id, false)),
            (
                r#"["NEG-MSG","3","61fF"]"#,
                RelayMessage::NegMessage(sub(3), vec![0x61, 0xff]),
            ),
            (
                r#"["NEG-ERR","3","blocked: big"]"#,
                RelayMessage::NegError(sub(3), "blocked: big".to_owned()),
            ),
        ] {
            assert_eq!(RelayMessage::parse(text), Ok(message), "{text}");
        }
    }

    #[test]
    fn whatever_else_comes_is_malformed() {
        let deep = "[".repeat(200_000);
        for bad in [
            "",
            "x",
            "{}",
            "[]",
            "null",
            "[1]",
            r#"["EVENT"]"#,
            r#"["EVENT","1"]"#,
            r#"["EVENT",1,{}]"#,
            r#"["EOSE"]"#,
            r#"["EOSE",{}]"#,
            r#"["OK","ab",true]"#,
            r#"["AUTH",5]"#,
            r#"["NEG-MSG","1","6"]"#,
            r#"["NEG-MSG","1","zz"]"#,
            r#"["NEG-MSG","1","é"]"#,
            r#"["NOPE","1"]"#,
            r#"["EOSE","1"] x"#,
            r#"["EOSE","\ud800"]"#,
            &deep,
        ] {
            assert_eq!(RelayMessage::parse(bad), Err(Malformed), "{bad:.40}");
        }
    }

    #[test]
    fn a_name_that_is_none_of_ours_is_read_as_nobodys() {
        for name in ["x", "-1", "", "1.5", "99999999999999999999999"] {
            let text = json!(["EOSE", name]).to_string();
            assert_eq!(
                RelayMessage::parse(&text),
                Ok(RelayMessage::Eose(sub(u64::MAX)))
            );
        }
    }

    #[test]
    fn a_long_reason_is_cut() {
        let text = json!(["NOTICE", "ä".repeat(100_000)]).to_string();
        let Ok(RelayMessage::Notice(words)) = RelayMessage::parse(&text) else {
            panic!("readable");
        };
        assert_eq!(words.chars().count(), WORDS_MAX);
    }

    #[test]
    fn what_we_say_is_written_as_the_protocol_has_it() {
        let filter = Filter {
            limit: Some(0),
            ..Filter::default()
        };
        let filters = [filter.clone(), Filter::default()].map(Arc::new);
        assert_eq!(req(sub(5), &filters), r#"["REQ","5",{"limit":0},{}]"#);
        assert_eq!(close(sub(5)), r#"["CLOSE","5"]"#);
        assert_eq!(
            neg_open(sub(5), &filter, &[0x61, 0xff]),
            r#"["NEG-OPEN","5",{"limit":0},"61ff"]"#
        );
        assert_eq!(neg_message(sub(5), &[0]), r#"["NEG-MSG","5","00"]"#);
        assert_eq!(neg_close(sub(5)), r#"["NEG-CLOSE","5"]"#);
    }
}
