//! Applies changes: the only place that moves an event through its life.
//!
//! Whatever follows from a change of stage (indexes, deadlines, counters, budgets) is written here
//! in the same transaction, so no table can tell another story.

use bytes::Bytes;
use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::{Change, Stage, Standing};
use grasp_core::name::RepoAddress;
use heed::PutFlags;
use nostr::event::EventId;
use nostr::types::Timestamp;

use crate::counters::Stats;
use crate::deadlines;
use crate::error::StoreError;
use crate::index;
use crate::keys::{KeyedHash, Sequence, read_sequence, repository_key, sequence_key};
use crate::lmdb::Transaction;
use crate::record::{self, Record};
use crate::store::{Passage, ServedEvent};
use crate::tables::Tables;
use crate::version::CommitVersion;

/// What a batch did, besides its rows.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// What became visible and still is at the end of the batch, in its order.
    pub(crate) served: Vec<ServedEvent>,
    /// What was marked dirty, without repeats.
    pub(crate) dirtied: Vec<RepoAddress>,
    /// Every event that changed its place, in the order of the batch.
    pub(crate) moved: Vec<Passage>,
}

/// Where an event is, or shall be.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) stage: Stage,
    pub(crate) deadline: Option<Timestamp>,
}

/// One transaction while batches are applied to it.
pub(crate) struct Writing<'a, 'env> {
    pub(crate) tables: &'a Tables,
    pub(crate) hash: &'a KeyedHash,
    pub(crate) transaction: &'a mut Transaction<'env>,
    /// Reused for every record.
    pub(crate) buffer: &'a mut Vec<u8>,
    /// The number that the next new event gets.
    pub(crate) next_sequence: Sequence,
    pub(crate) stats: Stats,
}

impl<'a, 'env> Writing<'a, 'env> {
    pub(crate) fn new(
        tables: &'a Tables,
        hash: &'a KeyedHash,
        transaction: &'a mut Transaction<'env>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Self, StoreError> {
        let last = tables.events.last(transaction)?;
        let next_sequence = last
            .and_then(|(key, _)| read_sequence(key))
            .map_or(1, |last| last + 1);
        let stats = tables.stats(transaction)?;
        Ok(Self {
            tables,
            hash,
            transaction,
            buffer,
            next_sequence,
            stats,
        })
    }

    /// Applies `batch` in its order as the commit `version`. After an error the transaction holds a
    /// part of the batch and must be aborted.
    pub(crate) fn apply(
        &mut self,
        batch: &[Change],
        version: CommitVersion,
    ) -> Result<Effects, StoreError> {
        let before = self.stats;
        let mut effects = Effects::default();
        for change in batch {
            self.change(change, version, &mut effects)?;
        }
        if self.stats != before {
            self.tables.put_stats(self.transaction, &self.stats)?;
        }
        Ok(effects)
    }

    fn change(
        &mut self,
        change: &Change,
        version: CommitVersion,
        effects: &mut Effects,
    ) -> Result<(), StoreError> {
        match change {
            Change::Insert {
                event,
                stage,
                deadline,
                standing,
            } => {
                let place = Place {
                    stage: *stage,
                    deadline: *deadline,
                };
                self.insert(event, place, *standing, version, effects)
            }
            Change::Move {
                event,
                stage,
                deadline,
            } => self.place(event, Some(*stage), *deadline, version, effects),
            Change::Extend { event, deadline } => {
                self.place(event, None, *deadline, version, effects)
            }
            Change::Remove { event } => self.remove(event, effects),
            Change::Idle { event, used } => self.idle(event, *used),
            Change::NotIdle { event } => self.not_idle(event),
            Change::Mark {
                event,
                reason,
                until,
            } => self.mark(event, *reason, *until),
            Change::Unmark { event, reason } => self.unmark(event, *reason),
            Change::Upload(upload) => self.upload(upload),
            Change::DropUpload { event, repository } => self.drop_upload(event, repository),
            Change::Place { event, repository } => self.put_placement(event, repository),
            Change::Archive {
                repository,
                since,
                until,
            } => self.archive(repository, *since, *until),
            Change::Unarchive { repository } => self.unarchive(repository),
            Change::DropArchive { repository } => self.drop_archive(repository),
            Change::Curate { scope, by } => self.curate(scope, *by),
            Change::ListsApplied { fingerprint } => self.lists_applied(fingerprint),
            Change::KeepCursor { relay, cursor } => self.keep_cursor(relay, cursor.as_deref()),
            Change::Dirty(repository) => self.dirty(repository, version, effects),
            Change::Hunt {
                identifier,
                not_before_ms,
            } => self.hunt(identifier, *not_before_ms, version),
            Change::HuntLater {
                identifier,
                next_attempt_ms,
                attempt_count,
                is_parked,
            } => self.hunt_later(identifier, *next_attempt_ms, *attempt_count, *is_parked),
            Change::HuntOver { identifier, seen } => {
                self.hunt_over(identifier, CommitVersion::new(*seen))
            }
            Change::GateEvent {
                event,
                author,
                request,
            } => self.gate_event(event, author, request),
            Change::GateAddress {
                address,
                until,
                request,
            } => self.gate_address(address, *until, request),
            Change::KeepRequest { request, uses } => self.keep_request(request, *uses),
            Change::UseRequest { request, at } => self.use_request(request, *at),
            Change::GateAuthor {
                author,
                until,
                request,
            } => self.gate_author(author, *until, request),
            Change::Unburden { event } => self.unburden(event),
            Change::Plan(plan) => self.plan(plan),
            Change::Steps {
                work,
                horizon,
                steps,
            } => self.steps(work, *horizon, steps),
            Change::StepDone { work, step } => self.step_done(work, *step),
        }
    }

    /// A new event. One that is stored already stays as it is.
    fn insert(
        &mut self,
        event: &VerifiedEvent,
        place: Place,
        standing: Standing,
        version: CommitVersion,
        effects: &mut Effects,
    ) -> Result<(), StoreError> {
        let id = event.id();
        let prefix = &id.as_bytes()[..16];
        if let Some(there) = self.tables.ids.get(self.transaction, prefix)? {
            let bytes = self.tables.events.get(self.transaction, there)?;
            let record = Record::parse(bytes.ok_or(StoreError::Corrupt("ids"))?)?;
            return if record.event_id() == id {
                Ok(())
            } else {
                Err(StoreError::AmbiguousId(id))
            };
        }
        let sequence = self.next_sequence;
        let json = event.event().as_json();
        let mut buffer = std::mem::take(self.buffer);
        buffer.clear();
        record::encode(
            &mut buffer,
            event,
            &json,
            place.stage,
            place.deadline,
            standing,
        );
        let outcome = self.put_new(sequence, event, place, &buffer);
        *self.buffer = buffer;
        outcome?;
        self.next_sequence += 1;
        effects.moved.push(Passage::of(event, Some(place.stage)));
        if place.stage == Stage::Served {
            effects.served.push(ServedEvent {
                event: event.clone(),
                json: Bytes::from(json),
                version,
            });
        }
        Ok(())
    }

    fn put_new(
        &mut self,
        sequence: Sequence,
        event: &VerifiedEvent,
        place: Place,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let key = sequence_key(sequence);
        self.tables
            .events
            .put_with_flags(self.transaction, PutFlags::APPEND, &key, bytes)?;
        self.put_rows(sequence, event, place, bytes)
    }

    /// All rows that follow from a record.
    pub(crate) fn put_rows(
        &mut self,
        sequence: Sequence,
        event: &VerifiedEvent,
        place: Place,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let key = sequence_key(sequence);
        self.tables
            .ids
            .put(self.transaction, &event.id().as_bytes()[..16], &key)?;
        let record = Record::parse(bytes)?;
        self.enter(sequence, &record, place)?;
        let place = Some((place.stage, place.deadline));
        index::put_found(
            self.tables,
            self.hash,
            self.transaction,
            event,
            sequence,
            place,
        )
    }

    /// Another stage, or with `stage` `None` the same one, with another deadline.
    fn place(
        &mut self,
        id: &EventId,
        stage: Option<Stage>,
        deadline: Option<Timestamp>,
        version: CommitVersion,
        effects: &mut Effects,
    ) -> Result<(), StoreError> {
        let (sequence, bytes) = self.find(id)?.ok_or(StoreError::UnknownEvent(*id))?;
        let record = Record::parse(&bytes)?;
        let before = Place {
            stage: record.stage(),
            deadline: record.deadline(),
        };
        let after = Place {
            stage: stage.unwrap_or(before.stage),
            deadline,
        };
        let event = record.event()?;
        let moved = record.restaged(after.stage, after.deadline);
        self.leave(sequence, &record, before)?;
        let key = sequence_key(sequence);
        self.tables.events.put(self.transaction, &key, &moved)?;
        let record = Record::parse(&moved)?;
        self.enter(sequence, &record, after)?;
        let row = Some((after.stage, after.deadline));
        index::put_found(
            self.tables,
            self.hash,
            self.transaction,
            &event,
            sequence,
            row,
        )?;
        if before.stage != after.stage {
            effects.moved.push(Passage::of(&event, Some(after.stage)));
        }
        match (before.stage, after.stage) {
            (Stage::Served, Stage::Served) => {}
            (Stage::Served, _) => effects.served.retain(|served| served.event.id() != *id),
            (_, Stage::Served) => effects.served.push(ServedEvent {
                event,
                json: Bytes::copy_from_slice(record.json()),
                version,
            }),
            _ => {}
        }
        Ok(())
    }

    /// REL-6: its root counts it no more.
    fn unburden(&mut self, id: &EventId) -> Result<(), StoreError> {
        let (sequence, bytes) = self.find(id)?.ok_or(StoreError::UnknownEvent(*id))?;
        let record = Record::parse(&bytes)?;
        let place = Place {
            stage: record.stage(),
            deadline: record.deadline(),
        };
        let bare = record.unburdened();
        self.leave(sequence, &record, place)?;
        let key = sequence_key(sequence);
        self.tables.events.put(self.transaction, &key, &bare)?;
        self.enter(sequence, &Record::parse(&bare)?, place)
    }

    /// Gone for good. Removing what is not there is no error.
    fn remove(&mut self, id: &EventId, effects: &mut Effects) -> Result<(), StoreError> {
        let Some((sequence, bytes)) = self.find(id)? else {
            return Ok(());
        };
        let record = Record::parse(&bytes)?;
        let event = record.event()?;
        let before = Place {
            stage: record.stage(),
            deadline: record.deadline(),
        };
        self.leave(sequence, &record, before)?;
        index::put_found(
            self.tables,
            self.hash,
            self.transaction,
            &event,
            sequence,
            None,
        )?;
        self.drop_placements(&event)?;
        self.drop_request(&event)?;
        self.drop_idle(sequence, record.standing())?;
        self.tables
            .ids
            .delete(self.transaction, &id.as_bytes()[..16])?;
        self.tables
            .events
            .delete(self.transaction, &sequence_key(sequence))?;
        effects.served.retain(|served| served.event.id() != *id);
        effects.moved.push(Passage::of(&event, None));
        Ok(())
    }

    /// A stored event, copied out of the map, which the next write may change.
    pub(crate) fn find(&self, id: &EventId) -> Result<Option<(Sequence, Vec<u8>)>, StoreError> {
        let Some(key) = self
            .tables
            .ids
            .get(self.transaction, &id.as_bytes()[..16])?
        else {
            return Ok(None);
        };
        let sequence = read_sequence(key).ok_or(StoreError::Corrupt("ids"))?;
        let bytes = self.tables.events.get(self.transaction, key)?;
        let bytes = bytes.ok_or(StoreError::Corrupt("ids"))?;
        let same = Record::parse(bytes)?.event_id() == *id;
        Ok(same.then(|| (sequence, bytes.to_vec())))
    }

    /// What holds while an event is in `place`.
    fn enter(
        &mut self,
        sequence: Sequence,
        record: &Record<'_>,
        place: Place,
    ) -> Result<(), StoreError> {
        if let Some(at) = place.deadline {
            let key = deadlines::event_key(at, sequence);
            let table = deadlines::table_of(self.tables, record, place.stage);
            table.put(self.transaction, &key, &[])?;
        }
        let transaction = &mut *self.transaction;
        index::stage_rows(
            self.tables,
            self.hash,
            sequence,
            record,
            place.stage,
            |table, key| Ok(table.put(transaction, key, &[])?),
        )?;
        self.count(record, place.stage, u64::saturating_add)
    }

    /// Undoes [`Self::enter`].
    fn leave(
        &mut self,
        sequence: Sequence,
        record: &Record<'_>,
        place: Place,
    ) -> Result<(), StoreError> {
        if let Some(at) = place.deadline {
            let key = deadlines::event_key(at, sequence);
            let table = deadlines::table_of(self.tables, record, place.stage);
            table.delete(self.transaction, &key)?;
        }
        let transaction = &mut *self.transaction;
        index::stage_rows(
            self.tables,
            self.hash,
            sequence,
            record,
            place.stage,
            |table, key| {
                table.delete(transaction, key)?;
                Ok(())
            },
        )?;
        self.count(record, place.stage, u64::saturating_sub)
    }

    fn dirty(
        &mut self,
        repository: &RepoAddress,
        version: CommitVersion,
        effects: &mut Effects,
    ) -> Result<(), StoreError> {
        let key = repository_key(repository);
        self.tables
            .dirty
            .put(self.transaction, &key, &version.number().to_be_bytes())?;
        if !effects.dirtied.contains(repository) {
            effects.dirtied.push(repository.clone());
        }
        Ok(())
    }
}
