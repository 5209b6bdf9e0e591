//! The reference graph as the walks of a removal read it (DEL-4).

use std::collections::BTreeSet;

use grasp_core::deletion::{Graph, Name, Node};
use grasp_core::event::kind;
use grasp_core::filter::Matchable;
use grasp_core::lifecycle::Stage;
use grasp_core::name::Coordinate;
use grasp_core::related::References;

use crate::error::StoreError;
use crate::facts::{ADDRESS_LETTERS, ID_LETTERS};
use crate::keys::{Sequence, read_sequence};
use crate::proposals;
use crate::record::Record;
use crate::view::View;

impl Graph for View<'_> {
    type Error = StoreError;

    fn node(&self, name: &Name) -> Result<Option<Node>, StoreError> {
        let found = match name {
            Name::Event(id) => self.record(id)?,
            Name::Address(address) => self.served_at(address)?,
        };
        match found {
            Some((sequence, record)) => self.node_of(sequence, &record),
            None => Ok(None),
        }
    }

    fn referring(&self, name: &Name, since: u64, max: usize) -> Result<Vec<Node>, StoreError> {
        let (mut nodes, mut seen) = (Vec::new(), BTreeSet::new());
        let (letters, values) = spellings(name);
        for value in &values {
            for letter in letters {
                let start = self.hash.tag(letter, value);
                for row in self.tables.tags.prefix_iter(self.reading, &start)? {
                    if nodes.len() == max {
                        return Ok(nodes);
                    }
                    let sequence = read_sequence(row?.0).ok_or(StoreError::Corrupt("tags"))?;
                    if sequence > since && seen.insert(sequence) {
                        nodes.extend(self.referring_at(sequence, name)?);
                    }
                }
            }
        }
        if let Name::Address(address) = name
            && let Some(scope) = Coordinate::from_address(address)
        {
            self.add_pending(&mut nodes, &scope, since, max)?;
        }
        Ok(nodes)
    }
}

impl View<'_> {
    /// The place of the newest event that was stored: what comes later has a higher one.
    pub fn horizon(&self) -> Result<u64, StoreError> {
        self.newest_sequence()
    }

    /// What a hash finds is checked, and only the references that count are followed.
    fn referring_at(&self, sequence: Sequence, name: &Name) -> Result<Option<Node>, StoreError> {
        let Some(record) = self.record_at(sequence)? else {
            return Ok(None);
        };
        let node = self.node_of(sequence, &record)?;
        Ok(node.filter(|node| refers_to(&node.references, name)))
    }

    /// Proposals to the repository that are not served.
    fn add_pending(
        &self,
        nodes: &mut Vec<Node>,
        scope: &Coordinate,
        since: u64,
        max: usize,
    ) -> Result<(), StoreError> {
        let start = self.hash.target(&scope.owner, &scope.identifier);
        for row in self.tables.proposals.prefix_iter(self.reading, &start)? {
            let (key, value) = row?;
            let sequence = read_sequence(key).ok_or(StoreError::Corrupt("proposals"))?;
            let pending = is_pending(proposals::decode(value)?.stage);
            if !pending || sequence <= since {
                continue;
            }
            if nodes.len() == max {
                break;
            }
            if let Some(record) = self.record_at(sequence)? {
                nodes.extend(self.node_of(sequence, &record)?);
            }
        }
        Ok(())
    }

    /// What is neither served nor a proposal that waits is no part of the graph.
    fn node_of(&self, sequence: Sequence, record: &Record<'_>) -> Result<Option<Node>, StoreError> {
        let stage = record.stage();
        let proposal = kind::is_proposal(record.kind());
        if stage != Stage::Served && !(proposal && is_pending(stage)) {
            return Ok(None);
        }
        let event = record.event()?;
        let placed = proposal && self.is_placed(&event)?;
        Ok(Some(Node {
            references: References::of(&event),
            event,
            stage,
            standing: record.standing(),
            stored: sequence,
            placed,
        }))
    }
}

fn is_pending(stage: Stage) -> bool {
    matches!(stage, Stage::Waiting | Stage::Parked)
}

fn refers_to(references: &References, name: &Name) -> bool {
    match name {
        Name::Event(id) => references.events.contains(id),
        Name::Address(address) => references.addresses.contains(address),
    }
}

/// The tags that name it, and how.
fn spellings(name: &Name) -> ([char; 3], Vec<String>) {
    match name {
        Name::Event(id) => (ID_LETTERS, vec![id.to_hex()]),
        Name::Address(address) => {
            // A replaceable event has no `d`, and some write no colon for it.
            let bare = address.strip_suffix(':').map(str::to_owned);
            (
                ADDRESS_LETTERS,
                bare.into_iter().chain([address.clone()]).collect(),
            )
        }
    }
}
