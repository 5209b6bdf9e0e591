//! What is remembered of a relay over a restart, so that a planned one costs a quick reconnect (SYNC-11).
//!
//! Which items were confirmed is not written down one by one: a sum over them is, and at the start it is compared
//! with the sum over what is wanted. Equal sums mean that all of it was confirmed; otherwise the relay gets a fresh
//! start, which negentropy makes cheap.

use grasp_core::EventId;
use grasp_core::name::Coordinate;

use super::repo_index::{Item, RepoSyncIndex, SyncLevel};
use super::time::Time;

/// Goes up whenever the filters of an item change, so that what was confirmed under the old ones is asked for again.
pub const FILTER_VERSION: u16 = 1;

/// What is remembered of a relay. Written after the events that it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The [`FILTER_VERSION`] under which it was written.
    pub filter_version: u16,
    /// Sum over what was confirmed.
    pub confirmed: SetDigest,
    /// From when on everything confirmed has been received.
    pub last_connected: Time,
    /// The last moment at which the connection was known to stand; its end, if it has one.
    pub disconnected_at: Time,
    /// The history of announcements came to its end.
    pub announcements_synced: bool,
    /// When all is to be asked for again.
    pub daily_at: Option<Time>,
}

/// A sum over a set of items, whatever their order. Guards against our own forgetting, not against an adversary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetDigest(pub u128);

impl SetDigest {
    pub(super) fn add(&mut self, of_item: Self) {
        self.0 = self.0.wrapping_add(of_item.0);
    }

    fn of_root(id: &EventId) -> Self {
        Self(fnv(id.as_bytes().iter().copied(), FNV_OFFSET))
    }

    fn of_repo(coordinate: &Coordinate, level: SyncLevel) -> Self {
        let owner = coordinate.owner.to_bytes();
        let seed = fnv([u8::from(level == SyncLevel::Full)].into_iter(), FNV_OFFSET);
        let seed = fnv(owner.into_iter(), seed);
        Self(fnv(coordinate.identifier.as_str().bytes(), seed))
    }

    /// The sum over repositories and roots.
    pub(super) fn over(wants: &RepoSyncIndex, items: impl Iterator<Item = Item>) -> Self {
        let mut sum = Self::default();
        items.for_each(|item| sum.add(Self::of(wants, item)));
        sum
    }

    fn of(wants: &RepoSyncIndex, item: Item) -> Self {
        match item {
            Item::Root(root) => wants.root(root).map_or_else(Self::default, Self::of_root),
            Item::Repo(repo) => match (wants.coordinate(repo), wants.needs(repo)) {
                (Some(coordinate), Some(needs)) => Self::of_repo(coordinate, needs.level),
                _ => Self::default(),
            },
        }
    }
}

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

fn fnv(bytes: impl Iterator<Item = u8>, start: u128) -> u128 {
    bytes.fold(start, |sum, byte| {
        (sum ^ u128::from(byte)).wrapping_mul(FNV_PRIME)
    })
}
