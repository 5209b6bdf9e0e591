//! One connection's worth of state: it begins with the connection and ends with it (SYNC-5).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::filters::PlannedFilter;
use super::io::PeerInfo;
use super::live::{LiveBudget, LiveSet};
use super::number::{BatchId, ConnectionId, SubscriptionId};
use super::query::Query;
use super::settings::{REQ_FILTERS, SUBSCRIPTIONS_DEFAULT, SUBSCRIPTIONS_RESERVE, TRANSIENT_MAX};
use super::time::Time;
use crate::defect::Defect;

/// What we know of a proof of our identity (SYNC-36).
#[derive(Debug, Default)]
pub(super) struct Auth {
    /// Not answered yet.
    pub(super) challenge: Option<String>,
    pub(super) last_sent: Option<Time>,
    /// Questions wait until then for the proof to be taken.
    pub(super) waiting_until: Option<Time>,
}

/// A history that is checked once more (SYNC-29).
#[derive(Debug)]
pub(super) struct Recheck {
    pub(super) at: Time,
    pub(super) filters: Vec<PlannedFilter>,
    pub(super) since: u64,
}

/// Asking from time to time for what is not live.
#[derive(Debug)]
pub(super) struct Poll {
    /// Everything before is known.
    pub(super) covered: Time,
    /// The round that runs: when it began, and its batches.
    pub(super) round: Option<(Time, BTreeSet<BatchId>)>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: ConnectionId,
    pub(super) peer: PeerInfo,
    /// When it began, or all was asked for again.
    pub(super) began: Time,
    pub(super) live: LiveSet,
    /// Live subscriptions to send, in that order.
    pub(super) unsent: VecDeque<SubscriptionId>,
    /// Live subscriptions that the peer closed, to be opened again after a pause.
    pub(super) closed: Vec<SubscriptionId>,
    /// The first subscription: until it has an answer nothing else is asked, so that a peer that refuses all is asked
    /// once.
    pub(super) probe: Option<SubscriptionId>,
    /// The peer answered something with more than a refusal.
    pub(super) has_accepted: bool,
    pub(super) queries: BTreeMap<SubscriptionId, Query>,
    /// Batches that wait for their turn.
    pub(super) jobs: VecDeque<BatchId>,
    /// The batch whose turn it is.
    pub(super) current: Option<BatchId>,
    pub(super) negentropy: bool,
    /// Subscriptions that may be open at once.
    usable: usize,
    /// Which of [`REQ_FILTERS`] holds.
    filters_step: usize,
    pub(super) auth: Auth,
    pub(super) last_query: Option<Time>,
    pub(super) last_background: Option<Time>,
    pub(super) rechecks: VecDeque<Recheck>,
    pub(super) poll: Poll,
}

impl Session {
    pub(super) fn new(connection: ConnectionId, peer: PeerInfo, now: Time) -> Self {
        let said = peer
            .max_subscriptions
            .filter(|_| !Defect::LimitsIgnored.is_on());
        let allowed = said.unwrap_or(SUBSCRIPTIONS_DEFAULT);
        // A peer that allows two gets one live subscription and one question, and no reserve.
        let reserve = SUBSCRIPTIONS_RESERVE.min(allowed.saturating_sub(2));
        Self {
            connection,
            peer,
            began: now,
            live: LiveSet::default(),
            unsent: VecDeque::new(),
            closed: Vec::new(),
            probe: None,
            has_accepted: false,
            queries: BTreeMap::new(),
            jobs: VecDeque::new(),
            current: None,
            negentropy: peer.negentropy != Some(false),
            usable: (allowed - reserve).max(1),
            filters_step: 0,
            auth: Auth::default(),
            last_query: None,
            last_background: None,
            rechecks: VecDeque::new(),
            poll: Poll {
                covered: now,
                round: None,
            },
        }
    }

    /// How many subscriptions are open.
    pub(super) fn open(&self) -> usize {
        self.live.open() + self.queries.len()
    }

    /// Whether the peer is being asked for a difference.
    pub(super) fn is_reconciling(&self) -> bool {
        self.queries.values().any(Query::is_difference)
    }

    /// How many filters one REQ may have.
    pub(super) fn filters_per_req(&self) -> usize {
        REQ_FILTERS[self.filters_step]
    }

    /// SYNC-44. Whether there was a step to go down.
    pub(super) fn fewer_filters(&mut self) -> bool {
        let can = self.filters_step + 1 < REQ_FILTERS.len();
        self.filters_step += usize::from(can);
        can
    }

    /// From now on one filter in each REQ, to find out which is not wanted.
    pub(super) fn single_filters(&mut self) {
        self.filters_step = REQ_FILTERS.len() - 1;
    }

    /// The peer allows no more than are open now.
    pub(super) fn allow_no_more(&mut self) {
        self.usable = self.usable.min(self.open().max(1));
    }

    /// What live subscriptions may use: one subscription is left for questions (SYNC-21).
    pub(super) fn live_budget(&self, bytes: Option<usize>) -> LiveBudget {
        LiveBudget {
            subscriptions: self.usable - 1,
            filters_per_req: self.filters_per_req(),
            bytes: bytes.unwrap_or(usize::MAX),
        }
    }

    /// How many questions may be open at once: at least one, and never more than the peer allows in all.
    pub(super) fn transient_max(&self) -> usize {
        let rest = self.usable.saturating_sub(self.live.len());
        rest.clamp(1, TRANSIENT_MAX)
    }

    /// The question that was asked last and has no answer.
    pub(super) fn last_unanswered(&self) -> Option<SubscriptionId> {
        let live = self
            .live
            .subscriptions()
            .filter(|(_, live)| live.is_open && !live.is_answered);
        let live = live.map(|(subscription, _)| subscription);
        live.chain(self.queries.keys().copied()).max()
    }

    /// Sends the live subscription when its turn comes.
    pub(super) fn send_later(&mut self, subscription: SubscriptionId) {
        if !self.unsent.contains(&subscription) {
            self.unsent.push_back(subscription);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(allowed: Option<usize>) -> Session {
        let peer = PeerInfo {
            max_subscriptions: allowed,
            ..PeerInfo::default()
        };
        Session::new(ConnectionId::default(), peer, Time::default())
    }

    /// SYNC-21
    #[test]
    fn two_subscriptions_stay_unused_and_one_is_left_for_questions() {
        for (allowed, live, transient) in [
            (None, 17, 5),
            (Some(10), 7, 5),
            (Some(4), 1, 2),
            (Some(2), 1, 2),
            (Some(1), 0, 1),
            (Some(0), 0, 1),
        ] {
            let session = session(allowed);
            let budget = session.live_budget(None);
            assert_eq!(budget.subscriptions, live, "{allowed:?}");
            assert_eq!(session.transient_max(), transient, "{allowed:?}");
        }
    }

    /// SYNC-44
    #[test]
    fn filters_of_a_request_go_down_step_by_step() {
        let mut session = session(None);
        let steps: Vec<_> =
            std::iter::from_fn(|| session.fewer_filters().then(|| session.filters_per_req()))
                .collect();
        assert_eq!(steps, [5, 2, 1]);
    }
}
