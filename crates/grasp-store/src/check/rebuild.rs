//! Makes everything anew that follows from records.

use std::collections::BTreeSet;
use std::ops::Bound;

use grasp_core::event::VerifiedEvent;
use grasp_core::name::{Coordinate, RepoAddress};
use nostr::event::{Event, EventId};

use crate::counters::Stats;
use crate::deadlines;
use crate::error::StoreError;
use crate::idle::idle_key;
use crate::keys::{KeyedHash, Sequence, read_sequence, repository_key, sequence_key};
use crate::lifecycle::{Place, Writing};
use crate::lmdb::{Table, Transaction};
use crate::record::{self, Record};
use crate::tables::Tables;

use super::EventFinding;

/// Records that are read in one go.
const CHUNK: usize = 1000;

/// What there was.
#[derive(Default)]
pub(super) struct Rebuilt {
    pub(super) events: u64,
    pub(super) unsound: u64,
}

pub(super) fn rebuild(
    tables: &Tables,
    hash: &KeyedHash,
    transaction: &mut Transaction<'_>,
    tell: &mut dyn FnMut(EventFinding),
) -> Result<Rebuilt, StoreError> {
    for (_, table) in tables.derived() {
        table.clear(transaction)?;
    }
    remove_rows(&tables.deadlines, transaction, |key, _| {
        deadlines::read_event_key(key).is_some()
    })?;
    tables.put_stats(transaction, &Stats::default())?;
    let mut buffer = Vec::new();
    let mut writing = Writing::new(tables, hash, transaction, &mut buffer)?;
    let mut rebuilt = Rebuilt::default();
    let mut after: Sequence = 0;
    loop {
        let chunk = writing.records_after(after)?;
        let Some((last, _)) = chunk.last() else {
            break;
        };
        after = *last;
        for (sequence, bytes) in chunk {
            match sound(&bytes) {
                Ok(event) => {
                    writing.put_again(sequence, &event, &bytes, tell)?;
                    rebuilt.events += 1;
                }
                Err(unsound) => {
                    writing.take_out(sequence, &unsound)?;
                    tell(unsound.finding(sequence));
                    rebuilt.unsound += 1;
                }
            }
        }
    }
    let stats = writing.stats;
    tables.put_stats(transaction, &stats)?;
    drop_orphaned_requests(tables, transaction)?;
    Ok(rebuilt)
}

/// Why a record is no event.
enum Unsound {
    Record,
    Forged { problem: String, json: String },
}

impl Unsound {
    fn finding(self, number: Sequence) -> EventFinding {
        match self {
            Self::Record => EventFinding::Unreadable { number },
            Self::Forged { problem, json } => EventFinding::Forged {
                number,
                problem,
                json,
            },
        }
    }

    /// Whose repository depended on it, as far as it can be told.
    fn repository(&self) -> Option<RepoAddress> {
        let Self::Forged { json, .. } = self else {
            return None;
        };
        let event = Event::from_json(json).ok()?;
        let mut tags = event.tags.iter().map(nostr::event::Tag::as_slice);
        let d = tags.find(|tag| tag.first().is_some_and(|name| name == "d"))?;
        let identifier = d.get(1)?.parse().ok()?;
        let coordinate = Coordinate::new(event.pubkey, identifier);
        Some(RepoAddress::Announced(coordinate))
    }
}

/// The event of a record, if it is what its author signed.
fn sound(bytes: &[u8]) -> Result<VerifiedEvent, Unsound> {
    let record = Record::parse(bytes).map_err(|_| Unsound::Record)?;
    let json = String::from_utf8_lossy(record.json()).into_owned();
    let forged = |problem: String| Unsound::Forged {
        problem,
        json: json.clone(),
    };
    let event = Event::from_json(&json).map_err(|error| forged(error.to_string()))?;
    let event = VerifiedEvent::verify(event).map_err(|error| forged(error.to_string()))?;
    if event.event().as_json() == json {
        Ok(event)
    } else {
        Err(forged("it is not written in its one form".to_owned()))
    }
}

impl Writing<'_, '_> {
    /// The next records, copied out of the map, which the next write may change.
    fn records_after(&self, after: Sequence) -> Result<Vec<(Sequence, Vec<u8>)>, StoreError> {
        let after = sequence_key(after);
        let bounds = (Bound::Excluded(&after[..]), Bound::Unbounded);
        let rows = self.tables.events.range(self.transaction, &bounds)?;
        let mut chunk = Vec::new();
        for row in rows.take(CHUNK) {
            let (key, bytes) = row?;
            let sequence = read_sequence(key).ok_or(StoreError::Corrupt("events"))?;
            chunk.push((sequence, bytes.to_vec()));
        }
        Ok(chunk)
    }

    /// All that follows from a record, and the record itself from its event.
    fn put_again(
        &mut self,
        sequence: Sequence,
        event: &VerifiedEvent,
        bytes: &[u8],
        tell: &mut dyn FnMut(EventFinding),
    ) -> Result<(), StoreError> {
        let record = Record::parse(bytes)?;
        let place = Place {
            stage: record.stage(),
            deadline: record.deadline(),
        };
        let json = event.event().as_json();
        let mut again = Vec::with_capacity(bytes.len());
        let standing = record.standing();
        record::encode(
            &mut again,
            event,
            &json,
            place.stage,
            place.deadline,
            standing,
        );
        if again != bytes {
            tell(EventFinding::Header { event: event.id() });
            let key = sequence_key(sequence);
            self.tables.events.put(self.transaction, &key, &again)?;
        }
        self.put_rows(sequence, event, place, &again)
    }

    /// A record that is no event, and what speaks of it by its number.
    fn take_out(&mut self, sequence: Sequence, unsound: &Unsound) -> Result<(), StoreError> {
        self.tables
            .events
            .delete(self.transaction, &sequence_key(sequence))?;
        for used in [false, true] {
            let key = idle_key(sequence, used);
            self.tables.idle.delete(self.transaction, &key)?;
        }
        if let Some(repository) = unsound.repository() {
            let version = self.tables.version(self.transaction)?.number();
            let key = repository_key(&repository);
            self.tables
                .dirty
                .put(self.transaction, &key, &version.to_be_bytes())?;
        }
        Ok(())
    }
}

/// A request that is no event gates nothing: whoever asks a gate for its request must find it.
fn drop_orphaned_requests(
    tables: &Tables,
    transaction: &mut Transaction<'_>,
) -> Result<(), StoreError> {
    let mut orphaned: BTreeSet<EventId> = BTreeSet::new();
    for row in tables.requests.iter(transaction)? {
        let (key, _) = row?;
        let request: [u8; 32] = key
            .try_into()
            .map_err(|_| StoreError::Corrupt("requests"))?;
        if tables.ids.get(transaction, &request[..16])?.is_none() {
            orphaned.insert(EventId::from_byte_array(request));
        }
    }
    if orphaned.is_empty() {
        return Ok(());
    }
    let is_orphaned = |bytes: &[u8]| {
        let request = bytes.last_chunk::<32>();
        request.is_some_and(|request| orphaned.contains(&EventId::from_byte_array(*request)))
    };
    remove_rows(&tables.requests, transaction, |key, _| is_orphaned(key))?;
    remove_rows(&tables.gated_events, transaction, |_, request| {
        is_orphaned(request)
    })?;
    for table in [&tables.gated_addresses, &tables.gated_authors] {
        remove_rows(table, transaction, |key, _| is_orphaned(key))?;
    }
    Ok(())
}

fn remove_rows(
    table: &Table,
    transaction: &mut Transaction<'_>,
    goes: impl Fn(&[u8], &[u8]) -> bool,
) -> Result<(), StoreError> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for row in table.iter(transaction)? {
        let (key, value) = row?;
        if goes(key, value) {
            keys.push(key.to_vec());
        }
    }
    for key in keys {
        table.delete(transaction, &key)?;
    }
    Ok(())
}
