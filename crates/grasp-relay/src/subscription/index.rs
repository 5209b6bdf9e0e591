//! Finds the subscriptions that may want an event, at a price that does not depend on the others.
//!
//! Each filter is filed under the narrowest thing it asks for: ids, tag values, author and kind, author,
//! kind, or anything. An event is looked up under each of those of its own. What is found is a
//! candidate; the filters decide. *Invariant:* every filter that can match is filed under a key that
//! each event it matches is looked up under (checked against a naive search by a property test).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use grasp_core::filter::{Filter, Matchable};
use nostr::event::Event;

use super::Subscription;

/// More pairs of author and kind than this and a filter is filed under its authors alone.
const PAIRS_MAX: usize = 256;

/// A subscription's place in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(u64);

/// All subscriptions of all connections.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// By keyed hash of what a filter asks for: a collision costs a candidate, never an answer.
    postings: HashMap<u64, Postings>,
    entries: HashMap<Key, Entry>,
    hasher: RandomState,
    last: u64,
}

#[derive(Debug)]
struct Entry {
    subscription: Arc<Subscription>,
    filed_under: BTreeSet<u64>,
}

/// Who is filed under one thing: mostly one subscription.
#[derive(Debug)]
enum Postings {
    One(Key),
    Many(HashSet<Key>),
}

#[derive(Hash)]
enum Asked<'a> {
    Id(&'a [u8; 32]),
    Tag(char, &'a str),
    AuthorKind(&'a [u8; 32], u16),
    Author(&'a [u8; 32]),
    Kind(u16),
    Anything,
}

impl Index {
    /// Files a subscription.
    pub(crate) fn insert(&mut self, subscription: Arc<Subscription>) -> Key {
        self.last += 1;
        let key = Key(self.last);
        let mut filed_under = BTreeSet::new();
        for filter in subscription.filters() {
            self.each_key_of_filter(filter, &mut |hash| {
                filed_under.insert(hash);
            });
        }
        for hash in &filed_under {
            self.postings
                .entry(*hash)
                .and_modify(|postings| postings.add(key))
                .or_insert(Postings::One(key));
        }
        let entry = Entry {
            subscription,
            filed_under,
        };
        self.entries.insert(key, entry);
        key
    }

    /// Takes a subscription out; none if it is out already.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Arc<Subscription>> {
        let entry = self.entries.remove(&key)?;
        for hash in entry.filed_under {
            if self
                .postings
                .get_mut(&hash)
                .is_some_and(|postings| postings.remove(key))
            {
                self.postings.remove(&hash);
            }
        }
        Some(entry.subscription)
    }

    /// How many subscriptions there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Who may want `event`, in the order they came, each once.
    pub(crate) fn candidates(&self, event: &Event) -> BTreeMap<Key, &Arc<Subscription>> {
        let mut found = BTreeMap::new();
        self.each_key_of_event(event, &mut |hash| {
            let Some(postings) = self.postings.get(&hash) else {
                return;
            };
            postings.each(&mut |key| {
                if let Some(entry) = self.entries.get(&key) {
                    found.insert(key, &entry.subscription);
                }
            });
        });
        found
    }

    fn hash(&self, asked: &Asked<'_>) -> u64 {
        self.hasher.hash_one(asked)
    }

    fn each_key_of_filter(&self, filter: &Filter, visit: &mut dyn FnMut(u64)) {
        if filter.is_impossible() {
            return;
        }
        let mut file = |asked: Asked<'_>| visit(self.hash(&asked));
        let narrowest_tag = filter.tags.iter().min_by_key(|(_, values)| values.len());
        match (&filter.ids, narrowest_tag, &filter.authors, &filter.kinds) {
            (Some(ids), ..) => ids.iter().for_each(|id| file(Asked::Id(id))),
            (_, Some((letter, values)), ..) => {
                for value in values {
                    file(Asked::Tag(*letter, value));
                }
            }
            (_, _, Some(authors), Some(kinds)) if authors.len() * kinds.len() <= PAIRS_MAX => {
                for author in authors {
                    for kind in kinds {
                        file(Asked::AuthorKind(author, *kind));
                    }
                }
            }
            (_, _, Some(authors), _) => authors
                .iter()
                .for_each(|author| file(Asked::Author(author))),
            (_, _, None, Some(kinds)) => kinds.iter().for_each(|kind| file(Asked::Kind(*kind))),
            (None, None, None, None) => file(Asked::Anything),
        }
    }

    fn each_key_of_event(&self, event: &Event, visit: &mut dyn FnMut(u64)) {
        let mut look_up = |asked: Asked<'_>| visit(self.hash(&asked));
        let (author, kind) = (event.author(), Matchable::kind(event));
        look_up(Asked::Id(Matchable::id(event)));
        for tag in event.tags.iter().map(nostr::event::Tag::as_slice) {
            let mut name = tag[0].chars();
            if let (Some(letter), None, Some(value)) = (name.next(), name.next(), tag.get(1)) {
                look_up(Asked::Tag(letter, value));
            }
        }
        look_up(Asked::AuthorKind(author, kind));
        look_up(Asked::Author(author));
        look_up(Asked::Kind(kind));
        look_up(Asked::Anything);
    }
}

impl Postings {
    fn add(&mut self, key: Key) {
        match self {
            Self::One(one) => *self = Self::Many(HashSet::from([*one, key])),
            Self::Many(many) => {
                many.insert(key);
            }
        }
    }

    /// Whether nobody is left.
    fn remove(&mut self, key: Key) -> bool {
        match self {
            Self::One(one) => *one == key,
            Self::Many(many) => {
                many.remove(&key);
                many.is_empty()
            }
        }
    }

    fn each(&self, visit: &mut dyn FnMut(Key)) {
        match self {
            Self::One(one) => visit(*one),
            Self::Many(many) => many.iter().copied().for_each(visit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::outbound::Outbound;
    use grasp_testkit::Person;
    use proptest::prelude::*;

    fn person(n: u8) -> Person {
        Person::named(&n.to_string())
    }

    fn event(author: u8, kind: u16, tags: &[(char, u8)]) -> Event {
        let person = person(author);
        let draft = tags
            .iter()
            .fold(person.draft(kind).at(1), |draft, (letter, value)| {
                draft.tag([letter.to_string(), value.to_string()])
            });
        draft.sign()
    }

    fn any_filter(known_id: [u8; 32]) -> impl Strategy<Value = Filter> {
        let some = |range: std::ops::Range<u8>| {
            proptest::option::of(proptest::collection::btree_set(range, 0..3))
        };
        (some(0..2), some(0..3), some(0..4), some(0..3), some(0..3)).prop_map(
            move |(ids, authors, kinds, t, d)| {
                let tag = |letter, values: Option<BTreeSet<u8>>| {
                    values.map(|values| (letter, values.iter().map(u8::to_string).collect()))
                };
                Filter {
                    ids: ids.map(|ids| {
                        ids.iter()
                            .map(|id| if *id == 0 { known_id } else { [9; 32] })
                            .collect()
                    }),
                    authors: authors.map(|authors| {
                        authors
                            .iter()
                            .map(|author| *person(*author).key().as_bytes())
                            .collect()
                    }),
                    kinds: kinds.map(|kinds| kinds.into_iter().map(u16::from).collect()),
                    tags: tag('t', t).into_iter().chain(tag('d', d)).collect(),
                    ..Filter::default()
                }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whoever_matches_is_a_candidate(
            filters in proptest::collection::vec(proptest::collection::vec(any_filter(event(0, 0, &[]).id.to_bytes()), 1..3), 1..20),
            removed in 0_usize..20,
            author in 0_u8..3, kind in 0_u16..4, t in 0_u8..3, d in 0_u8..3,
        ) {
            let mut index = Index::default();
            let outbound = Outbound::new(1, 1, Arc::default());
            let mut filed: Vec<_> = filters.into_iter().map(|filters| {
                let subscription = Subscription::new("s".into(), filters, Arc::clone(&outbound));
                (index.insert(Arc::clone(&subscription)), subscription)
            }).collect();
            if removed < filed.len() {
                let (key, _) = filed.swap_remove(removed);
                prop_assert!(index.remove(key).is_some() && index.remove(key).is_none());
            }
            for event in [event(0, 0, &[]), event(author, kind, &[('t', t), ('d', d)])] {
                let found = index.candidates(&event);
                for (key, subscription) in &filed {
                    let wants = subscription.filters().iter().any(|filter| filter.matches(&event));
                    prop_assert!(!wants || found.contains_key(key));
                }
                prop_assert!(found.keys().all(|key| filed.iter().any(|(filed, _)| filed == key)));
            }
            for (key, _) in filed {
                index.remove(key);
            }
            prop_assert!(index.postings.is_empty() && index.len() == 0);
        }
    }

    #[test]
    fn an_event_meets_only_those_who_may_want_it() {
        let mut index = Index::default();
        let outbound = Outbound::new(1, 1, Arc::default());
        for n in 0..1_000 {
            let text = serde_json::json!({"kinds": [1621], "#a": [format!("30617:x:{n}")]});
            let filter = Filter::parse(&text).expect("a filter");
            index.insert(Subscription::new(
                "s".into(),
                vec![filter],
                Arc::clone(&outbound),
            ));
        }
        let event = person(1).draft(1621).tag(["a", "30617:x:7"]).sign();
        assert_eq!(index.candidates(&event).len(), 1);
    }
}
