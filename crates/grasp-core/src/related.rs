//! Events that hang on repositories and conversations (§9).
//!
//! Acceptance is transitive, so it has to end somewhere, or one accepted comment would open the relay
//! to whatever it leads to. What an event may carry is its [`Standing`]: anchors carry without limit,
//! replies within the budget of their root, everything else nothing.

use std::collections::{BTreeMap, BTreeSet};

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{REFERENCES_MAX, Standing};

/// What an event refers to (REL-1): the first [`REFERENCES_MAX`] count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct References {
    /// `e`, `E` and hex `q`.
    pub events: Vec<EventId>,
    /// `a`, `A` and `q` with a colon: `kind:pubkey:d`, as [`VerifiedEvent::address`] spells it.
    pub addresses: Vec<String>,
}

impl References {
    /// Reads them. Malformed ones count for nothing, repeats once.
    pub fn of(event: &VerifiedEvent) -> Self {
        let mut references = Self::default();
        let values = event.tags().filter_map(|tag| match tag {
            [name, value, ..] if is_reference(name) => Some((name.as_str(), value.as_str())),
            _ => None,
        });
        for (name, value) in values {
            if references.len() == REFERENCES_MAX {
                break;
            }
            references.read(name, value);
        }
        references
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.events.len() + self.addresses.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read(&mut self, name: &str, value: &str) {
        let addresses = matches!(name, "a" | "A") || (name == "q" && value.contains(':'));
        if addresses {
            let address = normalised_address(value);
            if let Some(address) = address.filter(|new| !self.addresses.contains(new)) {
                self.addresses.push(address);
            }
        } else if let Some(id) = event_id(value).filter(|new| !self.events.contains(new)) {
            self.events.push(id);
        }
    }
}

fn is_reference(name: &str) -> bool {
    matches!(name, "a" | "A" | "e" | "E" | "q")
}

/// An id as tags spell it: 64 lowercase digits.
pub(crate) fn event_id(text: &str) -> Option<EventId> {
    let lowercase = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (text.len() == 64 && lowercase)
        .then(|| EventId::from_hex(text).ok())
        .flatten()
}

/// `kind:pubkey:d`, with the last colon also where there is no `d`. `None` for what is no address.
pub(crate) fn normalised_address(text: &str) -> Option<String> {
    let mut parts = text.splitn(3, ':');
    let kind: u16 = parts.next()?.parse().ok()?;
    let author = parts.next().filter(|hex| event_id(hex).is_some())?;
    let name = parts.next().unwrap_or_default();
    let named = kind::is_addressable(kind) || (kind::is_replaceable(kind) && name.is_empty());
    named.then(|| format!("{kind}:{author}:{name}"))
}

/// A served event that another refers to, or that refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relative {
    /// Its id.
    pub event: EventId,
    /// Its kind.
    pub kind: u16,
    /// Its author.
    pub author: PublicKey,
    /// What it may carry.
    pub standing: Standing,
}

/// What the store found around an event.
#[derive(Debug, Clone, Default)]
pub struct RelatedFacts {
    /// Served events that it refers to.
    pub targets: Vec<Relative>,
    /// Served events that refer to its id or address, at most a few.
    pub mentioned_by: Vec<Relative>,
    /// Events and bytes already counted ([`Standing::Reply`]) against the roots of the targets, by root.
    pub budgets: BTreeMap<EventId, (u64, u64)>,
    /// Owners and maintainers of the repositories that the event hangs on: exempt from the budget.
    pub exempt: BTreeSet<PublicKey>,
    /// For profiles and relay lists: the author takes part in an accepted repository, as owner,
    /// maintainer, or author of a served anchor or reply (EV-2).
    pub participates: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{draft, key};

    fn id(n: u8) -> String {
        EventId::from_byte_array([n; 32]).to_hex()
    }

    fn own() -> String {
        format!("30617:{}:x", key(1).to_hex())
    }

    /// REL-1: only what is replaced by address has one, and only what has a `d` is named by it.
    #[test]
    fn addresses_are_of_kinds_that_have_them() {
        let author = key(1).to_hex();
        for (text, read) in [
            (
                format!("30617:{author}:a:b"),
                Some(format!("30617:{author}:a:b")),
            ),
            (format!("30618:{author}"), Some(format!("30618:{author}:"))),
            (format!("10002:{author}"), Some(format!("10002:{author}:"))),
            (format!("10002:{author}:x"), None),
            (format!("1:{author}:"), None),
            (format!("1621:{author}:x"), None),
            ("30617:abc:x".to_owned(), None),
            (format!("x:{author}:x"), None),
        ] {
            assert_eq!(normalised_address(&text), read, "{text}");
        }
    }

    /// REL-1
    #[test]
    fn references_are_read_from_five_tags() {
        let address = |d: &str| format!("30617:{}:{d}", key(1).to_hex());
        let event = draft(1111, key(2))
            .tag(["e", &id(1), "wss://hint", "root"])
            .tag(["E", &id(2)])
            .tag(["q", &id(3)])
            .tag(["a", &address("a")])
            .tag(["A", &address("b:c")])
            .tag(["q", &address("d")])
            .tag(["a", &format!("10317:{}", key(1).to_hex())])
            .tag(["p", &id(4)])
            .event();
        let references = References::of(&event);
        let events: Vec<String> = references.events.iter().map(EventId::to_hex).collect();
        assert_eq!(events, [id(1), id(2), id(3)]);
        let list = format!("10317:{}:", key(1).to_hex());
        assert_eq!(
            references.addresses,
            [address("a"), address("b:c"), address("d"), list]
        );
    }

    /// REL-6, case 82
    #[test]
    fn only_the_first_fifty_count() {
        let event = (0..60)
            .fold(draft(1111, key(2)), |event, n| event.tag(["e", &id(n)]))
            .event();
        assert_eq!(References::of(&event).len(), REFERENCES_MAX);
    }

    #[test]
    fn what_names_nothing_is_no_reference() {
        let upper = id(0xab).to_uppercase();
        let event = draft(1111, key(2))
            .tag(["e"])
            .tag(["e", ""])
            .tag(["e", "abc"])
            .tag(["e", &upper])
            .tag(["a", "30617:nobody:x"])
            .tag(["a", &format!("1:{}:x", key(1).to_hex())])
            .tag(["q", ":::"])
            .tag(["e", &id(1)])
            .tag(["E", &id(1)])
            .event();
        let references = References::of(&event);
        assert!(references.len() == 1 && !references.is_empty());
        let of_address = References::of(&draft(1111, key(2)).tag(["a", &own()]).event());
        assert!(of_address.len() == 1 && !of_address.is_empty());
        assert!(References::of(&draft(1111, key(2)).event()).is_empty());
    }
}
