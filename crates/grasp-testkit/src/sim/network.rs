//! The network: servers, connections between them, and a heap of what is to happen.
//!
//! Time jumps to whatever is next, so hours of a bad network take moments. Until the network heals, every step may fail
//! in every way a peer can fail.

use std::collections::BTreeMap;
use std::time::Duration;

use grasp_core::EventId;
use grasp_core::Timestamp;
use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;
use grasp_sync::engine::{ConnectionId, Delivery, Input, PeerMessage, SubscriptionId, Time};
use grasp_sync::relay_url::RelayUrl;

use super::dice::Dice;
use super::node::{self, Manners, Node};
use super::trace::Trace;

pub(crate) const START: u64 = 1_800_000_000;
/// Between two looks at what waits; the server sleeps no longer either.
const PASS: Duration = Duration::from_secs(30);
const SWEEP: Duration = Duration::from_mins(30);

/// Something that is to happen.
#[derive(Debug)]
pub(crate) enum Happening<A> {
    /// An engine hears something.
    Input(usize, Input),
    /// An event arrives.
    Event {
        to: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
        event: EventId,
    },
    /// People do something.
    Act(A),
    Pass(usize),
    Sweep(usize),
    /// A server is killed.
    Down(usize),
    /// And comes back.
    Up(usize),
}

/// One end's view of a connection: whoever dialled asks, the other answers.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) to: usize,
    pub(crate) open: BTreeMap<SubscriptionId, Vec<Filter>>,
    /// A connection delivers in order.
    pub(crate) busy_until: Time,
}

pub(crate) struct Network<A> {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: BTreeMap<(usize, ConnectionId), Link>,
    pub(crate) dice: Dice,
    pub(crate) heals_at: Time,
    /// Every event of the run.
    pub(crate) events: BTreeMap<EventId, VerifiedEvent>,
    seed: u64,
    queue: BTreeMap<(Time, u64), Happening<A>>,
    last: u64,
    trace: Trace,
}

/// The beginning, and so much later.
pub(crate) fn after(span: Duration) -> Time {
    Time::from_secs(START) + span
}

impl<A: std::fmt::Debug> Network<A> {
    pub(crate) fn new(seed: u64, manners: &[Manners], trace: Trace) -> Self {
        let start = Timestamp::from_secs(START);
        let nodes = manners.iter().enumerate();
        Self {
            now: Time::from_secs(START),
            nodes: nodes
                .map(|(n, manners)| Node::new(n, start, *manners))
                .collect(),
            links: BTreeMap::new(),
            dice: Dice::new(seed),
            heals_at: Time::from_secs(START),
            events: BTreeMap::new(),
            seed,
            queue: BTreeMap::new(),
            last: 0,
            trace,
        }
    }

    pub(crate) fn schedule(&mut self, at: Time, what: Happening<A>) {
        self.last += 1;
        self.queue.insert((at.max(self.now), self.last), what);
    }

    /// The number of the server at this address.
    pub(crate) fn at(&self, relay: &RelayUrl) -> Option<usize> {
        self.nodes.iter().position(|node| node.url == *relay)
    }

    pub(crate) fn is_bad(&mut self, one_in: u64) -> bool {
        self.now < self.heals_at && self.dice.one_in(one_in)
    }

    pub(crate) fn latency(&mut self) -> Duration {
        Duration::from_millis(1 + self.dice.below(150))
    }

    /// All servers begin to follow each other.
    pub(crate) async fn start(&mut self) {
        for number in 0..self.nodes.len() {
            self.begin(number).await;
        }
    }

    async fn begin(&mut self, number: usize) {
        let loaded = self.nodes[number].follow(self.seed);
        self.schedule(self.now + PASS, Happening::Pass(number));
        self.schedule(self.now + SWEEP, Happening::Sweep(number));
        self.hand_in(number, loaded).await;
    }

    /// Runs until `end`; whoever does something then is asked what.
    pub(crate) async fn run_until(&mut self, end: Time, mut act: impl AsyncFnMut(&mut Self, A)) {
        while let Some(at) = self.next().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.nodes.iter().for_each(|node| node.wind(self.now));
            let due = self.queue.first_key_value().map(|(key, _)| *key);
            match due.filter(|(at, _)| *at <= self.now) {
                Some(key) => {
                    let what = self.queue.remove(&key).expect("it was there");
                    self.trace(|| format!("{what:?}"));
                    self.happens(what, &mut act).await;
                }
                None => self.wake().await,
            }
        }
        self.now = end;
    }

    fn next(&self) -> Option<Time> {
        let queued = self.queue.first_key_value().map(|((at, _), _)| *at);
        let deadlines = self.nodes.iter().filter_map(Node::next_deadline);
        queued.into_iter().chain(deadlines).min()
    }

    async fn wake(&mut self) {
        let due = |node: &Node| node.next_deadline().is_some_and(|at| at <= self.now);
        if let Some(number) = self.nodes.iter().position(due) {
            self.hand_in(number, Input::Wake).await;
        }
    }

    async fn happens(&mut self, what: Happening<A>, act: &mut impl AsyncFnMut(&mut Self, A)) {
        match what {
            Happening::Input(number, input) => self.hand_in(number, input).await,
            Happening::Event {
                to,
                connection,
                subscription,
                event,
            } => self.arrives(to, connection, subscription, event).await,
            Happening::Act(what) => act(self, what).await,
            Happening::Pass(number) => {
                let asked = self.nodes[number].pass().await;
                for input in asked {
                    self.hand_in(number, input).await;
                }
                self.told(number);
                self.again(number, PASS, Happening::Pass(number));
            }
            Happening::Sweep(number) => {
                if self.nodes[number].running.is_some() {
                    self.nodes[number].world.sweep().await;
                    self.nodes[number].settle().await;
                    self.told(number);
                }
                self.again(number, SWEEP, Happening::Sweep(number));
            }
            Happening::Down(number) => self.down(number),
            Happening::Up(number) => {
                self.nodes[number].kill().await;
                self.begin(number).await;
            }
        }
    }

    fn again(&mut self, number: usize, pause: Duration, what: Happening<A>) {
        if self.nodes[number].running.is_some() {
            self.schedule(self.now + pause, what);
        }
    }

    /// `kill -9`: its connections break, and what was on its way to it is lost.
    fn down(&mut self, number: usize) {
        self.nodes[number].running = None;
        let links = self.links.iter();
        let broken = links.filter(|((from, _), link)| *from == number || link.to == number);
        let broken: Vec<_> = broken.map(|(key, _)| *key).collect();
        for (from, connection) in broken {
            self.links.remove(&(from, connection));
            if from != number {
                let at = self.now + self.latency();
                self.schedule(
                    at,
                    Happening::Input(from, Input::Disconnected { connection }),
                );
            }
        }
        self.queue.retain(|_, what| match what {
            Happening::Input(to, _) | Happening::Event { to, .. } => *to != number,
            Happening::Pass(of) | Happening::Sweep(of) => *of != number,
            Happening::Act(_) | Happening::Down(_) | Happening::Up(_) => true,
        });
    }

    pub(crate) async fn hand_in(&mut self, number: usize, input: Input) {
        let outputs = self.nodes[number].handle(input, self.now);
        for output in outputs {
            self.trace(|| format!("  {number} -> {output:?}"));
            self.perform(number, output).await;
        }
    }

    async fn arrives(
        &mut self,
        to: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
        id: EventId,
    ) {
        let event = self.events[&id].clone();
        let from = self.links.get(&(to, connection)).map(|link| link.to);
        // Of a connection that broke meanwhile the bytes may have been here already.
        let from = node::url(from.unwrap_or(to));
        self.nodes[to].take(&from, &event).await;
        self.told(to);
        let delivery = Delivery::Genuine {
            id,
            created_at: event.created_at().as_secs(),
        };
        let message = PeerMessage::Event {
            subscription,
            delivery,
        };
        let input = Input::Received {
            connection,
            message,
        };
        self.hand_in(to, input).await;
    }

    /// What a server committed: its engine hears of it, and those who listen get it.
    pub(crate) fn told(&mut self, number: usize) {
        for input in self.nodes[number].heard() {
            self.schedule(
                self.now + Duration::from_millis(1),
                Happening::Input(number, input),
            );
        }
        for id in self.nodes[number].served_since() {
            let event = &self.events[&id];
            let wanted: Vec<_> = self
                .links
                .iter()
                .filter(|(_, link)| link.to == number)
                .flat_map(|(key, link)| link.open.iter().map(move |open| (*key, open)))
                .filter(|(_, (_, filters))| {
                    filters.iter().any(|filter| filter.matches(event.event()))
                })
                .map(|(key, (subscription, _))| (key, *subscription))
                .collect();
            for ((to, connection), subscription) in wanted {
                self.deliver(to, connection, subscription, id);
            }
        }
    }

    pub(crate) fn trace(&self, what: impl FnOnce() -> String) {
        self.trace.add(|| {
            let millis = self.now.since(Time::from_secs(START)).as_millis();
            format!("{millis:>9} {}", what())
        });
    }
}
