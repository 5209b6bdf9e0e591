//! Pull requests and their updates (kinds 1618 and 1619): a commit that asks to be merged.

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::event::{VerifiedEvent, kind};
use crate::name::Coordinate;
use crate::oid::Oid;
use crate::refname::RefName;

/// At most so many clone URLs of one proposal are ever used (ANN-8).
pub const CLONE_URLS_MAX: usize = 10;

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
