//! Subscription filters (NIP-01), as the relay, the store and sync all read them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// One filter: all its conditions must hold. An empty list matches nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Full event ids.
    pub ids: Option<BTreeSet<[u8; 32]>>,
    /// Full public keys.
    pub authors: Option<BTreeSet<[u8; 32]>>,
    /// Kind numbers.
    pub kinds: Option<BTreeSet<u16>>,
    /// `#<letter>`: one of the values must be the first value of a tag of that letter.
    pub tags: BTreeMap<char, BTreeSet<String>>,
    /// `created_at` is at least.
    pub since: Option<u64>,
    /// `created_at` is at most.
    pub until: Option<u64>,
    /// How many stored events to return at most; 0 asks for live events only.
    pub limit: Option<usize>,
}

/// Why a JSON value is no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Not an object.
    #[error("a filter is a JSON object")]
    NotAnObject,
    /// A field has a value of the wrong shape.
    #[error("filter field {0:?} is malformed")]
    Field(String),
}

/// What of an event a filter can look at.
pub trait Matchable {
    /// The id.
    fn id(&self) -> &[u8; 32];
    /// The author.
    fn author(&self) -> &[u8; 32];
    /// Seconds.
    fn created_at(&self) -> u64;
    /// The kind number.
    fn kind(&self) -> u16;
    /// Whether the first value of some tag `letter` is one of `values`.
    fn has_tag(&self, letter: char, values: &BTreeSet<String>) -> bool;
}

impl Matchable for nostr::event::Event {
    fn id(&self) -> &[u8; 32] {
        self.id.as_bytes()
    }

    fn author(&self) -> &[u8; 32] {
        self.pubkey.as_bytes()
    }

    fn created_at(&self) -> u64 {
        self.created_at.as_secs()
    }

    fn kind(&self) -> u16 {
        self.kind.as_u16()
    }

    fn has_tag(&self, letter: char, values: &BTreeSet<String>) -> bool {
        self.tags
            .iter()
            .map(nostr::event::Tag::as_slice)
            .any(|tag| {
                let mut name = tag[0].chars();
                name.next() == Some(letter)
                    && name.next().is_none()
                    && tag.get(1).is_some_and(|value| values.contains(value))
            })
    }
}

impl Filter {
    /// Reads a filter. Fields it does not know, `search` among them, are ignored.
    pub fn parse(value: &Value) -> Result<Self, FilterError> {
        let object = value.as_object().ok_or(FilterError::NotAnObject)?;
        let mut filter = Self::default();
        for (name, value) in object {
            filter
                .read_field(name, value)
                .ok_or_else(|| FilterError::Field(name.clone()))?;
        }
        Ok(filter)
    }

    fn read_field(&mut self, name: &str, value: &Value) -> Option<()> {
        match name {
            "ids" => self.ids = Some(read_list(value, |item| read_hex(item.as_str()?))?),
            "authors" => self.authors = Some(read_list(value, |item| read_hex(item.as_str()?))?),
            "kinds" => {
                self.kinds = Some(read_list(value, |item| u16::try_from(item.as_u64()?).ok())?);
            }
            "since" => self.since = Some(value.as_u64()?),
            "until" => self.until = Some(value.as_u64()?),
            "limit" => self.limit = Some(usize::try_from(value.as_u64()?).unwrap_or(usize::MAX)),
            _ => {
                let mut letters = name.strip_prefix('#').unwrap_or_default().chars();
                if let (Some(letter), None) = (letters.next(), letters.next()) {
                    self.tags.insert(
                        letter,
                        read_list(value, |item| Some(item.as_str()?.to_owned()))?,
                    );
                }
            }
        }
        Some(())
    }

    /// Whether the event satisfies every condition (`limit` is none).
    pub fn matches<E: Matchable + ?Sized>(&self, event: &E) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(event.id()))
            && self
                .authors
                .as_ref()
                .is_none_or(|authors| authors.contains(event.author()))
            && self
                .kinds
                .as_ref()
                .is_none_or(|kinds| kinds.contains(&event.kind()))
            && self.since.is_none_or(|since| event.created_at() >= since)
            && self.until.is_none_or(|until| event.created_at() <= until)
            && self
                .tags
                .iter()
                .all(|(letter, values)| event.has_tag(*letter, values))
    }

    /// Whether no event can ever match: some list is empty, or the times exclude each other.
    pub fn is_impossible(&self) -> bool {
        self.ids.as_ref().is_some_and(BTreeSet::is_empty)
            || self.authors.as_ref().is_some_and(BTreeSet::is_empty)
            || self.kinds.as_ref().is_some_and(BTreeSet::is_empty)
            || self.tags.values().any(BTreeSet::is_empty)
            || matches!((self.since, self.until), (Some(since), Some(until)) if since > until)
    }

    /// The filter as JSON, for requests to other relays.
    pub fn to_json(&self) -> Value {
        let hex = |keys: &BTreeSet<[u8; 32]>| {
            keys.iter()
                .map(|key| Value::from(to_hex(key)))
                .collect::<Value>()
        };
        let mut out = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                out.insert(name.to_owned(), value);
            }
        };
        put("ids", self.ids.as_ref().map(hex));
        put("authors", self.authors.as_ref().map(hex));
        put(
            "kinds",
            self.kinds
                .as_ref()
                .map(|kinds| kinds.iter().copied().collect()),
        );
        put("since", self.since.map(Value::from));
        put("until", self.until.map(Value::from));
        put("limit", self.limit.map(Value::from));
        for (letter, values) in &self.tags {
            put(
                &format!("#{letter}"),
                Some(values.iter().cloned().collect()),
            );
        }
        Value::Object(out)
    }
}

fn read_list<T: Ord>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<BTreeSet<T>> {
    value.as_array()?.iter().map(read).collect()
}

fn read_hex(text: &str) -> Option<[u8; 32]> {
    nostr::event::EventId::from_hex(text)
        .ok()
        .map(nostr::event::EventId::to_bytes)
}

fn to_hex(bytes: &[u8; 32]) -> String {
    nostr::event::EventId::from_byte_array(*bytes).to_hex()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{draft, key};
    use serde_json::json;

    #[test]
    fn a_filter_round_trips_and_ignores_what_it_does_not_know() {
        let text = json!({"ids": ["a".repeat(64)], "kinds": [1, 30617], "#d": ["re", "repo"], "limit": 0, "since": 5});
        let filter = Filter::parse(&text).expect("valid");
        assert_eq!(filter.to_json(), text);
        let unknown = Filter::parse(&json!({"#ab": ["x"], "search": "y"})).expect("ignored");
        assert_eq!(unknown, Filter::default());
    }

    /// RLY-1: every condition alone takes the event or leaves it.
    #[test]
    fn a_filter_matches_what_meets_all_its_conditions() {
        let event = draft(1621, key(3))
            .at(50)
            .tag(["t", "bug", "other"])
            .tag(["te", "long"])
            .tag(["p"])
            .event();
        let (id, author) = (event.id().to_hex(), key(3).to_hex());
        let matches = |filter: &Value| {
            let filter = Filter::parse(filter).expect("valid");
            filter.matches(event.event())
        };
        for meets in [
            json!({}),
            json!({"ids": [id]}),
            json!({"authors": [key(4).to_hex(), author]}),
            json!({"kinds": [1, 1621]}),
            json!({"since": 50}),
            json!({"until": 50}),
            json!({"#t": ["wish", "bug"]}),
            json!({"ids": [id], "authors": [author], "kinds": [1621], "since": 1, "until": 99, "#t": ["bug"]}),
        ] {
            assert!(matches(&meets), "{meets}");
        }
        for fails in [
            json!({"ids": ["a".repeat(64)]}),
            json!({"authors": [key(4).to_hex()]}),
            json!({"kinds": [0, 1622]}),
            json!({"since": 51}),
            json!({"until": 49}),
            json!({"#t": ["other"]}),
            json!({"#e": ["bug"]}),
            json!({"#p": [""]}),
            json!({"#t": ["bug"], "kinds": [1]}),
        ] {
            assert!(!matches(&fails), "{fails}");
        }
    }

    #[test]
    fn an_exclusive_time_is_impossible_and_one_second_is_not() {
        let times = |since: u64, until: u64| {
            let filter = json!({"since": since, "until": until});
            Filter::parse(&filter).expect("valid").is_impossible()
        };
        assert!(times(6, 5));
        assert!(!times(5, 5));
    }

    #[test]
    fn malformed_fields_are_named() {
        for bad in [
            json!({"ids": ["abc"]}),
            json!({"kinds": ["1"]}),
            json!({"since": -1}),
            json!({"#d": "x"}),
        ] {
            assert!(
                matches!(Filter::parse(&bad), Err(FilterError::Field(_))),
                "{bad}"
            );
        }
        assert_eq!(Filter::parse(&json!([])), Err(FilterError::NotAnObject));
    }

    #[test]
    fn an_empty_list_matches_nothing() {
        for empty in [
            json!({"ids": []}),
            json!({"authors": []}),
            json!({"#e": []}),
            json!({"kinds": []}),
        ] {
            assert!(
                Filter::parse(&empty).expect("valid").is_impossible(),
                "{empty}"
            );
        }
    }
}
