//! Keeps what is found through indexes in step with the event table.
//!
//! *Invariant:* the query indexes (times, kinds, authors, tags) hold exactly the served events. The
//! indexes of decisions (versions, listings, proposals) hold every stage and repeat it, so that
//! gathering skips what it does not need without reading records.

use std::collections::BTreeSet;

use grasp_core::announcement::Announcement;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::filter::Matchable;
use grasp_core::lifecycle::Stage;
use grasp_core::name::Identifier;
use grasp_core::proposal::Proposal;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::keys::{Key, KeyedHash, Sequence, sequence_key, suffix};
use crate::lmdb::{Table, Transaction};
use crate::proposals::{self, ProposalRow};
use crate::record::{Record, stage_byte};
use crate::tables::Tables;

/// In the place of a listed key: every announcement of the identifier.
pub(crate) const ANYBODY: [u8; 8] = [0; 8];

/// Calls `row` with the table and key of every row that an event has because of the stage it is in.
pub(crate) fn stage_rows(
    tables: &Tables,
    hash: &KeyedHash,
    sequence: Sequence,
    record: &Record<'_>,
    stage: Stage,
    mut row: impl FnMut(&Table, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if stage == Stage::Served {
        return served_rows(tables, hash, sequence, record, row);
    }
    row(&tables.unseen, &unseen_key(record, sequence))?;
    if stage == Stage::Held {
        held_rows(tables, hash, sequence, record, row)?;
    }
    Ok(())
}

/// What a held event refers to, so that it is found when that comes back.
fn held_rows(
    tables: &Tables,
    hash: &KeyedHash,
    sequence: Sequence,
    record: &Record<'_>,
    mut row: impl FnMut(&Table, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut seen = BTreeSet::new();
    let references = record
        .tags()
        .filter(|(letter, _)| matches!(letter, 'a' | 'A' | 'e' | 'E' | 'q'));
    for (letter, value) in references {
        let start = value.as_text(|text| hash.tag(letter, text));
        if seen.insert(start) {
            let key = Key::new(&[&start, &sequence_key(sequence)]);
            row(&tables.held_tags, &key)?;
        }
    }
    Ok(())
}

/// Calls `row` with the table and key of every query index row of a served event.
fn served_rows(
    tables: &Tables,
    hash: &KeyedHash,
    sequence: Sequence,
    record: &Record<'_>,
    mut row: impl FnMut(&Table, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let end = suffix(record.created_at(), record.id(), sequence);
    let kind = record.kind().to_be_bytes();
    row(&tables.times, &end)?;
    row(&tables.kinds, &Key::new(&[&kind, &end]))?;
    row(
        &tables.authors,
        &Key::new(&[&record.author()[..8], &kind, &end]),
    )?;
    let mut seen = BTreeSet::new();
    for (letter, value) in record.tags() {
        let start = value.as_text(|text| hash.tag(letter, text));
        if seen.insert(start) {
            row(&tables.tags, &Key::new(&[&start, &end]))?;
        }
    }
    Ok(())
}

/// The key by which what is not served is found by its author (DEL-8).
fn unseen_key(record: &Record<'_>, sequence: Sequence) -> Key {
    Key::new(&[&record.author()[..8], &sequence_key(sequence)])
}

/// The rows by which decisions find an event, made once and kept while it is stored.
pub(crate) enum Found {
    /// An announcement: whom it lists, for which identifier.
    Announcement(Identifier, BTreeSet<PublicKey>),
    /// A proposal: its row, and the keys it lies under.
    Proposal(ProposalRow, Vec<[u8; 16]>),
    /// Any other event.
    Plain,
}

impl Found {
    /// What decisions want to know of `event`.
    pub(crate) fn of(hash: &KeyedHash, event: &VerifiedEvent) -> Self {
        match event.kind() {
            kind::ANNOUNCEMENT => Announcement::parse(event.clone()).map_or(Self::Plain, |it| {
                let mut listed = it.listing().active().clone();
                listed.remove(&it.owner());
                Self::Announcement(it.identifier().clone(), listed)
            }),
            kind if kind::is_proposal(kind) => Proposal::parse(event.clone())
                .map_or(Self::Plain, |it| {
                    Self::Proposal(ProposalRow::of(&it), proposals::keys(hash, &it))
                }),
            _ => Self::Plain,
        }
    }
}

/// Writes, or with `stage` `None` removes, the rows that decisions find an event by.
pub(crate) fn put_found(
    tables: &Tables,
    hash: &KeyedHash,
    transaction: &mut Transaction<'_>,
    event: &VerifiedEvent,
    sequence: Sequence,
    place: Option<(Stage, Option<Timestamp>)>,
) -> Result<(), StoreError> {
    let stage = place.map(|(stage, _)| stage_byte(stage));
    if let Some(start) = version_key(hash, event) {
        let end = suffix(
            event.created_at().as_secs(),
            event.id().as_bytes(),
            sequence,
        );
        let key = Key::new(&[&start, &end]);
        put_or_delete(
            &tables.versions,
            transaction,
            &key,
            stage.as_ref().map(std::slice::from_ref),
        )?;
    }
    match Found::of(hash, event) {
        Found::Announcement(identifier, listed) => {
            let owner = event.author();
            let anybody = std::iter::once(ANYBODY);
            for listed in anybody.chain(listed.iter().map(|key| hash.listed(key))) {
                let identifier = hash.identifier(&identifier);
                let key = Key::new(&[&listed, &identifier, &sequence_key(sequence)]);
                let value = stage.map(|stage| Key::new(&[&[stage], owner.as_bytes()]));
                put_or_delete(&tables.listings, transaction, &key, value.as_deref())?;
            }
        }
        Found::Proposal(row, keys) => {
            let value = place.map(|(stage, deadline)| row.encode(stage, deadline));
            for start in keys {
                let key = Key::new(&[&start, &sequence_key(sequence)]);
                put_or_delete(&tables.proposals, transaction, &key, value.as_deref())?;
            }
        }
        Found::Plain => {}
    }
    Ok(())
}

/// The beginning of an event's rows among versions, if it is one that is replaced.
pub(crate) fn version_key(hash: &KeyedHash, event: &VerifiedEvent) -> Option<[u8; 16]> {
    let kind = event.kind();
    let d = if kind::is_addressable(kind) {
        event.first_value("d").unwrap_or_default()
    } else if kind::is_replaceable(kind) {
        ""
    } else {
        return None;
    };
    Some(hash.address(kind, event.author().as_bytes(), d))
}

fn put_or_delete(
    table: &Table,
    transaction: &mut Transaction<'_>,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), StoreError> {
    match value {
        Some(value) => table.put(transaction, key, value)?,
        None => {
            table.delete(transaction, key)?;
        }
    }
    Ok(())
}
