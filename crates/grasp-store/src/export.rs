//! Writes all events as lines of JSON, and reads them back: for operators, and for another engine.
//!
//! A line holds an event with its place in life; that of a request to delete or to vanish also since when it
//! is here, its last use, and whether it is in force (DEL-9). What is remembered besides events (uploads,
//! marks) is not in it. Reading verifies every event again: a file is no more trusted than a peer.

use std::io::{self, BufRead, Write};
use std::ops::Bound;

use grasp_core::event::{VerifiedEvent, VerifyError};
use grasp_core::filter::Matchable as _;
use grasp_core::lifecycle::{Batch, Change, Stage, Standing};
use grasp_core::request::{Uses, gates, is_request};
use nostr::event::{Event, EventId};
use nostr::types::Timestamp;
use serde_json::{Value, json};

use crate::error::{CommitError, StoreError};
use crate::keys::{Sequence, read_sequence, sequence_key};
use crate::record::Record;
use crate::store::Store;
use crate::view::View;

/// Events of one snapshot, and of one commit.
const CHUNK: usize = 1000;
/// Longer lines are no events of ours.
const LINE_MAX: u64 = 16 << 20;

/// Why an export ended early.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The line could not be written.
    #[error("cannot write the export")]
    Write(#[from] io::Error),
}

/// Why an import ended early. What came before the line is stored.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file could not be read.
    #[error("cannot read the import")]
    Read(#[from] io::Error),
    /// A line is not what an export writes.
    #[error("line {line} is no exported event")]
    Line {
        /// Counted from one.
        line: u64,
    },
    /// The event of a line is forged or damaged.
    #[error("the event of line {line} is refused")]
    Event {
        /// Counted from one.
        line: u64,
        /// What is wrong with it.
        #[source]
        source: VerifyError,
    },
    /// The store refused a part.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl Store {
    /// Writes every event, in the order in which they came; how many. Blocking.
    pub fn export(&self, out: &mut dyn Write) -> Result<u64, ExportError> {
        let mut count = 0;
        let mut after: Sequence = 0;
        loop {
            let lines = self.lines_after(after)?;
            let Some((last, _)) = lines.last() else {
                out.flush()?;
                return Ok(count);
            };
            after = *last;
            for (_, line) in &lines {
                out.write_all(line)?;
            }
            count += lines.len() as u64;
        }
    }

    /// The next lines, from a snapshot of their own: a slow writer pins no pages.
    fn lines_after(&self, after: Sequence) -> Result<Vec<(Sequence, Vec<u8>)>, StoreError> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let after = sequence_key(after);
        let bounds = (Bound::Excluded(&after[..]), Bound::Unbounded);
        let mut lines = Vec::new();
        for row in view.tables.events.range(view.reading, &bounds)?.take(CHUNK) {
            let (key, bytes) = row?;
            let sequence = read_sequence(key).ok_or(StoreError::Corrupt("events"))?;
            let record = Record::parse(bytes)?;
            let request = view.exported_request(&record)?;
            lines.push((sequence, line(&record, request)));
        }
        Ok(lines)
    }

    /// Reads what [`Self::export`] wrote; how many events were new or there already. Blocking, and not
    /// for async workers: each signature is checked.
    pub fn import(&self, lines: &mut dyn BufRead) -> Result<u64, ImportError> {
        let (mut batch, mut count) = (Vec::new(), 0);
        let mut text = String::new();
        for line in 1.. {
            text.clear();
            if io::Read::take(&mut *lines, LINE_MAX).read_line(&mut text)? == 0 {
                break;
            }
            let (event, rest) = read_line(&text).ok_or(ImportError::Line { line })?;
            let event = VerifiedEvent::verify(event)
                .map_err(|source| ImportError::Event { line, source })?;
            batch.extend(rest.changes(event));
            count += 1;
            if batch.len() >= CHUNK {
                self.import_batch(std::mem::take(&mut batch))?;
            }
        }
        self.import_batch(batch)?;
        Ok(count)
    }

    fn import_batch(&self, batch: Vec<Change>) -> Result<(), CommitError> {
        self.commit_blocking(move |view| {
            // What is here already stays as it is, its last use too.
            let mut fresh = batch.clone();
            for change in &batch {
                if let Change::KeepRequest { request, .. } = change
                    && view.request_uses(request)?.is_some()
                {
                    fresh.retain(|other| other != change);
                }
            }
            Ok((fresh, ()))
        })?;
        Ok(())
    }
}

/// What a line says of its event.
struct Place {
    stage: Stage,
    deadline: Option<Timestamp>,
    standing: Standing,
    /// Of a request.
    request: Option<RequestPlace>,
}

/// What a line says of a request besides.
#[derive(Debug, Clone, Copy)]
struct RequestPlace {
    uses: Uses,
    /// Whether it gates what it names.
    in_force: bool,
}

impl Place {
    fn changes(self, event: VerifiedEvent) -> Batch {
        let kept = self.request.map(|request| Change::KeepRequest {
            request: event.id(),
            uses: request.uses,
        });
        let in_force = self.request.is_some_and(|request| request.in_force);
        let gates = if in_force {
            gates(&event)
        } else {
            Batch::new()
        };
        let insert = Change::Insert {
            event,
            stage: self.stage,
            deadline: self.deadline,
            standing: self.standing,
        };
        std::iter::once(insert).chain(kept).chain(gates).collect()
    }
}

impl View<'_> {
    fn exported_request(&self, record: &Record<'_>) -> Result<Option<RequestPlace>, StoreError> {
        if !is_request(record.kind()) {
            return Ok(None);
        }
        let uses = self.request_uses(&record.event_id())?;
        let in_force = self.is_in_force(&record.event()?)?;
        Ok(uses.map(|uses| RequestPlace { uses, in_force }))
    }
}

const STAGES: [(&str, Stage); 5] = [
    ("served", Stage::Served),
    ("waiting", Stage::Waiting),
    ("parked", Stage::Parked),
    ("superseded", Stage::Superseded),
    ("held", Stage::Held),
];

/// The event stands last and as it is stored, not parsed and written again.
fn line(record: &Record<'_>, request: Option<RequestPlace>) -> Vec<u8> {
    let stage = STAGES.iter().find(|(_, stage)| *stage == record.stage());
    let standing = match record.standing() {
        Standing::Anchor => json!("anchor"),
        Standing::Bare => json!("bare"),
        Standing::Reply { root, counted } => json!({"root": root.to_hex(), "counted": counted}),
    };
    let deadline = record.deadline().map(|at| at.as_secs());
    let stage = stage.map_or("held", |(name, _)| name);
    let request = request.map_or(Value::Null, |request| {
        json!({
            "first_seen": request.uses.first_seen.as_secs(),
            "last_use": request.uses.last.map(|at| at.as_secs()),
            "in_force": request.in_force,
        })
    });
    let mut line = format!(
        r#"{{"stage":"{stage}","deadline":{},"standing":{standing},"request":{request},"event":"#,
        json!(deadline)
    )
    .into_bytes();
    line.extend(record.json());
    line.extend(b"}\n");
    line
}

fn read_line(text: &str) -> Option<(Event, Place)> {
    let mut line: Value = serde_json::from_str(text).ok()?;
    let event = Event::from_json(line.get_mut("event")?.take().to_string()).ok()?;
    let name = line.get("stage")?.as_str()?;
    let (_, stage) = STAGES.iter().find(|(stage, _)| *stage == name)?;
    let deadline = match line.get("deadline")? {
        Value::Null => None,
        at => Some(seconds(at)?),
    };
    let standing = match line.get("standing")? {
        Value::String(name) if name == "anchor" => Standing::Anchor,
        Value::String(name) if name == "bare" => Standing::Bare,
        reply => Standing::Reply {
            root: EventId::from_hex(reply.get("root")?.as_str()?).ok()?,
            counted: reply.get("counted")?.as_bool()?,
        },
    };
    let request = match line.get("request")? {
        Value::Null => None,
        request => Some(read_request(request)?),
    };
    // A request that is not kept by its own clock would never go.
    if request.is_some() != is_request(event.kind.as_u16()) {
        return None;
    }
    let place = Place {
        stage: *stage,
        deadline,
        standing,
        request,
    };
    Some((event, place))
}

fn read_request(request: &Value) -> Option<RequestPlace> {
    let last = match request.get("last_use")? {
        Value::Null => None,
        at => Some(seconds(at)?),
    };
    Some(RequestPlace {
        uses: Uses {
            first_seen: seconds(request.get("first_seen")?)?,
            last,
        },
        in_force: request.get("in_force")?.as_bool()?,
    })
}

/// A time.
fn seconds(value: &Value) -> Option<Timestamp> {
    value.as_u64().map(Timestamp::from_secs)
}
