//! A network in memory: one engine, some peers, a heap of what is to happen, and a seed that decides all of it.
//!
//! Time jumps to the next input, so a day of a bad network takes milliseconds. Until the network heals, every step may
//! fail in every way a peer can fail; a peer that told how many subscriptions it allows fails the run when there are
//! more.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use grasp_core::EventId;
use grasp_sync::engine::{
    ConnectionId, Cursor, Delivery, Engine, Input, Notice, PeerMessage, Settings, Time,
};
use grasp_sync::relay_url::RelayUrl;

use crate::network::ALL;
use crate::peer::{Dice, Peer};
use crate::world::Event;

pub(crate) enum Happening {
    Input(Input),
    /// A peer gets a new event.
    Publish(RelayUrl, Event),
    /// Our server is killed and comes back.
    Restart,
}

pub(crate) struct Sim {
    pub(crate) engine: Engine,
    pub(crate) now: Time,
    pub(crate) peers: BTreeMap<RelayUrl, Peer>,
    /// What our store has.
    pub(crate) stored: BTreeSet<EventId>,
    /// What it would say at a start.
    pub(crate) notices: Vec<Notice>,
    pub(crate) cursors: BTreeMap<RelayUrl, Cursor>,
    settings: Settings,
    seed: u64,
    pub(crate) dice: Dice,
    pub(crate) heals_at: Time,
    /// What peers may say until then.
    pub(crate) refusals: &'static [&'static str],
    inbox: BinaryHeap<Reverse<(Time, u64)>>,
    what: BTreeMap<u64, Happening>,
    last: u64,
    pub(crate) connections: BTreeMap<ConnectionId, RelayUrl>,
    /// A connection delivers in order.
    pub(crate) busy_until: BTreeMap<ConnectionId, Time>,
    /// Reads everything, so only now and then.
    pub(crate) steps: u64,
}

pub(crate) const START: Time = Time::from_secs(1_800_000_000);

impl Sim {
    pub(crate) fn new(seed: u64, settings: Settings, peers: BTreeMap<RelayUrl, Peer>) -> Self {
        Self {
            engine: Engine::new(settings.clone(), seed),
            now: START,
            peers,
            stored: BTreeSet::new(),
            notices: Vec::new(),
            cursors: BTreeMap::new(),
            settings,
            seed,
            dice: Dice::new(seed),
            heals_at: START,
            refusals: ALL,
            inbox: BinaryHeap::new(),
            what: BTreeMap::new(),
            last: 0,
            connections: BTreeMap::new(),
            busy_until: BTreeMap::new(),
            steps: 0,
        }
    }

    /// Everything may fail until then.
    pub(crate) fn faults_for(&mut self, span: Duration) {
        self.heals_at = START + span;
    }

    pub(crate) fn start(&mut self, notices: Vec<Notice>) {
        self.notices.extend(notices);
        let input = self.loaded();
        self.schedule(START, Happening::Input(input));
    }

    fn loaded(&self) -> Input {
        Input::Loaded {
            notices: self.notices.clone(),
            cursors: self.cursors.clone().into_iter().collect(),
        }
    }

    pub(crate) fn publish_at(&mut self, at: Time, relay: RelayUrl, event: Event) {
        self.schedule(at, Happening::Publish(relay, event));
    }

    pub(crate) fn restart_at(&mut self, at: Time) {
        self.schedule(at, Happening::Restart);
    }

    /// Our own store accepts something.
    pub(crate) fn notice_at(&mut self, at: Time, notice: Notice) {
        self.notices.push(notice.clone());
        self.schedule(at, Happening::Input(Input::Noticed(notice)));
    }

    pub(crate) fn schedule(&mut self, at: Time, what: Happening) {
        self.last += 1;
        self.inbox.push(Reverse((at, self.last)));
        self.what.insert(self.last, what);
    }

    pub(crate) fn run_until(&mut self, end: Time) {
        while self.step(end) {}
        self.engine.check();
        self.now = end;
    }

    /// One input, or one deadline of the engine if that comes first.
    fn step(&mut self, end: Time) -> bool {
        let next = self.inbox.peek().map(|Reverse((at, _))| *at);
        let deadline = self.engine.next_deadline();
        let at = [next, deadline].into_iter().flatten().min();
        let Some(at) = at.filter(|at| *at <= end) else {
            return false;
        };
        self.now = self.now.max(at);
        if next.is_some_and(|next| deadline.is_none_or(|deadline| next <= deadline)) {
            let Some(Reverse((_, number))) = self.inbox.pop() else {
                return false;
            };
            match self.what.remove(&number) {
                Some(Happening::Input(input)) => self.hand_in(input),
                Some(Happening::Publish(relay, event)) => self.publish(&relay, &event),
                Some(Happening::Restart) => self.restart(),
                None => {}
            }
        } else {
            self.hand_in(Input::Wake);
        }
        true
    }

    fn hand_in(&mut self, input: Input) {
        self.admit(&input);
        let outputs = self.engine.handle(input, self.now);
        for output in outputs {
            self.perform(output);
        }
        self.steps += 1;
        if self.steps.is_multiple_of(64) {
            self.engine.check();
        }
    }

    /// Our store takes what arrives, and says so a little later.
    fn admit(&mut self, input: &Input) {
        let Input::Received { message, .. } = input else {
            return;
        };
        let PeerMessage::Event {
            delivery: Delivery::Genuine { id, .. },
            ..
        } = message
        else {
            return;
        };
        // Whose it was plays no part: what was on its way when the peer hung up arrives as well.
        let event = self.peers.values().find_map(|peer| peer.events.get(id));
        let event = event.cloned();
        if let Some(event) = event
            && self.stored.insert(*id)
            && let Some(notice) = event.notice()
        {
            let at = self.now + Duration::from_millis(3);
            self.notice_at(at, notice);
        }
    }

    /// `kill -9`: what the engine knew is gone, what the store knows and what was saved is not.
    fn restart(&mut self) {
        let open: Vec<_> = self.connections.keys().copied().collect();
        for connection in open {
            self.hang_up(connection);
        }
        self.what.retain(|_, what| match what {
            Happening::Publish(..) | Happening::Restart => true,
            // What our store accepts is told to whoever runs then.
            Happening::Input(input) => matches!(input, Input::Noticed(_)),
        });
        let left = &self.what;
        self.inbox
            .retain(|Reverse((_, number))| left.contains_key(number));
        self.seed += 1_000_003;
        self.engine = Engine::new(self.settings.clone(), self.seed);
        let input = self.loaded();
        self.hand_in(input);
    }
}
