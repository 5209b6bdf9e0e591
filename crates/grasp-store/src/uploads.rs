//! Upload records (PR-4) and the `/prs/` repositories that show a proposal (REF-6).

use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::UploadRecord;
use grasp_core::name::{Coordinate, Identifier, RepoAddress};
use grasp_core::oid::Oid;
use grasp_core::proposal::Proposal;
use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::deadlines;
use crate::error::StoreError;
use crate::keys::{
    LongKey, read_identifier, read_repository, repository_key, upload_key, upload_value,
};
use crate::lifecycle::Writing;
use crate::view::View;

const CORRUPT: StoreError = StoreError::Corrupt("uploads");

impl Writing<'_, '_> {
    /// Keeps `upload`, replacing the one of the same event and repository.
    pub(crate) fn upload(&mut self, upload: &UploadRecord) -> Result<(), StoreError> {
        self.drop_upload(&upload.event, &upload.repository)?;
        let key = upload_key(&upload.repository, &upload.event);
        self.tables
            .uploads
            .put(self.transaction, &key, &upload_value(upload))?;
        let by_event =
            LongKey::new(&[upload.event.as_bytes(), &repository_key(&upload.repository)]);
        self.tables
            .uploads_by_event
            .put(self.transaction, &by_event, &[])?;
        let due = deadlines::upload_key(upload.deadline, &key);
        Ok(self.tables.deadlines.put(self.transaction, &due, &[])?)
    }

    pub(crate) fn drop_upload(
        &mut self,
        event: &EventId,
        repository: &RepoAddress,
    ) -> Result<(), StoreError> {
        let key = upload_key(repository, event);
        let Some(value) = self.tables.uploads.get(self.transaction, &key)? else {
            return Ok(());
        };
        let upload = read(&key, value)?;
        self.tables.uploads.delete(self.transaction, &key)?;
        let by_event = LongKey::new(&[event.as_bytes(), &repository_key(repository)]);
        self.tables
            .uploads_by_event
            .delete(self.transaction, &by_event)?;
        let due = deadlines::upload_key(upload.deadline, &key);
        self.tables.deadlines.delete(self.transaction, &due)?;
        Ok(())
    }

    /// Only `/prs/` repositories need a row: in announced ones a proposal's own tags say it.
    pub(crate) fn put_placement(
        &mut self,
        event: &EventId,
        repository: &RepoAddress,
    ) -> Result<(), StoreError> {
        if let RepoAddress::Proposals(coordinate) = repository {
            let key = placement_key(coordinate, event);
            self.tables.placements.put(self.transaction, &key, &[])?;
        }
        Ok(())
    }

    /// The placements of a proposal that is removed: its submitter's, for the identifiers it names.
    pub(crate) fn drop_placements(&mut self, event: &VerifiedEvent) -> Result<(), StoreError> {
        if !kind::is_proposal(event.kind()) {
            return Ok(());
        }
        let Ok(proposal) = Proposal::parse(event.clone()) else {
            return Ok(());
        };
        for target in proposal.targets() {
            let own = Coordinate::new(proposal.author(), target.identifier.clone());
            let key = placement_key(&own, &proposal.id());
            self.tables.placements.delete(self.transaction, &key)?;
        }
        Ok(())
    }
}

fn placement_key(coordinate: &Coordinate, event: &EventId) -> LongKey {
    let identifier = coordinate.identifier.as_str().as_bytes();
    LongKey::new(&[
        identifier,
        &[0],
        coordinate.owner.as_bytes(),
        event.as_bytes(),
    ])
}

/// Reads an upload record from its key and value.
pub(crate) fn read(key: &[u8], value: &[u8]) -> Result<UploadRecord, StoreError> {
    let (repository, event) = read_repository(key).ok_or(CORRUPT)?;
    let event: [u8; 32] = event.try_into().map_err(|_| CORRUPT)?;
    let (commit, rest) = value.split_first_chunk::<20>().ok_or(CORRUPT)?;
    let (bytes, deadline) = rest.split_first_chunk::<8>().ok_or(CORRUPT)?;
    let deadline: [u8; 8] = deadline.try_into().map_err(|_| CORRUPT)?;
    Ok(UploadRecord {
        event: EventId::from_byte_array(event),
        commit: Oid::from_bytes(*commit),
        repository,
        bytes: u64::from_be_bytes(*bytes),
        deadline: Timestamp::from_secs(u64::from_be_bytes(deadline)),
    })
}

impl View<'_> {
    /// Whether a proposal has its ref in its submitter's own `/prs/` repository.
    pub(crate) fn is_placed(&self, event: &VerifiedEvent) -> Result<bool, StoreError> {
        let Ok(proposal) = Proposal::parse(event.clone()) else {
            return Ok(false);
        };
        for target in proposal.targets() {
            let own = Coordinate::new(proposal.author(), target.identifier.clone());
            let key = placement_key(&own, &proposal.id());
            if self.tables.placements.get(self.reading, &key)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What all uploads weigh together, in bytes of their packs.
    pub fn uploads_bytes(&self) -> Result<u64, StoreError> {
        let mut bytes = 0_u64;
        for row in self.tables.uploads.iter(self.reading)? {
            let (key, value) = row?;
            bytes = bytes.saturating_add(read(key, value)?.bytes);
        }
        Ok(bytes)
    }

    /// The commits pushed to `refs/nostr/<event>` while it was unknown, wherever.
    pub fn uploads_of(&self, event: &EventId) -> Result<Vec<UploadRecord>, StoreError> {
        let mut uploads = Vec::new();
        for row in self
            .tables
            .uploads_by_event
            .prefix_iter(self.reading, event.as_bytes())?
        {
            let key = LongKey::new(&[&row?.0[32..], event.as_bytes()]);
            if let Some(value) = self.tables.uploads.get(self.reading, &key)? {
                uploads.push(read(&key, value)?);
            }
        }
        Ok(uploads)
    }

    /// The upload records of one repository.
    pub fn uploads_into(&self, repository: &RepoAddress) -> Result<Vec<UploadRecord>, StoreError> {
        let start = repository_key(repository);
        let rows = self.tables.uploads.prefix_iter(self.reading, &start)?;
        rows.map(|row| {
            row.map_err(StoreError::from)
                .and_then(|(key, value)| read(key, value))
        })
        .collect()
    }

    /// Which proposals have their ref in which `/prs/` repository of this identifier.
    pub(crate) fn placements(
        &self,
        identifier: &Identifier,
        owner: Option<&PublicKey>,
    ) -> Result<Vec<(EventId, RepoAddress)>, StoreError> {
        let mut start = LongKey::new(&[identifier.as_str().as_bytes(), &[0]]);
        if let Some(owner) = owner {
            start.push(owner.as_bytes());
        }
        let mut placements = Vec::new();
        for row in self.tables.placements.prefix_iter(self.reading, &start)? {
            placements.push(read_placement(row?.0).ok_or(StoreError::Corrupt("placements"))?);
        }
        Ok(placements)
    }
}

fn read_placement(key: &[u8]) -> Option<(EventId, RepoAddress)> {
    let (identifier, rest) = read_identifier(key)?;
    let (owner, event) = rest.split_first_chunk::<32>()?;
    let coordinate = Coordinate::new(PublicKey::from_byte_array(*owner), identifier);
    let event = EventId::from_byte_array(event.try_into().ok()?);
    Some((event, RepoAddress::Proposals(coordinate)))
}
