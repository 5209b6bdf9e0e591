//! The network: servers, connections between them, and a heap of what is to happen.
//!
//! Time jumps to whatever is next, so hours of a bad network take moments. Until the network heals, every step may fail
//! in every way a peer can fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use grasp_core::EventId;
use grasp_core::Timestamp;
use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;
use grasp_core::name::Identifier;
use grasp_sync::engine::{ConnectionId, Input, PeerMessage, SubscriptionId, Time};
use grasp_sync::hunt::{self, FetchId, Host};
use grasp_sync::relay_url::RelayUrl;

use super::budget::Budget;
use super::dice::Dice;
use super::hunter::Hunter;
use super::liar::Liar;
use super::node::{Manners, Node, Skew};
use super::sources::{Fate, HostBudget};
use super::trace::Trace;
use super::weather::Weather;

pub(crate) const START: u64 = 1_800_000_000;
/// Between two looks at what waits, as the server does it.
const PASS_MIN: Duration = Duration::from_secs(1);
/// See [`PASS_MIN`].
const PASS_MAX: Duration = Duration::from_mins(1);
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
    /// Something arrives as an event.
    Text {
        to: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
        text: String,
    },
    /// A hunt hears something.
    Hunt(usize, hunt::Input),
    /// A server looks what it is owed.
    Look(usize, Identifier),
    /// A fetch ends.
    Fetched(usize, FetchId, Option<Fate>),
    /// People do something.
    Act(A),
    Pass(usize),
    Sweep(usize),
    /// A server is killed.
    Down(usize),
    /// A server will be killed while it does what its engine wants, after so many outputs.
    Stumble(usize, u64),
    /// And comes back.
    Up(usize),
}

/// Whom a server talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Server(usize),
    Liar(usize),
}

/// One end's view of a connection: whoever dialled asks, the other answers.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) to: Peer,
    pub(crate) relay: RelayUrl,
    /// What the one who answers has open.
    pub(crate) open: BTreeMap<SubscriptionId, Arc<[Filter]>>,
    /// What the one who asked has open; of anything else it hears nothing.
    pub(crate) asked: BTreeMap<SubscriptionId, Arc<[Filter]>>,
    /// A connection delivers in order.
    pub(crate) busy_until: Time,
    /// Whoever dialled has proven who it is.
    pub(crate) knows_us: bool,
}

pub(crate) struct Network<A> {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Node>,
    pub(crate) liars: Vec<Liar>,
    pub(crate) links: BTreeMap<(usize, ConnectionId), Link>,
    /// Dials that fail.
    pub(crate) dialling: BTreeMap<(usize, ConnectionId), RelayUrl>,
    pub(crate) dice: Dice,
    pub(crate) weather: Weather,
    /// Every event of the run.
    pub(crate) events: BTreeMap<EventId, VerifiedEvent>,
    /// What some server served at some time.
    pub(crate) shown: BTreeSet<EventId>,
    budgets: BTreeMap<(usize, RelayUrl), Budget>,
    pub(crate) hosts: BTreeMap<(usize, Host), HostBudget>,
    stumbling: Option<(usize, u64)>,
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
    pub(crate) fn new(seed: u64, trace: Trace) -> Self {
        let mut dice = Dice::new(seed);
        let weather = Weather::draw(&mut dice);
        let start = Timestamp::from_secs(START);
        let servers = 2 + dice.index(2);
        let liars = dice.index(3);
        let nodes = (0..servers).map(|n| {
            let manners = Manners::draw(&mut dice);
            let skew = Skew::draw(weather.skew, &mut dice);
            Node::new(n, start, manners, skew)
        });
        let nodes = nodes.collect();
        let liars = (0..liars).map(|n| Liar::draw(n, &mut dice)).collect();
        let network = Self {
            now: Time::from_secs(START),
            nodes,
            liars,
            links: BTreeMap::new(),
            dialling: BTreeMap::new(),
            dice,
            weather,
            events: BTreeMap::new(),
            shown: BTreeSet::new(),
            budgets: BTreeMap::new(),
            hosts: BTreeMap::new(),
            stumbling: None,
            seed,
            queue: BTreeMap::new(),
            last: 0,
            trace,
        };
        network.trace(|| format!("{weather:?}"));
        for node in &network.nodes {
            network.trace(|| format!("{}: {:?} {:?}", node.number, node.manners, node.skew));
        }
        network.trace(|| format!("{:?}", network.liars));
        network
    }

    pub(crate) fn schedule(&mut self, at: Time, what: Happening<A>) {
        self.last += 1;
        self.queue.insert((at.max(self.now), self.last), what);
    }

    /// Who is at this address.
    pub(crate) fn at(&self, relay: &RelayUrl) -> Option<Peer> {
        let server = self.nodes.iter().position(|node| node.url == *relay);
        let liar = || self.liars.iter().position(|liar| liar.url == *relay);
        server.map(Peer::Server).or_else(|| liar().map(Peer::Liar))
    }

    /// A server's account at a relay.
    pub(crate) fn budget(&mut self, from: usize, relay: &RelayUrl) -> &mut Budget {
        self.budgets.entry((from, relay.clone())).or_default()
    }

    pub(crate) fn is_bad(&mut self, one_in: u64) -> bool {
        self.now < after(self.weather.faults) && self.dice.one_in(one_in)
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
        self.schedule(self.now + PASS_MIN, Happening::Pass(number));
        self.schedule(self.now + SWEEP, Happening::Sweep(number));
        self.hand_in(number, loaded).await;
        let owed = self.nodes[number].to_hunt();
        self.hunts(number, owed).await;
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
            self.hunts(number, hunt::Input::Wake).await;
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
            } => {
                let text = self.events[&event].event().as_json();
                self.arrives(to, connection, subscription, text).await;
            }
            Happening::Text {
                to,
                connection,
                subscription,
                text,
            } => self.arrives(to, connection, subscription, text).await,
            Happening::Hunt(number, input) => self.hunts(number, input).await,
            Happening::Look(number, identifier) => self.looks(number, identifier).await,
            Happening::Fetched(number, fetch, fate) => self.fetched(number, fetch, fate).await,
            Happening::Act(what) => act(self, what).await,
            Happening::Pass(number) => {
                let asked = self.nodes[number].pass().await;
                for input in asked {
                    self.hand_in(number, input).await;
                }
                self.told(number);
                let pause = self.nodes[number].pause(self.now);
                let pause = pause.unwrap_or(PASS_MAX).clamp(PASS_MIN, PASS_MAX);
                self.again(number, pause, Happening::Pass(number));
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
            Happening::Stumble(number, outputs) => self.stumbling = Some((number, outputs)),
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
        self.budgets.retain(|(from, _), _| *from != number);
        self.hosts.retain(|(from, _), _| *from != number);
        self.dialling.retain(|(from, _), _| *from != number);
        let links = self.links.iter();
        let is_its = |from: usize, to| from == number || to == Peer::Server(number);
        let broken = links.filter(|((from, _), link)| is_its(*from, link.to));
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
            Happening::Input(to, _)
            | Happening::Event { to, .. }
            | Happening::Text { to, .. }
            | Happening::Hunt(to, _)
            | Happening::Look(to, _)
            | Happening::Fetched(to, ..)
            | Happening::Pass(to)
            | Happening::Sweep(to) => *to != number,
            _ => true,
        });
    }

    pub(crate) async fn hand_in(&mut self, number: usize, input: Input) {
        if self.is_stale(number, &input) {
            return;
        }
        self.keep_account(number, &input);
        let outputs = self.nodes[number].handle(input, self.now);
        for output in outputs {
            self.trace(|| format!("  {number} -> {output:?}"));
            self.perform(number, output).await;
            if self.stumbles(number) {
                self.down(number);
                return;
            }
        }
    }

    /// As the relay client does it: what is about nothing that is open is nothing.
    fn is_stale(&mut self, number: usize, input: &Input) -> bool {
        let Input::Received {
            connection,
            message,
        } = input
        else {
            return false;
        };
        let link = self.links.get_mut(&(number, *connection));
        match message {
            PeerMessage::Eose { subscription } => {
                link.is_none_or(|link| !link.asked.contains_key(subscription))
            }
            PeerMessage::Closed { subscription, .. } => {
                link.is_none_or(|link| link.asked.remove(subscription).is_none())
            }
            _ => false,
        }
    }

    fn stumbles(&mut self, number: usize) -> bool {
        match &mut self.stumbling {
            Some((who, 0)) if *who == number => {
                self.stumbling = None;
                let away = Duration::from_secs(self.dice.below(1_200));
                self.schedule(self.now + away, Happening::Up(number));
                true
            }
            Some((who, outputs)) if *who == number => {
                *outputs -= 1;
                false
            }
            _ => false,
        }
    }

    /// What a relay that counts knows of its answers' arrival.
    fn keep_account(&mut self, number: usize, input: &Input) {
        let now = self.now;
        let linked = |connection| self.links.get(&(number, connection));
        match input {
            Input::ConnectFailed { connection, .. } => {
                if let Some(relay) = self.dialling.remove(&(number, *connection)) {
                    self.budget(number, &relay).dial_failed(now);
                }
            }
            Input::Connected { connection, .. } => {
                if let Some(relay) = linked(*connection).map(|link| link.relay.clone()) {
                    self.budget(number, &relay).connected();
                }
            }
            Input::Received {
                connection,
                message:
                    PeerMessage::Closed {
                        subscription,
                        reason,
                    },
            } => {
                if let Some(relay) = linked(*connection).map(|link| link.relay.clone()) {
                    let budget = self.budget(number, &relay);
                    budget.is_refused(*subscription, reason, now);
                }
            }
            _ => {}
        }
    }

    async fn arrives(
        &mut self,
        to: usize,
        connection: ConnectionId,
        subscription: SubscriptionId,
        text: String,
    ) {
        // What comes for nothing that is open is nothing.
        let link = self.links.get(&(to, connection));
        let asked = link.and_then(|link| Some((link.asked.get(&subscription)?, &link.relay)));
        let Some((asked, relay)) = asked else { return };
        let (asked, relay) = (Arc::clone(asked), relay.clone());
        let Some(delivery) = self.nodes[to].hear(&relay, text, asked).await else {
            return;
        };
        self.told(to);
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
        let owed = self.nodes[number].hunter().map(Hunter::heard);
        for input in owed.into_iter().flatten() {
            let at = self.now + Duration::from_millis(1);
            self.schedule(at, Happening::Hunt(number, input));
        }
        for id in self.nodes[number].served_since() {
            self.shown.insert(id);
            let event = self.events.get(&id);
            let event =
                event.unwrap_or_else(|| panic!("{number} serves {id}, which nobody signed"));
            let wanted: Vec<_> = self
                .links
                .iter()
                .filter(|(_, link)| link.to == Peer::Server(number))
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
