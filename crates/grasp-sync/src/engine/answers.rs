//! What a peer answers when all goes well, and when nothing comes at all.

use grasp_core::EventId;

use super::filters::{PlannedFilter, Span};
use super::io::{Counted, Delivery, Output, PeerMessage};
use super::negentropy::names_in_vain;
use super::number::{BatchId, RelayId, SubscriptionId};
use super::paging::{Page, Pager, Turn, disproves, is_whole};
use super::pending::Purpose;
use super::query::{Ask, Query, What};
use super::scenarios::since;
use super::settings::{AUTH_GAP, DIFFERENCE_MAX, FILTER_VALUES, IDS_PER_REQ, RECONCILIATION_MAX};
use super::{Engine, Timer};
use crate::defect::Defect;

/// A longer challenge is not answered.
const CHALLENGE_MAX: usize = 1_024;

impl Engine {
    pub(super) fn received(&mut self, relay: RelayId, message: PeerMessage) {
        match message {
            PeerMessage::Event {
                subscription,
                delivery,
            } => self.delivered(relay, subscription, delivery),
            PeerMessage::Eose { subscription } => self.eose(relay, subscription),
            PeerMessage::Closed {
                subscription,
                reason,
            } if Defect::ClosedCompletes.is_on() => {
                let _ = reason;
                self.eose(relay, subscription);
            }
            PeerMessage::Closed {
                subscription,
                reason,
            } => self.closed(relay, subscription, &reason),
            PeerMessage::Notice { text } => self.noticed(relay, &text),
            PeerMessage::Auth { challenge } => self.challenged(relay, challenge),
        }
    }

    fn delivered(&mut self, relay: RelayId, subscription: SubscriptionId, delivery: Delivery) {
        let session = self.sessions.get_mut(&relay);
        if let Some(query) = session.and_then(|session| session.queries.get_mut(&subscription)) {
            query.came(delivery);
        }
    }

    fn eose(&mut self, relay: RelayId, subscription: SubscriptionId) {
        if Defect::EoseIgnored.is_on() {
            return;
        }
        if self.live_was_taken(relay, subscription) {
            self.accepted(relay);
            return;
        }
        let Some(query) = self.take_query(relay, subscription) else {
            return;
        };
        self.unsubscribe(relay, subscription);
        self.accepted(relay);
        let Query {
            batch,
            ask,
            page,
            lacking,
            ..
        } = query;
        match ask.what {
            What::Pages(filters, pager) => {
                let is_long = filters
                    .iter()
                    .any(|filter| filter.values() >= FILTER_VALUES);
                if is_long {
                    self.takes_long_filters(relay);
                }
                self.page_ended(relay, batch, filters, pager, page);
            }
            What::Ids { ids, tries, origin } => {
                let came = ids.len() - lacking.len();
                let lacking = lacking.into_iter().collect();
                self.ids_ended(relay, batch, lacking, (ids.len(), came, tries), origin);
            }
            // A reconciliation has no end of stored events: this peer means something else by it.
            What::Difference(filter) => self.without_negentropy(relay, batch, filter),
        }
    }

    /// The peer answered with more than a refusal: whatever waits may be asked.
    fn accepted(&mut self, relay: RelayId) {
        if let Some(session) = self.sessions.get_mut(&relay) {
            session.has_accepted = true;
            session.probe = None;
        }
        self.stir(relay);
    }

    fn live_was_taken(&mut self, relay: RelayId, subscription: SubscriptionId) -> bool {
        let session = self.sessions.get_mut(&relay);
        let Some(live) = session.and_then(|session| session.live.get_mut(subscription)) else {
            return false;
        };
        live.is_answered = true;
        live.too_many = 0;
        let filters = live.filters.clone();
        let refused_at = live.refused_at.take();
        if filters
            .iter()
            .any(|filter| filter.values() >= FILTER_VALUES)
        {
            self.takes_long_filters(relay);
        }
        if let Some(at) = refused_at {
            self.catch_up(relay, filters, since(at));
        }
        true
    }

    /// SYNC-20: it took a hundred values. Filters may be longer from now on, so all of them could be merged.
    fn takes_long_filters(&mut self, relay: RelayId) {
        let (Some(state), Some(session)) =
            (self.relays.get_mut(relay), self.sessions.get_mut(&relay))
        else {
            return;
        };
        if !state.learned.takes_long_filters {
            state.learned.takes_long_filters = true;
            session.live.forget_floor();
        }
    }

    pub(super) fn unsubscribe(&mut self, relay: RelayId, subscription: SubscriptionId) {
        if let Some(session) = self.sessions.get(&relay) {
            self.out.push(Output::Unsubscribe {
                connection: session.connection,
                subscription,
            });
        }
    }

    /// Asks for the next page, or splits what was asked together, or is done.
    fn page_ended(
        &mut self,
        relay: RelayId,
        batch: BatchId,
        filters: Vec<PlannedFilter>,
        mut pager: Pager,
        page: Page,
    ) {
        let (Some(state), Some(session)) = (self.relays.get_mut(relay), self.sessions.get(&relay))
        else {
            return;
        };
        let Some(pending) = self.pending.get_mut(relay, batch) else {
            return;
        };
        let learned = &mut state.learned;
        let hint = session.peer.default_limit;
        if filters.len() > 1 {
            let hint = hint.filter(|_| !learned.hint_is_wrong);
            if !is_whole(page, learned.page_largest, hint) {
                let single = |filter| Ask::pages(vec![filter]);
                filters
                    .into_iter()
                    .rev()
                    .for_each(|filter| pending.todo.push_front(single(filter)));
            }
            return;
        }
        learned.page_largest = learned.page_largest.max(page.distinct);
        let before = pager.was_not_the_last(page);
        learned.hint_is_wrong |=
            matches!((before, hint), (Some(raw), Some(hint)) if disproves(raw, hint));
        match pager.turn(page, learned.page_largest, pending.since) {
            Turn::Done => {}
            Turn::More => pending
                .todo
                .push_front(Ask::new(What::Pages(filters, pager))),
            Turn::GiveUp => self.start_again(relay, batch),
        }
    }

    /// SYNC-26: ids that did not come are asked for later; a peer that gives hardly any is asked by the filter instead.
    fn ids_ended(
        &mut self,
        relay: RelayId,
        batch: BatchId,
        lacking: Vec<EventId>,
        (asked, came, tries): (usize, usize, u32),
        origin: Option<PlannedFilter>,
    ) {
        let pending = self.pending.get_mut(relay, batch);
        match (origin, pending) {
            (Some(filter), Some(pending)) if names_in_vain(asked, came) => {
                pending.todo.retain(|ask| match &ask.what {
                    What::Ids { origin, .. } => origin.as_ref() != Some(&filter),
                    What::Pages(..) | What::Difference(_) => true,
                });
                pending.todo.push_front(Ask::pages(vec![filter]));
            }
            _ => {
                if let Some(state) = self.relays.get_mut(relay) {
                    state.undelivered.add(lacking, tries, self.now);
                }
                self.recover_later(relay);
            }
        }
    }

    /// Our own set is at hand: the peer is asked for the difference, and has fifteen seconds for it.
    pub(super) fn reconcile(&mut self, relay: RelayId, subscription: SubscriptionId) {
        let Some(session) = self.sessions.get(&relay) else {
            return;
        };
        let what = session
            .queries
            .get(&subscription)
            .map(|query| &query.ask.what);
        if let Some(What::Difference(filter)) = what {
            let filter = filter.write_out(&self.wants, Span::default());
            self.out.push(Output::Reconcile {
                connection: session.connection,
                subscription,
                filter,
            });
            let until = self.now + RECONCILIATION_MAX;
            self.timers.set(Timer::Answer(relay, subscription), until);
        }
    }

    /// Our own set is not at hand, which is nobody's fault: this filter is read page by page.
    pub(super) fn read_instead(&mut self, relay: RelayId, subscription: SubscriptionId) {
        let session = self.sessions.get(&relay);
        let query = session.and_then(|session| session.queries.get(&subscription));
        if !query.is_some_and(Query::is_difference) {
            return;
        }
        let Some(query) = self.take_query(relay, subscription) else {
            return;
        };
        if let What::Difference(filter) = query.ask.what
            && let Some(pending) = self.pending.get_mut(relay, query.batch)
        {
            pending.todo.push_front(Ask::pages(vec![filter]));
        }
    }

    /// The difference is known. A peer that claims to have very much more is read page by page, which has an end.
    pub(super) fn reconciled(
        &mut self,
        relay: RelayId,
        subscription: SubscriptionId,
        missing: &[EventId],
    ) {
        let session = self.sessions.get(&relay);
        let query = session.and_then(|session| session.queries.get(&subscription));
        if !query.is_some_and(Query::is_difference) {
            return;
        }
        let Some(query) = self.take_query(relay, subscription) else {
            return;
        };
        self.unsubscribe(relay, subscription);
        self.accepted(relay);
        let What::Difference(filter) = query.ask.what else {
            return;
        };
        let Some(pending) = self.pending.get_mut(relay, query.batch) else {
            return;
        };
        if missing.len() > DIFFERENCE_MAX {
            pending.todo.push_front(Ask::pages(vec![filter]));
            return;
        }
        for ids in missing.chunks(IDS_PER_REQ).rev() {
            pending.todo.push_front(Ask::new(What::Ids {
                ids: ids.to_vec(),
                tries: 0,
                origin: Some(filter.clone()),
            }));
        }
    }

    /// SYNC-25: no set reconciliation on this connection any more; told once, and the filter is read page by page.
    pub(super) fn without_negentropy(
        &mut self,
        relay: RelayId,
        batch: BatchId,
        filter: PlannedFilter,
    ) {
        if let Some(pending) = self.pending.get_mut(relay, batch) {
            pending.todo.push_front(Ask::new(What::Difference(filter)));
        }
        if let Some(session) = self.sessions.get_mut(&relay) {
            session.negentropy = false;
        }
        self.tell_no_negentropy(relay);
        self.stir(relay);
    }

    /// Counts that a relay has no set reconciliation, once.
    pub(super) fn tell_no_negentropy(&mut self, relay: RelayId) {
        let state = self.relays.get_mut(relay);
        let told =
            state.map(|state| std::mem::replace(&mut state.learned.told_no_negentropy, true));
        if told == Some(false) {
            self.count(relay, Counted::NegentropyUnsupported);
        }
    }

    /// SYNC-23: no answer. A reconciliation falls back; any other question fails with its batch.
    pub(super) fn unanswered(&mut self, relay: RelayId, subscription: SubscriptionId) {
        let Some(query) = self.take_query(relay, subscription) else {
            return;
        };
        self.unsubscribe(relay, subscription);
        self.count(relay, Counted::Unanswered);
        match query.ask.what {
            What::Difference(filter) => self.without_negentropy(relay, query.batch, filter),
            What::Pages(..) | What::Ids { .. } => self.start_again(relay, query.batch),
        }
    }

    /// A question of the batch failed: it starts again after a pause (SYNC-46). Nothing of it is confirmed.
    pub(super) fn start_again(&mut self, relay: RelayId, batch: BatchId) {
        self.health.record_request_failure(relay, self.now);
        let Some(session) = self.sessions.get_mut(&relay) else {
            return;
        };
        session.current = session.current.filter(|current| *current != batch);
        let queries = session
            .queries
            .iter()
            .filter(|(_, query)| query.batch == batch);
        let open: Vec<_> = queries.map(|(subscription, _)| *subscription).collect();
        for subscription in open {
            self.take_query(relay, subscription);
            self.unsubscribe(relay, subscription);
        }
        let purpose = self
            .pending
            .get_mut(relay, batch)
            .map(|pending| pending.purpose);
        match purpose {
            // The next round asks since the one before, ids are asked for again by themselves, and the server asks
            // again if it still wants to know.
            Some(Purpose::Poll | Purpose::Recovery | Purpose::Asked) => {
                self.pending.take(relay, batch);
                if let Some(session) = self.sessions.get_mut(&relay)
                    && purpose == Some(Purpose::Poll)
                {
                    session.poll.round = None;
                }
            }
            Some(_) => self.begin(relay, batch),
            None => {}
        }
        self.stir(relay);
    }

    fn challenged(&mut self, relay: RelayId, challenge: String) {
        if challenge.len() <= CHALLENGE_MAX
            && let Some(session) = self.sessions.get_mut(&relay)
        {
            session.auth.challenge = Some(challenge);
            self.try_authenticate(relay);
        }
    }

    /// SYNC-36: one proof of identity a minute.
    pub(super) fn try_authenticate(&mut self, relay: RelayId) {
        let Some(session) = self.sessions.get_mut(&relay) else {
            return;
        };
        let next = session
            .auth
            .last_sent
            .map_or(self.now, |last| last + AUTH_GAP);
        if next > self.now {
            self.timers.set(Timer::Authenticate(relay), next);
        } else if let Some(challenge) = session.auth.challenge.take() {
            session.auth.last_sent = Some(self.now);
            self.out.push(Output::Authenticate {
                connection: session.connection,
                challenge,
            });
        }
    }

    pub(super) fn authenticated(&mut self, relay: RelayId, accepted: bool) {
        let Some(session) = self.sessions.get_mut(&relay) else {
            return;
        };
        let was_waiting = session.auth.waiting_until.take().is_some();
        if was_waiting && !accepted && !session.has_accepted {
            self.not_wanted(relay);
        } else {
            self.stir(relay);
        }
    }
}
