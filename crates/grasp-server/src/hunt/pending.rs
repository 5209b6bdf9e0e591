//! Which proposals wait or are parked, by identifier.
//!
//! The store finds a proposal by the repositories that it is for and by whom it is from. One that lives in its author's own
//! repository (G6-4) needs no announcement here, so nothing leads from the identifier to it. *Invariant:* what is here is what
//! waits or is parked after the commits that this heard of.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::EventId;
use grasp_core::lifecycle::Stage;
use grasp_core::name::Identifier;
use grasp_store::{CommitVersion, Passage};

/// The proposals. No more than purgatory lets wait (PUR-13), and what is kept of it (PUR-15).
#[derive(Debug, Default)]
pub(super) struct Pending {
    of: BTreeMap<Identifier, BTreeSet<EventId>>,
    as_of: CommitVersion,
}

/// The proposals of one identifier.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) proposals: Vec<EventId>,
    /// The last commit that was heard of: what later ones brought is missing.
    pub(super) as_of: CommitVersion,
}

impl Pending {
    /// Takes note of what came, went or changed its stage in a commit. What is known already is passed over.
    pub(super) fn heard(&mut self, commit: CommitVersion, moved: &[Passage]) {
        if commit <= self.as_of {
            return;
        }
        self.as_of = commit;
        for passage in moved {
            let is_pending = matches!(passage.stage, Some(Stage::Waiting | Stage::Parked));
            for identifier in &passage.proposes {
                if is_pending {
                    let known = self.of.entry(identifier.clone()).or_default();
                    known.insert(passage.event);
                } else if let Some(known) = self.of.get_mut(identifier) {
                    known.remove(&passage.event);
                    if known.is_empty() {
                        self.of.remove(identifier);
                    }
                }
            }
        }
    }

    /// Those that name a repository of this identifier.
    pub(super) fn of(&self, identifier: &Identifier) -> Known {
        let known = self.of.get(identifier).into_iter();
        Known {
            proposals: known.flatten().copied().collect(),
            as_of: self.as_of,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> EventId {
        EventId::from_byte_array([n; 32])
    }

    fn names(identifiers: &[&str]) -> BTreeSet<Identifier> {
        let names = identifiers.iter().map(|name| name.parse());
        names.map(|name| name.expect("valid")).collect()
    }

    fn moved(n: u8, identifiers: &[&str], stage: Option<Stage>) -> Passage {
        Passage {
            event: id(n),
            kind: 1618,
            announces: None,
            proposes: names(identifiers),
            stage,
        }
    }

    fn of(pending: &Pending, name: &str) -> Vec<EventId> {
        pending.of(&name.parse().expect("valid")).proposals
    }

    /// G2-3, G6-4
    #[test]
    fn what_waits_or_is_parked_is_found_by_each_identifier_until_it_leaves() {
        let mut pending = Pending::default();
        let mut version = 0;
        let mut heard = |pending: &mut Pending, moved: &[Passage]| {
            version += 1;
            pending.heard(CommitVersion::new(version), moved);
        };
        let first = [
            moved(1, &["x", "y"], Some(Stage::Waiting)),
            moved(2, &["x"], Some(Stage::Parked)),
            moved(3, &["x"], Some(Stage::Served)),
            moved(4, &[], Some(Stage::Waiting)),
        ];
        heard(&mut pending, &first);
        assert_eq!(of(&pending, "x"), [id(1), id(2)]);
        assert_eq!(of(&pending, "y"), [id(1)]);
        heard(&mut pending, &[moved(1, &["x", "y"], Some(Stage::Parked))]);
        assert_eq!(of(&pending, "x"), [id(1), id(2)]);
        let gone = [
            moved(1, &["x", "y"], Some(Stage::Served)),
            moved(2, &["x"], None),
            moved(3, &["x"], Some(Stage::Held)),
        ];
        heard(&mut pending, &gone);
        assert!(pending.of.is_empty(), "nothing is left of them");
        heard(&mut pending, &[moved(3, &["x"], Some(Stage::Waiting))]);
        assert_eq!(of(&pending, "x"), [id(3)], "it came back");
    }

    /// HUNT-1a: what was read from the store is newer than commits that are heard of only then.
    #[test]
    fn an_old_commit_changes_nothing() {
        let mut pending = Pending::default();
        let waits = moved(1, &["x"], Some(Stage::Waiting));
        pending.heard(CommitVersion::new(7), &[waits]);
        for version in [6, 7] {
            pending.heard(CommitVersion::new(version), &[moved(1, &["x"], None)]);
        }
        assert_eq!(of(&pending, "x"), [id(1)]);
        let known = pending.of(&"y".parse().expect("valid"));
        assert_eq!((known.proposals.len(), known.as_of.number()), (0, 7));
    }
}
