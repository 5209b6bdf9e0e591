//! Working through batches, politely: one relay's turn after the other, one batch at a turn, its questions spaced
//! (SYNC-22, SYNC-24, SYNC-43).

use std::sync::Arc;

use grasp_core::filter::Filter;

use super::filters::{PlannedFilter, Span, into_requests};
use super::io::Output;
use super::number::{BatchId, RelayId, SubscriptionId};
use super::pending::{PendingBatch, Purpose};
use super::query::{Ask, Query, What};
use super::relay_index::Items;
use super::scenarios::{Reach, since};
use super::session::{Recheck, Session};
use super::settings::{
    ANSWER_MAX, BACKGROUND_GAP, CURSOR_EVERY, FIRST_ANSWER_MAX, POLL_EVERY, POLL_OVERLAP,
    RECHECK_AFTER, SLOW_AFTER,
};
use super::time::Time;
use super::{Engine, Timer};
use crate::defect::Defect;
use crate::relay_url::RelayUrl;

/// What came of looking at a batch.
enum Step {
    /// A question was asked, or the batch ended: look again.
    Moved,
    /// Nothing to do before something happens.
    Waiting,
}

impl Engine {
    /// Asks of `relay` whatever may be asked now.
    pub(super) fn pump(&mut self, relay: RelayId) {
        let may_ask_more = self.send_live(relay) && self.may_ask_more(relay);
        if may_ask_more {
            self.run_history(relay);
        } else {
            self.leave_lines(relay);
        }
    }

    /// Sends live subscriptions that wait; they go before everything else. Whether all went out.
    pub(super) fn send_live(&mut self, relay: RelayId) -> bool {
        if let Some(until) = self.quiet_until(relay) {
            self.timers.set_at_latest(Timer::Pump(relay), until);
            return false;
        }
        let pacing = self.health.pacing(relay);
        let Some(session) = self.sessions.get_mut(&relay) else {
            return false;
        };
        let may_go_on = session.has_accepted || session.began + FIRST_ANSWER_MAX <= self.now;
        while let Some(subscription) = session.unsent.front().copied() {
            let earliest = session
                .last_query
                .map_or(Time::default(), |last| last + pacing);
            if earliest > self.now {
                self.timers.set_at_latest(Timer::Pump(relay), earliest);
                return false;
            }
            if !may_go_on && session.probe.is_some() {
                let until = session.began + FIRST_ANSWER_MAX;
                self.timers.set_at_latest(Timer::Pump(relay), until);
                return false;
            }
            session.unsent.pop_front();
            let Some(live) = session.live.get_mut(subscription) else {
                continue;
            };
            live.is_open = true;
            live.is_answered = false;
            let filters = live.filters.iter();
            let filters = filters
                .map(|filter| self.written.live(filter, &self.wants))
                .collect();
            if !may_go_on {
                session.probe = Some(subscription);
            }
            session.last_query = Some(self.now);
            self.out.push(Output::Subscribe {
                connection: session.connection,
                subscription,
                filters,
            });
        }
        true
    }

    /// Until when nothing is asked: the peer asked for a pause, or wants to know first who we are.
    fn quiet_until(&self, relay: RelayId) -> Option<Time> {
        let session = self.sessions.get(&relay);
        let auth = session.and_then(|session| session.auth.waiting_until);
        let auth = auth.filter(|until| *until > self.now);
        self.health.quiet_until(relay, self.now).max(auth)
    }

    /// Whether more than live subscriptions may be asked.
    fn may_ask_more(&mut self, relay: RelayId) -> bool {
        if let Some(until) = self.health.background_until(relay, self.now) {
            self.timers.set_at_latest(Timer::Pump(relay), until);
            return false;
        }
        let Some(session) = self.sessions.get(&relay) else {
            return false;
        };
        let until = session.began + FIRST_ANSWER_MAX;
        if session.has_accepted || session.probe.is_none() || until <= self.now {
            return true;
        }
        self.timers.set_at_latest(Timer::Pump(relay), until);
        false
    }

    fn run_history(&mut self, relay: RelayId) {
        loop {
            let Some(session) = self.sessions.get_mut(&relay) else {
                return;
            };
            if session.current.is_none() && session.jobs.is_empty() {
                self.leave_lines(relay);
                return;
            }
            if !self.histories.take(relay) {
                return;
            }
            if session.current.is_none() {
                session.current = session.jobs.pop_front();
            }
            let Some(batch) = session.current else {
                return;
            };
            if matches!(self.advance(relay, batch), Step::Waiting) {
                return;
            }
        }
    }

    /// Asks the next question of the batch, or ends it.
    fn advance(&mut self, relay: RelayId, batch: BatchId) -> Step {
        let pacing = self.health.pacing(relay);
        let Some(session) = self.sessions.get_mut(&relay) else {
            return Step::Waiting;
        };
        let Some(pending) = self.pending.get_mut(relay, batch) else {
            session.current = None;
            return Step::Moved;
        };
        if !session.negentropy {
            pending.ask_page_by_page(session.filters_per_req());
        }
        let Some(next) = pending.todo.front() else {
            if !pending.outstanding_subs.is_empty() {
                return Step::Waiting;
            }
            self.complete(relay, batch);
            return Step::Moved;
        };
        if session.queries.len() >= session.transient_max() {
            return Step::Waiting;
        }
        let paced = session.last_query.map(|last| last + pacing);
        let spaced = session.last_background.map(|last| last + BACKGROUND_GAP);
        let spaced = spaced.filter(|_| !Defect::Unspaced.is_on());
        let earliest = paced.max(spaced).unwrap_or_default();
        if earliest > self.now {
            self.timers.set_at_latest(Timer::Pump(relay), earliest);
            return Step::Waiting;
        }
        if matches!(next.what, What::Difference(_)) {
            // One reconciliation with a relay at a time, and few in all.
            let is_busy = session.is_reconciling();
            if is_busy || !self.reconciliations.take(relay) {
                return Step::Waiting;
            }
        }
        if let Some(ask) = pending.todo.pop_front() {
            self.ask(relay, batch, ask);
        }
        Step::Moved
    }

    fn ask(&mut self, relay: RelayId, batch: BatchId, ask: Ask) {
        let (Some(session), Some(pending)) = (
            self.sessions.get_mut(&relay),
            self.pending.get_mut(relay, batch),
        ) else {
            return;
        };
        let subscription = self.last_subscription.next();
        let connection = session.connection;
        let output = match &ask.what {
            What::Pages(filters, pager) => {
                let span = Span {
                    since: pager.since(pending.since),
                    until: pager.until(),
                    limit: None,
                };
                let filters = filters
                    .iter()
                    .map(|filter| Arc::new(filter.write_out(&self.wants, span)));
                Output::Subscribe {
                    connection,
                    subscription,
                    filters: filters.collect(),
                }
            }
            What::Ids { ids, .. } => Output::Subscribe {
                connection,
                subscription,
                filters: vec![Arc::new(Filter {
                    ids: Some(ids.iter().map(|id| id.to_bytes()).collect()),
                    ..Filter::default()
                })],
            },
            What::Difference(filter) => Output::GatherLocal {
                connection,
                subscription,
                filter: filter.write_out(&self.wants, Span::default()),
            },
        };
        self.out.push(output);
        pending.outstanding_subs.insert(subscription);
        session.queries.insert(subscription, Query::new(batch, ask));
        session.last_query = Some(self.now);
        session.last_background = Some(self.now);
        self.timers
            .set(Timer::Answer(relay, subscription), self.now + ANSWER_MAX);
        self.timers.set(Timer::Slow(relay), self.now + SLOW_AFTER);
    }

    /// SYNC-24: whoever keeps us waiting does not keep others waiting. What is open goes on; for its next question the
    /// relay stands in line again.
    pub(super) fn is_slow(&mut self, relay: RelayId) {
        self.leave_histories(relay);
    }

    /// Takes a question off the list of open ones, however it ended.
    pub(super) fn take_query(
        &mut self,
        relay: RelayId,
        subscription: SubscriptionId,
    ) -> Option<Query> {
        let query = self
            .sessions
            .get_mut(&relay)?
            .queries
            .remove(&subscription)?;
        self.timers.cancel(&Timer::Answer(relay, subscription));
        if let Some(pending) = self.pending.get_mut(relay, query.batch) {
            pending.outstanding_subs.remove(&subscription);
        }
        if query.is_difference()
            && let Some(next) = self.reconciliations.leave(relay)
        {
            self.stir(next);
        }
        self.stir(relay);
        Some(query)
    }

    /// SYNC-4: every question of the batch came to its end.
    fn complete(&mut self, relay: RelayId, batch: BatchId) {
        let (Some(mut batch), Some(state)) =
            (self.pending.take(relay, batch), self.relays.get_mut(relay))
        else {
            return;
        };
        state.confirm(std::mem::take(&mut batch.items), &self.wants);
        state.announcements_synced |= batch.purpose == Purpose::Announcements;
        let is_complete = state.missing.is_empty() && self.pending.is_caught_up(relay);
        let Some(session) = self.sessions.get_mut(&relay) else {
            return;
        };
        session.current = None;
        if is_complete && batch.purpose.is_history() {
            state.last_connected = state.last_connected.max(Some(session.began));
            self.save_cursor(relay);
            self.timers
                .set(Timer::Cursor(relay), self.now + CURSOR_EVERY);
        }
        self.after_batch(relay, batch);
        self.maybe_consolidate(relay);
        // Whoever waits is next; we stand at the end of the line for our next batch.
        if self.histories.is_wanted() {
            self.leave_histories(relay);
            self.stir(relay);
        }
    }

    fn after_batch(&mut self, relay: RelayId, batch: PendingBatch) {
        let Some(session) = self.sessions.get_mut(&relay) else {
            return;
        };
        match batch.purpose {
            Purpose::Announcements | Purpose::NewItems => {
                let at = self.now + RECHECK_AFTER;
                session.rechecks.push_back(Recheck {
                    at,
                    filters: batch.filters,
                    since: since(batch.made_at),
                });
                self.timers.set_at_latest(Timer::Recheck(relay), at);
            }
            Purpose::Poll => {
                if let Some((began, batches)) = &mut session.poll.round {
                    batches.remove(&batch.batch_id);
                    if batches.is_empty() {
                        session.poll.covered = *began;
                        session.poll.round = None;
                    }
                }
            }
            Purpose::CatchUp | Purpose::Recheck | Purpose::Recovery | Purpose::Asked => {}
        }
    }

    /// SYNC-29: once more, for what raced the live subscription.
    pub(super) fn recheck(&mut self, relay: RelayId) {
        let now = self.now;
        loop {
            let Some(session) = self.sessions.get_mut(&relay) else {
                return;
            };
            let Some(next) = session.rechecks.front() else {
                return;
            };
            if next.at > now {
                self.timers.set(Timer::Recheck(relay), next.at);
                return;
            }
            if let Some(recheck) = session.rechecks.pop_front() {
                self.ask_in_batches(relay, Purpose::Recheck, recheck.filters, recheck.since);
            }
        }
    }

    /// Sees to it that what could not be made live is polled.
    pub(super) fn poll_what_is_not_live(&mut self, relay: RelayId) {
        let is_needed = self
            .sessions
            .get(&relay)
            .is_some_and(|session| !session.live.polled().is_empty());
        if is_needed {
            self.timers
                .set_at_latest(Timer::Poll(relay), self.now + POLL_EVERY);
        }
    }

    /// SYNC-45: every five minutes, with a minute of overlap. A round that takes longer is not overtaken.
    pub(super) fn poll(&mut self, relay: RelayId) {
        let Some(session) = self.sessions.get(&relay) else {
            return;
        };
        let is_due = session.poll.round.is_none() && !Defect::PollForgotten.is_on();
        if is_due && !session.live.polled().is_empty() {
            let since = session.poll.covered.minus(POLL_OVERLAP).as_secs();
            let filters = session.live.polled().to_vec();
            let batches = self.ask_in_batches(relay, Purpose::Poll, filters, since);
            if let Some(session) = self.sessions.get_mut(&relay) {
                session.poll.round = Some((self.now, batches.into_iter().collect()));
            }
        }
        self.poll_what_is_not_live(relay);
    }

    /// SYNC-26: asks once more for ids that were named and not delivered.
    pub(super) fn recover(&mut self, relay: RelayId) {
        let Some(state) = self.relays.get_mut(relay) else {
            return;
        };
        let (ids, tries) = state.undelivered.take_due(self.now);
        if !ids.is_empty() {
            let none = Items::default();
            let batch = self.historic_sync(
                relay,
                Purpose::Recovery,
                Vec::new(),
                none,
                None,
                Reach::Partial,
            );
            if let Some(pending) = self.pending.get_mut(relay, batch) {
                let tries = tries + 1;
                let origin = None;
                pending
                    .todo
                    .push_back(Ask::new(What::Ids { ids, tries, origin }));
            }
        }
        self.recover_later(relay);
    }

    /// SYNC-33: asks a connected relay what the server wants to know.
    pub(super) fn asked(&mut self, url: &RelayUrl, filters: Vec<Filter>) {
        let known = self.relays.number(url);
        let session = known.and_then(|relay| Some((relay, self.sessions.get(&relay)?)));
        let Some((relay, session)) = session else {
            return;
        };
        let filters: Vec<_> = filters.into_iter().map(PlannedFilter::own).collect();
        let requests = into_requests(filters, session.filters_per_req());
        let none = Items::default();
        let batch = self.historic_sync(
            relay,
            Purpose::Asked,
            Vec::new(),
            none,
            None,
            Reach::Partial,
        );
        if let Some(pending) = self.pending.get_mut(relay, batch) {
            pending.todo.extend(requests.into_iter().map(Ask::pages));
        }
    }

    pub(super) fn recover_later(&mut self, relay: RelayId) {
        let next = self
            .relays
            .get(relay)
            .and_then(|state| state.undelivered.next());
        if let Some(at) = next.filter(|_| self.sessions.contains_key(&relay)) {
            self.timers.set(Timer::Recover(relay), at.max(self.now));
        }
    }

    pub(super) fn leave_histories(&mut self, relay: RelayId) {
        if let Some(next) = self.histories.leave(relay) {
            self.stir(next);
        }
    }

    /// Gives up every place and every line. A reconciliation that runs keeps its place to its end.
    pub(super) fn leave_lines(&mut self, relay: RelayId) {
        self.leave_histories(relay);
        let session = self.sessions.get(&relay);
        let is_reconciling = session.is_some_and(Session::is_reconciling);
        if !is_reconciling && let Some(next) = self.reconciliations.leave(relay) {
            self.stir(next);
        }
    }
}
