//! Brings what an older version wrote up to date, once, before anything else reads it.

use grasp_core::event::kind;
use grasp_core::lifecycle::{Batch, Change, Stage};
use grasp_core::request::Uses;
use nostr::event::EventId;
use nostr::types::Timestamp;

use crate::deadlines;
use crate::error::StoreError;
use crate::idle::idle_key;
use crate::index;
use crate::keys::{Key, KeyedHash, read_sequence, sequence_key};
use crate::lifecycle::Writing;
use crate::lmdb::{Environment, Table, Transaction};
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
    index_unseen(tables, hash, &mut transaction)?;
    let batch = since(now, &requests(tables, &transaction)?);
    let version = tables.version(&transaction)?;
    let mut buffer = Vec::new();
    Writing::new(tables, hash, &mut transaction, &mut buffer)?.apply(&batch, version)?;
    transaction.commit()?;
    Ok(())
}

/// Nor did it find what is not served by its author (DEL-8), nor what is held by what it refers to (DEL-6); and it
/// had one table for all deadlines.
fn index_unseen(
    tables: &Tables,
    hash: &KeyedHash,
    transaction: &mut Transaction<'_>,
) -> Result<(), StoreError> {
    let mut unseen: Vec<(Table, Vec<u8>)> = Vec::new();
    let mut moved: Vec<(Table, Key)> = Vec::new();
    for row in tables.events.iter(transaction)? {
        let (key, bytes) = row?;
        let sequence = read_sequence(key).ok_or(StoreError::Corrupt("events"))?;
        let record = Record::parse(bytes)?;
        let stage = record.stage();
        if let Some(at) = record.deadline() {
            let table = deadlines::table_of(tables, &record, stage);
            moved.push((*table, deadlines::event_key(at, sequence)));
        }
        if stage != Stage::Served {
            index::stage_rows(tables, hash, sequence, &record, stage, |table, key| {
                unseen.push((*table, key.to_vec()));
                Ok(())
            })?;
        }
    }
    for (table, key) in moved {
        tables.deadlines.delete(transaction, &key)?;
        table.put(transaction, &key, &[])?;
    }
    for (table, key) in unseen {
        table.put(transaction, &key, &[])?;
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

#[cfg(test)]
mod tests {
    use grasp_core::recovery::{Conversation as _, Name};

    use super::*;
    use crate::conformance::events::{at, event, insert_until, key};
    use crate::lmdb;
    use crate::view::View;

    /// DEL-6: what was held before comes back with what it hangs on like anything held later.
    #[test]
    fn replies_that_were_held_before_are_found_by_what_they_refer_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let environment = lmdb::open(folder.path(), 64 << 20, 8).expect("opens");
        let tables = Tables::open(&environment).expect("opens");
        let hash = tables.keyed_hash(&environment).expect("made");
        let root = event(key(1), kind::ISSUE, 5, &[]);
        let reply = event(key(2), 1111, 6, &[&["e", &root.id().to_hex()]]);
        let mut transaction = environment.write_txn().expect("begins");
        let version = tables.version(&transaction).expect("reads");
        let mut buffer = Vec::new();
        Writing::new(&tables, &hash, &mut transaction, &mut buffer)
            .and_then(|mut writing| {
                writing.apply(&[insert_until(&reply, Stage::Held, 90)], version)
            })
            .expect("applies");
        // As format 1 left it.
        for table in [&tables.unseen, &tables.held_tags, &tables.holding] {
            table.clear(&mut transaction).expect("clears");
        }
        let deadline = deadlines::event_key(at(90), 1);
        let put = tables.deadlines.put(&mut transaction, &deadline, &[]);
        put.expect("writes");
        transaction.commit().expect("commits");

        from_format_1(&environment, &tables, &hash, at(70)).expect("upgrades");
        let reading = environment.clone().static_read_txn().expect("begins");
        let view = View {
            reading: &reading,
            tables: &tables,
            hash: &hash,
            version,
        };
        let found = view.referring(&Name::Event(root.id()), 9).expect("reads");
        assert_eq!(found.len(), 1);
        let author = view.authored(&key(2), at(6)).expect("reads");
        assert_eq!(author, [reply.id()]);
        assert_eq!(view.due(at(90), 9).expect("reads"), []);
        assert_eq!(view.due_holding(at(90), 9).expect("reads").len(), 1);
    }
}
