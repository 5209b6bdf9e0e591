//! How scopes and authors leave (§11).
//!
//! What leaves may have thousands of events hanging on it, far more than one commit should carry. So the
//! deciding commit takes away what it was asked for, an announcement with its states, and leaves a [`Plan`]
//! behind. A look at a snapshot then works out which events only this scope supported ([`cascade`]), and
//! they go in steps. *Invariants:* a plan is a row of the commit that made it necessary, so a crash loses
//! none; every step looks again at its members in the commit that takes them ([`step`]), so nothing goes
//! that found other support meanwhile.

mod cascade;
mod graph;
mod leave;
mod remains;
mod step;

use std::collections::BTreeSet;

use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::event::VerifiedEvent;
use crate::name::Coordinate;
use crate::related::References;

pub use cascade::{Cap, Cascade, Limits, cascade};
pub use graph::{Graph, Name, Node};
pub(crate) use leave::{leaves_behind, take_away};
pub use leave::{remove_author_step, remove_dependents, remove_scope, remove_tests};
pub use remains::{REMAINS_MAX, Remains};
pub use step::{Outcome, Step, step};

/// A step removes at most so many events (DEL-4).
pub const STEP_MAX: usize = 1000;
/// Of what left, and of what that referred to, so many names are followed.
const LOST_MAX: usize = 2048;

/// Why something leaves: decides what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Its owner deleted the announcement by address (DEL-4).
    Deleted,
    /// Its owner announced that the repository lives elsewhere (ANN-5).
    Delisted,
    /// Its owner asked to vanish (DEL-8).
    Vanished,
    /// The operator took it off the service (DEL-7).
    Curated,
    /// It was made by a test, long ago (DEL-11).
    Audit,
}

/// What becomes of events that leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Unseen, and recoverable for a while (DEL-5). What was never seen goes for good.
    Held,
    /// Gone for good.
    Gone,
}

impl Cause {
    /// Every one of them.
    pub const ALL: [Self; 5] = [
        Self::Deleted,
        Self::Delisted,
        Self::Vanished,
        Self::Curated,
        Self::Audit,
    ];

    /// What becomes of the owner's own events, and of those of others that hung on them.
    pub fn fate(self, own: bool) -> Fate {
        if self == Self::Audit || (own && self == Self::Vanished) {
            Fate::Gone
        } else {
            Fate::Held
        }
    }
}

/// Work that is done in steps. Two plans of the same work are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Takes away what only a scope that left supported (DEL-4).
    Cascade {
        /// The scope.
        scope: Coordinate,
        /// Why it left.
        cause: Cause,
    },
    /// Takes away everything of an author made up to a time (DEL-8).
    Vanish {
        /// Whose.
        author: PublicKey,
        /// The time of the request.
        until: Timestamp,
    },
}

/// What a commit leaves to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What.
    pub work: Work,
    /// Where a cascade begins.
    pub lost: Lost,
}

/// What left with a scope: where the walk through what hung on it begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lost {
    /// What others may refer to it by.
    pub names: BTreeSet<Name>,
    /// What it referred to itself, and perhaps carried.
    pub mentioned: BTreeSet<Name>,
}

impl Lost {
    /// Notes an event that left. Beyond the bound nothing is noted.
    pub fn note(&mut self, event: &VerifiedEvent) {
        let mentioned = References::of(event).names();
        for (names, set) in [
            (graph::names_of(event), &mut self.names),
            (mentioned, &mut self.mentioned),
        ] {
            set.extend(names);
            while set.len() > LOST_MAX {
                set.pop_last();
            }
        }
    }

    /// Adds what else left.
    pub fn merge(&mut self, other: Self) {
        self.names.extend(other.names);
        self.mentioned.extend(other.mentioned);
    }
}

#[cfg(test)]
mod tests {
    use nostr::event::EventId;

    use super::*;
    use crate::testing::{draft, key};

    /// DEL-4: a plan is one row, however many states a scope had.
    #[test]
    fn what_was_lost_is_noted_up_to_a_bound() {
        let events = (0..LOST_MAX + 10).map(|n| {
            let n = u64::try_from(n).expect("small");
            let mut id = [0; 32];
            id[..8].copy_from_slice(&n.to_be_bytes());
            let id = EventId::from_byte_array(id).to_hex();
            draft(1, key(1)).at(n).tag(["e".to_owned(), id]).event()
        });
        let mut lost = Lost::default();
        for (n, event) in events.enumerate() {
            lost.note(&event);
            let noted = LOST_MAX.min(n + 1);
            assert_eq!((lost.names.len(), lost.mentioned.len()), (noted, noted));
        }
    }

    /// DEL-4
    #[test]
    fn two_plans_of_one_work_are_one() {
        let (one, two) = (draft(1, key(1)), draft(1, key(2)));
        let mut both = Lost::default();
        both.note(&one.clone().tag(["q".to_owned(), "1".repeat(64)]).event());
        let mut other = Lost::default();
        other.note(&two.tag(["q".to_owned(), "2".repeat(64)]).event());
        both.merge(other.clone());
        assert!(both.names.is_superset(&other.names) && both.names.len() == 2);
        assert!(both.mentioned.is_superset(&other.mentioned));
        assert_eq!(both.mentioned.len(), 2);
    }

    /// DEL-5, DEL-8, DEL-11
    #[test]
    fn only_vanished_authors_and_tests_leave_nothing_behind() {
        let gone = |own: bool| {
            let causes = Cause::ALL.into_iter();
            let gone = causes.filter(|cause| cause.fate(own) == Fate::Gone);
            gone.collect::<Vec<_>>()
        };
        assert_eq!(gone(true), [Cause::Vanished, Cause::Audit]);
        assert_eq!(gone(false), [Cause::Audit]);
    }
}
