//! What was refused last, by repository: the first thing an operator is asked about.
//!
//! Filled where refusals are told, kept in memory only. *Invariant:* bounded by what is declared here, whoever asks
//! for what: a flood forgets older refusals, nothing else.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::push::{Command, PushPlan, Verdict};
use grasp_core::{EventId, PublicKey, Timestamp};

/// Repositories of which refusals are kept; the one that was refused nothing for longest goes first.
const SCOPES_MAX: usize = 1000;
/// Of one repository the last so many.
const EACH_MAX: usize = 8;
/// Repositories that one event is remembered for.
const NAMED_MAX: usize = 4;
/// Refs of a push that are remembered.
const REFS_MAX: usize = 4;
/// Characters of a reason, and of a ref's name.
const WORDS_MAX: usize = 300;

/// Something that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// When, the last time.
    pub at: Timestamp,
    /// What.
    pub what: Refused,
    /// What the sender was told.
    pub reason: String,
    /// How often in a row.
    pub times: u32,
}

/// What was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// An event.
    Event {
        /// Which.
        event: EventId,
        /// Its kind.
        kind: u16,
        /// Whose.
        author: PublicKey,
    },
    /// A push, or some of its refs.
    Push {
        /// Whether to the `/prs/` repository of that name.
        to_prs: bool,
        /// The first refused refs.
        refs: Vec<String>,
    },
}

/// The last refusals.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_scope: BTreeMap<Coordinate, Scope>,
    /// Counts refusals.
    number: u64,
}

#[derive(Debug, Default)]
struct Scope {
    /// The number of the last one.
    last: u64,
    refusals: VecDeque<Refusal>,
}

impl Refusals {
    /// An event is not taken.
    pub(crate) fn event(&self, event: &VerifiedEvent, reason: &str, at: Timestamp) {
        let what = Refused::Event {
            event: event.id(),
            kind: event.kind(),
            author: event.author(),
        };
        let mut kept = self.lock();
        for scope in scopes(event) {
            kept.add(scope, what.clone(), reason, at);
        }
    }

    /// Some refs of a push, or all, do not move. A plan that accepts everything is no refusal.
    pub(crate) fn push(
        &self,
        to: &RepoAddress,
        commands: &[Command],
        plan: &PushPlan,
        at: Timestamp,
    ) {
        let refused: Vec<(&Command, &str)> = commands
            .iter()
            .zip(&plan.verdicts)
            .filter_map(|(command, verdict)| match verdict {
                Verdict::Refuse(reason) => Some((command, reason.as_str())),
                Verdict::Accept { .. } => None,
            })
            .collect();
        if let Some((_, reason)) = refused.first() {
            let names = refused.iter().map(|(command, _)| command.name.as_str());
            self.refs(to, names, reason, at);
        }
    }

    /// These refs do not move.
    pub(crate) fn refs<'a>(
        &self,
        to: &RepoAddress,
        names: impl Iterator<Item = &'a str>,
        reason: &str,
        at: Timestamp,
    ) {
        let what = Refused::Push {
            to_prs: matches!(to, RepoAddress::Proposals(_)),
            refs: names.take(REFS_MAX).map(shortened).collect(),
        };
        self.lock().add(to.coordinate().clone(), what, reason, at);
    }

    /// The last ones of these repositories, the latest first, each once.
    pub(crate) fn of(&self, scopes: &BTreeSet<Coordinate>) -> Vec<Refusal> {
        let kept = self.lock();
        let mut found: Vec<Refusal> = Vec::new();
        for scope in scopes.iter().filter_map(|scope| kept.by_scope.get(scope)) {
            for refusal in &scope.refusals {
                if !found.contains(refusal) {
                    found.push(refusal.clone());
                }
            }
        }
        found.sort_by_key(|refusal| std::cmp::Reverse(refusal.at));
        found
    }

    /// Whole even after a panic: a change is one step.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn add(&mut self, scope: Coordinate, what: Refused, reason: &str, at: Timestamp) {
        self.number += 1;
        if !self.by_scope.contains_key(&scope) && self.by_scope.len() >= SCOPES_MAX {
            let quietest = self.by_scope.iter().min_by_key(|(_, scope)| scope.last);
            if let Some(quietest) = quietest.map(|(name, _)| name.clone()) {
                self.by_scope.remove(&quietest);
            }
        }
        let scope = self.by_scope.entry(scope).or_default();
        scope.last = self.number;
        let reason = shortened(reason);
        if let Some(same) = scope.refusals.front_mut()
            && (&same.what, &same.reason) == (&what, &reason)
        {
            same.at = at;
            same.times = same.times.saturating_add(1);
            return;
        }
        scope.refusals.truncate(EACH_MAX - 1);
        scope.refusals.push_front(Refusal {
            at,
            what,
            reason,
            times: 1,
        });
    }
}

/// The repositories that an event is about.
fn scopes(event: &VerifiedEvent) -> BTreeSet<Coordinate> {
    if let (kind::ANNOUNCEMENT | kind::STATE, Some(identifier)) = (event.kind(), event.identifier())
    {
        return BTreeSet::from([Coordinate::new(event.author(), identifier)]);
    }
    let addresses = event.tags().filter(|tag| tag[0] == "a" && tag.len() > 1);
    let named = addresses.filter_map(|tag| Coordinate::from_address(&tag[1]));
    named.take(NAMED_MAX).collect()
}

fn shortened(words: &str) -> String {
    words.chars().take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(name: &str) -> Coordinate {
        let owner = PublicKey::from_byte_array([7; 32]);
        Coordinate::new(owner, name.parse().expect("valid"))
    }

    fn refuse(refusals: &Refusals, name: &str, reference: &str, at: u64) {
        let to = RepoAddress::Announced(scope(name));
        let at = Timestamp::from_secs(at);
        refusals.refs(&to, std::iter::once(reference), "not signed", at);
    }

    fn of(refusals: &Refusals, name: &str) -> Vec<(u64, u32)> {
        let found = refusals.of(&BTreeSet::from([scope(name)]));
        found.iter().map(|it| (it.at.as_secs(), it.times)).collect()
    }

    #[test]
    fn the_last_ones_of_a_repository_are_kept_and_repeats_counted() {
        let refusals = Refusals::default();
        for at in 0..20 {
            refuse(&refusals, "one", &format!("refs/heads/{at}"), at);
        }
        refuse(&refusals, "one", "refs/heads/19", 30);
        let found = of(&refusals, "one");
        assert_eq!(found.len(), EACH_MAX);
        assert_eq!(found[..2], [(30, 2), (18, 1)]);
        assert_eq!(of(&refusals, "two"), []);
    }

    #[test]
    fn a_flood_of_repositories_forgets_those_that_are_quiet_longest() {
        let refusals = Refusals::default();
        refuse(&refusals, "quiet", "refs/heads/main", 1);
        refuse(&refusals, "loud", "refs/heads/main", 2);
        for number in 0..SCOPES_MAX - 1 {
            refuse(&refusals, "loud", "refs/heads/main", 3);
            refuse(&refusals, &format!("flood-{number}"), "refs/heads/main", 4);
        }
        assert_eq!(of(&refusals, "quiet"), []);
        assert_eq!(of(&refusals, "loud").len(), 1);
        assert_eq!(refusals.lock().by_scope.len(), SCOPES_MAX);
    }

    #[test]
    fn words_of_a_peer_are_cut() {
        let refusals = Refusals::default();
        refuse(&refusals, "one", &"ä".repeat(10_000), 1);
        let found = refusals.of(&BTreeSet::from([scope("one")]));
        let Refused::Push { refs, .. } = &found[0].what else {
            panic!("a push");
        };
        assert_eq!(refs[0].chars().count(), WORDS_MAX);
    }
}
