//! What the network makes of an engine's outputs: answers, in order, or whatever can go wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use grasp_core::EventId;
use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;
use grasp_sync::engine::{
    ConnectionId, DialFailure, Input, Output, PeerMessage, SubscriptionId, Time,
};
use grasp_sync::relay_url::RelayUrl;

use super::liar::{Lie, REFUSALS};
use super::network::{Happening, Link, Network, Peer};

impl<A: std::fmt::Debug> Network<A> {
    pub(crate) async fn perform(&mut self, from: usize, output: Output) {
        match output {
            Output::Connect {
                connection, relay, ..
            } => self.dial(from, connection, relay),
            Output::Disconnect { connection } => drop(self.links.remove(&(from, connection))),
            Output::Subscribe {
                connection,
                subscription,
                filters,
            } => {
                let filters: Vec<_> = filters.into_iter().map(Arc::unwrap_or_clone).collect();
                self.req(from, connection, subscription, &filters);
            }
            Output::Unsubscribe {
                connection,
                subscription,
            } => self.close(from, connection, subscription),
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
                if let Some(link) = self.links.get_mut(&(from, connection)) {
                    link.knows_us = true;
                }
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

    fn dial(&mut self, from: usize, connection: ConnectionId, relay: RelayUrl) {
        let now = self.now;
        self.budget(from, &relay).dials(now);
        let peer = self.at(&relay).filter(|peer| match peer {
            Peer::Server(number) => self.nodes[*number].running.is_some(),
            Peer::Liar(_) => true,
        });
        let is_lost = self.is_bad(5);
        let Some(to) = peer.filter(|_| !is_lost) else {
            // Or nobody answers at all.
            if !self.is_bad(2) {
                let failed = Input::ConnectFailed {
                    connection,
                    failure: DialFailure::Unreachable,
                };
                self.dialling.insert((from, connection), relay);
                let at = self.now + self.latency();
                self.schedule(at, Happening::Input(from, failed));
            }
            return;
        };
        let link = Link {
            to,
            relay,
            open: BTreeMap::new(),
            asked: BTreeMap::new(),
            busy_until: Time::default(),
            knows_us: false,
        };
        self.links.insert((from, connection), link);
        let peer = match to {
            Peer::Server(number) => self.nodes[number].manners.info,
            Peer::Liar(number) => self.liars[number].info,
        };
        let connected = Input::Connected { connection, peer };
        self.send(from, connection, Happening::Input(from, connected));
        if self.wants_auth(to) {
            let challenge = "prove it".to_owned();
            self.say(from, connection, PeerMessage::Auth { challenge });
        }
    }

    fn wants_auth(&self, peer: Peer) -> bool {
        matches!(peer, Peer::Server(number) if self.nodes[number].manners.wants_auth)
    }

    fn close(&mut self, from: usize, connection: ConnectionId, subscription: SubscriptionId) {
        if let Some(link) = self.links.get_mut(&(from, connection)) {
            link.open.remove(&subscription);
            link.asked.remove(&subscription);
            let relay = link.relay.clone();
            self.budget(from, &relay).closes(subscription);
        }
    }

    /// Something for whoever dialled: after what was sent before.
    pub(crate) fn send(&mut self, to: usize, connection: ConnectionId, what: Happening<A>) {
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

    fn refuse(
        &mut self,
        to: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
        why: &str,
    ) {
        let link = self.links.get_mut(&(to, connection));
        link.map(|link| link.open.remove(&subscription));
        let reason = why.to_owned();
        let closed = PeerMessage::Closed {
            subscription,
            reason,
        };
        self.say(to, connection, closed);
    }

    /// The connection breaks: both ends hear of it at once, or ours only when it has heard nothing for long.
    fn break_off(&mut self, to: usize, connection: ConnectionId) {
        let input = Happening::Input(to, Input::Disconnected { connection });
        if self.dice.one_in(4) {
            let silence = Duration::from_secs(60 + self.dice.below(60));
            self.schedule(self.now + silence, input);
        } else {
            self.send(to, connection, input);
        }
        self.links.remove(&(to, connection));
    }

    pub(crate) fn deliver(
        &mut self,
        to: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
        event: EventId,
    ) {
        if self.weather.loses_events && self.is_bad(25) {
            return;
        }
        let times = if self.is_bad(8) { 2 } else { 1 };
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
        let Some(link) = self.links.get_mut(&(from, connection)) else {
            return;
        };
        let filters: Arc<[Filter]> = filters.into();
        link.open.insert(subscription, Arc::clone(&filters));
        link.asked.insert(subscription, Arc::clone(&filters));
        let (to, relay, knows_us) = (link.to, link.relay.clone(), link.knows_us);
        let now = self.now;
        self.budget(from, &relay).asks(subscription, &filters, now);
        let number = match to {
            Peer::Server(number) => number,
            Peer::Liar(number) => {
                let info = self.liars[number].info;
                self.budget(from, &relay).counts(info.max_subscriptions);
                return self.lie(from, connection, subscription, number, &filters);
            }
        };
        let manners = self.nodes[number].manners;
        if manners.wants_auth && !knows_us {
            return self.refuse(from, connection, subscription, "auth-required: who are you");
        }
        if filters.len() > manners.filters_max {
            let why = "error: too many filters in subscription";
            return self.refuse(from, connection, subscription, why);
        }
        if self.is_bad(15) {
            let why = *self.dice.pick(self.weather.refusals);
            return self.refuse(from, connection, subscription, why);
        }
        let allowed = manners.info.max_subscriptions;
        self.budget(from, &relay).counts(allowed);
        let mut page = self.nodes[number].stored(&filters);
        if manners.is_untidy {
            let turned = self.dice.index(page.len().max(1));
            page.rotate_left(turned);
        }
        for event in page {
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

    fn lie(
        &mut self,
        from: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
        number: usize,
        filters: &[Filter],
    ) {
        let there: Vec<&VerifiedEvent> = self.events.values().collect();
        let liar = &self.liars[number];
        let lie = liar.lie;
        let texts = liar.texts(filters, &there, &mut self.dice);
        for text in texts {
            let what = Happening::Text {
                to: from,
                connection,
                subscription,
                text,
            };
            self.send(from, connection, what);
        }
        match lie {
            Lie::Silence => {}
            Lie::HangUp => self.break_off(from, connection),
            Lie::Refusal => {
                let why = *self.dice.pick(REFUSALS);
                self.refuse(from, connection, subscription, why);
            }
            _ => self.say(from, connection, PeerMessage::Eose { subscription }),
        }
    }

    fn neg_open(
        &mut self,
        from: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
        filter: &Filter,
    ) {
        let Some(link) = self.links.get_mut(&(from, connection)) else {
            return;
        };
        link.asked.insert(subscription, Arc::default());
        let missing = match link.to {
            Peer::Liar(number) => self.liars[number].names(&mut self.dice),
            Peer::Server(number) => {
                let manners = self.nodes[number].manners;
                let is_known = link.knows_us || !manners.wants_auth;
                if self.is_bad(6) || !manners.has_negentropy || !is_known {
                    return self.without_negentropy(from, connection, subscription);
                }
                let theirs = self.nodes[number].all(filter).into_iter();
                theirs.filter(|id| !self.nodes[from].knows(id)).collect()
            }
        };
        let reconciled = Input::Reconciled {
            connection,
            subscription,
            missing,
        };
        self.send(from, connection, Happening::Input(from, reconciled));
    }

    fn without_negentropy(
        &mut self,
        from: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
    ) {
        let text = "ERROR: unknown cmd NEG-OPEN".to_owned();
        match self.dice.below(4) {
            0 => self.say(from, connection, PeerMessage::Notice { text }),
            1 => self.refuse(from, connection, subscription, ""),
            2 => {}
            _ => self.break_off(from, connection),
        }
    }
}
