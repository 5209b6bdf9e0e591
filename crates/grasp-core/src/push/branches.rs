//! Branches and tags: finds the signed state that a push completes (PUSH-6 … PUSH-9, PUSH-14).

use std::collections::BTreeMap;

use nostr::event::EventId;
use nostr::key::PublicKey;

use super::ground::Ground;
use super::{Push, Verdict, advice};
use crate::lifecycle::Stage;
use crate::oid::Oid;
use crate::refname::{RefName, RefSpace};
use crate::state::StateEvent;
use crate::view::Entry;

/// At most so many differences are told to the person; of the others the number.
const DIFFERENCES_MAX: usize = 8;
/// At most so many refs stand in the `git push` line that is suggested.
const COMPLETING_MAX: usize = 30;

/// Where the branch and tag commands want their refs; zero deletes. In the order of the commands.
pub(super) type Wanted<'a> = Vec<(&'a RefName, Oid)>;

/// What the branch and tag commands get.
#[derive(Default)]
pub(super) struct Ruling {
    /// In the order of the commands.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) candidate: Option<EventId>,
    pub(super) obstacle: Option<Obstacle>,
}

/// Why no state lets branch and tag commands through (PUSH-6, PUSH-10, PUSH-14).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Nobody announced the identifier.
    NoAnnouncement,
    /// Others announced it, the owner of this URL did not, or not for this server.
    NotSelected,
    /// The announcements confirm nobody (MNT-6).
    NoMaintainers,
    /// No state waits. `served` is how the push differs from the winner.
    NoneWaiting {
        /// Against the winner, if there is one.
        served: Option<Mismatch>,
    },
    /// States wait, none by a maintainer.
    NoneAuthorized {
        /// How many wait.
        waiting: usize,
        /// Against the winner, if there is one.
        served: Option<Mismatch>,
    },
    /// States by maintainers wait, and all of them lose to the served one.
    NoneNewer {
        /// How many wait.
        authorized: usize,
        /// Against the winner.
        served: Mismatch,
    },
    /// States by maintainers wait, and the push completes none.
    NoneMatches {
        /// How many.
        authorized: usize,
        /// Against the newest of them.
        newest: Mismatch,
    },
    /// The push equals a state that lost to the served one (PUSH-14).
    Losing {
        /// The served winner.
        winner: EventId,
        /// Who signed it.
        author: PublicKey,
    },
}

/// How the refs would differ from a state if the whole push were applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The state.
    pub state: EventId,
    /// The first differences, by name.
    pub differences: Vec<Difference>,
    /// How many more there are.
    pub more: usize,
    /// The commands that would complete the state; zero deletes. Empty if they are too many for a
    /// line, or if nothing can complete it.
    pub completing: Vec<(RefName, Oid)>,
}

/// One ref that is not as a state declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It would be at another object.
    Other {
        /// The ref.
        name: RefName,
        /// Where it would be.
        pushed: Oid,
        /// Where the state wants it.
        declared: Oid,
    },
    /// The state declares it, and it would not be there.
    Missing(RefName),
    /// It would be there, and the state does not declare it.
    Undeclared(RefName),
    /// The state wants it at something no object can be called (KIND-3).
    Unsatisfiable(RefName),
}

/// Judges all branch and tag commands of a push together.
pub(super) fn judge(push: &Push<'_>, ground: &Ground<'_>, wanted: &Wanted<'_>) -> Ruling {
    if wanted.is_empty() {
        return Ruling::default();
    }
    match unselected(push, ground) {
        None => Trial::new(push, ground, wanted).judge(),
        Some(obstacle) => refuse_all(wanted, obstacle),
    }
}

/// PUSH-6: what is missing for the npub of the URL.
fn unselected(push: &Push<'_>, ground: &Ground<'_>) -> Option<Obstacle> {
    let mut owners = push.view.announcements.keys();
    if !owners.any(|owner| push.view.announcement(owner).is_some()) {
        return Some(Obstacle::NoAnnouncement);
    }
    if !ground.exists {
        return Some(Obstacle::NotSelected);
    }
    ground
        .maintainers
        .is_empty()
        .then_some(Obstacle::NoMaintainers)
}

fn refuse_all(wanted: &Wanted<'_>, obstacle: Obstacle) -> Ruling {
    let reason = |(_, new): &(&RefName, Oid)| advice::reason(&obstacle, *new);
    Ruling {
        verdicts: wanted.iter().map(reason).map(Verdict::Refuse).collect(),
        candidate: None,
        obstacle: Some(obstacle),
    }
}

/// What stands against what: the refs that are there, where the push wants them, and the states that
/// may let it.
struct Trial<'a> {
    local: BTreeMap<&'a RefName, Oid>,
    wanted: &'a Wanted<'a>,
    by_name: BTreeMap<&'a RefName, Oid>,
    /// By maintainers, all that may still be read.
    states: Vec<&'a Entry<StateEvent>>,
    winner: Option<&'a StateEvent>,
    /// By anybody.
    waiting: usize,
}

impl<'a> Trial<'a> {
    fn new(push: &Push<'a>, ground: &Ground<'a>, wanted: &'a Wanted<'a>) -> Self {
        let is_local = |name: &RefName| matches!(name.space(), RefSpace::Branch | RefSpace::Tag);
        let local = push.current.iter().filter(|(name, _)| is_local(name));
        let states = ground
            .maintainers
            .iter()
            .filter_map(|key| push.view.states.get(key))
            .flatten()
            .filter(|entry| entry.stage != Stage::Held)
            .collect();
        let waiting = push.view.states.values().flatten().filter(|it| waits(it));
        Self {
            local: local.map(|(name, oid)| (name, *oid)).collect(),
            wanted,
            by_name: wanted.iter().copied().collect(),
            states,
            winner: ground.winner,
            waiting: waiting.count(),
        }
    }

    fn judge(&self) -> Ruling {
        if self.is_no_op() {
            return Ruling {
                verdicts: vec![Verdict::NOTHING_TO_DO; self.wanted.len()],
                ..Ruling::default()
            };
        }
        let candidates = self.candidates();
        let chosen = candidates
            .iter()
            .filter(|state| self.completes(state))
            .max_by_key(|state| state.version());
        match chosen {
            Some(state) if self.wanted.iter().any(|it| agrees(state, it.0, it.1)) => {
                self.follow(state)
            }
            _ => self.refuse(&candidates),
        }
    }

    /// PUSH-7
    fn is_no_op(&self) -> bool {
        let mut wanted = self.wanted.iter();
        wanted.all(|(name, new)| self.stays(name, *new))
    }

    /// The ref is there already, or the absent one shall go.
    fn stays(&self, name: &RefName, new: Oid) -> bool {
        self.local.get(name).copied().unwrap_or(Oid::ZERO) == new
    }

    /// PUSH-9: the winner, and what waits and beats it.
    fn candidates(&self) -> Vec<&'a StateEvent> {
        let contenders = self.contenders();
        contenders
            .filter(|state| state.unsatisfiable().is_empty())
            .chain(self.winner)
            .collect()
    }

    /// States by maintainers that wait and beat the winner.
    fn contenders(&self) -> impl Iterator<Item = &'a StateEvent> {
        let winner = self.winner.map(StateEvent::version);
        self.states
            .iter()
            .filter(|entry| waits(entry))
            .map(|entry| &entry.item)
            .filter(move |state| winner.is_none_or(|winner| state.version() > winner))
    }

    /// PUSH-8: the local refs with the agreeing commands applied are exactly the state's.
    fn completes(&self, state: &StateEvent) -> bool {
        let declared_there = state.refs().iter().all(|(name, oid)| {
            self.by_name.get(name) == Some(oid) || self.local.get(name) == Some(oid)
        });
        let gone = |name: &RefName| self.by_name.get(name) == Some(&Oid::ZERO);
        let rest_gone = || {
            let mut local = self.local.keys();
            local.all(|name| state.refs().contains_key(*name) || gone(name))
        };
        declared_there && rest_gone()
    }

    /// PUSH-8: what agrees is accepted, the rest refused by name. PUSH-18: what is there already
    /// brings nothing.
    fn follow(&self, state: &StateEvent) -> Ruling {
        let verdict = |(name, new): &(&RefName, Oid)| {
            if !agrees(state, name, *new) {
                return Verdict::Refuse(advice::disagreement(state, name, *new));
            }
            let brings = !new.is_zero() && !self.stays(name, *new);
            Verdict::Accept {
                installs: brings.then_some(*new),
                upload: None,
            }
        };
        let mut agreeing = self.wanted.iter().filter(|it| agrees(state, it.0, it.1));
        let moves = agreeing.any(|(name, new)| !self.stays(name, *new));
        Ruling {
            verdicts: self.wanted.iter().map(verdict).collect(),
            candidate: moves.then(|| state.id()),
            obstacle: None,
        }
    }

    fn refuse(&self, candidates: &[&StateEvent]) -> Ruling {
        let obstacle = self.obstacle();
        let losing = matches!(obstacle, Obstacle::Losing { .. });
        let nearest = candidates.iter().max_by_key(|state| state.version());
        let Some(nearest) = nearest.filter(|_| !losing) else {
            return refuse_all(self.wanted, obstacle);
        };
        let reasons = self.reasons(nearest).into_iter();
        Ruling {
            verdicts: reasons.map(Verdict::Refuse).collect(),
            candidate: None,
            obstacle: Some(obstacle),
        }
    }

    /// Why `state` lets none of the commands through.
    fn reasons(&self, state: &StateEvent) -> Vec<String> {
        let incomplete = advice::incomplete(&self.mismatch(state));
        let reason = |(name, new): &(&RefName, Oid)| {
            if agrees(state, name, *new) {
                incomplete.clone()
            } else {
                advice::disagreement(state, name, *new)
            }
        };
        self.wanted.iter().map(reason).collect()
    }

    /// PUSH-10, PUSH-14
    fn obstacle(&self) -> Obstacle {
        let losing = |winner: &StateEvent| {
            let mut states = self.states.iter().map(|entry| &entry.item);
            states.any(|state| {
                state.version() < winner.version()
                    && state.unsatisfiable().is_empty()
                    && self.completes(state)
                    && self.wanted.iter().all(|it| agrees(state, it.0, it.1))
            })
        };
        let newest = self.contenders().max_by_key(|state| state.version());
        let served = self.winner.map(|winner| self.mismatch(winner));
        let authorized = self.states.iter().filter(|entry| waits(entry)).count();
        match (self.winner, newest, served) {
            (Some(winner), ..) if losing(winner) => Obstacle::Losing {
                winner: winner.id(),
                author: winner.author(),
            },
            (_, Some(newest), _) => Obstacle::NoneMatches {
                authorized: self.contenders().count(),
                newest: self.mismatch(newest),
            },
            (_, None, Some(served)) if authorized > 0 => Obstacle::NoneNewer { authorized, served },
            (_, None, served) if self.waiting == 0 => Obstacle::NoneWaiting { served },
            (_, None, served) => Obstacle::NoneAuthorized {
                waiting: self.waiting,
                served,
            },
        }
    }

    /// How the refs would differ from `state` with every command applied.
    fn mismatch(&self, state: &StateEvent) -> Mismatch {
        let mut applied = self.local.clone();
        for (name, new) in self.wanted {
            if new.is_zero() {
                applied.remove(name);
            } else {
                applied.insert(name, *new);
            }
        }
        let declared = state.refs().iter();
        let undeclared = |name: &&&RefName| {
            !state.refs().contains_key(**name) && !state.unsatisfiable().contains(**name)
        };
        let mut differences: Vec<Difference> = declared
            .filter_map(|(name, declared)| match applied.get(name) {
                Some(pushed) if pushed == declared => None,
                Some(pushed) => Some(Difference::Other {
                    name: name.clone(),
                    pushed: *pushed,
                    declared: *declared,
                }),
                None => Some(Difference::Missing(name.clone())),
            })
            .collect();
        let unsatisfiable = state.unsatisfiable().iter().cloned();
        differences.extend(unsatisfiable.map(Difference::Unsatisfiable));
        let surplus = applied.keys().filter(undeclared);
        differences.extend(surplus.map(|name| Difference::Undeclared((*name).clone())));
        let more = differences.len().saturating_sub(DIFFERENCES_MAX);
        differences.truncate(DIFFERENCES_MAX);
        Mismatch {
            state: state.id(),
            differences,
            more,
            completing: self.completing(state),
        }
    }

    /// The commands that would turn the local refs into the state's.
    fn completing(&self, state: &StateEvent) -> Vec<(RefName, Oid)> {
        if !state.unsatisfiable().is_empty() {
            return Vec::new();
        }
        let set = state
            .refs()
            .iter()
            .filter(|(name, oid)| self.local.get(name) != Some(oid))
            .map(|(name, oid)| (name.clone(), *oid));
        let delete = self
            .local
            .keys()
            .filter(|name| !state.refs().contains_key(**name))
            .map(|name| ((*name).clone(), Oid::ZERO));
        let commands: Vec<_> = set.chain(delete).take(COMPLETING_MAX + 1).collect();
        if commands.len() > COMPLETING_MAX {
            return Vec::new();
        }
        commands
    }
}

/// PUSH-8, PUSH-11: object names are compared as they are, an annotated tag by its tag object.
fn agrees(state: &StateEvent, name: &RefName, new: Oid) -> bool {
    match state.refs().get(name) {
        Some(declared) => *declared == new,
        None => new.is_zero(),
    }
}

fn waits(entry: &Entry<StateEvent>) -> bool {
    matches!(entry.stage, Stage::Waiting | Stage::Parked)
}
