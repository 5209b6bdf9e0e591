//! One step of a cascade, in the commit that takes it (DEL-4).
//!
//! Between the look at the snapshot and the commit the world went on. A member that found new support stays.
//! And while members are still served others may have come to hang on them: those go too, by a step of their
//! own at the end. *Invariant:* what is served after the last step hangs on something that stays.

use std::collections::BTreeSet;

use nostr::event::EventId;

use super::Name;
use super::graph::{Graph, Node, Part};
use crate::defect::Defect;
use crate::event::kind;
use crate::lifecycle::Standing;
use crate::policy::Policy;

/// Newcomers that are looked at around one member. More can only come while the step waits for its turn.
const NEWCOMERS_MAX: usize = 1000;

/// What one step is about.
#[derive(Debug, Clone)]
pub struct Step<'a> {
    /// The events of the step, those that others hang on first.
    pub members: &'a [EventId],
    /// The events of this and all later steps.
    pub remaining: &'a BTreeSet<EventId>,
    /// What was stored later is new ([`Node::stored`]).
    pub horizon: u64,
    /// Proposals among the members whose git data is somewhere that stays.
    pub backed: &'a BTreeSet<EventId>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// What goes now.
    pub goes: Vec<EventId>,
    /// What came to hang on it meanwhile, and goes next.
    pub follows: Vec<EventId>,
}

/// Looks again at the members of a step.
pub fn step<G: Graph>(step: &Step<'_>, graph: &G, policy: &Policy) -> Result<Outcome, G::Error> {
    let mut look = Look {
        step,
        graph,
        policy,
        remaining: step.remaining.clone(),
    };
    let mut members = Vec::new();
    for id in step.members {
        members.extend(graph.node(&Name::Event(*id))?);
    }
    look.keep_supported(&mut members)?;
    let mut follows = Vec::new();
    for member in &members {
        for newcomer in look.newcomers(member)? {
            if !follows.contains(&newcomer) {
                follows.push(newcomer);
            }
        }
    }
    Ok(Outcome {
        goes: members.iter().map(Node::id).collect(),
        follows,
    })
}

struct Look<'a, G> {
    step: &'a Step<'a>,
    graph: &'a G,
    policy: &'a Policy,
    /// What is still to go.
    remaining: BTreeSet<EventId>,
}

impl<G: Graph> Look<'_, G> {
    /// Takes out of `members` what has support, until nothing more follows from it.
    fn keep_supported(&mut self, members: &mut Vec<Node>) -> Result<(), G::Error> {
        loop {
            let mut going = Vec::new();
            let before = members.len();
            for member in members.drain(..) {
                if self.is_supported(&member)? {
                    self.remaining.remove(&member.id());
                } else {
                    going.push(member);
                }
            }
            *members = going;
            if members.len() == before {
                return Ok(());
            }
        }
    }

    fn is_supported(&self, member: &Node) -> Result<bool, G::Error> {
        if Defect::SharedCascade.is_on() {
            return Ok(false);
        }
        let proposal = kind::is_proposal(member.kind()) && member.is_served();
        if proposal && !self.step.backed.contains(&member.id()) {
            return Ok(false);
        }
        if member.part(self.policy) != Part::Dependent {
            return Ok(true);
        }
        for name in member.references.names() {
            let target = self.graph.node(&name)?;
            if let Some(target) = target
                && self.carries(&target)?
            {
                return Ok(true);
            }
        }
        for name in member.names() {
            for source in self.new_around(&name)? {
                if self.carries(&source)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether others may hang on it: it is served, stays, and does not itself hang on what goes.
    fn carries(&self, other: &Node) -> Result<bool, G::Error> {
        if !self.stands(other) {
            return Ok(false);
        }
        let settled = other.stored <= self.step.horizon || other.part(self.policy) == Part::Anchor;
        Ok(settled || self.hangs_on_what_stays(other)?)
    }

    fn stands(&self, other: &Node) -> bool {
        other.is_served()
            && other.standing != Standing::Bare
            && other.part(self.policy) != Part::Apart
            && !self.remaining.contains(&other.id())
    }

    /// Of a newcomer: whether something older that stays is among its targets, or mentions it.
    fn hangs_on_what_stays(&self, newcomer: &Node) -> Result<bool, G::Error> {
        for name in newcomer.references.names() {
            if let Some(target) = self.graph.node(&name)?
                && self.stands(&target)
                && (target.stored <= self.step.horizon || target.part(self.policy) == Part::Anchor)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn new_around(&self, name: &Name) -> Result<Vec<Node>, G::Error> {
        self.graph.referring(name, self.step.horizon, NEWCOMERS_MAX)
    }

    /// What came after the plan was made and has nothing but `member` to hang on.
    fn newcomers(&self, member: &Node) -> Result<Vec<EventId>, G::Error> {
        let mut around = Vec::new();
        for name in member.names() {
            around.extend(self.new_around(&name)?);
        }
        for name in member.references.names() {
            let target = self.graph.node(&name)?;
            around.extend(target.filter(|it| it.stored > self.step.horizon));
        }
        let mut alone = Vec::new();
        for newcomer in around {
            let dependent = newcomer.part(self.policy) == Part::Dependent
                && newcomer.author() != self.policy.relay_owner
                && !self.remaining.contains(&newcomer.id());
            if dependent && !self.is_held_up(&newcomer)? {
                alone.push(newcomer.id());
            }
        }
        Ok(alone)
    }

    /// A newcomer may hang on another newcomer: that one is looked at in its turn, and this one after it.
    fn is_held_up(&self, newcomer: &Node) -> Result<bool, G::Error> {
        for name in newcomer.references.names() {
            if let Some(target) = self.graph.node(&name)?
                && self.stands(&target)
            {
                return Ok(true);
            }
        }
        for name in newcomer.names() {
            let sources = self.graph.referring(&name, 0, NEWCOMERS_MAX)?;
            let old = |source: &Node| source.stored <= self.step.horizon && self.stands(source);
            if sources.iter().any(old) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
