//! What a transaction sees: the reads that decisions and answers are made of.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;
use grasp_core::event::{VerifiedEvent, Version, kind};
use grasp_core::filter::Matchable;
use grasp_core::lifecycle::{Stage, Standing};
use grasp_core::push::KnownEvent;
use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::keys::{KeyedHash, Sequence, read_sequence, sequence_key};
use crate::lmdb::Reading;
use crate::record::{Record, stage_of};
use crate::tables::Tables;
use crate::version::CommitVersion;

/// One consistent look at the store: of a snapshot, or of the commit being decided.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(crate) reading: &'a Reading<'a>,
    pub(crate) tables: &'a Tables,
    pub(crate) hash: &'a KeyedHash,
    pub(crate) version: CommitVersion,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("View")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// An event with its place in life.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    /// The event.
    pub event: VerifiedEvent,
    /// Its canonical JSON, as subscribers get it.
    pub json: Bytes,
    /// Its stage.
    pub stage: Stage,
    /// When the stage ends by itself.
    pub deadline: Option<Timestamp>,
    /// What it may carry.
    pub standing: Standing,
}

impl StoredEvent {
    fn read(record: &Record<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            event: record.event()?,
            json: Bytes::copy_from_slice(record.json()),
            stage: record.stage(),
            deadline: record.deadline(),
            standing: record.standing(),
        })
    }
}

impl<'a> View<'a> {
    /// The last commit that this view sees; for a commit being decided its own number.
    pub fn version(&self) -> CommitVersion {
        self.version
    }

    /// A stored event, whatever its stage.
    pub fn event(&self, id: &EventId) -> Result<Option<StoredEvent>, StoreError> {
        self.record(id)?
            .map(|(_, record)| StoredEvent::read(&record))
            .transpose()
    }

    /// What a push that names these events by `refs/nostr/<id>` may bind to (PUSH-4): those that are
    /// served, waiting or parked.
    pub fn known_events(
        &self,
        ids: &[EventId],
    ) -> Result<BTreeMap<EventId, KnownEvent>, StoreError> {
        let mut known = BTreeMap::new();
        for id in ids {
            let Some((_, record)) = self.record(id)? else {
                continue;
            };
            if matches!(record.stage(), Stage::Superseded | Stage::Held) {
                continue;
            }
            known.insert(*id, KnownEvent::of(&record.event()?));
        }
        Ok(known)
    }

    /// The newest served version of `kind:pubkey:d`.
    pub fn served_version(&self, address: &str) -> Result<Option<Version>, StoreError> {
        let served = self.served_at(address)?;
        Ok(served.map(|(_, record)| Version {
            created_at: Timestamp::from_secs(record.created_at()),
            id: record.event_id(),
        }))
    }

    /// The newest served event of `kind:pubkey:d`; a missing last part counts as empty.
    pub(crate) fn served_at(
        &self,
        address: &str,
    ) -> Result<Option<(Sequence, Record<'a>)>, StoreError> {
        let Some((kind, author, d)) = parse_address(address) else {
            return Ok(None);
        };
        let mut found = None;
        self.versions(kind, &author, d, |stage, sequence, record| {
            if stage == Stage::Served {
                found = Some((sequence, record));
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Every stored version of a replaceable or addressable event, newest first.
    pub(crate) fn versions(
        &self,
        kind: u16,
        author: &PublicKey,
        d: &str,
        mut visit: impl FnMut(Stage, Sequence, Record<'a>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut tie: Vec<(Stage, Sequence, Record<'a>)> = Vec::new();
        let start = self.hash.address(kind, author.as_bytes(), d);
        for row in self.tables.versions.prefix_iter(self.reading, &start)? {
            let (key, value) = row?;
            let stage = value.first().copied().and_then(stage_of);
            let (stage, sequence) = stage
                .zip(read_sequence(key))
                .ok_or(StoreError::Corrupt("versions"))?;
            let Some(record) = self.record_at(sequence)? else {
                continue;
            };
            let tied = tie
                .first()
                .is_some_and(|it| it.2.created_at() == record.created_at());
            if !tied && flush(&mut tie, &mut visit)?.is_break() {
                return Ok(());
            }
            tie.push((stage, sequence, record));
        }
        flush(&mut tie, &mut visit).map(|_| ())
    }

    /// The record of an event, whatever its stage.
    pub(crate) fn record(
        &self,
        id: &EventId,
    ) -> Result<Option<(Sequence, Record<'a>)>, StoreError> {
        let Some(key) = self.tables.ids.get(self.reading, &id.as_bytes()[..16])? else {
            return Ok(None);
        };
        let sequence = read_sequence(key).ok_or(StoreError::Corrupt("ids"))?;
        let record = self.record_at(sequence)?;
        Ok(record
            .filter(|record| record.event_id() == *id)
            .map(|record| (sequence, record)))
    }

    /// The record stored under a number.
    pub(crate) fn record_at(&self, sequence: Sequence) -> Result<Option<Record<'a>>, StoreError> {
        let bytes = self
            .tables
            .events
            .get(self.reading, &sequence_key(sequence))?;
        bytes.map(Record::parse).transpose()
    }
}

/// Within a second keys only begin to order: the full id settles it (KIND-5).
fn flush<'a>(
    tie: &mut Vec<(Stage, Sequence, Record<'a>)>,
    visit: &mut impl FnMut(Stage, Sequence, Record<'a>) -> Result<ControlFlow<()>, StoreError>,
) -> Result<ControlFlow<()>, StoreError> {
    tie.sort_by_key(|(_, _, record)| record.event_id());
    for (stage, sequence, record) in tie.drain(..) {
        if visit(stage, sequence, record)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Reads `kind:pubkey:d` or `kind:pubkey`.
pub(crate) fn parse_address(address: &str) -> Option<(u16, PublicKey, &str)> {
    let mut parts = address.splitn(3, ':');
    let kind = parts.next()?.parse().ok()?;
    let author = parts.next()?;
    let lowercase = author.len() == 64 && !author.bytes().any(|byte| byte.is_ascii_uppercase());
    let author = PublicKey::from_hex(author).ok().filter(|_| lowercase)?;
    let d = parts.next().unwrap_or_default();
    (kind::is_addressable(kind) || kind::is_replaceable(kind)).then_some(())?;
    Some((
        kind,
        author,
        if kind::is_replaceable(kind) { "" } else { d },
    ))
}
