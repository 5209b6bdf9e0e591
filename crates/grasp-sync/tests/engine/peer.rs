//! Another relay, as far as the simulator needs one, and the dice that decide what it does.

use std::collections::BTreeMap;

use grasp_core::EventId;
use grasp_core::filter::Filter;
use grasp_sync::engine::{PeerInfo, SubscriptionId};

use crate::world::Event;

/// A sequence that its seed decides.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let n = self.below(of.len() as u64);
        of[usize::try_from(n).expect("small")]
    }
}

/// Another relay.
pub(crate) struct Peer {
    pub(crate) info: PeerInfo,
    /// The most events it gives for one REQ.
    pub(crate) page: usize,
    pub(crate) has_negentropy: bool,
    /// The most filters it takes in one REQ.
    pub(crate) filters_max: usize,
    pub(crate) wants_auth: bool,
    pub(crate) events: BTreeMap<EventId, Event>,
    /// Its open subscriptions.
    pub(crate) open: BTreeMap<SubscriptionId, Vec<Filter>>,
    /// We proved who we are.
    pub(crate) knows_us: bool,
}

impl Peer {
    pub(crate) fn new(info: PeerInfo, page: usize) -> Self {
        Self {
            info,
            page,
            has_negentropy: info.negentropy != Some(false),
            filters_max: 20,
            wants_auth: false,
            events: BTreeMap::new(),
            open: BTreeMap::new(),
            knows_us: false,
        }
    }

    /// What it gives for these filters: the newest first, at most a page in all.
    pub(crate) fn stored(&self, filters: &[Filter]) -> Vec<Event> {
        let mut found: Vec<_> = self
            .events
            .values()
            .filter(|event| {
                filters
                    .iter()
                    .any(|filter| filter.limit != Some(0) && filter.matches(*event))
            })
            .collect();
        found.sort_by(|a, b| b.created_at.cmp(&a.created_at).then(a.id.cmp(&b.id)));
        found.into_iter().take(self.page).cloned().collect()
    }
}
