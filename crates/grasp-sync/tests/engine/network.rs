//! What the network makes of the engine's outputs: answers, in order, or whatever can go wrong.

use std::sync::Arc;
use std::time::Duration;

use grasp_core::filter::{Filter, Matchable};
use grasp_sync::engine::{
    ConnectionId, Delivery, DialFailure, Input, Output, PeerMessage, SubscriptionId,
};
use grasp_sync::relay_url::RelayUrl;

use crate::sim::{Happening, Sim};
use crate::world::Event;

/// What a peer says that has enough of us for now.
pub(crate) const PASSING: &[&str] = &[
    "rate-limited: slow down",
    "rate-limited: too many queries",
    "error: too many subscriptions",
    "error: subscription bytes exceed the limit",
    "error: the database is on fire",
];

/// The same, and what keeps us away for a day (SYNC-42).
pub(crate) const ALL: &[&str] = &[
    "rate-limited: slow down",
    "rate-limited: too many queries",
    "error: too many subscriptions",
    "error: subscription bytes exceed the limit",
    "invalid: too many tag values",
    "restricted: not today",
    "error: the database is on fire",
];

impl Sim {
    fn is_bad(&mut self, one_in: u64) -> bool {
        self.now < self.heals_at && self.dice.one_in(one_in)
    }

    fn latency(&mut self) -> Duration {
        Duration::from_millis(1 + self.dice.below(150))
    }

    /// A peer's message: after those it sent before.
    fn send(&mut self, connection: ConnectionId, input: Input) {
        if !self.connections.contains_key(&connection) {
            return;
        }
        let before = self
            .busy_until
            .get(&connection)
            .copied()
            .unwrap_or_default();
        let at = (self.now + self.latency()).max(before);
        self.busy_until.insert(connection, at);
        self.schedule(at, Happening::Input(input));
    }

    fn say(&mut self, connection: ConnectionId, message: PeerMessage) {
        self.send(
            connection,
            Input::Received {
                connection,
                message,
            },
        );
    }

    fn break_off(&mut self, connection: ConnectionId) {
        self.send(connection, Input::Disconnected { connection });
        self.hang_up(connection);
    }

    pub(crate) fn hang_up(&mut self, connection: ConnectionId) {
        if let Some(peer) = self
            .connections
            .remove(&connection)
            .and_then(|url| self.peers.get_mut(&url))
        {
            peer.open.clear();
            peer.knows_us = false;
        }
    }

    pub(crate) fn perform(&mut self, output: Output) {
        match output {
            Output::Connect {
                connection, relay, ..
            } => self.dial(connection, &relay),
            Output::Disconnect { connection } => self.hang_up(connection),
            Output::Subscribe {
                connection,
                subscription,
                filters,
            } => {
                let filters: Vec<_> = filters.into_iter().map(Arc::unwrap_or_clone).collect();
                self.req(connection, subscription, &filters);
            }
            Output::Unsubscribe {
                connection,
                subscription,
            } => {
                if let Some(url) = self.connections.get(&connection) {
                    self.peers
                        .get_mut(url)
                        .expect("known")
                        .open
                        .remove(&subscription);
                }
            }
            Output::GatherLocal {
                connection,
                subscription,
                ..
            } => {
                let at = self.now + Duration::from_millis(5);
                let input = Input::LocalGathered {
                    connection,
                    subscription,
                };
                self.schedule(at, Happening::Input(input));
            }
            Output::Reconcile {
                connection,
                subscription,
                filter,
            } => self.neg_open(connection, subscription, &filter),
            Output::Authenticate { connection, .. } => {
                if let Some(url) = self.connections.get(&connection) {
                    self.peers.get_mut(url).expect("known").knows_us = true;
                    let accepted = true;
                    self.send(
                        connection,
                        Input::Authenticated {
                            connection,
                            accepted,
                        },
                    );
                }
            }
            Output::SaveCursor { relay, cursor } => {
                self.cursors.insert(relay, cursor);
            }
            Output::ForgetCursor { relay } => {
                self.cursors.remove(&relay);
            }
            Output::Count { .. } => {}
        }
    }

    fn dial(&mut self, connection: ConnectionId, relay: &RelayUrl) {
        if self.is_bad(4) {
            let failure = DialFailure::Unreachable;
            if self.dice.one_in(2) {
                let at = self.now + self.latency();
                self.schedule(
                    at,
                    Happening::Input(Input::ConnectFailed {
                        connection,
                        failure,
                    }),
                );
            } // else it takes the connection and never answers
            return;
        }
        let peer = self.peers[relay].info;
        self.connections.insert(connection, relay.clone());
        self.send(connection, Input::Connected { connection, peer });
        if self.peers[relay].wants_auth {
            let challenge = "prove it".to_owned();
            self.say(connection, PeerMessage::Auth { challenge });
        }
    }

    fn req(&mut self, connection: ConnectionId, subscription: SubscriptionId, filters: &[Filter]) {
        let Some(url) = self.connections.get(&connection).cloned() else {
            return;
        };
        if let Some(reason) = self.refusal(&url, filters) {
            let reason = reason.to_owned();
            self.peers
                .get_mut(&url)
                .expect("known")
                .open
                .remove(&subscription);
            return self.say(
                connection,
                PeerMessage::Closed {
                    subscription,
                    reason,
                },
            );
        }
        let peer = self.peers.get_mut(&url).expect("known");
        peer.open.insert(subscription, filters.to_vec());
        if let Some(most) = peer.info.max_subscriptions {
            assert!(
                peer.open.len() <= most,
                "{} subscriptions at {url}, which allows {most}",
                peer.open.len()
            );
        }
        let page = peer.stored(filters);
        for event in page {
            if self.is_bad(40) {
                return self.break_off(connection);
            }
            self.deliver(connection, subscription, &event);
            if self.is_bad(20) {
                self.deliver(connection, subscription, &event);
            }
        }
        if self.is_bad(30) {
            return self.break_off(connection);
        }
        if !self.is_bad(25) {
            self.say(connection, PeerMessage::Eose { subscription });
        } // else silence
    }

    fn refusal(&mut self, url: &RelayUrl, filters: &[Filter]) -> Option<&'static str> {
        let peer = &self.peers[url];
        if peer.wants_auth && !peer.knows_us {
            return Some("auth-required: who are you");
        }
        if filters.len() > peer.filters_max {
            return Some("error: too many filters in subscription");
        }
        self.is_bad(15).then(|| self.dice.pick(self.refusals))
    }

    fn deliver(&mut self, connection: ConnectionId, subscription: SubscriptionId, event: &Event) {
        let delivery = Delivery::Genuine {
            id: event.id,
            created_at: event.created_at(),
        };
        self.say(
            connection,
            PeerMessage::Event {
                subscription,
                delivery,
            },
        );
    }

    fn neg_open(
        &mut self,
        connection: ConnectionId,
        subscription: SubscriptionId,
        filter: &Filter,
    ) {
        let Some(url) = self.connections.get(&connection).cloned() else {
            return;
        };
        let is_bad = self.is_bad(6);
        let peer = &self.peers[&url];
        if is_bad || !peer.has_negentropy || (peer.wants_auth && !peer.knows_us) {
            let text = "ERROR: unknown cmd NEG-OPEN".to_owned();
            match self.dice.below(4) {
                0 => self.say(connection, PeerMessage::Notice { text }),
                1 => self.say(
                    connection,
                    PeerMessage::Closed {
                        subscription,
                        reason: String::new(),
                    },
                ),
                2 => {}
                _ => self.break_off(connection),
            }
            return;
        }
        let theirs = peer.events.values().filter(|event| filter.matches(*event));
        let missing = theirs
            .map(|event| event.id)
            .filter(|id| !self.stored.contains(id))
            .collect();
        self.send(
            connection,
            Input::Reconciled {
                connection,
                subscription,
                missing,
            },
        );
    }

    pub(crate) fn publish(&mut self, relay: &RelayUrl, event: &Event) {
        let peer = self.peers.get_mut(relay).expect("known");
        let wanted = peer
            .open
            .iter()
            .filter(|(_, filters)| filters.iter().any(|filter| filter.matches(event)));
        let wanted: Vec<_> = wanted.map(|(subscription, _)| *subscription).collect();
        peer.events.insert(event.id, event.clone());
        let of_relay = self.connections.iter().find(|(_, url)| *url == relay);
        if let Some(connection) = of_relay.map(|(connection, _)| *connection) {
            for subscription in wanted {
                self.deliver(connection, subscription, event);
            }
        }
    }
}
