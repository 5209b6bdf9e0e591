//! What is followed live on a connection, and what of it does not fit (SYNC-21).
//!
//! A filter, once live, stays where it is: a new one joins the last subscription that has room or opens another, so
//! that full ones are never sent again. Only a consolidation and what a peer refuses arrange all anew. *Invariant:*
//! every filter is either live or polled, and nothing is polled while something less important is live.

use std::collections::{BTreeMap, BTreeSet};

use super::filters::{PlannedFilter, Tier};
use super::number::SubscriptionId;
use super::settings::REQ_BYTES_MAX;
use super::time::Time;

/// A subscription of up to this size is sent again rather than another opened.
const RESEND_BYTES: usize = 4 * 1_024;

/// What live subscriptions may use of a connection.
#[derive(Debug, Clone, Copy)]
pub struct LiveBudget {
    /// How many.
    pub subscriptions: usize,
    /// Filters of one.
    pub filters_per_req: usize,
    /// Bytes of all together.
    pub bytes: usize,
}

/// One live subscription.
#[derive(Debug, Clone, Default)]
pub struct LiveSubscription {
    /// What it follows.
    pub filters: Vec<PlannedFilter>,
    bytes: usize,
    /// It was sent, and neither closed nor refused since.
    pub(super) is_open: bool,
    /// The peer said that there are no more stored events.
    pub(super) is_answered: bool,
    /// Since when it has not been live although it should be.
    pub(super) refused_at: Option<Time>,
    /// It was refused once for want of a proof of identity.
    pub(super) after_auth: bool,
    /// How often in a row it was one query too many.
    pub(super) too_many: u32,
}

impl LiveSubscription {
    fn has_room_for(&self, filter: &PlannedFilter, budget: LiveBudget) -> bool {
        self.filters.len() < budget.filters_per_req && self.bytes + filter.bytes() <= REQ_BYTES_MAX
    }

    fn least_important(&self) -> Option<Tier> {
        self.filters
            .iter()
            .map(|filter| filter.shape().tier())
            .max()
    }

    /// Takes out the last filter of this tier.
    fn evict(&mut self, tier: Tier) -> Option<PlannedFilter> {
        let at = self
            .filters
            .iter()
            .rposition(|filter| filter.shape().tier() == tier)?;
        let evicted = self.filters.remove(at);
        self.bytes -= evicted.bytes();
        Some(evicted)
    }

    fn push(&mut self, filter: PlannedFilter) {
        self.bytes += filter.bytes();
        self.filters.push(filter);
    }
}

/// What an addition made of the subscriptions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rearranged {
    /// To be sent, or sent again.
    pub(super) send: Vec<SubscriptionId>,
    /// Nothing is left in them.
    pub(super) close: Vec<SubscriptionId>,
}

/// The live subscriptions of a connection.
#[derive(Debug, Default)]
pub struct LiveSet {
    subscriptions: BTreeMap<SubscriptionId, LiveSubscription>,
    polled: Vec<PlannedFilter>,
    /// The most important of them.
    polled_first: Option<Tier>,
    bytes: usize,
    /// How many filters there were after all was last arranged: what cannot be merged away.
    floor: usize,
}

impl LiveSet {
    /// Adds filters, the important ones first.
    pub(super) fn add(
        &mut self,
        mut filters: Vec<PlannedFilter>,
        budget: LiveBudget,
        mut name: impl FnMut() -> SubscriptionId,
    ) -> Rearranged {
        filters.sort_by_key(|filter| filter.shape().tier());
        let mut touched = BTreeSet::new();
        for filter in filters {
            let place = self.free_place(&filter, budget, &touched, &mut name);
            match place.or_else(|| self.make_room(&filter, budget, &mut touched)) {
                Some(subscription) => {
                    self.put(subscription, filter);
                    touched.insert(subscription);
                }
                None => self.poll(filter),
            }
        }
        let is_empty = |id: &SubscriptionId| {
            self.subscriptions
                .get(id)
                .is_none_or(|sub| sub.filters.is_empty())
        };
        let (empty, send): (Vec<_>, Vec<_>) = touched.into_iter().partition(is_empty);
        let mut was_open =
            |id: &SubscriptionId| self.subscriptions.remove(id).is_some_and(|sub| sub.is_open);
        let close = empty.into_iter().filter(|id| was_open(id)).collect();
        Rearranged { send, close }
    }

    /// The last subscription if it has room and is sent anyway, or is cheap to send again; else a new one, while there
    /// may be one.
    fn free_place(
        &self,
        filter: &PlannedFilter,
        budget: LiveBudget,
        touched: &BTreeSet<SubscriptionId>,
        name: &mut impl FnMut() -> SubscriptionId,
    ) -> Option<SubscriptionId> {
        // A light filter does not overtake a heavy one that matters more.
        let first = self.polled_first;
        let is_behind = first.is_some_and(|first| first < filter.shape().tier());
        if is_behind || self.bytes + filter.bytes() > budget.bytes {
            return None;
        }
        let may_open = self.subscriptions.len() < budget.subscriptions;
        let last = self.subscriptions.last_key_value();
        let roomy = last.filter(|(id, last)| {
            let is_cheap = last.bytes <= RESEND_BYTES || touched.contains(id);
            last.has_room_for(filter, budget) && (is_cheap || !may_open)
        });
        match roomy {
            Some((id, _)) => Some(*id),
            None => may_open.then(name),
        }
    }

    /// Takes less important filters out, the least important first, until `filter` fits into a subscription that
    /// lost some. They are polled from now on.
    fn make_room(
        &mut self,
        filter: &PlannedFilter,
        budget: LiveBudget,
        touched: &mut BTreeSet<SubscriptionId>,
    ) -> Option<SubscriptionId> {
        let tier = filter.shape().tier();
        loop {
            let all = self.subscriptions.iter();
            let (least, id) = all
                .filter_map(|(id, sub)| Some((sub.least_important()?, *id)))
                .max()?;
            if least <= tier {
                return None;
            }
            let subscription = self.subscriptions.get_mut(&id)?;
            let evicted = subscription.evict(least)?;
            self.bytes -= evicted.bytes();
            self.poll(evicted);
            touched.insert(id);
            let fits = self.bytes + filter.bytes() <= budget.bytes;
            if fits && self.subscriptions.get(&id)?.has_room_for(filter, budget) {
                return Some(id);
            }
        }
    }

    fn poll(&mut self, filter: PlannedFilter) {
        let tier = filter.shape().tier();
        self.polled_first = Some(self.polled_first.map_or(tier, |first| first.min(tier)));
        self.polled.push(filter);
    }

    fn put(&mut self, subscription: SubscriptionId, filter: PlannedFilter) {
        self.bytes += filter.bytes();
        self.subscriptions
            .entry(subscription)
            .or_default()
            .push(filter);
    }

    /// Takes everything out: the subscriptions that were open, and what was followed, live or polled.
    pub(super) fn take_all(&mut self) -> (Vec<SubscriptionId>, Vec<PlannedFilter>) {
        let taken = std::mem::take(self);
        let open = taken.subscriptions.iter().filter(|(_, sub)| sub.is_open);
        let open = open.map(|(id, _)| *id).collect();
        let live = taken
            .subscriptions
            .into_values()
            .flat_map(|sub| sub.filters);
        (open, live.chain(taken.polled).collect())
    }

    /// What is live now cannot be merged any further.
    pub(super) fn mark_floor(&mut self) {
        self.floor = self.filters();
    }

    /// Filters may be longer than before: all of them could be merged.
    pub(super) fn forget_floor(&mut self) {
        self.floor = 0;
    }

    /// How many filters there are above those that cannot be merged away.
    pub(super) fn above_floor(&self) -> usize {
        self.filters().saturating_sub(self.floor)
    }

    /// Since when something has not been live although it should be.
    pub(super) fn refused_at(&self) -> Option<Time> {
        self.subscriptions
            .values()
            .filter_map(|sub| sub.refused_at)
            .min()
    }

    /// None of them has been live since then.
    pub(super) fn mark_refused(&mut self, at: Option<Time>) {
        for subscription in self.subscriptions.values_mut() {
            subscription.refused_at = at;
        }
    }

    pub(super) fn get_mut(&mut self, id: SubscriptionId) -> Option<&mut LiveSubscription> {
        self.subscriptions.get_mut(&id)
    }

    /// The subscription `id`.
    pub fn get(&self, id: SubscriptionId) -> Option<&LiveSubscription> {
        self.subscriptions.get(&id)
    }

    /// The subscriptions.
    pub fn subscriptions(&self) -> impl Iterator<Item = (SubscriptionId, &LiveSubscription)> {
        self.subscriptions.iter().map(|(id, sub)| (*id, sub))
    }

    /// What is asked for from time to time instead.
    pub fn polled(&self) -> &[PlannedFilter] {
        &self.polled
    }

    /// How many filters there are, live and polled.
    pub fn filters(&self) -> usize {
        let live = self.subscriptions.values().map(|sub| sub.filters.len());
        live.sum::<usize>() + self.polled.len()
    }

    /// How many subscriptions are open with the peer.
    pub(super) fn open(&self) -> usize {
        self.subscriptions
            .values()
            .filter(|sub| sub.is_open)
            .count()
    }

    /// How many subscriptions there are.
    pub fn len(&self) -> usize {
        self.subscriptions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }

    /// What all live filters weigh.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The least important tier that is live, and the most important one that is polled.
    pub fn edge(&self) -> (Option<Tier>, Option<Tier>) {
        let live = self.subscriptions.values().flat_map(|sub| &sub.filters);
        let polled = self.polled.iter().map(|filter| filter.shape().tier());
        (live.map(|filter| filter.shape().tier()).max(), polled.min())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::filters::{
        Packing, build_announcement_filter, build_repo_tag_filters, build_root_event_tag_filters,
    };
    use crate::engine::number::{Number, RepoId, RootId};
    use crate::engine::repo_index::RepoSyncIndex;
    use crate::engine::settings::FILTER_BYTES_MAX;

    const PACKING: Packing = Packing {
        values_max: 5,
        bytes_max: FILTER_BYTES_MAX,
    };

    /// One of five filters that differ in weight and importance.
    fn filters(which: u8) -> Vec<PlannedFilter> {
        let wants = RepoSyncIndex::new(0);
        let count = usize::from(which / 8) + 1;
        let repos = (0..count).map(RepoId::from_index);
        match which % 3 {
            0 => vec![build_announcement_filter()],
            1 => build_repo_tag_filters(&wants, repos, PACKING),
            _ => build_root_event_tag_filters((0..count).map(RootId::from_index), PACKING),
        }
    }

    proptest! {
        /// SYNC-21: every filter is live or polled, within the budget, the important ones first.
        #[test]
        fn what_does_not_fit_is_polled_the_least_important_first(
            additions in prop::collection::vec(any::<u8>(), 1..30),
            subscriptions in 0_usize..6,
            filters_per_req in 1_usize..11,
            bytes in prop_oneof![Just(usize::MAX), 0_usize..4_000],
        ) {
            let budget = LiveBudget { subscriptions, filters_per_req, bytes };
            let mut live = LiveSet::default();
            let mut last = SubscriptionId::default();
            let mut added = 0;
            for which in additions {
                let more = filters(which);
                added += more.len();
                let changed = live.add(more, budget, || last.next());
                prop_assert!(changed.close.is_empty(), "nothing was open");
            }
            prop_assert_eq!(live.filters(), added);
            prop_assert!(live.len() <= subscriptions);
            prop_assert!(live.bytes() <= bytes);
            let mut sum = 0;
            for (_, subscription) in live.subscriptions() {
                prop_assert!((1..=filters_per_req).contains(&subscription.filters.len()));
                let weight: usize = subscription.filters.iter().map(PlannedFilter::bytes).sum();
                prop_assert_eq!(weight, subscription.bytes);
                sum += weight;
            }
            prop_assert_eq!(sum, live.bytes());
            if let (Some(least), Some(most)) = live.edge() {
                prop_assert!(most >= least, "{:?} is polled while {:?} is live", most, least);
            }
        }
    }

    /// A new filter joins the last subscription; the full ones before it stay as they are.
    #[test]
    fn full_subscriptions_are_not_sent_again() {
        let budget = LiveBudget {
            subscriptions: 9,
            filters_per_req: 3,
            bytes: usize::MAX,
        };
        let mut live = LiveSet::default();
        let mut last = SubscriptionId::default();
        let first = live.add(filters(2), budget, || last.next());
        let second = live.add(filters(2), budget, || last.next());
        assert_eq!((first.send.len(), second.send.len()), (1, 1));
        assert_ne!(first.send, second.send);
    }
}
