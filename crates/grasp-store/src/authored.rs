//! Everything of one author, whatever its stage (DEL-8).

use grasp_core::deletion::{Graph as _, Name};
use grasp_core::event::kind;
use grasp_core::filter::Matchable;
use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::keys::read_sequence;
use crate::lmdb::Table;
use crate::record::Record;
use crate::view::{View, parse_address};

/// Of those who name a repository so many are looked at. Where all of them are its owner's, nobody will
/// miss it.
pub(crate) const NAMING_MAX: usize = 1000;

impl View<'_> {
    /// All events of `author` made up to `until`; versions of one thing stand together. The request to
    /// vanish of that very time is not among them: it is what the others go by. Scans what the author has:
    /// call it off the async workers.
    pub fn authored(
        &self,
        author: &PublicKey,
        until: Timestamp,
    ) -> Result<Vec<EventId>, StoreError> {
        let mut found: Vec<(Option<String>, EventId)> = Vec::new();
        self.each_authored(author, &mut |record| {
            let asks = record.kind() == kind::VANISH && record.created_at() == until.as_secs();
            if record.created_at() <= until.as_secs() && !asks {
                found.push((thing(&record), record.event_id()));
            }
            true
        })?;
        found.sort();
        Ok(found.into_iter().map(|(_, event)| event).collect())
    }

    /// Whether anything of `author` made up to `until` is here but for `except`.
    pub fn has_authored(
        &self,
        author: &PublicKey,
        until: Timestamp,
        except: &EventId,
    ) -> Result<bool, StoreError> {
        let mut found = false;
        self.each_authored(author, &mut |record| {
            found |= record.created_at() <= until.as_secs() && record.event_id() != *except;
            !found
        })?;
        Ok(found)
    }

    /// Visits events of `author` until `visit` says that it has seen enough.
    fn each_authored(
        &self,
        author: &PublicKey,
        visit: &mut dyn FnMut(Record<'_>) -> bool,
    ) -> Result<(), StoreError> {
        let tables: [&Table; 2] = [&self.tables.authors, &self.tables.unseen];
        for table in tables {
            for row in table.prefix_iter(self.reading, &author.as_bytes()[..8])? {
                let sequence = read_sequence(row?.0).ok_or(StoreError::Corrupt("authors"))?;
                let record = self.record_at(sequence)?;
                let own = record.filter(|record| record.public_key() == *author);
                if own.is_some_and(|record| !visit(record)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether a served event of somebody else, or a proposal of somebody else that waits, names the
    /// repository of `owner` (DEL-8).
    pub fn is_named_by_others(&self, address: &str) -> Result<bool, StoreError> {
        let Some((_, owner, _)) = parse_address(address) else {
            return Ok(false);
        };
        let name = Name::Address(address.to_owned());
        let nodes = self.referring(&name, 0, NAMING_MAX)?;
        Ok(nodes.iter().any(|node| node.event.author() != owner))
    }
}

/// What versions of one thing have in common.
fn thing(record: &Record<'_>) -> Option<String> {
    let kind = record.kind();
    let repository = matches!(kind, kind::ANNOUNCEMENT | kind::STATE);
    let d = record.first_tag('d').filter(|_| repository)?;
    Some(d.as_text(str::to_owned))
}
