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

/// A folder of one name sorts before what is in it, though not always next to it (`a`, `a-b`, `a/b`).
fn find_conflict<V>(declared: &BTreeMap<RefName, V>) -> Option<(RefName, RefName)> {
    declared.keys().find_map(|name| {
        let folders = name
            .as_str()
            .match_indices('/')
            .skip(2)
            .map(|(at, _)| &name.as_str()[..at]);
        folders
            .filter_map(|folder| folder.parse().ok())
            .find(|folder| declared.contains_key(folder))
            .map(|folder| (folder, name.clone()))
    })
}
