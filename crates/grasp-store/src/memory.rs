//! What is remembered of events that are not here: marks (PUR-8, SYNC-32) and the gates of requests to
//! delete and to vanish (DEL-1, DEL-8).

use grasp_core::admission::Known;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::MarkReason;
use grasp_core::request::Gate;
use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::deadlines;
use crate::error::StoreError;
use crate::index::version_key;
use crate::keys::Key;
use crate::lifecycle::Writing;
use crate::view::{View, parse_address};

impl Writing<'_, '_> {
    pub(crate) fn mark(
        &mut self,
        event: &EventId,
        reason: MarkReason,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        self.unmark(event, reason)?;
        let key = mark_key(event, reason);
        self.tables
            .marks
            .put(self.transaction, &key, &until.as_secs().to_be_bytes())?;
        let due = deadlines::mark_key(until, &key);
        Ok(self.tables.deadlines.put(self.transaction, &due, &[])?)
    }

    pub(crate) fn unmark(&mut self, event: &EventId, reason: MarkReason) -> Result<(), StoreError> {
        let key = mark_key(event, reason);
        let Some(until) = self.tables.marks.get(self.transaction, &key)? else {
            return Ok(());
        };
        let due = deadlines::mark_key(read_until(until)?, &key);
        self.tables.deadlines.delete(self.transaction, &due)?;
        self.tables.marks.delete(self.transaction, &key)?;
        Ok(())
    }

    pub(crate) fn gate_event(
        &mut self,
        event: &EventId,
        author: &PublicKey,
        request: &EventId,
    ) -> Result<(), StoreError> {
        let key = gate_key(event, author, request);
        Ok(self
            .tables
            .gated_events
            .put(self.transaction, &key, request.as_bytes())?)
    }

    pub(crate) fn gate_address(
        &mut self,
        address: &str,
        until: Timestamp,
        request: &EventId,
    ) -> Result<(), StoreError> {
        let Some((kind, author, d)) = parse_address(address) else {
            return Ok(()); // nothing can have it
        };
        let start = self.hash.address(kind, author.as_bytes(), d);
        let key = Key::new(&[&start, request.as_bytes()]);
        let until = until.as_secs().to_be_bytes();
        Ok(self
            .tables
            .gated_addresses
            .put(self.transaction, &key, &until)?)
    }

    pub(crate) fn gate_author(
        &mut self,
        author: &PublicKey,
        until: Timestamp,
        request: &EventId,
    ) -> Result<(), StoreError> {
        let key = Key::new(&[author.as_bytes(), request.as_bytes()]);
        let until = until.as_secs().to_be_bytes();
        Ok(self
            .tables
            .gated_authors
            .put(self.transaction, &key, &until)?)
    }

    /// A request that is gone gates nothing. What others gate too stays gated.
    pub(crate) fn drop_gates(&mut self, request: &VerifiedEvent) -> Result<(), StoreError> {
        let (id, author) = (request.id(), request.author());
        if request.kind() == kind::VANISH {
            let key = Key::new(&[author.as_bytes(), id.as_bytes()]);
            self.tables.gated_authors.delete(self.transaction, &key)?;
        }
        if request.kind() != kind::DELETION {
            return Ok(());
        }
        for tag in request.tags().filter(|tag| tag.len() > 1) {
            match tag[0].as_str() {
                "e" => {
                    let Ok(event) = EventId::from_hex(&tag[1]) else {
                        continue;
                    };
                    let key = gate_key(&event, &author, &id);
                    let there = self.tables.gated_events.get(self.transaction, &key)?;
                    if there == Some(id.as_bytes().as_slice()) {
                        self.tables.gated_events.delete(self.transaction, &key)?;
                    }
                }
                "a" => {
                    let Some((kind, owner, d)) = parse_address(&tag[1]) else {
                        continue;
                    };
                    let start = self.hash.address(kind, owner.as_bytes(), d);
                    let key = Key::new(&[&start, id.as_bytes()]);
                    self.tables.gated_addresses.delete(self.transaction, &key)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Requests for the same event have gates of their own, or the last would end those before it. The
/// beginning of the request tells them apart: only their author could make two agree in it.
fn gate_key(event: &EventId, author: &PublicKey, request: &EventId) -> Key {
    Key::new(&[
        event.as_bytes(),
        author.as_bytes(),
        &request.as_bytes()[..8],
    ])
}

fn mark_key(event: &EventId, reason: MarkReason) -> Key {
    let reason = match reason {
        MarkReason::Expired => 0,
        MarkReason::Refused => 1,
    };
    Key::new(&[event.as_bytes(), &[reason]])
}

/// Reads [`mark_key`] back.
pub(crate) fn read_mark(key: &[u8]) -> Option<(EventId, MarkReason)> {
    let (event, reason) = key.split_first_chunk::<32>()?;
    let reason = match reason {
        [0] => MarkReason::Expired,
        [1] => MarkReason::Refused,
        _ => return None,
    };
    Some((EventId::from_byte_array(*event), reason))
}

fn read_until(bytes: &[u8]) -> Result<Timestamp, StoreError> {
    let bytes = bytes.try_into().map_err(|_| StoreError::Corrupt("marks"))?;
    Ok(Timestamp::from_secs(u64::from_be_bytes(bytes)))
}

impl View<'_> {
    /// What the checks that come before the kind need to know (EV-1).
    pub fn known(&self, event: &VerifiedEvent, now: Timestamp) -> Result<Known, StoreError> {
        let address = event.address();
        let served_version = match &address {
            Some(address) => self.served_version(address)?,
            None => None,
        };
        Ok(Known {
            stage: self.record(&event.id())?.map(|(_, record)| record.stage()),
            gate: self.gate(event)?,
            expired_mark: self.is_marked(&event.id(), MarkReason::Expired, now)?,
            served_version,
            announced: event.kind() == kind::STATE
                && event
                    .identifier()
                    .map_or(Ok(false), |it| self.is_announced(&it))?,
        })
    }

    /// Whether `event` is remembered for `reason`.
    pub fn is_marked(
        &self,
        event: &EventId,
        reason: MarkReason,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let until = self
            .tables
            .marks
            .get(self.reading, &mark_key(event, reason))?;
        Ok(until
            .map(read_until)
            .transpose()?
            .is_some_and(|until| until > now))
    }

    /// What keeps `event` out. Who vanished has deleted everything.
    pub(crate) fn gate(&self, event: &VerifiedEvent) -> Result<Option<Gate>, StoreError> {
        if self.has_vanished(event)? {
            return Ok(Some(Gate::Vanish));
        }
        Ok(self.is_deleted(event)?.then_some(Gate::Deletion))
    }

    /// Requests to delete are never deleted, or the last of two would undo the first.
    fn is_deleted(&self, event: &VerifiedEvent) -> Result<bool, StoreError> {
        if is_request(event.kind()) {
            return Ok(false);
        }
        let key = Key::new(&[event.id().as_bytes(), event.author().as_bytes()]);
        let mut gates = self.tables.gated_events.prefix_iter(self.reading, &key)?;
        if gates.next().transpose()?.is_some() {
            return Ok(true);
        }
        let Some(start) = version_key(self.hash, event) else {
            return Ok(false);
        };
        for row in self
            .tables
            .gated_addresses
            .prefix_iter(self.reading, &start)?
        {
            if event.created_at() <= read_until(row?.1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// DEL-8. A request to vanish does not gate itself: sent again it is known.
    fn has_vanished(&self, event: &VerifiedEvent) -> Result<bool, StoreError> {
        let (id, author) = (event.id(), event.author());
        let gates = &self.tables.gated_authors;
        for row in gates.prefix_iter(self.reading, author.as_bytes())? {
            let (key, until) = row?;
            if event.created_at() <= read_until(until)? && !key.ends_with(id.as_bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_request(kind: u16) -> bool {
    matches!(kind, kind::DELETION | kind::VANISH)
}
