//! The rows that pull requests and their updates are found by: under each repository that they
//! name, and under their submitter and identifier.

use std::collections::BTreeSet;

use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::filter::Matchable;
use grasp_core::lifecycle::Stage;
use grasp_core::name::Identifier;
use grasp_core::oid::Oid;
use grasp_core::proposal::Proposal;
use grasp_core::view::ProposalEntry;
use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::deadlines;
use crate::error::StoreError;
use crate::keys::KeyedHash;
use crate::record::{stage_byte, stage_of};
use crate::store::Passage;
use crate::view::View;

const NEVER: u64 = u64::MAX;

/// What a decision needs of a proposal, so that a repository with thousands costs one scan.
pub(crate) struct ProposalRow {
    event: EventId,
    author: PublicKey,
    commit: Option<Oid>,
    expiration: Option<Timestamp>,
}

impl ProposalRow {
    pub(crate) fn of(proposal: &Proposal) -> Self {
        Self {
            event: proposal.id(),
            author: proposal.author(),
            commit: proposal.tip().commit(),
            expiration: proposal.event().expiration(),
        }
    }

    pub(crate) fn encode(&self, stage: Stage, deadline: Option<Timestamp>) -> Vec<u8> {
        let mut out = Vec::with_capacity(101);
        out.push(stage_byte(stage));
        for at in [deadline, self.expiration] {
            out.extend(at.map_or(NEVER, |at| at.as_secs()).to_be_bytes());
        }
        out.extend(self.event.as_bytes());
        out.extend(self.author.as_bytes());
        out.extend(self.commit.iter().flat_map(Oid::as_bytes));
        out
    }
}

/// Reads a row; nobody is named by it yet.
pub(crate) fn decode(bytes: &[u8]) -> Result<ProposalEntry, StoreError> {
    read(bytes).ok_or(StoreError::Corrupt("proposals"))
}

fn read(bytes: &[u8]) -> Option<ProposalEntry> {
    let (stage, rest) = bytes.split_first()?;
    let (deadline, rest) = rest.split_first_chunk::<8>()?;
    let (expiration, rest) = rest.split_first_chunk::<8>()?;
    let (event, rest) = rest.split_first_chunk::<32>()?;
    let (author, commit) = rest.split_first_chunk::<32>()?;
    let commit = match commit.len() {
        0 => None,
        _ => Some(Oid::from_bytes(commit.try_into().ok()?)),
    };
    Some(ProposalEntry {
        event: EventId::from_byte_array(*event),
        author: PublicKey::from_byte_array(*author),
        commit,
        named: BTreeSet::new(),
        stage: stage_of(*stage)?,
        deadline: read_time(*deadline),
        expiration: read_time(*expiration),
    })
}

fn read_time(bytes: [u8; 8]) -> Option<Timestamp> {
    let at = u64::from_be_bytes(bytes);
    (at != NEVER).then(|| Timestamp::from_secs(at))
}

/// The identifiers of the repositories that an event proposes something for; none if it is no proposal.
pub(crate) fn named_by(event: &VerifiedEvent) -> BTreeSet<Identifier> {
    if !kind::is_proposal(event.kind()) {
        return BTreeSet::new();
    }
    let proposal = Proposal::parse(event.clone());
    let targets = proposal.iter().flat_map(Proposal::targets);
    targets.map(|target| target.identifier.clone()).collect()
}

impl View<'_> {
    /// All proposals that wait or are parked, as if each just came there: at most what the bounds of purgatory let
    /// wait (PUR-13), and what is kept of it (PUR-15).
    pub fn pending_proposals(&self) -> Result<Vec<Passage>, StoreError> {
        let mut pending = Vec::new();
        for row in self.tables.deadlines.iter(self.reading)? {
            let (key, _) = row?;
            let Some((_, sequence)) = deadlines::read_event_key(key) else {
                continue;
            };
            let Some(record) = self.record_at(sequence)? else {
                continue;
            };
            let is_pending = matches!(record.stage(), Stage::Waiting | Stage::Parked);
            if is_pending && kind::is_proposal(record.kind()) {
                pending.push(Passage::of(&record.event()?, Some(record.stage())));
            }
        }
        Ok(pending)
    }
}

/// The beginnings of the keys that a proposal lies under.
pub(crate) fn keys(hash: &KeyedHash, proposal: &Proposal) -> Vec<[u8; 16]> {
    let targets = proposal.targets();
    let author = proposal.author();
    let mut keys: Vec<_> = targets
        .iter()
        .flat_map(|target| {
            [
                hash.target(&target.owner, &target.identifier),
                hash.submitter(&author, &target.identifier),
            ]
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
