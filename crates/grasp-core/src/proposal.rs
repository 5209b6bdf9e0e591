//! Pull requests and their updates (kinds 1618 and 1619): a commit that asks to be merged.

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::event::{VerifiedEvent, kind};
use crate::name::Coordinate;
use crate::oid::Oid;
use crate::refname::RefName;

/// A parsed pull request or update. Keeps the event it came from.
#[derive(Debug, Clone)]
pub struct Proposal {
    event: VerifiedEvent,
    tip: Tip,
    targets: Vec<Coordinate>,
}

/// The commit that a proposal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tip {
    /// A SHA-1 name.
    Commit(Oid),
    /// Something no object here can be called; it waits and is never served (KIND-3).
    Unsatisfiable,
}

impl Tip {
    /// The commit, if it can exist.
    pub fn commit(self) -> Option<Oid> {
        match self {
            Self::Commit(oid) => Some(oid),
            Self::Unsatisfiable => None,
        }
    }
}

/// Why an event is no proposal (PR-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProposalError {
    /// Another kind.
    #[error("kind {0} is no pull request")]
    Kind(u16),
    /// No `c` tag.
    #[error("PR event {0} has no 'c' tag")]
    NoCommit(EventId),
}

impl Proposal {
    /// Reads a pull request or an update of one.
    pub fn parse(event: VerifiedEvent) -> Result<Self, ProposalError> {
        if !kind::is_proposal(event.kind()) {
            return Err(ProposalError::Kind(event.kind()));
        }
        let commit = event
            .first_value("c")
            .ok_or(ProposalError::NoCommit(event.id()))?;
        let tip = commit
            .parse()
            .ok()
            .filter(|oid: &Oid| !oid.is_zero())
            .map_or(Tip::Unsatisfiable, Tip::Commit);
        let named = event
            .tags()
            .filter(|tag| tag[0] == "a")
            .filter_map(|tag| tag.get(1));
        let mut targets: Vec<Coordinate> = Vec::new();
        for coordinate in named.filter_map(|address| Coordinate::from_address(address)) {
            if !targets.contains(&coordinate) && targets.len() < crate::lifecycle::REFERENCES_MAX {
                targets.push(coordinate);
            }
        }
        Ok(Self {
            event,
            tip,
            targets,
        })
    }

    /// The event.
    pub fn event(&self) -> &VerifiedEvent {
        &self.event
    }

    /// The id of the event.
    pub fn id(&self) -> EventId {
        self.event.id()
    }

    /// Who signed it.
    pub fn author(&self) -> PublicKey {
        self.event.author()
    }

    /// The `c` tag.
    pub fn tip(&self) -> Tip {
        self.tip
    }

    /// The repositories named in `a`, each with its own identifier (PR-2).
    pub fn targets(&self) -> &[Coordinate] {
        &self.targets
    }

    /// The ref that carries its commit: `refs/nostr/<id>`.
    pub fn ref_name(&self) -> RefName {
        RefName::proposal(&self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::project::{RawTag, event, tag};
    use crate::testing::{NOW, key, oid};

    const ONE: &str = "0101010101010101010101010101010101010101";

    fn parse(kind: u16, tags: Vec<RawTag>) -> Result<Proposal, ProposalError> {
        Proposal::parse(event(key(9), kind, NOW, tags))
    }

    /// PR-1
    #[test]
    fn a_proposal_needs_a_commit() {
        for kind in [kind::PULL_REQUEST, kind::PULL_REQUEST_UPDATE] {
            let named = parse(kind, vec![tag(["c", ONE])]).expect("a proposal");
            assert_eq!(named.tip(), Tip::Commit(oid(1)));
            assert_eq!(named.ref_name().proposal_event(), Some(named.id()));
            let error = parse(kind, vec![]).expect_err("no c").to_string();
            assert!(error.starts_with("PR event ") && error.ends_with(" has no 'c' tag"));
        }
        let patch = parse(kind::PATCH, vec![tag(["c", ONE])]);
        assert_eq!(patch.err(), Some(ProposalError::Kind(kind::PATCH)));
    }

    /// KIND-3
    #[test]
    fn a_commit_that_cannot_exist_is_never_satisfied() {
        for value in [&"1".repeat(64), &"0".repeat(40), "abc123", ""] {
            let proposal = parse(kind::PULL_REQUEST, vec![tag(["c", value])]);
            let tip = proposal.expect("a proposal").tip();
            assert_eq!(tip, Tip::Unsatisfiable, "{value:?}");
        }
    }

    /// PR-2: each `a` counts, with its own identifier.
    #[test]
    fn every_named_repository_is_a_target() {
        let a = |owner: u8, d: &str| format!("30617:{}:{d}", key(owner).to_hex());
        let addresses = [
            a(1, "one"),
            a(2, "two:with:colons"),
            a(1, "one"),
            a(3, ".."),
            a(1, "").replace("30617", "30618"),
            "30617:junk:one".to_owned(),
        ];
        let tags = addresses.map(|address| tag(["a".to_owned(), address]));
        let tags = [tag(["c", ONE])].into_iter().chain(tags).collect();
        let proposal = parse(kind::PULL_REQUEST, tags).expect("a proposal");
        let targets: Vec<_> = proposal.targets().iter().map(Coordinate::address).collect();
        assert_eq!(targets, [a(1, "one"), a(2, "two:with:colons")]);
    }

    /// REL-6
    #[test]
    fn only_so_many_targets_are_read() {
        let names = (0..200).map(|n| format!("30617:{}:r{n}", key(1).to_hex()));
        let tags = names.map(|address| tag(["a".to_owned(), address]));
        let tags = [tag(["c", ONE])].into_iter().chain(tags).collect();
        let proposal = parse(kind::PULL_REQUEST, tags).expect("a proposal");
        assert_eq!(proposal.targets().len(), crate::lifecycle::REFERENCES_MAX);
    }
}
