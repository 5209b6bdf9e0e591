//! What a connection begins with, and what is asked when something new is wanted: the founding scenarios and their
//! two primitives, `sync_live` and `historic_sync`.
//!
//! Each scenario reads as its line in protocol.md §15.4. *Invariant:* what is in flight is cleared before anything
//! else, and `compute_actions` comes last, so that whatever the scenario did not confirm is asked for.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::actions::AddFilters;
use super::filters::{
    Packing, PlannedFilter, build_announcement_filter, build_layer2_and_layer3_filters,
    into_requests,
};
use super::io::{Counted, Output};
use super::negentropy::Undelivered;
use super::number::{BatchId, RelayId};
use super::pending::{PendingBatch, PendingItems, Purpose, SyncMethod};
use super::query::{Ask, What};
use super::relay_index::{ConnectionStatus, Items, Learned};
use super::session::Session;
use super::settings::{CONSOLIDATE_ABOVE, DAILY_SYNC, FILTER_VALUES, SINCE_OVERLAP};
use super::time::Time;
use super::{Engine, Timer};
use crate::defect::Defect;

/// Whether a history is part of a full sync, for which set reconciliation pays, or of something small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// All that a relay has of what we want.
    Full,
    /// Something new, of which we have nothing yet, or what came since a moment.
    Partial,
}

/// `since` for what happened from `moment` on (SYNC-6).
pub(super) fn since(moment: Time) -> u64 {
    moment.minus(SINCE_OVERLAP).as_secs()
}

impl Engine {
    /// First connect, long reconnect, daily sync: all is asked for from the beginning.
    pub(super) fn fresh_start(&mut self, relay: RelayId) {
        self.clear_pending(relay);
        self.clear_confirmed(relay);
        self.unsubscribe_all(relay);
        let layer1 = vec![build_announcement_filter()];
        self.sync_live(relay, layer1.clone());
        self.historic_sync(
            relay,
            Purpose::Announcements,
            layer1,
            Items::default(),
            None,
            Reach::Full,
        );
        for action in self.compute_actions(relay) {
            self.sync_computed_filters(action, None, Reach::Full);
        }
        self.arranged(relay);
    }

    /// After a pause of up to fifteen minutes: what was confirmed stays so, and is asked about since `last_connected`.
    pub(super) fn quick_reconnect(&mut self, relay: RelayId, last_connected: Time) {
        self.clear_pending(relay);
        let layer1 = vec![build_announcement_filter()];
        self.sync_live(relay, layer1.clone());
        let was_synced = self
            .relays
            .get(relay)
            .is_some_and(|state| state.announcements_synced);
        let layer1_since = was_synced.then(|| since(last_connected));
        let none = Items::default();
        self.historic_sync(
            relay,
            Purpose::Announcements,
            layer1,
            none,
            layer1_since,
            Reach::Partial,
        );
        let filters = self.reconstruct_filters(relay);
        self.sync_live(relay, filters.clone());
        self.catch_up(relay, filters, since(last_connected));
        for action in self.compute_actions(relay) {
            self.sync_computed_filters(action, None, Reach::Partial);
        }
        self.arranged(relay);
        self.expect_daily(relay);
    }

    /// After a longer pause nothing confirmed is trusted.
    pub(super) fn long_reconnect(&mut self, relay: RelayId) {
        self.count(relay, Counted::LongReconnect);
        self.fresh_start(relay);
    }

    /// Once in 23 to 25 hours: finds what slipped through. No reconnect is counted.
    pub(super) fn daily_sync(&mut self, relay: RelayId) {
        self.fresh_start(relay);
    }

    /// Merges live filters that came one by one. Live only: what they follow is confirmed.
    fn consolidate(&mut self, relay: RelayId) {
        self.clear_pending(relay);
        self.unsubscribe_all(relay);
        let mut filters = vec![build_announcement_filter()];
        filters.extend(self.reconstruct_filters(relay));
        self.sync_live(relay, filters);
        for action in self.compute_actions(relay) {
            self.sync_computed_filters(action, None, Reach::Partial);
        }
        self.arranged(relay);
    }

    /// Consolidates if there are more than 70 filters above what cannot be merged, and nothing in flight would be lost.
    pub(super) fn maybe_consolidate(&mut self, relay: RelayId) {
        let is_due = |session: &Session| {
            session.live.above_floor() > CONSOLIDATE_ABOVE && session.rechecks.is_empty()
        };
        let is_drained = self.pending.is_drained(relay);
        if is_drained && self.sessions.get(&relay).is_some_and(is_due) {
            self.consolidate(relay);
        }
    }

    /// Something may be wanted of `relay` that was not before.
    pub(super) fn handle_new_sync_filters(&mut self, relay: RelayId) {
        if !self.sessions.contains_key(&relay) {
            self.await_connection(relay);
            return;
        }
        self.maybe_consolidate(relay);
        for action in self.compute_actions(relay) {
            self.sync_computed_filters(action, None, Reach::Partial);
        }
    }

    /// Asks for what is new: live from now on, and back to the beginning.
    fn sync_computed_filters(
        &mut self,
        action: AddFilters,
        since: Option<u64>,
        reach: Reach,
    ) -> BatchId {
        let AddFilters {
            relay,
            items,
            filters,
        } = action;
        self.sync_live(relay, filters.clone());
        self.historic_sync(relay, Purpose::NewItems, filters, items, since, reach)
    }

    /// Layers 2 and 3 of what is confirmed, and of nothing else.
    fn reconstruct_filters(&self, relay: RelayId) -> Vec<PlannedFilter> {
        let Some(state) = self.relays.get(relay) else {
            return Vec::new();
        };
        let confirmed = Items {
            repos: state.repos.clone(),
            root_events: state.root_events.clone(),
        };
        build_layer2_and_layer3_filters(&self.wants, &confirmed, self.packing(relay))
    }

    /// Follows these filters from now on. Not tracked: what is live can be rebuilt from what is confirmed.
    pub(super) fn sync_live(&mut self, relay: RelayId, mut filters: Vec<PlannedFilter>) {
        self.leave_out_refused(relay, &mut filters);
        let bytes = self
            .relays
            .get(relay)
            .and_then(|state| state.learned.subscription_bytes);
        let Some(session) = self.sessions.get_mut(&relay) else {
            return;
        };
        let budget = session.live_budget(bytes);
        let last = &mut self.last_subscription;
        let rearranged = session.live.add(filters, budget, || last.next());
        let connection = session.connection;
        for subscription in rearranged.close {
            self.out.push(Output::Unsubscribe {
                connection,
                subscription,
            });
        }
        rearranged
            .send
            .into_iter()
            .for_each(|subscription| session.send_later(subscription));
        self.poll_what_is_not_live(relay);
        self.send_live(relay);
    }

    /// Asks for stored events. Both methods leave a pending batch, which alone confirms `items`.
    pub(super) fn historic_sync(
        &mut self,
        relay: RelayId,
        purpose: Purpose,
        mut filters: Vec<PlannedFilter>,
        items: PendingItems,
        since: Option<u64>,
        reach: Reach,
    ) -> BatchId {
        self.leave_out_refused(relay, &mut filters);
        let may = |session: &Session| session.negentropy && self.settings.negentropy;
        let negentropy = self.sessions.get(&relay).is_some_and(may);
        let method = match reach {
            Reach::Full if negentropy && since.is_none() => SyncMethod::Negentropy,
            _ => SyncMethod::ReqEose,
        };
        if let Some(state) = self.relays.get_mut(relay) {
            state.missing.take_out(&items);
        }
        let batch_id = self.last_batch.next();
        self.pending.add(
            relay,
            PendingBatch {
                batch_id,
                items,
                outstanding_subs: BTreeSet::new(),
                sync_method: method,
                purpose,
                since,
                filters,
                todo: VecDeque::new(),
                made_at: self.now,
            },
        );
        self.begin(relay, batch_id);
        batch_id
    }

    /// Puts all questions of a batch on its list, and the batch at the end of the line.
    pub(super) fn begin(&mut self, relay: RelayId, batch: BatchId) {
        let (Some(session), Some(pending)) = (
            self.sessions.get_mut(&relay),
            self.pending.get_mut(relay, batch),
        ) else {
            return;
        };
        let filters = pending.filters.clone();
        pending.todo = match pending.sync_method {
            SyncMethod::Negentropy if session.negentropy => filters
                .into_iter()
                .map(|filter| Ask::new(What::Difference(filter)))
                .collect(),
            _ => {
                let requests = into_requests(filters, session.filters_per_req());
                requests.into_iter().map(Ask::pages).collect()
            }
        };
        session.jobs.push_back(batch);
        self.stir(relay);
    }

    /// Asks for what came since, about what is confirmed.
    pub(super) fn catch_up(&mut self, relay: RelayId, filters: Vec<PlannedFilter>, since: u64) {
        self.ask_in_batches(relay, Purpose::CatchUp, filters, since);
    }

    /// One batch for each REQ: they confirm nothing, so each can end for itself.
    pub(super) fn ask_in_batches(
        &mut self,
        relay: RelayId,
        purpose: Purpose,
        filters: Vec<PlannedFilter>,
        since: u64,
    ) -> Vec<BatchId> {
        let per_req = self
            .sessions
            .get(&relay)
            .map_or(1, Session::filters_per_req);
        let requests = into_requests(filters, per_req).into_iter();
        let mut ask = |filters| {
            self.historic_sync(
                relay,
                purpose,
                filters,
                Items::default(),
                Some(since),
                Reach::Partial,
            )
        };
        requests.map(&mut ask).collect()
    }

    /// Nothing is in flight any more: items become missing, ids that were named are remembered.
    pub(super) fn clear_pending(&mut self, relay: RelayId) {
        let batches = self.pending.clear(relay);
        let Some(state) = self.relays.get_mut(relay) else {
            return;
        };
        let mut recovery = BTreeSet::new();
        for batch in batches {
            state.missing.append(batch.items);
            if batch.purpose == Purpose::Recovery {
                recovery.insert(batch.batch_id);
                batch
                    .todo
                    .into_iter()
                    .for_each(|ask| remember_ids(&mut state.undelivered, ask, self.now));
            }
        }
        if let Some(session) = self.sessions.get_mut(&relay) {
            session.jobs.clear();
            session.current = None;
            session.rechecks.clear();
            session.poll.round = None;
            for (subscription, query) in std::mem::take(&mut session.queries) {
                if recovery.contains(&query.batch) {
                    remember_ids(&mut state.undelivered, query.ask, self.now);
                }
                self.timers.cancel(&Timer::Answer(relay, subscription));
                self.out.push(Output::Unsubscribe {
                    connection: session.connection,
                    subscription,
                });
            }
        }
        self.leave_lines(relay);
    }

    /// Nothing is confirmed any more, and a new day begins. What is confirmed from now on is known since now.
    fn clear_confirmed(&mut self, relay: RelayId) {
        let (shortest, longest) = DAILY_SYNC;
        let day = shortest
            + self
                .chance
                .up_to(longest.checked_sub(shortest).unwrap_or(Duration::ZERO));
        if let Some(state) = self.relays.get_mut(relay) {
            if !Defect::ConfirmedKept.is_on() {
                state.clear_sync_state();
            }
            state.undelivered = Undelivered::default();
            state.last_connected = Some(self.now);
            state.daily_at = Some(self.now + day);
        }
        if let Some(session) = self.sessions.get_mut(&relay) {
            session.began = self.now;
            session.poll.covered = self.now;
        }
        self.expect_daily(relay);
    }

    fn expect_daily(&mut self, relay: RelayId) {
        if let Some(at) = self.relays.get(relay).and_then(|state| state.daily_at) {
            self.timers.set(Timer::Daily(relay), at);
        }
    }

    /// Scenario 5. A relay that is away gets it when it comes back.
    pub(super) fn day_is_over(&mut self, relay: RelayId) {
        let status = self.relays.get(relay).map(|state| state.connection_status);
        if status == Some(ConnectionStatus::Connected) {
            self.daily_sync(relay);
            self.stir(relay);
        }
    }

    fn unsubscribe_all(&mut self, relay: RelayId) {
        if let Some(session) = self.sessions.get_mut(&relay) {
            let (open, _) = session.live.take_all();
            session.unsent.clear();
            session.closed.clear();
            session.probe = None;
            for subscription in open {
                self.out.push(Output::Unsubscribe {
                    connection: session.connection,
                    subscription,
                });
            }
        }
    }

    /// All live filters were arranged anew: what there is now cannot be merged away.
    pub(super) fn arranged(&mut self, relay: RelayId) {
        if let Some(session) = self.sessions.get_mut(&relay) {
            session.live.mark_floor();
        }
    }

    /// How long filters for this relay may be (SYNC-20): a hundred values, until it took a hundred.
    pub(super) fn packing(&self, relay: RelayId) -> Packing {
        let learned = self.relays.get(relay).map(|state| &state.learned);
        Packing::of_values(learned.map_or(FILTER_VALUES, Learned::values_per_filter))
    }

    fn leave_out_refused(&self, relay: RelayId, filters: &mut Vec<PlannedFilter>) {
        if let Some(state) = self.relays.get(relay) {
            let refused = &state.learned.refused_shapes;
            let is_refused = |filter: &PlannedFilter| {
                refused
                    .get(&filter.shape())
                    .is_some_and(|until| *until > self.now)
            };
            filters.retain(|filter| !is_refused(filter));
        }
    }
}

/// Ids that are asked for again and were not answered would otherwise be known to nobody.
fn remember_ids(undelivered: &mut Undelivered, ask: Ask, now: Time) {
    if let What::Ids { ids, tries, .. } = ask.what {
        undelivered.add(ids, tries, now);
    }
}
