//! When stages and uploads end by themselves: one deadline each, ordered by time.

use grasp_core::clock_step::WaitingDeadline;
use grasp_core::event::kind;
use grasp_core::filter::Matchable;
use grasp_core::lifecycle::{MarkReason, Stage, UploadRecord};
use grasp_core::name::Identifier;
use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::keys::{Key, LongKey, Sequence, read_sequence, sequence_key};
use crate::lmdb::Table;
use crate::memory;
use crate::record::Record;
use crate::tables::Tables;
use crate::uploads;
use crate::view::View;

const EVENT: u8 = 0;
const UPLOAD: u8 = 1;
const MARK: u8 = 2;
const CORRUPT: StoreError = StoreError::Corrupt("deadlines");

/// Something whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// The stage of an event ends.
    Event {
        /// Which.
        event: EventId,
        /// Its kind.
        kind: u16,
        /// Its author.
        author: PublicKey,
        /// The stage that ends.
        stage: Stage,
        /// Of announcements and states: the repository's identifier.
        identifier: Option<Identifier>,
    },
    /// An upload's event did not come (PUR-9).
    Upload(UploadRecord),
    /// An id need not be remembered any more.
    Mark {
        /// Which.
        event: EventId,
        /// Why it was.
        reason: MarkReason,
    },
}

pub(crate) fn event_key(at: Timestamp, sequence: Sequence) -> Key {
    Key::new(&[
        &at.as_secs().to_be_bytes(),
        &[EVENT],
        &sequence_key(sequence),
    ])
}

/// Reads [`event_key`] back; `None` for what is no deadline of an event.
pub(crate) fn read_event_key(key: &[u8]) -> Option<(Timestamp, Sequence)> {
    let (at, what) = key.split_first_chunk::<8>()?;
    let (&EVENT, rest) = what.split_first()? else {
        return None;
    };
    let at = Timestamp::from_secs(u64::from_be_bytes(*at));
    Some((at, read_sequence(rest)?))
}

pub(crate) fn upload_key(at: Timestamp, upload: &[u8]) -> LongKey {
    LongKey::new(&[&at.as_secs().to_be_bytes(), &[UPLOAD], upload])
}

pub(crate) fn mark_key(at: Timestamp, mark: &[u8]) -> Key {
    Key::new(&[&at.as_secs().to_be_bytes(), &[MARK], mark])
}

/// What is kept for rollback and recovery has a table of its own: it is cleaned up in its own time, and may be
/// much. Requests of authors have rules of their own.
pub(crate) fn table_of<'t>(tables: &'t Tables, record: &Record<'_>, stage: Stage) -> &'t Table {
    let request = matches!(record.kind(), kind::DELETION | kind::VANISH);
    if matches!(stage, Stage::Superseded | Stage::Held) && !request {
        &tables.holding
    } else {
        &tables.deadlines
    }
}

impl View<'_> {
    /// What is due at `now`, the longest overdue first, at most `max`.
    pub fn due(&self, now: Timestamp, max: usize) -> Result<Vec<Due>, StoreError> {
        self.due_in(&self.tables.deadlines, now, max)
    }

    /// As [`Self::due`], of what is kept for rollback and recovery (DEL-5, DEL-12).
    pub fn due_holding(&self, now: Timestamp, max: usize) -> Result<Vec<Due>, StoreError> {
        self.due_in(&self.tables.holding, now, max)
    }

    fn due_in(&self, table: &Table, now: Timestamp, max: usize) -> Result<Vec<Due>, StoreError> {
        let mut due = Vec::new();
        for row in table.iter(self.reading)? {
            let (key, _) = row?;
            let (at, what) = key.split_first_chunk::<8>().ok_or(CORRUPT)?;
            if u64::from_be_bytes(*at) > now.as_secs() || due.len() == max {
                break;
            }
            let (what, key) = what.split_first().ok_or(CORRUPT)?;
            due.push(match *what {
                EVENT => self.due_event(key)?,
                UPLOAD => self.due_upload(key)?,
                MARK => {
                    let (event, reason) = memory::read_mark(key).ok_or(CORRUPT)?;
                    Due::Mark { event, reason }
                }
                _ => return Err(CORRUPT),
            });
        }
        Ok(due)
    }

    /// The next time at which something is due.
    pub fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        let first = self.tables.deadlines.first(self.reading)?;
        Ok(first
            .and_then(|(key, _)| key.first_chunk::<8>())
            .map(|at| Timestamp::from_secs(u64::from_be_bytes(*at))))
    }

    /// The deadlines of everything in purgatory, uploads without an event included: what a jump of the
    /// clock moves (PUR-16). As many as the bounds of purgatory let wait.
    pub fn waiting_deadlines(&self) -> Result<Vec<WaitingDeadline>, StoreError> {
        let mut waiting = Vec::new();
        for row in self.tables.deadlines.iter(self.reading)? {
            let (key, _) = row?;
            let (at, what) = key.split_first_chunk::<8>().ok_or(CORRUPT)?;
            let deadline = Timestamp::from_secs(u64::from_be_bytes(*at));
            match what.split_first().ok_or(CORRUPT)? {
                (&EVENT, key) => waiting.extend(self.waiting_event(key, deadline)?),
                (&UPLOAD, key) => match self.due_upload(key)? {
                    Due::Upload(upload) => waiting.push(WaitingDeadline::Upload(upload)),
                    Due::Event { .. } | Due::Mark { .. } => return Err(CORRUPT),
                },
                _ => {}
            }
        }
        Ok(waiting)
    }

    fn waiting_event(
        &self,
        key: &[u8],
        deadline: Timestamp,
    ) -> Result<Option<WaitingDeadline>, StoreError> {
        let sequence = read_sequence(key).ok_or(CORRUPT)?;
        let record = self.record_at(sequence)?.ok_or(CORRUPT)?;
        if record.stage() != Stage::Waiting {
            return Ok(None);
        }
        Ok(Some(WaitingDeadline::Event {
            event: record.event_id(),
            deadline,
            expiration: record.event()?.expiration(),
        }))
    }

    fn due_event(&self, key: &[u8]) -> Result<Due, StoreError> {
        let sequence = read_sequence(key).ok_or(CORRUPT)?;
        let record: Record<'_> = self.record_at(sequence)?.ok_or(CORRUPT)?;
        let named = matches!(record.kind(), kind::ANNOUNCEMENT | kind::STATE);
        let d = record.first_tag('d').filter(|_| named);
        Ok(Due::Event {
            event: record.event_id(),
            kind: record.kind(),
            author: record.public_key(),
            stage: record.stage(),
            identifier: d.and_then(|d| d.as_text(|text| text.parse().ok())),
        })
    }

    fn due_upload(&self, key: &[u8]) -> Result<Due, StoreError> {
        let value = self.tables.uploads.get(self.reading, key)?.ok_or(CORRUPT)?;
        uploads::read(key, value).map(Due::Upload)
    }
}
