//! What the network makes of an engine's outputs: answers, in order, or whatever can go wrong.

use std::time::Duration;

use grasp_core::EventId;
use grasp_core::filter::Filter;
use grasp_sync::engine::{
    ConnectionId, DialFailure, Input, Output, PeerMessage, SubscriptionId, Time,
};
use grasp_sync::relay_url::RelayUrl;

use super::network::{Happening, Link, Network};

/// What a server says that has enough of us for now.
const REFUSALS: &[&str] = &[
    "rate-limited: slow down",
    "rate-limited: too many queries",
    "error: too many subscriptions",
    "error: subscription bytes exceed the limit",
    "error: the database is on fire",
];

impl<A: std::fmt::Debug> Network<A> {
    pub(crate) async fn perform(&mut self, from: usize, output: Output) {
        match output {
            Output::Connect {
                connection, relay, ..
            } => self.dial(from, connection, &relay),
            Output::Disconnect { connection } => drop(self.links.remove(&(from, connection))),
            Output::Subscribe {
                connection,
                subscription,
                filters,
            } => self.req(from, connection, subscription, &filters),
            Output::Unsubscribe {
                connection,
                subscription,
            } => {
                if let Some(link) = self.links.get_mut(&(from, connection)) {
                    link.open.remove(&subscription);
                }
            }
            Output::GatherLocal {
                connection,
                subscription,
                ..
            } => {
                let gathered = Input::LocalGathered {
                    connection,
                    subscription,
                };
                let at = self.now + Duration::from_millis(5);
                self.schedule(at, Happening::Input(from, gathered));
            }
            Output::Reconcile {
                connection,
                subscription,
                filter,
            } => self.neg_open(from, connection, subscription, &filter),
            Output::Authenticate { connection, .. } => {
                let accepted = true;
                let input = Input::Authenticated {
                    connection,
                    accepted,
                };
                self.send(from, connection, Happening::Input(from, input));
            }
            Output::SaveCursor { .. } | Output::ForgetCursor { .. } => {
                self.nodes[from].remember(output).await;
                self.told(from);
            }
            Output::Count { .. } => {}
        }
    }

    fn dial(&mut self, from: usize, connection: ConnectionId, relay: &RelayUrl) {
        let to = self.at(relay);
        let to = to.filter(|to| self.nodes[*to].running.is_some());
        let is_lost = self.is_bad(5);
        let Some(to) = to.filter(|_| !is_lost) else {
            // Or nobody answers at all.
            if !self.is_bad(2) {
                let failed = Input::ConnectFailed {
                    connection,
                    failure: DialFailure::Unreachable,
                };
                let at = self.now + self.latency();
                self.schedule(at, Happening::Input(from, failed));
            }
            return;
        };
        let link = Link {
            to,
            open: std::collections::BTreeMap::new(),
            busy_until: Time::default(),
        };
        self.links.insert((from, connection), link);
        let peer = self.nodes[to].manners.info;
        let connected = Input::Connected { connection, peer };
        self.send(from, connection, Happening::Input(from, connected));
    }

    /// Something for whoever dialled: after what was sent before.
    fn send(&mut self, to: usize, connection: ConnectionId, what: Happening<A>) {
        let latency = self.latency();
        let Some(link) = self.links.get_mut(&(to, connection)) else {
            return;
        };
        let at = (self.now + latency).max(link.busy_until);
        link.busy_until = at;
        self.schedule(at, what);
    }

    fn say(&mut self, to: usize, connection: ConnectionId, message: PeerMessage) {
        let input = Input::Received {
            connection,
            message,
        };
        self.send(to, connection, Happening::Input(to, input));
    }

    fn break_off(&mut self, to: usize, connection: ConnectionId) {
        let input = Input::Disconnected { connection };
        self.send(to, connection, Happening::Input(to, input));
        self.links.remove(&(to, connection));
    }

    pub(crate) fn deliver(
        &mut self,
        to: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
        event: EventId,
    ) {
        let times = if self.is_bad(20) { 2 } else { 1 };
        for _ in 0..times {
            let what = Happening::Event {
                to,
                connection,
                subscription,
                event,
            };
            self.send(to, connection, what);
        }
    }

    fn req(
        &mut self,
        from: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
        filters: &[Filter],
    ) {
        let Some(to) = self.links.get(&(from, connection)).map(|link| link.to) else {
            return;
        };
        let manners = self.nodes[to].manners;
        let refusal = if filters.len() > manners.filters_max {
            Some("error: too many filters in subscription")
        } else {
            self.is_bad(15).then(|| *self.dice.pick(REFUSALS))
        };
        let link = self.links.get_mut(&(from, connection)).expect("it stands");
        if let Some(reason) = refusal {
            link.open.remove(&subscription);
            let reason = reason.to_owned();
            let closed = PeerMessage::Closed {
                subscription,
                reason,
            };
            return self.say(from, connection, closed);
        }
        link.open.insert(subscription, filters.to_vec());
        if let Some(most) = manners.info.max_subscriptions {
            let open = link.open.len();
            assert!(
                open <= most,
                "{open} subscriptions at {to}, which allows {most}"
            );
        }
        for event in self.nodes[to].stored(filters) {
            if self.is_bad(60) {
                return self.break_off(from, connection);
            }
            self.deliver(from, connection, subscription, event);
        }
        if self.is_bad(30) {
            return self.break_off(from, connection);
        }
        // Or silence.
        if !self.is_bad(25) {
            self.say(from, connection, PeerMessage::Eose { subscription });
        }
    }

    fn neg_open(
        &mut self,
        from: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
        filter: &Filter,
    ) {
        let Some(to) = self.links.get(&(from, connection)).map(|link| link.to) else {
            return;
        };
        if self.is_bad(6) || !self.nodes[to].manners.has_negentropy {
            let text = "ERROR: unknown cmd NEG-OPEN".to_owned();
            let reason = String::new();
            return match self.dice.below(4) {
                0 => self.say(from, connection, PeerMessage::Notice { text }),
                1 => self.say(
                    from,
                    connection,
                    PeerMessage::Closed {
                        subscription,
                        reason,
                    },
                ),
                2 => {}
                _ => self.break_off(from, connection),
            };
        }
        let theirs = self.nodes[to].all(filter).into_iter();
        let missing = theirs.filter(|id| !self.nodes[from].knows(id)).collect();
        let reconciled = Input::Reconciled {
            connection,
            subscription,
            missing,
        };
        self.send(from, connection, Happening::Input(from, reconciled));
    }
}
