//! Repository states (kind 30618): which refs a repository shall have.

use std::collections::{BTreeMap, BTreeSet};

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::event::{Parsed, VerifiedEvent, Version, kind};
use crate::name::{Identifier, IdentifierError};
use crate::oid::Oid;
use crate::refname::{RefName, RefSpace};

/// A parsed state. Keeps the event it came from.
#[derive(Debug, Clone)]
pub struct StateEvent {
    event: VerifiedEvent,
    identifier: Identifier,
    refs: BTreeMap<RefName, Oid>,
    unsatisfiable: BTreeSet<RefName>,
    head: Option<RefName>,
}

/// Why an event is no state (KIND-3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Another kind.
    #[error("kind {0} is no repository state")]
    Kind(u16),
    /// No `d` tag.
    #[error("a repository state needs a d tag")]
    NoIdentifier,
    /// A `d` tag that cannot name a repository (NAME-3).
    #[error(transparent)]
    Identifier(#[from] IdentifierError),
    /// Below `refs/heads/` or `refs/tags/`, but git would not take it.
    #[error("{0:?} is no legal ref name")]
    RefName(String),
    /// One ref, two values.
    #[error("{0} is declared with two values")]
    Twice(RefName),
    /// One ref is a folder of the other.
    #[error("{0} and {1} cannot exist together")]
    Conflict(RefName, RefName),
}

impl Parsed for StateEvent {
    fn verified(&self) -> &VerifiedEvent {
        &self.event
    }
}

impl StateEvent {
    /// Reads a state.
    pub fn parse(event: VerifiedEvent) -> Result<Self, StateError> {
        if event.kind() != kind::STATE {
            return Err(StateError::Kind(event.kind()));
        }
        let identifier = event
            .first_value("d")
            .ok_or(StateError::NoIdentifier)?
            .parse()?;
        let mut declared: BTreeMap<RefName, Option<Oid>> = BTreeMap::new();
        for tag in event.tags().filter(|tag| is_ref_tag(&tag[0])) {
            let value = tag.get(1).map_or("", String::as_str);
            if value.starts_with("ref: ") {
                continue; // KIND-2: symbolic, takes no part
            }
            let name: RefName = tag[0]
                .parse()
                .map_err(|_| StateError::RefName(tag[0].clone()))?;
            let oid = value.parse().ok().filter(|oid: &Oid| !oid.is_zero());
            if declared.get(&name).is_some_and(|before| *before != oid) {
                return Err(StateError::Twice(name));
            }
            declared.insert(name, oid);
        }
        if let Some((folder, file)) = find_conflict(&declared) {
            return Err(StateError::Conflict(folder, file));
        }
        let head = event.first_value("HEAD").and_then(read_head);
        let (refs, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            declared.into_iter().partition(|(_, oid)| oid.is_some());
        Ok(Self {
            event,
            identifier,
            refs: refs
                .into_iter()
                .filter_map(|(name, oid)| Some((name, oid?)))
                .collect(),
            unsatisfiable: rest.into_keys().collect(),
            head,
        })
    }

    /// The event.
    pub fn event(&self) -> &VerifiedEvent {
        &self.event
    }

    /// The id of the event.
    pub fn id(&self) -> EventId {
        self.event.id()
    }

    /// Who signed it.
    pub fn author(&self) -> PublicKey {
        self.event.author()
    }

    /// The `d` tag.
    pub fn identifier(&self) -> &Identifier {
        &self.identifier
    }

    /// Its place among versions.
    pub fn version(&self) -> Version {
        self.event.version()
    }

    /// The branches and tags with the object each shall name; symbolic and `^{}` entries left out.
    pub fn refs(&self) -> &BTreeMap<RefName, Oid> {
        &self.refs
    }

    /// Refs with a value that no object can have: while there is one, the state waits and never
    /// authorises or applies (KIND-3).
    pub fn unsatisfiable(&self) -> &BTreeSet<RefName> {
        &self.unsatisfiable
    }

    /// The branch that `HEAD` shall name, if it says one.
    pub fn head(&self) -> Option<&RefName> {
        self.head.as_ref()
    }

    /// The objects that must be complete before it can be served.
    pub fn oids(&self) -> BTreeSet<Oid> {
        self.refs.values().copied().collect()
    }

    /// Declares an empty repository: legal, and no evidence of git data (KIND-6).
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty() && self.unsatisfiable.is_empty()
    }
}

/// KIND-2: branches and tags, without the peeled values of annotated tags.
fn is_ref_tag(name: &str) -> bool {
    (name.starts_with("refs/heads/") || name.starts_with("refs/tags/")) && !name.ends_with("^{}")
}

/// KIND-2: `ref: refs/heads/x` or `refs/heads/x`.
fn read_head(value: &str) -> Option<RefName> {
    let name: RefName = value.strip_prefix("ref: ").unwrap_or(value).parse().ok()?;
    (name.space() == RefSpace::Branch).then_some(name)
}

/// With `/` before every other byte a folder is followed by what is in it (`a`, `a/b`, `a-b`), so
/// neighbours tell, and a hostile list of deep names costs no more than sorting it.
fn find_conflict<V>(declared: &BTreeMap<RefName, V>) -> Option<(RefName, RefName)> {
    let folders_first = |name: &RefName| -> Vec<u8> {
        let bytes = name.as_str().bytes();
        bytes.map(|b| if b == b'/' { 0 } else { b }).collect()
    };
    let mut names: Vec<&RefName> = declared.keys().collect();
    names.sort_by_cached_key(|name| folders_first(name));
    let mut neighbours = names.windows(2);
    neighbours
        .find(|pair| pair[0].conflicts_with(pair[1]))
        .map(|pair| (pair[0].clone(), pair[1].clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::project::{RawTag, event, refname, state, tag};
    use crate::testing::{NOW, key, oid};

    const ONE: &str = "0101010101010101010101010101010101010101";
    const TWO: &str = "0202020202020202020202020202020202020202";

    fn parse(tags: Vec<RawTag>) -> Result<StateEvent, StateError> {
        let tags = [tag(["d", "project"])].into_iter().chain(tags).collect();
        StateEvent::parse(event(key(1), kind::STATE, NOW, tags))
    }

    /// KIND-2: cases, 19.
    #[test]
    fn branches_and_tags_are_declared_and_nothing_else() {
        let state = state(
            key(1),
            NOW,
            &[
                ("HEAD", "ref: refs/heads/main"),
                ("refs/heads/main", ONE),
                ("refs/heads/alias", "ref: refs/heads/main"),
                ("refs/tags/v1", TWO),
                ("refs/tags/v1^{}", ONE),
                ("refs/nostr/x", ONE),
                ("refs/notes/commits", ONE),
                ("refs/remotes/origin/main", ONE),
                ("name", "refs/heads/x"),
            ],
        );
        let declared = [("refs/heads/main", 1), ("refs/tags/v1", 2)];
        let declared = declared.map(|(name, n)| (refname(name), oid(n)));
        assert_eq!(*state.refs(), BTreeMap::from(declared));
        assert!(state.unsatisfiable().is_empty());
        assert_eq!(state.oids(), BTreeSet::from([oid(1), oid(2)]));
    }

    /// KIND-2
    #[test]
    fn what_follows_the_object_name_is_ignored() {
        let parents = tag(["refs/heads/main", ONE, "0202020", "0303030"]);
        let state = parse(vec![parents]).expect("a state");
        assert_eq!(state.refs()[&refname("refs/heads/main")], oid(1));
    }

    /// KIND-2, REF-4
    #[test]
    fn head_is_a_branch_with_or_without_prefix() {
        let head = |value: &str| {
            let state = state(key(1), NOW, &[("HEAD", value)]);
            state.head().map(ToString::to_string)
        };
        for main in ["ref: refs/heads/main", "refs/heads/main"] {
            assert_eq!(head(main).as_deref(), Some("refs/heads/main"));
        }
        for none in ["main", "ref: refs/tags/v1", "ref: refs/heads/a..b", ONE, ""] {
            assert_eq!(head(none), None, "{none:?}");
        }
    }

    /// KIND-3
    #[test]
    fn an_illegal_name_a_second_value_or_a_conflict_is_refused() {
        for bad in [
            "refs/heads/a..b",
            "refs/heads/",
            "refs/tags/a b",
            "refs/heads/x.lock",
        ] {
            let refused = parse(vec![tag([bad, ONE])]).expect_err("illegal");
            assert_eq!(refused, StateError::RefName(bad.to_owned()));
        }
        let twice = |a, b| parse(vec![tag(["refs/heads/a", a]), tag(["refs/heads/a", b])]);
        assert!(twice(ONE, ONE).is_ok());
        assert_eq!(
            twice(ONE, TWO).err(),
            Some(StateError::Twice(refname("refs/heads/a")))
        );
        assert!(twice(ONE, "junk").is_err());

        let both = |a: &str, b: &str| parse(vec![tag([a, ONE]), tag([b, ONE])]);
        assert!(both("refs/heads/a", "refs/heads/ab").is_ok());
        assert!(both("refs/heads/a/b", "refs/tags/a").is_ok());
        assert!(matches!(
            both("refs/heads/a/b", "refs/heads/a"),
            Err(StateError::Conflict(..))
        ));
    }

    /// KIND-3: other names may sort between a folder and what is in it.
    #[test]
    fn a_conflict_is_found_among_neighbours_in_spelling() {
        let names = [
            "refs/heads/a",
            "refs/heads/a-b",
            "refs/heads/a.c",
            "refs/heads/a/b/c",
        ];
        let tags: Vec<_> = names.iter().map(|name| tag([*name, ONE])).collect();
        let conflict = StateError::Conflict(refname("refs/heads/a"), refname("refs/heads/a/b/c"));
        assert_eq!(parse(tags.clone()).err(), Some(conflict));
        assert!(parse(tags[1..].to_vec()).is_ok());
    }

    /// KIND-3: cases, 18.
    #[test]
    fn a_value_that_no_object_has_makes_the_ref_unsatisfiable() {
        let sha256 = "1".repeat(64);
        let zero = "0".repeat(40);
        for value in ["abc123", "", &zero, &sha256, &ONE.replace('1', "g"), "HEAD"] {
            let state = state(
                key(1),
                NOW,
                &[("refs/heads/x", value), ("refs/heads/y", ONE)],
            );
            let unsatisfiable = BTreeSet::from([refname("refs/heads/x")]);
            assert_eq!(*state.unsatisfiable(), unsatisfiable, "{value:?}");
            assert_eq!(state.refs().len(), 1);
        }
        let bare = parse(vec![tag(["refs/heads/x"])]).expect("a state");
        assert_eq!(bare.unsatisfiable().len(), 1);
    }

    /// KIND-6
    #[test]
    fn a_state_without_refs_declares_an_empty_repository() {
        assert!(state(key(1), NOW, &[("HEAD", "ref: refs/heads/main")]).is_empty());
        assert!(!state(key(1), NOW, &[("refs/heads/main", "abc123")]).is_empty());
    }

    /// KIND-4
    #[test]
    fn of_several_identifiers_the_first_counts() {
        let state = parse(vec![tag(["d", "other"])]).expect("a state");
        assert_eq!(state.identifier().as_str(), "project");
        let event = event(key(1), kind::STATE, NOW, vec![]);
        assert_eq!(
            StateEvent::parse(event).err(),
            Some(StateError::NoIdentifier)
        );
    }
}
