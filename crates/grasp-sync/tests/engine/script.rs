//! One engine and a peer that is played by hand.

use std::time::Duration;

use grasp_core::filter::Filter;
use grasp_sync::engine::{
    ConnectionId, Counted, Delivery, DialFailure, Engine, Input, Notice, Output, PeerInfo,
    PeerMessage, RelayId, Settings, SubscriptionId, Time,
};
use grasp_sync::relay_url::RelayUrl;

use crate::world::{id, relay};

/// A peer that says nothing about itself has no negentropy here, unless a test is about that.
pub(crate) const PLAIN: PeerInfo = PeerInfo {
    max_subscriptions: None,
    default_limit: None,
    negentropy: Some(false),
};

/// A REQ that was sent.
#[derive(Debug, Clone)]
pub(crate) struct Req {
    pub(crate) connection: ConnectionId,
    pub(crate) subscription: SubscriptionId,
    pub(crate) filters: Vec<Filter>,
}

impl Req {
    pub(crate) fn is_live(&self) -> bool {
        self.filters.iter().all(|filter| filter.limit == Some(0))
    }

    /// The tags it asks by, in order, `L1` for layer 1, `ids` for ids.
    pub(crate) fn shape(&self) -> String {
        let names = self.filters.iter().map(|filter| {
            let letter = filter.tags.keys().next().map(char::to_string);
            let other = if filter.ids.is_some() { "ids" } else { "L1" };
            letter.unwrap_or_else(|| other.to_owned())
        });
        names.collect::<Vec<_>>().join(" ")
    }
}

pub(crate) struct Script {
    pub(crate) engine: Engine,
    pub(crate) now: Time,
    /// Everything that came out and was not taken.
    pub(crate) out: Vec<Output>,
}

impl Script {
    /// An engine without jitter that has just loaded these.
    pub(crate) fn new(notices: Vec<Notice>) -> Self {
        Self::with(Settings::default(), notices)
    }

    pub(crate) fn with(settings: Settings, notices: Vec<Notice>) -> Self {
        let settings = Settings {
            startup_jitter: Duration::ZERO,
            ..settings
        };
        let mut script = Self {
            engine: Engine::new(settings, 1),
            now: Time::from_secs(1_800_000_000),
            out: Vec::new(),
        };
        let cursors = Vec::new();
        script.give(Input::Loaded { notices, cursors });
        script
    }

    pub(crate) fn give(&mut self, input: Input) {
        self.out.extend(self.engine.handle(input, self.now));
        self.engine.check();
    }

    /// Lets time pass, with every deadline on the way.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(at) = self.engine.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.give(Input::Wake);
        }
        self.now = end;
    }

    pub(crate) fn pass_secs(&mut self, secs: u64) {
        self.pass(Duration::from_secs(secs));
    }

    pub(crate) fn take(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// The dials since the last look.
    pub(crate) fn dials(&mut self) -> Vec<(ConnectionId, RelayUrl)> {
        let mut dials = Vec::new();
        self.out.retain(|output| match output {
            Output::Connect {
                connection, relay, ..
            } => {
                dials.push((*connection, relay.clone()));
                false
            }
            _ => true,
        });
        dials
    }

    /// Waits for one dial and lets it succeed.
    pub(crate) fn connect(&mut self, peer: PeerInfo) -> ConnectionId {
        for _ in 0..5_000 {
            if let Some((connection, _)) = self.dials().first() {
                let connection = *connection;
                self.give(Input::Connected { connection, peer });
                return connection;
            }
            let next = self.engine.next_deadline().expect("something is to come");
            self.now = self.now.max(next);
            self.give(Input::Wake);
        }
        panic!("nobody is dialled");
    }

    /// Lets every dial fail until `span` is over.
    pub(crate) fn refuse_dials(&mut self, failure: DialFailure, span: Duration) -> usize {
        let end = self.now + span;
        let mut count = 0;
        loop {
            for (connection, _) in self.dials() {
                count += 1;
                self.give(Input::ConnectFailed {
                    connection,
                    failure,
                });
            }
            let Some(at) = self.engine.next_deadline().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            self.give(Input::Wake);
        }
        self.now = end;
        count
    }

    /// The REQs since the last look.
    pub(crate) fn reqs(&mut self) -> Vec<Req> {
        let mut reqs = Vec::new();
        self.out.retain(|output| match output {
            Output::Subscribe {
                connection,
                subscription,
                filters,
            } => {
                reqs.push(Req {
                    connection: *connection,
                    subscription: *subscription,
                    filters: filters.iter().map(|filter| Filter::clone(filter)).collect(),
                });
                false
            }
            _ => true,
        });
        reqs
    }

    pub(crate) fn hear(&mut self, connection: ConnectionId, message: PeerMessage) {
        self.give(Input::Received {
            connection,
            message,
        });
    }

    pub(crate) fn eose(&mut self, req: &Req) {
        let subscription = req.subscription;
        self.hear(req.connection, PeerMessage::Eose { subscription });
    }

    pub(crate) fn close(&mut self, req: &Req, reason: &str) {
        let message = PeerMessage::Closed {
            subscription: req.subscription,
            reason: reason.to_owned(),
        };
        self.hear(req.connection, message);
    }

    /// Delivers events with these times to a subscription.
    pub(crate) fn deliver(&mut self, req: &Req, times: impl IntoIterator<Item = u64>) {
        for (n, created_at) in (0..).zip(times) {
            let delivery = Delivery::Genuine {
                id: id(n),
                created_at,
            };
            let subscription = req.subscription;
            self.hear(
                req.connection,
                PeerMessage::Event {
                    subscription,
                    delivery,
                },
            );
        }
    }

    /// Answers every REQ with nothing stored until there was none for `quiet` seconds. Returns them in order.
    pub(crate) fn answer_all(&mut self, quiet: u64) -> Vec<Req> {
        let mut all = Vec::new();
        let mut silent = 0;
        while silent < quiet {
            let reqs = self.reqs();
            silent = if reqs.is_empty() { silent + 1 } else { 0 };
            for req in reqs {
                self.eose(&req);
                all.push(req);
            }
            self.pass_secs(1);
        }
        all
    }

    pub(crate) fn counted(&self, what: Counted) -> usize {
        let is_it =
            |output: &&Output| matches!(output, Output::Count { what: it, .. } if *it == what);
        self.out.iter().filter(is_it).count()
    }

    pub(crate) fn relay(&self, n: u32) -> RelayId {
        let number = self.engine.relay_sync_index().number(&relay(n));
        number.expect("the relay is known")
    }

    /// Confirmed, in flight, missing.
    pub(crate) fn books(&self, n: u32) -> (usize, usize, usize) {
        let url = relay(n);
        let report = self.engine.reports().find(|report| report.url == url);
        let report = report.expect("the relay is known");
        (report.confirmed, report.pending, report.missing)
    }
}
