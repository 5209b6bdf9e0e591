//! One attempt for one identifier: whose turn it is, and whom each group asks next (HUNT-5, HUNT-5a, HUNT-8).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use grasp_core::clone_url::CloneUrl;
use grasp_core::hunt::{GroupKey, GroupOwed};
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;

use super::host::Host;
use super::hosts::Rank;
use super::settings::{GROUPS_MAX, HEDGE_AFTER, TURNS_MAX};
use crate::engine::Time;

/// How far a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Others come first.
    Coming,
    /// It asks.
    Active,
    /// Nothing is missing, or there is nobody left to ask.
    Done,
}

/// A group in an attempt.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) group: GroupKey,
    pub(super) into: RepoAddress,
    pub(super) is_served: bool,
    pub(super) rank: Rank,
    /// What is still missing, in the order of asking.
    pub(super) wants: Vec<Oid>,
    /// Who can still be asked, in the order of asking.
    pub(super) untried: Vec<(Host, CloneUrl)>,
    tried: BTreeSet<CloneUrl>,
    /// How many sources it has in all.
    pub(super) choices: usize,
    pub(super) stage: Stage,
    /// The hosts where it takes the first slot that it gets.
    pub(super) waits_at: BTreeSet<Host>,
}

/// A running fetch, as its group sees it.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) host: Host,
    pub(super) began: Time,
    /// Left over from an earlier attempt (HUNT-5a).
    pub(super) is_detached: bool,
}

/// What a look at a turn found.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// When to look again although nothing happened.
    pub(super) again_at: Option<Time>,
    /// So many sources are left alone.
    pub(super) shunned: usize,
}

impl Turn {
    /// A group that wants `wants`.
    pub(super) fn new(owed: GroupOwed, wants: Vec<Oid>, rank: Rank) -> Self {
        let choices = owed.sources.len();
        let sources = owed.sources.into_iter();
        Self {
            group: owed.group,
            into: owed.into,
            is_served: owed.is_served,
            rank,
            wants,
            untried: sources.map(|source| (Host::of(&source), source)).collect(),
            tried: BTreeSet::new(),
            choices,
            stage: Stage::Coming,
            waits_at: BTreeSet::new(),
        }
    }

    /// What is owed by now. Who was asked in vain is asked again only if something is new.
    pub(super) fn renew(&mut self, now: Self) {
        let has_news = now.wants.iter().any(|oid| !self.wants.contains(oid));
        self.untried = now.untried;
        self.choices = now.choices;
        if has_news {
            self.tried.clear();
        } else {
            let tried = &self.tried;
            self.untried.retain(|(_, source)| !tried.contains(source));
        }
        if !self.untried.is_empty() && self.stage == Stage::Done {
            self.stage = Stage::Coming;
        }
        self.wants = now.wants;
        self.into = now.into;
        self.is_served = now.is_served;
        self.rank = self.rank.min(now.rank);
    }

    /// Whether it waited in vain for a slot.
    pub(super) fn was_left_out(&self) -> bool {
        self.stage != Stage::Done && self.tried.is_empty()
    }

    fn weight(&self) -> usize {
        self.wants.len() + self.untried.len()
    }

    /// Works out where it waits for a slot now that `flights` run for it.
    pub(super) fn look(
        &mut self,
        flights: &[Flight],
        per_group: usize,
        now: Time,
        is_shunned: impl Fn(&Host, &CloneUrl) -> bool,
    ) -> Look {
        self.waits_at.clear();
        let mut look = Look::default();
        if self.stage != Stage::Active {
            return look;
        }
        let before = self.untried.len();
        self.untried
            .retain(|(host, source)| !is_shunned(host, source));
        look.shunned = before - self.untried.len();
        if self.wants.is_empty() {
            self.stage = Stage::Done;
            return look;
        }
        let is_waited_for = flights.iter().any(|flight| !flight.is_detached);
        if flights.len() >= per_group {
            // What is detached has the slots: nothing to do in this attempt.
            self.stage = if is_waited_for {
                Stage::Active
            } else {
                Stage::Done
            };
            return look;
        }
        let hedge_at = flights
            .iter()
            .map(|flight| flight.began + HEDGE_AFTER)
            .max();
        if let Some(at) = hedge_at.filter(|at| *at > now) {
            look.again_at = Some(at);
            return look;
        }
        let others = self.untried.iter().map(|(host, _)| host);
        let others = others.filter(|host| flights.iter().all(|flight| flight.host != **host));
        self.waits_at = others.cloned().collect();
        if self.waits_at.is_empty() && !is_waited_for {
            self.stage = Stage::Done;
        }
        look
    }

    /// Takes the next source at `host`.
    pub(super) fn take_source(&mut self, host: &Host) -> Option<CloneUrl> {
        let place = self.untried.iter().position(|(there, _)| there == host)?;
        let (_, source) = self.untried.remove(place);
        self.tried.insert(source.clone());
        Some(source)
    }
}

/// The groups of one identifier that are looked for.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) ends_at: Time,
    pub(super) turns: Vec<Turn>,
    /// Groups for which there is no room in this attempt. They come first in the next.
    pub(super) left_out: Vec<GroupKey>,
    /// How much memory it holds, about.
    pub(super) weight: usize,
    /// What came for whose repositories since the last look began, which therefore does not know of it.
    pub(super) brought: BTreeSet<(GroupKey, Oid)>,
}

impl Attempt {
    /// An attempt with these groups, each in its turn: `last` says when each had one. Those with something served and the others
    /// alternate, so that no number of newcomers keeps either away.
    pub(super) fn new(turns: Vec<Turn>, last: &BTreeMap<GroupKey, u64>, ends_at: Time) -> Self {
        let (mut served, mut others): (Vec<_>, Vec<_>) =
            turns.into_iter().partition(|turn| turn.is_served);
        for turns in [&mut served, &mut others] {
            turns.sort_by_key(|turn| (turn.rank, last.get(&turn.group).copied()));
        }
        let (mut served, mut others) = (served.into_iter(), others.into_iter());
        let mut turns = Vec::new();
        loop {
            let pair = [served.next(), others.next()];
            if pair.iter().all(Option::is_none) {
                break;
            }
            turns.extend(pair.into_iter().flatten());
        }
        let left_out = turns.drain(turns.len().min(TURNS_MAX)..);
        let left_out = left_out.map(|turn| turn.group).collect();
        Self {
            ends_at,
            left_out,
            weight: turns.iter().map(Turn::weight).sum(),
            turns,
            brought: BTreeSet::new(),
        }
    }

    /// What is owed by now. A group that lacks nothing any more is done.
    pub(super) fn renew(&mut self, now: Vec<Turn>) {
        let mut now: BTreeMap<GroupKey, Turn> =
            now.into_iter().map(|turn| (turn.group, turn)).collect();
        for turn in &mut self.turns {
            match now.remove(&turn.group) {
                Some(mut now) => {
                    let whose = turn.group.beneficiaries();
                    now.wants
                        .retain(|oid| !self.brought.contains(&(whose, *oid)));
                    turn.renew(now);
                }
                None => turn.wants.clear(),
            }
        }
        let is_over = |turn: &Turn| turn.stage == Stage::Done && turn.wants.is_empty();
        self.turns.retain(|turn| !is_over(turn));
        let room = TURNS_MAX.saturating_sub(self.turns.len());
        let (new, left_out): (Vec<_>, Vec<_>) = now
            .into_values()
            .enumerate()
            .partition(|(place, _)| *place < room);
        self.turns.extend(new.into_iter().map(|(_, turn)| turn));
        self.left_out = left_out.into_iter().map(|(_, turn)| turn.group).collect();
        self.weight = self.turns.iter().map(Turn::weight).sum();
    }

    /// Lets groups begin while there is room. Returns which.
    pub(super) fn begin_turns(&mut self) -> Vec<GroupKey> {
        let is = |stage| move |turn: &&mut Turn| turn.stage == stage;
        let active = self.turns.iter_mut().filter(is(Stage::Active)).count();
        let room = GROUPS_MAX.saturating_sub(active);
        let coming = self.turns.iter_mut().filter(is(Stage::Coming)).take(room);
        coming
            .map(|turn| {
                turn.stage = Stage::Active;
                turn.group
            })
            .collect()
    }

    /// Whether every group had its turn.
    pub(super) fn is_done(&self) -> bool {
        self.turns.iter().all(|turn| turn.stage == Stage::Done)
    }

    /// Where the identifier waits for a slot, and how urgently.
    pub(super) fn waits_at(&self) -> BTreeMap<Host, Rank> {
        let mut waits: BTreeMap<Host, Rank> = BTreeMap::new();
        for turn in &self.turns {
            for host in &turn.waits_at {
                let rank = waits.entry(host.clone()).or_insert(turn.rank);
                *rank = turn.rank.min(*rank);
            }
        }
        waits
    }

    /// The group that takes a slot at `host`: the most urgent that waits there, of several the first in turn.
    pub(super) fn taker(&self, host: &Host) -> Option<&Turn> {
        let waiting = self
            .turns
            .iter()
            .filter(|turn| turn.waits_at.contains(host));
        waiting.min_by_key(|turn| turn.rank)
    }

    /// Takes out of what is missing what came for any group of these maintainers: they share their repositories.
    pub(super) fn brought(&mut self, group: &GroupKey, oids: &BTreeSet<Oid>) {
        let whose = group.beneficiaries();
        self.brought.extend(oids.iter().map(|oid| (whose, *oid)));
        let related = self
            .turns
            .iter_mut()
            .filter(|turn| turn.group.beneficiaries() == whose);
        for turn in related {
            turn.wants.retain(|oid| !oids.contains(oid));
        }
    }

    pub(super) fn turn(&mut self, group: &GroupKey) -> Option<&mut Turn> {
        self.turns.iter_mut().find(|turn| turn.group == *group)
    }

    /// Whether all that was missing came.
    pub(super) fn is_filled(&self) -> bool {
        !self.brought.is_empty() && self.turns.iter().all(|turn| turn.wants.is_empty())
    }
}

/// The next time for what is only parked, so much later than the earliest.
pub(super) fn hourly(now: Time, jitter: Duration) -> Time {
    now + super::settings::HOURLY.0 + jitter
}
