//! Names and events that tests share.

use std::collections::BTreeSet;

use grasp_core::filter::Matchable;
use grasp_core::name::Coordinate;
use grasp_core::{EventId, PublicKey};
use grasp_sync::engine::{Notice, SyncLevel};
use grasp_sync::relay_url::RelayUrl;

/// A number that stands for an event.
pub(crate) fn id(n: u32) -> EventId {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    EventId::from_byte_array(bytes)
}

pub(crate) fn coordinate(n: u32) -> Coordinate {
    let owner = PublicKey::from_byte_array(id(n).to_bytes());
    Coordinate::new(owner, format!("repo-{n}").parse().expect("valid"))
}

pub(crate) fn relay(n: u32) -> RelayUrl {
    format!("wss://relay-{n}.example.com")
        .parse()
        .expect("valid")
}

pub(crate) fn repository(n: u32, relays: &[u32]) -> Notice {
    at_level(n, relays, SyncLevel::Full)
}

pub(crate) fn at_level(n: u32, relays: &[u32], level: SyncLevel) -> Notice {
    Notice::Repository {
        coordinate: coordinate(n),
        relays: relays.iter().copied().map(relay).collect(),
        level,
    }
}

pub(crate) fn root(n: u32, repository: u32) -> Notice {
    Notice::Root {
        id: id(n),
        repositories: vec![coordinate(repository)],
    }
}

/// What of an event matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: EventId,
    pub(crate) kind: u16,
    pub(crate) created_at: u64,
    pub(crate) tags: Vec<(char, String)>,
}

impl Matchable for Event {
    fn id(&self) -> &[u8; 32] {
        self.id.as_bytes()
    }

    fn author(&self) -> &[u8; 32] {
        self.id.as_bytes()
    }

    fn created_at(&self) -> u64 {
        self.created_at
    }

    fn kind(&self) -> u16 {
        self.kind
    }

    fn has_tag(&self, letter: char, values: &BTreeSet<String>) -> bool {
        let mut tags = self.tags.iter();
        tags.any(|(name, value)| *name == letter && values.contains(value))
    }
}

impl Event {
    /// What our store would say about it.
    pub(crate) fn notice(&self) -> Option<Notice> {
        let is_root = matches!(self.kind, 1617 | 1618 | 1619 | 1621);
        let named = self.tags.iter().filter(|(name, _)| *name == 'a');
        is_root.then(|| Notice::Root {
            id: self.id,
            repositories: named
                .filter_map(|(_, value)| Coordinate::from_address(value))
                .collect(),
        })
    }
}
