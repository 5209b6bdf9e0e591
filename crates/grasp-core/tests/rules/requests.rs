//! DEL-9 against the naive reading of it: any sequence of events, requests that delete them, the same sent
//! again, and time.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::admission::{
    Answer, Decision, DeletionFacts, DeletionTarget, Known, Rejection, admit_deletion, screen,
};
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::{Batch, Change, Stage};
use grasp_core::policy::{Circumstances, Origin, Policy};
use grasp_core::request::{Asks, Gate, Request, Uses};
use grasp_core::view::ObjectFacts;
use grasp_core::{EventId, Timestamp};
use proptest::prelude::*;

use crate::support::{NOW, at, draft, key, policy};

const DAY: u64 = 86_400;
/// So many events, and so many requests for each of them.
const EVENTS: u64 = 2;
const REQUESTS: u64 = 3;

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// An event comes, for the first time or again.
    Event(u64),
    /// One of the requests for it does.
    Request(u64, u64),
    /// Time passes.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let times = prop_oneof![
        Just(1),
        Just(3599),
        Just(3600),
        Just(DAY),
        Just(30 * DAY - 1),
        Just(90 * DAY),
        Just(180 * DAY),
        1..300 * DAY,
    ];
    prop_oneof![
        3 => (0..EVENTS).prop_map(Step::Event),
        2 => (0..EVENTS, 0..REQUESTS).prop_map(|(event, request)| Step::Request(event, request)),
        3 => times.prop_map(Step::Pass),
    ]
}

fn event(number: u64) -> VerifiedEvent {
    draft(kind::ISSUE, key(1)).at(NOW - 50 - number).event()
}

fn request(number: u64, which: u64) -> VerifiedEvent {
    draft(kind::DELETION, key(1))
        .at(NOW - 40 - which)
        .tag(["e".to_owned(), event(number).id().to_hex()])
        .event()
}

/// What is decided, applied to tables as simple as can be.
struct Server {
    policy: Policy,
    now: u64,
    events: BTreeMap<EventId, Stage>,
    requests: BTreeMap<EventId, Kept>,
    /// Event, request.
    gates: BTreeSet<(EventId, EventId)>,
}

struct Kept {
    event: VerifiedEvent,
    uses: Option<Uses>,
    stage: Stage,
    deadline: Option<Timestamp>,
}

impl Server {
    fn new() -> Self {
        Self {
            policy: policy(),
            now: NOW,
            events: BTreeMap::new(),
            requests: BTreeMap::new(),
            gates: BTreeSet::new(),
        }
    }

    fn take(&mut self, event: &VerifiedEvent) -> Answer {
        let decision = self.decide(event);
        self.apply(decision.batch);
        decision.answer
    }

    fn decide(&self, event: &VerifiedEvent) -> Decision {
        let policy = self.policy.clone();
        let cx = Circumstances {
            policy: &policy,
            now: at(self.now),
            origin: Origin::Sync,
        };
        let known = self.known(event);
        if let Some(decision) = screen(event, &known, cx) {
            return decision;
        }
        if event.kind() == kind::DELETION {
            return admit_deletion(event, &self.facts(event), &ObjectFacts::none(), None, cx);
        }
        Decision {
            answer: Answer::Stored,
            batch: vec![Change::Move {
                event: event.id(),
                stage: Stage::Served,
                deadline: None,
            }],
        }
    }

    fn known(&self, event: &VerifiedEvent) -> Known {
        let id = event.id();
        let kept = self.requests.get(&id).map(|kept| kept.stage);
        let gates = self.gates.iter().filter(|(gated, _)| *gated == id);
        let gate = |(_, request): &(EventId, EventId)| Gate {
            request: *request,
            asks: Asks::Deletion,
            uses: self.requests[request].uses.expect("kept"),
            expiration: None,
        };
        Known {
            stage: self.events.get(&id).copied().or(kept),
            gates: gates.map(gate).collect(),
            ..Known::default()
        }
    }

    fn facts(&self, request: &VerifiedEvent) -> DeletionFacts {
        let named = (0..EVENTS)
            .map(event)
            .filter(|event| request.first_value("e") == Some(event.id().to_hex().as_str()));
        let target = |event: VerifiedEvent| {
            let stage = *self.events.get(&event.id())?;
            let target = DeletionTarget {
                event: event.id(),
                author: event.author(),
                kind: event.kind(),
                version: event.version(),
                stage,
            };
            Some((event.id(), target))
        };
        DeletionFacts {
            events: named.filter_map(target).collect(),
            ..DeletionFacts::default()
        }
    }

    fn apply(&mut self, batch: Batch) {
        for change in batch {
            match change {
                Change::Insert {
                    event,
                    stage,
                    deadline,
                    ..
                } => {
                    let kept = Kept {
                        event: event.clone(),
                        uses: None,
                        stage,
                        deadline,
                    };
                    assert!(self.requests.insert(event.id(), kept).is_none());
                }
                Change::KeepRequest { request, uses } => {
                    self.requests.get_mut(&request).expect("stored").uses = Some(uses);
                }
                Change::UseRequest { request, at } => {
                    let kept = self.requests.get_mut(&request).expect("stored");
                    kept.uses.as_mut().expect("kept").last = Some(at);
                }
                Change::GateEvent { event, request, .. } => {
                    self.gates.insert((event, request));
                }
                Change::Move {
                    event,
                    stage,
                    deadline,
                } => match self.requests.get_mut(&event) {
                    Some(kept) => (kept.stage, kept.deadline) = (stage, deadline),
                    None => {
                        self.events.insert(event, stage);
                    }
                },
                Change::Remove { event } => {
                    self.requests.remove(&event).expect("a request");
                    self.gates.retain(|(_, request)| *request != event);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The clean-up looks at what is due, until nothing is.
    fn pass(&mut self, seconds: u64) {
        self.now += seconds;
        let now = at(self.now);
        loop {
            let is_due = |kept: &&Kept| kept.deadline.is_some_and(|end| end <= now);
            let Some(due) = self.requests.values().find(is_due) else {
                return;
            };
            let id = due.event.id();
            let life = Request::of(&due.event, due.uses.expect("kept"), &self.policy)
                .life(&self.policy.requests.retention, now);
            self.apply(vec![life.placed(id)]);
        }
    }
}

/// DEL-9 as it is written, from a log of what happened.
#[derive(Default)]
struct Naive {
    now: u64,
    served: BTreeSet<u64>,
    requests: BTreeMap<EventId, Logged>,
}

struct Logged {
    event: u64,
    first_seen: u64,
    uses: Vec<u64>,
}

impl Logged {
    /// How long it has been going on, and for how long it is served and gates after that.
    fn clocks(&self, now: u64) -> (u64, u64, u64) {
        match self.uses.last() {
            None => (now - self.first_seen, 30 * DAY, 180 * DAY),
            Some(last) => (now - last, 270 * DAY, 90 * DAY),
        }
    }

    fn is_served(&self, now: u64) -> bool {
        let (age, served, _) = self.clocks(now);
        age < served
    }

    fn is_kept(&self, now: u64) -> bool {
        let (age, served, gating) = self.clocks(now);
        age < served + gating
    }
}

impl Naive {
    fn event(&mut self, number: u64) -> Answer {
        let mut gates: Vec<(&EventId, &mut Logged)> = self
            .requests
            .iter_mut()
            .filter(|(_, logged)| logged.event == number)
            .collect();
        gates.sort_by_key(|(id, logged)| (logged.uses.is_empty(), logged.first_seen, **id));
        if let Some((_, winner)) = gates.first_mut() {
            // Uses within an hour of one that counted are one.
            let moments_ago = winner
                .uses
                .last()
                .is_some_and(|last| self.now - last < 3600);
            if !moments_ago {
                winner.uses.push(self.now);
            }
            return Rejection::Deleted.into();
        }
        if self.served.insert(number) {
            Answer::Stored
        } else {
            Answer::Duplicate
        }
    }

    fn request(&mut self, number: u64, id: EventId) -> Answer {
        match self.requests.get(&id) {
            Some(known) if known.is_served(self.now) => return Answer::Duplicate,
            Some(_) => return Answer::DuplicateRequest,
            None => {}
        }
        let removed = self.served.remove(&number);
        let logged = Logged {
            event: number,
            first_seen: self.now,
            uses: removed.then_some(self.now).into_iter().collect(),
        };
        self.requests.insert(id, logged);
        Answer::Stored
    }

    fn pass(&mut self, seconds: u64) {
        self.now += seconds;
        self.requests.retain(|_, logged| logged.is_kept(self.now));
    }
}

fn agree(server: &Server, naive: &Naive) {
    let is_shown = |stage: &Stage| *stage == Stage::Served;
    let shown: BTreeSet<_> = (0..EVENTS)
        .filter(|number| {
            server
                .events
                .get(&event(*number).id())
                .is_some_and(is_shown)
        })
        .collect();
    assert_eq!(shown, naive.served, "events");
    let requests: BTreeMap<_, _> = server
        .requests
        .iter()
        .map(|(id, kept)| (*id, kept.stage == Stage::Served))
        .collect();
    let logged: BTreeMap<_, _> = naive
        .requests
        .iter()
        .map(|(id, logged)| (*id, logged.is_served(naive.now)))
        .collect();
    assert_eq!(requests, logged, "requests, and whether they are served");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// DEL-1, DEL-9
    #[test]
    fn requests_are_kept_as_a_log_of_their_uses_tells(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut server = Server::new();
        let mut naive = Naive { now: NOW, ..Naive::default() };
        for step in steps {
            let (told, expected) = match step {
                Step::Event(number) => (server.take(&event(number)), naive.event(number)),
                Step::Request(number, which) => {
                    let request = request(number, which);
                    (server.take(&request), naive.request(number, request.id()))
                }
                Step::Pass(seconds) => {
                    server.pass(seconds);
                    naive.pass(seconds);
                    agree(&server, &naive);
                    continue;
                }
            };
            prop_assert_eq!(told, expected, "{:?}", step);
            agree(&server, &naive);
        }
    }
}
