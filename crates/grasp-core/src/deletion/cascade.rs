//! Which events only a scope that left supported (DEL-4).
//!
//! First a walk, from the names of what left along references in both directions, to everything that could
//! be concerned; it ends at what stands by itself. Then support flows back from there by the rules that admit
//! events (REL-2, REL-6): what it does not reach goes. So what stays is what would be accepted if the scope
//! had never been here. *Invariant:* a walk that meets a bound removes nothing: a part of an answer is none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use nostr::event::EventId;

use super::graph::{Graph, Name, Node, Part};
use super::{Lost, STEP_MAX};
use crate::defect::Defect;
use crate::event::kind;
use crate::lifecycle::Standing;
use crate::policy::Policy;

/// What one walk may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Events looked at.
    pub nodes: usize,
    /// References between them.
    pub edges: usize,
    /// Events removed.
    pub deletions: usize,
}

impl Default for Limits {
    /// The figures of DEL-4.
    fn default() -> Self {
        Self {
            nodes: 50_000,
            edges: 250_000,
            deletions: 20_000,
        }
    }
}

/// Which limit a walk met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// [`Limits::nodes`].
    Nodes,
    /// [`Limits::edges`].
    Edges,
    /// [`Limits::deletions`].
    Deletions,
}

/// What a walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cascade {
    /// What hangs on the scope.
    Found {
        /// What goes, the nearest to the scope first.
        goes: Vec<EventId>,
        /// What stays because something else mentions it, and carries nothing any more (REL-6).
        unburdened: Vec<EventId>,
    },
    /// More than may be looked at: only the scope itself goes.
    Capped(Cap),
}

/// Works out what goes with what is `lost`. `backed` says whether git data of a proposal is left outside the
/// scope: one without does not count.
pub fn cascade<G: Graph>(
    lost: &Lost,
    graph: &G,
    backed: &dyn Fn(&Node) -> bool,
    limits: Limits,
    policy: &Policy,
) -> Result<Cascade, G::Error> {
    let mut walk = Walk::new(graph, limits, policy);
    match walk.run(lost)? {
        Err(cap) => Ok(Cascade::Capped(cap)),
        Ok(()) => Ok(walk.support(backed).verdict(limits)),
    }
}

/// A walk while it runs.
struct Walk<'a, G> {
    graph: &'a G,
    limits: Limits,
    policy: &'a Policy,
    /// In the order in which they were found.
    nodes: Vec<Found>,
    by_id: BTreeMap<EventId, usize>,
    /// Nodes by the addresses they were found at, `None` where nothing is.
    by_address: BTreeMap<String, Option<usize>>,
    edges: BTreeSet<(usize, usize)>,
    next: VecDeque<usize>,
}

struct Found {
    node: Node,
    part: Part,
}

/// How the walk ended: at a limit, or with all that there is.
type Walked<T> = Result<T, Cap>;

impl<'a, G: Graph> Walk<'a, G> {
    fn new(graph: &'a G, limits: Limits, policy: &'a Policy) -> Self {
        Self {
            graph,
            limits,
            policy,
            nodes: Vec::new(),
            by_id: BTreeMap::new(),
            by_address: BTreeMap::new(),
            edges: BTreeSet::new(),
            next: VecDeque::new(),
        }
    }

    fn run(&mut self, lost: &Lost) -> Result<Walked<()>, G::Error> {
        for name in &lost.names {
            if let Err(cap) = self.referring(name)? {
                return Ok(Err(cap));
            }
        }
        for name in &lost.mentioned {
            if let Err(cap) = self.at(name)? {
                return Ok(Err(cap));
            }
        }
        while let Some(place) = self.next.pop_front() {
            if let Err(cap) = self.look_around(place)? {
                return Ok(Err(cap));
            }
        }
        Ok(Ok(()))
    }

    /// What one node refers to, and what refers to it.
    fn look_around(&mut self, place: usize) -> Result<Walked<()>, G::Error> {
        if self.nodes[place].part != Part::Dependent {
            return Ok(Ok(()));
        }
        let node = &self.nodes[place].node;
        let (names, references) = (node.names(), node.references.names());
        for name in &references {
            match self.at(name)? {
                Err(cap) => return Ok(Err(cap)),
                Ok(None) => {}
                Ok(Some(target)) => {
                    if let Err(cap) = self.connect(place, target) {
                        return Ok(Err(cap));
                    }
                }
            }
        }
        for name in &names {
            match self.referring(name)? {
                Err(cap) => return Ok(Err(cap)),
                Ok(sources) => {
                    for source in sources {
                        if let Err(cap) = self.connect(source, place) {
                            return Ok(Err(cap));
                        }
                    }
                }
            }
        }
        Ok(Ok(()))
    }

    fn connect(&mut self, source: usize, target: usize) -> Walked<()> {
        if source != target && self.edges.insert((source, target)) {
            let full = self.edges.len() > self.limits.edges;
            return if full { Err(Cap::Edges) } else { Ok(()) };
        }
        Ok(())
    }

    fn at(&mut self, name: &Name) -> Result<Walked<Option<usize>>, G::Error> {
        let known = match name {
            Name::Event(id) => self.by_id.get(id).copied().map(Some),
            Name::Address(address) => self.by_address.get(address).copied(),
        };
        if let Some(known) = known {
            return Ok(Ok(known));
        }
        let found = match self.graph.node(name)? {
            None => None,
            Some(node) => match self.add(node) {
                Ok(place) => Some(place),
                Err(cap) => return Ok(Err(cap)),
            },
        };
        if let Name::Address(address) = name {
            self.by_address.insert(address.clone(), found);
        }
        Ok(Ok(found))
    }

    fn referring(&mut self, name: &Name) -> Result<Walked<Vec<usize>>, G::Error> {
        let room = self.limits.nodes + 1;
        let nodes = self.graph.referring(name, 0, room)?;
        Ok(nodes.into_iter().map(|node| self.add(node)).collect())
    }

    fn add(&mut self, node: Node) -> Walked<usize> {
        if let Some(place) = self.by_id.get(&node.id()) {
            return Ok(*place);
        }
        let place = self.nodes.len();
        if place == self.limits.nodes {
            return Err(Cap::Nodes);
        }
        self.by_id.insert(node.id(), place);
        let part = node.part(self.policy);
        self.nodes.push(Found { node, part });
        self.next.push_back(place);
        Ok(place)
    }

    fn support(&self, backed: &dyn Fn(&Node) -> bool) -> Support<'_> {
        let mut support = Support {
            nodes: &self.nodes,
            refers_to: vec![Vec::new(); self.nodes.len()],
            referred_by: vec![Vec::new(); self.nodes.len()],
            levels: Vec::new(),
            floors: Vec::new(),
            lacks_data: Vec::new(),
        };
        for (source, target) in &self.edges {
            support.refers_to[*source].push(*target);
            support.referred_by[*target].push(*source);
        }
        let ours = self.policy.relay_owner;
        for Found { node, part } in &self.nodes {
            let floor = match part {
                Part::Anchor => Level::Carries,
                Part::Apart => Level::Bare,
                // EV-2: what the relay's owner says needs nothing to hang on.
                Part::Dependent if node.author() == ours => Level::Bare,
                Part::Dependent => Level::None,
            };
            let counts = *part != Part::Dependent || !node.is_served() || !is_proposal(node);
            support.floors.push(floor);
            support.levels.push(floor);
            support.lacks_data.push(!counts && !backed(node));
        }
        support.flow();
        support
    }
}

fn is_proposal(node: &Node) -> bool {
    kind::is_proposal(node.kind())
}

/// What an event may carry without what left: less fine than [`Standing`], for whether it is an anchor or a
/// reply is settled, and makes no difference to what stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// Nothing supports it.
    None,
    /// It may stay and carries nothing.
    Bare,
    /// It stays, and others may hang on it.
    Carries,
}

struct Support<'w> {
    nodes: &'w [Found],
    refers_to: Vec<Vec<usize>>,
    referred_by: Vec<Vec<usize>>,
    levels: Vec<Level>,
    floors: Vec<Level>,
    /// Proposals whose git data left with the scope.
    lacks_data: Vec<bool>,
}

impl Support<'_> {
    /// Lets support flow until it moves no more. Levels only rise, so it ends.
    fn flow(&mut self) {
        let mut changed: VecDeque<usize> = (0..self.nodes.len())
            .filter(|place| self.levels[*place] > Level::Bare)
            .collect();
        while let Some(place) = changed.pop_front() {
            let around = self.referred_by[place].iter().chain(&self.refers_to[place]);
            for neighbour in around.copied().collect::<Vec<_>>() {
                let level = self.level(neighbour);
                if level > self.levels[neighbour] {
                    self.levels[neighbour] = level;
                    changed.push_back(neighbour);
                }
            }
        }
    }

    /// REL-2, REL-6
    fn level(&self, place: usize) -> Level {
        let Found { node, part } = &self.nodes[place];
        if *part != Part::Dependent || self.lacks_data[place] {
            return self.floors[place];
        }
        let carries = |other: &usize| self.levels[*other] == Level::Carries;
        let level = if self.refers_to[place].iter().any(carries) {
            Level::Carries
        } else if self.referred_by[place].iter().any(carries) {
            Level::Bare
        } else {
            self.floors[place]
        };
        // What waits is not served, and carries nothing yet (REL-4).
        if node.is_served() {
            level
        } else {
            level.min(Level::Bare)
        }
    }

    fn verdict(self, limits: Limits) -> Cascade {
        let (mut goes, mut unburdened) = (Vec::new(), Vec::new());
        for (Found { node, part }, level) in self.nodes.iter().zip(&self.levels) {
            match level {
                _ if *part != Part::Dependent => {}
                _ if Defect::SharedCascade.is_on() => goes.push(node.id()),
                Level::None => goes.push(node.id()),
                Level::Bare if node.is_served() && node.standing != Standing::Bare => {
                    unburdened.push(node.id());
                }
                _ => {}
            }
        }
        if goes.len() > limits.deletions {
            return Cascade::Capped(Cap::Deletions);
        }
        // They are changed by one commit; what is beyond goes on carrying, which does no harm.
        unburdened.truncate(STEP_MAX);
        Cascade::Found { goes, unburdened }
    }
}
