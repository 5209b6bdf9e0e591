//! Requests to delete and to vanish: what they gate, since when they are here, and when they were of use
//! (DEL-1, DEL-8, DEL-9).
//!
//! *Invariant:* a request that is stored has one row in `requests`, and its gates; with the event all of it
//! goes. An author's number of unused requests counts exactly the rows without a use.

use grasp_core::admission::GATES_MAX;
use grasp_core::event::VerifiedEvent;
use grasp_core::request::{Asks, Gate, Targets, Uses, is_request};
use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::index::version_key;
use crate::keys::{Key, KeyedHash};
use crate::lifecycle::Writing;
use crate::view::{View, parse_address};

const CORRUPT: StoreError = StoreError::Corrupt("requests");
/// In the place of a last use.
const NEVER: u64 = u64::MAX;

impl Writing<'_, '_> {
    pub(crate) fn gate_event(
        &mut self,
        event: &EventId,
        author: &PublicKey,
        request: &EventId,
    ) -> Result<(), StoreError> {
        let key = event_gate(event, author, request);
        let gates = &self.tables.gated_events;
        Ok(gates.put(self.transaction, &key, request.as_bytes())?)
    }

    pub(crate) fn gate_address(
        &mut self,
        address: &str,
        until: Timestamp,
        request: &EventId,
    ) -> Result<(), StoreError> {
        let Some(key) = address_gate(self.hash, address, request) else {
            return Ok(()); // nothing can have it
        };
        let gates = &self.tables.gated_addresses;
        Ok(gates.put(self.transaction, &key, &seconds(until))?)
    }

    pub(crate) fn gate_author(
        &mut self,
        author: &PublicKey,
        until: Timestamp,
        request: &EventId,
    ) -> Result<(), StoreError> {
        let key = author_gate(author, request);
        let gates = &self.tables.gated_authors;
        Ok(gates.put(self.transaction, &key, &seconds(until))?)
    }

    /// A stored request is kept since then.
    pub(crate) fn keep_request(&mut self, request: &EventId, uses: Uses) -> Result<(), StoreError> {
        let author = self.author_of(request)?;
        self.forget_uses(request, &author)?;
        self.put_uses(request, &author, uses)
    }

    /// It was of use.
    pub(crate) fn use_request(
        &mut self,
        request: &EventId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let author = self.author_of(request)?;
        let before = self.forget_uses(request, &author)?.ok_or(CORRUPT)?;
        let after = Uses {
            last: Some(at),
            ..before
        };
        self.put_uses(request, &author, after)?;
        self.idle_used(request)
    }

    /// A request that is gone gates nothing. What others gate too stays gated.
    pub(crate) fn drop_request(&mut self, request: &VerifiedEvent) -> Result<(), StoreError> {
        let (id, author) = (request.id(), request.author());
        if !is_request(request.kind()) {
            return Ok(());
        }
        self.forget_uses(&id, &author)?;
        let gates = &self.tables.gated_authors;
        gates.delete(self.transaction, &author_gate(&author, &id))?;
        let named = Targets::of(request).unwrap_or_default();
        for event in &named.events {
            let key = event_gate(event, &author, &id);
            let there = self.tables.gated_events.get(self.transaction, &key)?;
            if there == Some(id.as_bytes().as_slice()) {
                self.tables.gated_events.delete(self.transaction, &key)?;
            }
        }
        for address in &named.addresses {
            if let Some(key) = address_gate(self.hash, address, &id) {
                self.tables.gated_addresses.delete(self.transaction, &key)?;
            }
        }
        Ok(())
    }

    fn author_of(&self, request: &EventId) -> Result<PublicKey, StoreError> {
        let found = self.find(request)?;
        let (_, bytes) = found.ok_or(StoreError::UnknownEvent(*request))?;
        Ok(crate::record::Record::parse(&bytes)?.public_key())
    }

    fn put_uses(
        &mut self,
        request: &EventId,
        author: &PublicKey,
        uses: Uses,
    ) -> Result<(), StoreError> {
        let value = uses_value(uses);
        let requests = &self.tables.requests;
        requests.put(self.transaction, request.as_bytes(), &value)?;
        if uses.last.is_none() {
            self.count_unused(author, u64::saturating_add)?;
        }
        Ok(())
    }

    /// Takes the row away; what it said.
    fn forget_uses(
        &mut self,
        request: &EventId,
        author: &PublicKey,
    ) -> Result<Option<Uses>, StoreError> {
        let requests = &self.tables.requests;
        let there = requests.get(self.transaction, request.as_bytes())?;
        let Some(uses) = there.map(read_uses).transpose()? else {
            return Ok(None);
        };
        requests.delete(self.transaction, request.as_bytes())?;
        if uses.last.is_none() {
            self.count_unused(author, u64::saturating_sub)?;
        }
        Ok(Some(uses))
    }

    fn count_unused(
        &mut self,
        author: &PublicKey,
        add: fn(u64, u64) -> u64,
    ) -> Result<(), StoreError> {
        let table = &self.tables.unused_requests;
        let there = table.get(self.transaction, author.as_bytes())?;
        match add(read_count(there)?, 1) {
            0 => {
                table.delete(self.transaction, author.as_bytes())?;
            }
            count => table.put(self.transaction, author.as_bytes(), &count.to_be_bytes())?,
        }
        Ok(())
    }
}

impl View<'_> {
    /// The requests of its author that keep `event` out, at most [`GATES_MAX`] of each sort.
    pub(crate) fn gates(&self, event: &VerifiedEvent) -> Result<Vec<Gate>, StoreError> {
        let mut gates = Vec::new();
        for request in self.vanished(event)? {
            gates.push(self.gate(request, Asks::Vanish)?);
        }
        // Requests are never deleted, or the second could undo the first.
        if !is_request(event.kind()) {
            for request in self.deleted(event)? {
                gates.push(self.gate(request, Asks::Deletion)?);
            }
        }
        Ok(gates)
    }

    /// Since when a request is here, and its last use.
    pub fn request_uses(&self, request: &EventId) -> Result<Option<Uses>, StoreError> {
        let requests = &self.tables.requests;
        let row = requests.get(self.reading, request.as_bytes())?;
        row.map(read_uses).transpose()
    }

    /// Whether a stored request keeps anything out.
    pub(crate) fn is_in_force(&self, request: &VerifiedEvent) -> Result<bool, StoreError> {
        let (id, author) = (request.id(), request.author());
        let vanish = author_gate(&author, &id);
        if self
            .tables
            .gated_authors
            .get(self.reading, &vanish)?
            .is_some()
        {
            return Ok(true);
        }
        let named = Targets::of(request).unwrap_or_default();
        for event in &named.events {
            let key = event_gate(event, &author, &id);
            let there = self.tables.gated_events.get(self.reading, &key)?;
            if there == Some(id.as_bytes().as_slice()) {
                return Ok(true);
            }
        }
        for address in &named.addresses {
            let key = address_gate(self.hash, address, &id);
            if let Some(key) = key
                && self
                    .tables
                    .gated_addresses
                    .get(self.reading, &key)?
                    .is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many requests of `author` were of no use yet.
    pub fn unused_requests(&self, author: &PublicKey) -> Result<usize, StoreError> {
        let table = &self.tables.unused_requests;
        let count = read_count(table.get(self.reading, author.as_bytes())?)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Requests to vanish that reach as far as `event`. None gates itself: sent again it is known.
    fn vanished(&self, event: &VerifiedEvent) -> Result<Vec<EventId>, StoreError> {
        let mut requests = Vec::new();
        let gates = &self.tables.gated_authors;
        for row in gates.prefix_iter(self.reading, event.author().as_bytes())? {
            let (key, until) = row?;
            let request = read_request(key)?;
            if event.created_at() <= read_seconds(until)? && request != event.id() {
                requests.push(request);
            }
            if requests.len() == GATES_MAX {
                break;
            }
        }
        Ok(requests)
    }

    /// Deletion requests that name its id, or its address at its time or later.
    fn deleted(&self, event: &VerifiedEvent) -> Result<Vec<EventId>, StoreError> {
        let mut requests = Vec::new();
        let key = Key::new(&[event.id().as_bytes(), event.author().as_bytes()]);
        let gates = self.tables.gated_events.prefix_iter(self.reading, &key)?;
        for row in gates.take(GATES_MAX) {
            requests.push(read_request(row?.1)?);
        }
        let Some(start) = version_key(self.hash, event) else {
            return Ok(requests);
        };
        let gates = &self.tables.gated_addresses;
        for row in gates.prefix_iter(self.reading, &start)? {
            if requests.len() >= GATES_MAX {
                break;
            }
            let (key, until) = row?;
            let request = read_request(key)?;
            if event.created_at() <= read_seconds(until)? && !requests.contains(&request) {
                requests.push(request);
            }
        }
        Ok(requests)
    }

    fn gate(&self, request: EventId, asks: Asks) -> Result<Gate, StoreError> {
        let uses = self.request_uses(&request)?.ok_or(CORRUPT)?;
        let (_, record) = self.record(&request)?.ok_or(CORRUPT)?;
        Ok(Gate {
            request,
            asks,
            uses,
            expiration: record.expiration(),
        })
    }
}

/// Requests for the same event have gates of their own, or the last would end those before it. The
/// beginning of the request tells them apart: only their author could make two agree in it.
fn event_gate(event: &EventId, author: &PublicKey, request: &EventId) -> Key {
    Key::new(&[
        event.as_bytes(),
        author.as_bytes(),
        &request.as_bytes()[..8],
    ])
}

fn address_gate(hash: &KeyedHash, address: &str, request: &EventId) -> Option<Key> {
    let (kind, author, d) = parse_address(address)?;
    let start = hash.address(kind, author.as_bytes(), d);
    Some(Key::new(&[&start, request.as_bytes()]))
}

fn author_gate(author: &PublicKey, request: &EventId) -> Key {
    Key::new(&[author.as_bytes(), request.as_bytes()])
}

/// The request at the end of a gate's key, or in its value.
fn read_request(bytes: &[u8]) -> Result<EventId, StoreError> {
    let request = bytes.last_chunk().ok_or(CORRUPT)?;
    Ok(EventId::from_byte_array(*request))
}

fn seconds(at: Timestamp) -> [u8; 8] {
    at.as_secs().to_be_bytes()
}

fn read_seconds(bytes: &[u8]) -> Result<Timestamp, StoreError> {
    let bytes = bytes.try_into().map_err(|_| CORRUPT)?;
    Ok(Timestamp::from_secs(u64::from_be_bytes(bytes)))
}

fn uses_value(uses: Uses) -> [u8; 16] {
    let last = uses
        .last
        .map_or(NEVER, |last| last.as_secs().min(NEVER - 1));
    (u128::from(uses.first_seen.as_secs()) << 64 | u128::from(last)).to_be_bytes()
}

fn read_uses(bytes: &[u8]) -> Result<Uses, StoreError> {
    let ([first_seen, last], []) = bytes.as_chunks::<8>() else {
        return Err(CORRUPT);
    };
    let last = u64::from_be_bytes(*last);
    Ok(Uses {
        first_seen: Timestamp::from_secs(u64::from_be_bytes(*first_seen)),
        last: (last != NEVER).then(|| Timestamp::from_secs(last)),
    })
}

fn read_count(bytes: Option<&[u8]>) -> Result<u64, StoreError> {
    let Some(bytes) = bytes else {
        return Ok(0);
    };
    let bytes = bytes.try_into().map_err(|_| CORRUPT)?;
    Ok(u64::from_be_bytes(bytes))
}
