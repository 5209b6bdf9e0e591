//! What a deletion request names (DEL-1).

use std::collections::BTreeSet;

use nostr::event::EventId;

use crate::event::VerifiedEvent;
use crate::lifecycle::{Batch, Change};
use crate::related::{event_id, normalised_address};

/// At most so many `e` and `a` of one request (DEL-1).
const TARGETS_MAX: usize = 2048;

/// What a request names, as far as it may name it. Malformed and empty values count for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Targets {
    /// By `e`.
    pub events: BTreeSet<EventId>,
    /// By `a`, as [`VerifiedEvent::address`] spells it: the author's own; foreign ones are ignored.
    pub addresses: BTreeSet<String>,
}

/// More `e` and `a` than one request may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyTargets;

impl Targets {
    /// Reads them.
    pub fn of(request: &VerifiedEvent) -> Result<Self, TooManyTargets> {
        let author = request.author().to_hex();
        let mut targets = Self::default();
        let named = request
            .tags()
            .filter(|tag| matches!(tag[0].as_str(), "e" | "a"));
        for (number, tag) in named.enumerate() {
            if number == TARGETS_MAX {
                return Err(TooManyTargets);
            }
            match (tag[0].as_str(), tag.get(1)) {
                ("e", Some(value)) => targets.events.extend(event_id(value)),
                ("a", Some(value)) => {
                    let own = normalised_address(value)
                        .filter(|address| address.split(':').nth(1) == Some(&author));
                    targets.addresses.extend(own);
                }
                _ => {}
            }
        }
        Ok(targets)
    }

    /// What they name does not come back, nor come at all.
    pub fn gates(&self, request: &VerifiedEvent) -> Batch {
        let events = self.events.iter().map(|event| Change::GateEvent {
            event: *event,
            author: request.author(),
            request: request.id(),
        });
        let addresses = self.addresses.iter().map(|address| Change::GateAddress {
            address: address.clone(),
            until: request.created_at(),
            request: request.id(),
        });
        events.chain(addresses).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::kind;
    use crate::testing::{draft, key};

    fn targets(tags: &[&[&str]]) -> Targets {
        let request = tags.iter().fold(draft(kind::DELETION, key(1)), |it, tag| {
            it.tag(tag.iter().map(ToString::to_string))
        });
        Targets::of(&request.event()).expect("few enough")
    }

    /// DEL-1, case 54
    #[test]
    fn what_is_empty_or_malformed_names_nothing() {
        let own = key(1).to_hex();
        let (id, upper) = ("0a".repeat(32), "0A".repeat(32));
        let of_issue = format!("1621:{own}:x");
        let no_kind = format!("x:{own}:x");
        let named_list = format!("10317:{own}:x");
        let announcement = format!("30617:{own}:x");
        assert_eq!(targets(&[]), Targets::default());
        assert_eq!(targets(&[&["e"], &["a"]]), Targets::default());
        for [name, value] in [
            ["e", ""],
            ["a", ""],
            ["e", &upper],
            ["e", &id[1..]],
            ["E", &id],
            ["a", "30617"],
            ["a", &of_issue],
            ["a", &no_kind],
            ["a", &named_list],
            ["A", &announcement],
        ] {
            assert_eq!(targets(&[&[name, value]]), Targets::default(), "{value}");
        }
    }

    /// DEL-1: whoever signs it, wherever their key stands in it.
    #[test]
    fn an_address_is_its_author_s_own_or_it_is_ignored() {
        let (own, other) = (key(1).to_hex(), key(2).to_hex());
        let mine = [
            format!("30617:{own}:x"),
            format!("30617:{own}:x:{other}"),
            format!("30617:{own}:"),
            format!("10317:{own}:"),
        ];
        for address in &mine {
            assert_eq!(
                targets(&[&["a", address]]).addresses,
                [address.clone()].into()
            );
        }
        let bare = format!("10317:{own}");
        assert_eq!(
            targets(&[&["a", &bare]]).addresses,
            [mine[3].clone()].into()
        );
        for foreign in [
            format!("30617:{other}:x"),
            format!("30617:{other}:{own}"),
            format!("30617:{other}:x:{own}:y"),
        ] {
            assert_eq!(
                targets(&[&["a", &foreign]]),
                Targets::default(),
                "{foreign}"
            );
        }
    }

    /// DEL-1
    #[test]
    fn a_request_names_at_most_2048_things() {
        let of = |events: usize, addresses: usize, others: usize| {
            let id = |n: usize| format!("{n:064x}");
            let request =
                (0..others).fold(draft(kind::DELETION, key(1)), |it, _| it.tag(["k", "1"]));
            let request = (0..events).fold(request, |it, n| it.tag(["e".to_owned(), id(n)]));
            let request = (0..addresses).fold(request, |it, _| it.tag(["a", ""]));
            Targets::of(&request.event()).map(|targets| targets.events.len())
        };
        assert_eq!(of(2000, 48, 3000), Ok(2000));
        assert_eq!(of(2048, 1, 0), Err(TooManyTargets));
        assert_eq!(of(0, 2049, 0), Err(TooManyTargets));
    }
}
