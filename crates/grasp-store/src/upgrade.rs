//! Brings what an older version wrote up to date, once, before anything else reads it.

use grasp_core::event::kind;
use grasp_core::lifecycle::{Batch, Change, Stage};
use grasp_core::request::Uses;
use nostr::event::EventId;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::idle::idle_key;
use crate::index::unseen_key;
use crate::keys::{KeyedHash, read_sequence, sequence_key};
use crate::lifecycle::Writing;
use crate::lmdb::{Environment, Transaction};
use crate::record::Record;
use crate::tables::Tables;

/// Format 1 had gates, and no memory of since when a request is here and whether it was of use (DEL-9).
/// Every request begins its time at `now`; one that is not known to be unused counts as used, which keeps
/// it for longer. The next sweep gives it the deadline that follows from the settings.
pub(crate) fn from_format_1(
    environment: &Environment,
    tables: &Tables,
    hash: &KeyedHash,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut transaction = environment.write_txn()?;
    index_unseen(tables, &mut transaction)?;
    let batch = since(now, &requests(tables, &transaction)?);
    let version = tables.version(&transaction)?;
    let mut buffer = Vec::new();
    Writing::new(tables, hash, &mut transaction, &mut buffer)?.apply(&batch, version)?;
    transaction.commit()?;
    Ok(())
}

/// Nor did it have an index of what is not served by its author (DEL-8).
fn index_unseen(tables: &Tables, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
    let mut unseen = Vec::new();
    for row in tables.events.iter(transaction)? {
        let (key, bytes) = row?;
        let sequence = read_sequence(key).ok_or(StoreError::Corrupt("events"))?;
        let record = Record::parse(bytes)?;
        if record.stage() != Stage::Served {
            unseen.push(unseen_key(&record, sequence));
        }
    }
    for key in unseen {
        tables.unseen.put(transaction, &key, &[])?;
    }
    Ok(())
}

/// A request of format 1.
struct Unkept {
    id: EventId,
    used: bool,
    deadline: Option<Timestamp>,
}

/// All were served: there was no other place for them.
fn requests(tables: &Tables, transaction: &Transaction<'_>) -> Result<Vec<Unkept>, StoreError> {
    let mut unkept = Vec::new();
    for kind in [kind::DELETION, kind::VANISH] {
        for row in tables.kinds.prefix_iter(transaction, &kind.to_be_bytes())? {
            let sequence = read_sequence(row?.0).ok_or(StoreError::Corrupt("kinds"))?;
            let bytes = tables.events.get(transaction, &sequence_key(sequence))?;
            let record = Record::parse(bytes.ok_or(StoreError::Corrupt("kinds"))?)?;
            let unused = tables.idle.get(transaction, &idle_key(sequence, false))?;
            unkept.push(Unkept {
                id: record.event_id(),
                used: unused.is_none(),
                deadline: record.deadline(),
            });
        }
    }
    Ok(unkept)
}

fn since(now: Timestamp, requests: &[Unkept]) -> Batch {
    let changes = |request: &Unkept| {
        let uses = Uses {
            first_seen: now,
            last: request.used.then_some(now),
        };
        let kept = Change::KeepRequest {
            request: request.id,
            uses,
        };
        let looked_at = Change::Extend {
            event: request.id,
            deadline: Some(request.deadline.map_or(now, |deadline| deadline.min(now))),
        };
        [kept, looked_at]
    };
    requests.iter().flat_map(changes).collect()
}
