use grasp_core::lifecycle::{Change, Stage, Standing};
use grasp_core::request::{Uses, gates};
use nostr::event::{Kind, Tag, Tags, UnsignedEvent};
use nostr::key::Keys;
use nostr::types::Timestamp;

use super::*;
use crate::keys::sequence_key;
use crate::lmdb::Transaction;
use crate::store::StoreConfig;
use crate::tables::Tables;
use grasp_core::event::{VerifiedEvent, kind};

/// A store with events of every class and stage, each truly signed.
struct Filled {
    store: Store,
    _folder: tempfile::TempDir,
    reply: VerifiedEvent,
    request: VerifiedEvent,
}

const EVENTS: u64 = 7;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

fn signed(kind: u16, content: &str, tags: &[&[&str]]) -> VerifiedEvent {
    let keys = Keys::parse(&"1".repeat(64)).expect("a key");
    let tag = |tag: &&[&str]| Tag::parse(tag.iter().copied()).expect("a tag");
    let unsigned = UnsignedEvent::new(
        keys.public_key(),
        at(1_700_000_000),
        Kind::from_u16(kind),
        Tags::from_list(tags.iter().map(tag).collect()),
        content,
    );
    let id = unsigned.compute_id();
    let secp = secp256k1::Secp256k1::new();
    let signature = keys.sign_schnorr_with_aux_rand(&secp, id.as_bytes(), &[0; 32]);
    let event = unsigned.add_signature(signature).expect("is right");
    VerifiedEvent::verify(event).expect("is right")
}

fn put(event: &VerifiedEvent, stage: Stage, standing: Standing) -> Change {
    Change::Insert {
        event: event.clone(),
        stage,
        deadline: (stage != Stage::Served).then(|| at(1_800_000_000)),
        standing,
    }
}

impl Filled {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = StoreConfig {
            map_size: 64 << 20,
            disk_floor: 0,
            ..StoreConfig::default()
        };
        let store = Store::open(folder.path(), config).expect("opens");
        let announcement = signed(kind::ANNOUNCEMENT, "", &[&["d", "project"], &["t", "x"]]);
        let address = format!("30617:{}:project", announcement.author().to_hex());
        let issue = signed(kind::ISSUE, "", &[&["a", &address]]);
        let root = issue.id();
        let counted = Standing::Reply {
            root,
            counted: true,
        };
        let reply = signed(1111, "reply", &[&["e", &root.to_hex()]]);
        let commit = "1".repeat(40);
        let proposal = signed(kind::PULL_REQUEST, "", &[&["a", &address], &["c", &commit]]);
        let old = signed(1111, "old", &[&["e", &root.to_hex()]]);
        let request = signed(
            kind::DELETION,
            "",
            &[&["e", &"2".repeat(64)], &["a", &address]],
        );
        let mut batch = vec![
            put(&announcement, Stage::Served, Standing::Anchor),
            put(&issue, Stage::Served, Standing::Anchor),
            put(&reply, Stage::Served, counted),
            put(
                &signed(kind::STATE, "", &[&["d", "project"]]),
                Stage::Waiting,
                Standing::Anchor,
            ),
            put(&proposal, Stage::Waiting, Standing::Anchor),
            put(&old, Stage::Held, Standing::Bare),
            put(&request, Stage::Served, Standing::Bare),
            Change::KeepRequest {
                request: request.id(),
                uses: Uses {
                    first_seen: at(5),
                    last: None,
                },
            },
            Change::Mark {
                event: root,
                reason: grasp_core::lifecycle::MarkReason::Expired,
                until: at(1_900_000_000),
            },
        ];
        batch.extend(gates(&request));
        store
            .commit_blocking(move |_| Ok((batch.clone(), ())))
            .expect("stored");
        Self {
            store,
            _folder: folder,
            reply,
            request,
        }
    }

    fn look(&self, mend: bool) -> (EventsChecked, Vec<EventFinding>) {
        let mut found = Vec::new();
        let checked = self
            .store
            .check_events(mend, &mut |finding| found.push(finding));
        let checked = checked.expect("readable");
        assert_eq!(checked.findings, found.len() as u64);
        (checked, found)
    }

    /// Mends it, and looks again.
    fn mend(&self) -> EventsChecked {
        let before = self.look(true).0;
        let (after, found) = self.look(false);
        assert_eq!(found, []);
        assert_eq!((after.events, after.unsound), (before.events, 0));
        after
    }

    /// Changes rows behind the store's back.
    fn damage(&self, work: impl FnOnce(&Tables, &mut Transaction<'_>)) {
        let (environment, tables, _) = self.store.parts();
        let mut transaction = environment.write_txn().expect("begins");
        work(tables, &mut transaction);
        transaction.commit().expect("commits");
    }

    /// Changes the record of an event.
    fn scratch(&self, event: &VerifiedEvent, work: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let snapshot = self.store.snapshot().expect("a snapshot");
        let found = snapshot.view().record(&event.id()).expect("reads");
        let (sequence, _) = found.expect("is there");
        drop(snapshot);
        self.damage(|tables, transaction| {
            let key = sequence_key(sequence);
            let record = tables.events.get(transaction, &key).expect("reads");
            let mut record = record.expect("is there").to_vec();
            work(&mut record);
            tables
                .events
                .put(transaction, &key, &record)
                .expect("writes");
        });
        sequence
    }
}

#[test]
fn a_healthy_store_has_no_findings() {
    let filled = Filled::new();
    let (checked, found) = filled.look(false);
    assert_eq!(found, []);
    assert_eq!((checked.events, checked.unsound), (EVENTS, 0));
    assert_eq!(filled.mend().events, EVENTS);
}

/// CLI-1: in every table, and a look changes nothing.
#[test]
fn a_row_that_is_gone_or_too_many_is_found_and_put_right() {
    let filled = Filled::new();
    let (_, tables, _) = filled.store.parts();
    let names = tables.derived().map(|(name, _)| name);
    for name in names.into_iter().chain(["deadlines"]) {
        filled.damage(|tables, transaction| {
            let derived = tables.derived().into_iter();
            let mut all = derived.chain([("deadlines", &tables.deadlines)]);
            let (_, table) = all.find(|(one, _)| *one == name).expect("is one");
            let (key, value) = table.first(transaction).expect("reads").expect("not empty");
            let (key, value) = (key.to_vec(), value.to_vec());
            let mut wrong = key.clone();
            // Within its first bytes: the time of a deadline, or a hash.
            wrong[7] ^= 1;
            table.delete(transaction, &key).expect("deletes");
            table.put(transaction, &wrong, &value).expect("writes");
        });
        let rows = EventFinding::Rows {
            table: name,
            missing: 1,
            surplus: 1,
        };
        for _ in 0..2 {
            assert_eq!(filled.look(false).1, std::slice::from_ref(&rows));
        }
        filled.mend();
    }
}

#[test]
fn numbers_that_do_not_add_up_are_found_and_counted_anew() {
    let filled = Filled::new();
    filled.damage(|tables, transaction| {
        let stats = crate::counters::Stats::default();
        tables.put_stats(transaction, &stats).expect("writes");
    });
    assert_eq!(filled.look(false).1, [EventFinding::Counters]);
    filled.mend();
    let snapshot = filled.store.snapshot().expect("a snapshot");
    assert_eq!(snapshot.view().stats().expect("reads").events(), EVENTS);
}

#[test]
fn a_header_that_says_something_else_than_its_event_is_written_anew() {
    let filled = Filled::new();
    // Its kind.
    filled.scratch(&filled.reply, |record| record[29] ^= 1);
    let event = filled.reply.id();
    assert!(
        filled
            .look(false)
            .1
            .contains(&EventFinding::Header { event })
    );
    filled.mend();
}

/// CLI-1: it goes with a repair, and its text is told.
#[test]
fn what_its_author_did_not_sign_is_told_and_taken_out() {
    let filled = Filled::new();
    let number = filled.scratch(&filled.reply, |record| {
        let word = record.windows(5).rposition(|word| word == b"reply");
        record[word.expect("its content")] = b'R';
    });
    let (checked, found) = filled.look(false);
    assert_eq!((checked.events, checked.unsound), (EVENTS - 1, 1));
    let told = found.iter().any(|finding| {
        matches!(finding, EventFinding::Forged { number: it, json, .. } if *it == number && json.contains("Reply"))
    });
    assert!(told, "{found:?}");
    assert_eq!(filled.mend().events, EVENTS - 1);
    let snapshot = filled.store.snapshot().expect("a snapshot");
    let stored = snapshot.view().event(&filled.reply.id()).expect("reads");
    assert!(stored.is_none());
}

/// DEL-1: nobody asks for a request that is not there.
#[test]
fn a_request_that_is_taken_out_gates_nothing() {
    let filled = Filled::new();
    let number = filled.scratch(&filled.request, |record| record[0] = 0);
    let unreadable = EventFinding::Unreadable { number };
    assert!(filled.look(false).1.contains(&unreadable));
    filled.mend();
    let snapshot = filled.store.snapshot().expect("a snapshot");
    let again = signed(kind::ANNOUNCEMENT, "again", &[&["d", "project"]]);
    let known = snapshot.view().known(&again, at(1_700_000_001));
    assert_eq!(known.expect("reads").gates, []);
}
