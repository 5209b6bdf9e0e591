//! Live filters that were written out a moment ago.
//!
//! What is new is asked of every relay that the repository lists, in the same words. Writing them out once for all of
//! them is most of what a batch of the self-subscriber would cost otherwise. *Invariant:* nothing is kept from one input
//! to the next or over a change of what we want, so nothing here can be out of date or fill the memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use grasp_core::filter::Filter;

use super::filters::{PlannedFilter, Shape, Span};
use super::repo_index::{Item, RepoSyncIndex};

/// Longer filters differ from relay to relay.
const SHARED_VALUES: usize = 4;

/// By shape and first item.
#[derive(Debug, Default)]
pub(super) struct Written {
    live: BTreeMap<(Shape, Option<Item>), (PlannedFilter, Arc<Filter>)>,
}

impl Written {
    /// `filter` as it is sent to follow something live.
    pub(super) fn live(&mut self, filter: &PlannedFilter, wants: &RepoSyncIndex) -> Arc<Filter> {
        let write_out = || Arc::new(filter.write_out(wants, Span::LIVE));
        if filter.values() > SHARED_VALUES {
            return write_out();
        }
        let key = (filter.shape(), filter.first_item());
        match self.live.get(&key) {
            Some((same, written)) if same == filter => written.clone(),
            _ => {
                let written = write_out();
                self.live.insert(key, (filter.clone(), written.clone()));
                written
            }
        }
    }

    /// The input is done with.
    pub(super) fn forget(&mut self) {
        self.live.clear();
    }
}
