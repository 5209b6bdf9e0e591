//! The subscriptions of one connection, by the names its client gave them.

use std::collections::HashMap;
use std::sync::Arc;

use grasp_core::filter::Filter;
use tokio::task::AbortHandle;

use crate::fanout::Fanout;
use crate::limits::{Limit, RelayLimits};
use crate::subscription::Subscription;
use crate::subscription::index::Key;

/// What a subscription costs beside its filters, and a filter beside its values.
const OVERHEAD: usize = 128;
/// What a value of a filter costs beside its text: its places in the filter and in the index.
const VALUE_OVERHEAD: usize = 48;

/// What is open.
#[derive(Debug)]
pub(super) struct Subscriptions {
    fanout: Arc<Fanout>,
    open: HashMap<String, Open>,
    weight: usize,
}

#[derive(Debug)]
struct Open {
    subscription: Arc<Subscription>,
    key: Key,
    weight: usize,
    answering: Option<AbortHandle>,
}

impl Subscriptions {
    pub(super) fn new(fanout: Arc<Fanout>) -> Self {
        Self {
            fanout,
            open: HashMap::new(),
            weight: 0,
        }
    }

    /// Whether one more of these filters, in place of what `id` named before, stays within the bounds.
    pub(super) fn check(
        &mut self,
        id: &str,
        filters: &[Filter],
        limits: &RelayLimits,
    ) -> Result<(), Limit> {
        if !self.open.contains_key(id) && self.open.len() >= limits.subscriptions_max {
            self.drop_those_over();
            if self.open.len() >= limits.subscriptions_max {
                return Err(Limit::Subscriptions);
            }
        }
        let before = self.open.get(id).map_or(0, |open| open.weight);
        if self.weight - before + weight_of(id, filters) > limits.subscription_bytes_max {
            return Err(Limit::SubscriptionBytes);
        }
        Ok(())
    }

    /// Opens a subscription; one of the same name ends before it (RLY-1).
    pub(super) fn open(&mut self, id: &str, subscription: &Arc<Subscription>) {
        self.close(id);
        let open = Open {
            subscription: Arc::clone(subscription),
            key: self.fanout.subscribe(Arc::clone(subscription)),
            weight: weight_of(id, subscription.filters()),
            answering: None,
        };
        self.weight += open.weight;
        self.open.insert(id.to_owned(), open);
    }

    /// Remembers the task that sends the stored part, so that it ends with the subscription.
    pub(super) fn answering(&mut self, id: &str, task: AbortHandle) {
        if let Some(open) = self.open.get_mut(id) {
            open.answering = Some(task);
        }
    }

    /// Ends one without a word.
    pub(super) fn close(&mut self, id: &str) {
        if let Some(open) = self.open.remove(id) {
            self.end(open);
        }
    }

    /// Ends all.
    pub(super) fn clear(&mut self) {
        for (_, open) in std::mem::take(&mut self.open) {
            self.end(open);
        }
    }

    fn end(&mut self, open: Open) {
        self.weight -= open.weight;
        open.subscription.end();
        self.fanout.unsubscribe(open.key);
        if let Some(task) = open.answering {
            task.abort();
        }
    }

    /// Those that overflowed or failed are only remembered here.
    fn drop_those_over(&mut self) {
        let over: Vec<String> = self
            .open
            .iter()
            .filter(|(_, open)| open.subscription.is_over())
            .map(|(id, _)| id.clone())
            .collect();
        for id in over {
            self.close(&id);
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.clear();
    }
}

/// What a subscription weighs against the bound of its connection.
fn weight_of(id: &str, filters: &[Filter]) -> usize {
    OVERHEAD + id.len() + filters.iter().map(filter_weight).sum::<usize>()
}

fn filter_weight(filter: &Filter) -> usize {
    let keys = |keys: &Option<std::collections::BTreeSet<[u8; 32]>>| {
        keys.as_ref().map_or(0, |keys| keys.len() * 32)
    };
    let values = filter
        .ids
        .as_ref()
        .map_or(0, std::collections::BTreeSet::len)
        + filter
            .authors
            .as_ref()
            .map_or(0, std::collections::BTreeSet::len)
        + filter
            .kinds
            .as_ref()
            .map_or(0, std::collections::BTreeSet::len)
        + filter
            .tags
            .values()
            .map(std::collections::BTreeSet::len)
            .sum::<usize>();
    let texts: usize = filter.tags.values().flatten().map(String::len).sum();
    OVERHEAD + keys(&filter.ids) + keys(&filter.authors) + texts + values * VALUE_OVERHEAD
}
