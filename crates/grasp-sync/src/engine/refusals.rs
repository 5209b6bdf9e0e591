//! What follows from a refusal: for the question that was refused, and for the relay.

use super::filters::{PlannedFilter, Shape};
use super::health::POLICY_PAUSE;
use super::io::Counted;
use super::number::{BatchId, RelayId, SubscriptionId};
use super::query::{Ask, Query, What};
use super::refusal::Refusal;
use super::settings::AUTH_MAX;
use super::{Engine, Timer};

/// A live subscription that was so often in a row one query too many is one subscription too many.
const TOO_MANY_MAX: u32 = 3;

impl Engine {
    pub(super) fn closed(&mut self, relay: RelayId, subscription: SubscriptionId, reason: &str) {
        self.refused(relay, subscription, Refusal::read(reason));
        self.stir(relay);
    }

    fn refused(&mut self, relay: RelayId, subscription: SubscriptionId, refusal: Refusal) {
        let session = self.sessions.get(&relay);
        if session.is_some_and(|session| session.live.get(subscription).is_some()) {
            self.count(relay, Counted::Refused(refusal));
            self.live_refused(relay, subscription, refusal);
        } else if let Some(query) = self.take_query(relay, subscription) {
            self.count(relay, Counted::Refused(refusal));
            self.query_refused(relay, query, refusal);
        }
    }

    /// A `NOTICE` names no subscription: if it is a refusal, it is taken to mean the question that was asked last.
    pub(super) fn noticed(&mut self, relay: RelayId, text: &str) {
        let Some(refusal) = Refusal::read_notice(text) else {
            return;
        };
        let Some(session) = self.sessions.get(&relay) else {
            return;
        };
        let mut differences = session
            .queries
            .iter()
            .filter(|(_, query)| query.is_difference());
        let subject = match refusal {
            Refusal::Unknown => differences.next().map(|(subscription, _)| *subscription),
            _ => session.last_unanswered(),
        };
        match subject {
            Some(subscription) => self.refused(relay, subscription, refusal),
            None => self.heed(relay, refusal),
        }
        self.stir(relay);
    }

    /// What a refusal says about the relay as a whole.
    fn heed(&mut self, relay: RelayId, refusal: Refusal) {
        let (Some(session), Some(state)) =
            (self.sessions.get_mut(&relay), self.relays.get_mut(relay))
        else {
            return;
        };
        match refusal {
            Refusal::RateLimited => self.health.record_rate_limit(relay, self.now),
            Refusal::TooManyQueries => {
                self.health.record_too_many_queries(relay, self.now);
                session.negentropy = false;
            }
            Refusal::TooManySubscriptions => session.allow_no_more(),
            Refusal::TooManyFilters => {
                session.fewer_filters();
            }
            Refusal::TooManyValues => state.learned.fewer_values(),
            Refusal::AuthRequired => {
                session.auth.waiting_until = Some(self.now + AUTH_MAX);
                let until = self.now + AUTH_MAX;
                self.timers.set_at_latest(Timer::Pump(relay), until);
            }
            Refusal::TooManyBytes | Refusal::Policy | Refusal::Unknown | Refusal::Failure => {}
        }
    }

    fn query_refused(&mut self, relay: RelayId, query: Query, refusal: Refusal) {
        let Query { batch, ask, .. } = query;
        let is_temporary = matches!(refusal, Refusal::RateLimited | Refusal::AuthRequired);
        if let What::Difference(filter) = &ask.what
            && !is_temporary
            && refusal != Refusal::Policy
        {
            self.heed(relay, refusal);
            self.without_negentropy(relay, batch, filter.clone());
            return;
        }
        match refusal {
            Refusal::AuthRequired if ask.after_auth => self.turned_away(relay, batch, ask),
            Refusal::Policy => self.turned_away(relay, batch, ask),
            Refusal::AuthRequired => {
                self.heed(relay, refusal);
                self.ask_again(
                    relay,
                    batch,
                    [Ask {
                        after_auth: true,
                        ..ask
                    }],
                );
            }
            Refusal::TooManySubscriptions if self.is_alone(relay) => self.start_again(relay, batch),
            Refusal::RateLimited | Refusal::TooManyQueries | Refusal::TooManySubscriptions => {
                self.heed(relay, refusal);
                self.ask_again(relay, batch, [ask]);
            }
            Refusal::TooManyFilters | Refusal::TooManyBytes | Refusal::TooManyValues => {
                self.heed(relay, refusal);
                match smaller(&ask.what) {
                    Some(parts) => self.ask_again(relay, batch, parts),
                    None => self.start_again(relay, batch),
                }
            }
            Refusal::Unknown | Refusal::Failure => self.start_again(relay, batch),
        }
    }

    /// Nothing else is open, so it cannot be the number of subscriptions.
    fn is_alone(&self, relay: RelayId) -> bool {
        self.sessions
            .get(&relay)
            .is_none_or(|session| session.open() == 0)
    }

    /// The questions come first when the batch goes on: their place in the history is kept.
    fn ask_again(
        &mut self,
        relay: RelayId,
        batch: BatchId,
        asks: impl IntoIterator<Item = Ask, IntoIter: DoubleEndedIterator>,
    ) {
        if let Some(pending) = self.pending.get_mut(relay, batch) {
            asks.into_iter()
                .rev()
                .for_each(|ask| pending.todo.push_front(ask));
        }
    }

    /// SYNC-42. A peer that has taken nothing yet does not want us. One that has does not want this: filters are tried
    /// one by one, and the shape that is refused is left out for a day.
    fn turned_away(&mut self, relay: RelayId, batch: BatchId, ask: Ask) {
        let has_accepted = self
            .sessions
            .get(&relay)
            .is_some_and(|session| session.has_accepted);
        if !has_accepted {
            self.not_wanted(relay);
            return;
        }
        match (smaller(&ask.what), ask.what) {
            (_, What::Difference(filter)) => self.without_negentropy(relay, batch, filter),
            (_, What::Ids { .. }) => self.start_again(relay, batch),
            (Some(parts), What::Pages(filters, _)) if filters.len() > 1 => {
                self.ask_again(relay, batch, parts);
            }
            (_, What::Pages(filters, _)) => {
                for filter in filters {
                    if filter.shape() != Shape::Own {
                        self.leave_out(relay, filter.shape());
                    }
                }
            }
        }
    }

    fn leave_out(&mut self, relay: RelayId, shape: Shape) {
        if let Some(state) = self.relays.get_mut(relay) {
            let until = self.now + POLICY_PAUSE;
            state.learned.refused_shapes.insert(shape, until);
        }
    }

    /// The relay is left alone for a day; then comes one probe.
    pub(super) fn not_wanted(&mut self, relay: RelayId) {
        self.health.record_policy_refusal(relay, self.now);
        self.drop_connection(relay);
    }

    fn live_refused(&mut self, relay: RelayId, subscription: SubscriptionId, refusal: Refusal) {
        let Some(session) = self.sessions.get_mut(&relay) else {
            return;
        };
        session.probe = session.probe.filter(|probe| *probe != subscription);
        let has_accepted = session.has_accepted;
        let bytes = session.live.bytes();
        let Some(live) = session.live.get_mut(subscription) else {
            return;
        };
        live.is_open = false;
        let wants_auth = refusal == Refusal::AuthRequired;
        let is_policy = refusal == Refusal::Policy || (wants_auth && live.after_auth);
        live.after_auth |= wants_auth;
        live.too_many += u32::from(refusal == Refusal::TooManyQueries);
        let no_pause_helps = live.too_many >= TOO_MANY_MAX;
        live.refused_at.get_or_insert(self.now);
        let filters = live.filters.clone();
        match refusal {
            _ if is_policy && !has_accepted => self.not_wanted(relay),
            _ if is_policy => {
                match filters.as_slice() {
                    [only] => self.leave_out(relay, only.shape()),
                    _ => session.single_filters(),
                }
                self.arrange_anew(relay);
            }
            Refusal::TooManyQueries if no_pause_helps => {
                self.heed(relay, Refusal::TooManySubscriptions);
                self.arrange_anew(relay);
            }
            Refusal::AuthRequired | Refusal::RateLimited | Refusal::TooManyQueries => {
                session.send_later(subscription);
                self.heed(relay, refusal);
            }
            Refusal::TooManyBytes => {
                if let Some(state) = self.relays.get_mut(relay) {
                    let learned = &mut state.learned.subscription_bytes;
                    // The largest sum that is not known to be too much.
                    *learned = Some(learned.unwrap_or(usize::MAX).min(bytes / 4 * 3));
                }
                self.arrange_anew(relay);
            }
            Refusal::TooManySubscriptions | Refusal::TooManyFilters | Refusal::TooManyValues => {
                self.heed(relay, refusal);
                self.arrange_anew(relay);
            }
            _ => {
                session.closed.push(subscription);
                self.health.record_request_failure(relay, self.now);
                let until = self.health.background_until(relay, self.now);
                self.timers
                    .set_at_latest(Timer::Reopen(relay), until.unwrap_or(self.now));
            }
        }
    }

    /// Opens again what the peer closed. What came meanwhile is asked for once it is taken.
    pub(super) fn reopen(&mut self, relay: RelayId) {
        if let Some(session) = self.sessions.get_mut(&relay) {
            for subscription in std::mem::take(&mut session.closed) {
                session.send_later(subscription);
            }
            self.stir(relay);
        }
    }

    /// Arranges all live filters by what the peer allows now. What does not fit is polled, from the start of the
    /// connection on.
    fn arrange_anew(&mut self, relay: RelayId) {
        let Some(state) = self.relays.get(relay) else {
            return;
        };
        let values_max = state.learned.values_per_filter();
        let Some(session) = self.sessions.get_mut(&relay) else {
            return;
        };
        let refused_at = session.live.refused_at();
        let (open, filters) = session.live.take_all();
        session.unsent.clear();
        session.closed.clear();
        for subscription in open {
            self.unsubscribe(relay, subscription);
        }
        let cut = filters
            .into_iter()
            .flat_map(|filter| cut_to(filter, values_max))
            .collect();
        self.sync_live(relay, cut);
        self.arranged(relay);
        if let Some(session) = self.sessions.get_mut(&relay) {
            session.live.mark_refused(refused_at);
        }
    }
}

/// The same question in smaller parts, each from its beginning. `None` if there are none.
fn smaller(what: &What) -> Option<Vec<Ask>> {
    match what {
        What::Pages(filters, pager) => match filters.as_slice() {
            [only] => {
                let halves = only.halves()?;
                let part = |half| Ask::new(What::Pages(vec![half], *pager));
                Some(halves.into_iter().map(part).collect())
            }
            several => Some(
                several
                    .iter()
                    .map(|filter| Ask::pages(vec![filter.clone()]))
                    .collect(),
            ),
        },
        What::Ids { ids, tries, origin } if ids.len() > 1 => {
            let part = |ids: &[_]| {
                Ask::new(What::Ids {
                    ids: ids.to_vec(),
                    tries: *tries,
                    origin: origin.clone(),
                })
            };
            let (left, right) = ids.split_at(ids.len() / 2);
            Some(vec![part(left), part(right)])
        }
        What::Ids { .. } | What::Difference(_) => None,
    }
}

/// Filters of at most so many values that together ask for the same.
fn cut_to(filter: PlannedFilter, values_max: usize) -> Vec<PlannedFilter> {
    if filter.values() <= values_max {
        return vec![filter];
    }
    match filter.halves() {
        Some(halves) => halves
            .into_iter()
            .flat_map(|half| cut_to(half, values_max))
            .collect(),
        None => vec![filter],
    }
}
