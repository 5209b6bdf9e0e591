//! What the operator's lists did (DEL-7): which lists were carried out, and whom they took off the service.

use grasp_core::lifecycle::{CuratedBy, Stage};
use grasp_core::name::{Coordinate, RepoAddress};

use crate::error::StoreError;
use crate::index::ANYBODY;
use crate::keys::{read_repository, read_sequence, repository_key};
use crate::lifecycle::Writing;
use crate::record::stage_of;
use crate::view::View;

const CORRUPT: StoreError = StoreError::Corrupt("curated");
const APPLIED: &[u8] = b"lists applied";

impl Writing<'_, '_> {
    pub(crate) fn curate(
        &mut self,
        scope: &Coordinate,
        by: Option<CuratedBy>,
    ) -> Result<(), StoreError> {
        let key = repository_key(&RepoAddress::Announced(scope.clone()));
        match by {
            Some(by) => {
                let value = [match by {
                    CuratedBy::Blacklist => 0,
                    CuratedBy::Whitelist => 1,
                }];
                self.tables.curated.put(self.transaction, &key, &value)?;
            }
            None => {
                self.tables.curated.delete(self.transaction, &key)?;
            }
        }
        Ok(())
    }

    pub(crate) fn lists_applied(&mut self, fingerprint: &[u8; 32]) -> Result<(), StoreError> {
        Ok(self
            .tables
            .meta
            .put(self.transaction, APPLIED, fingerprint)?)
    }
}

impl View<'_> {
    /// The scopes that lists took away.
    pub fn curated(&self) -> Result<Vec<(Coordinate, CuratedBy)>, StoreError> {
        let mut curated = Vec::new();
        for row in self.tables.curated.iter(self.reading)? {
            let (key, value) = row?;
            let (repository, _) = read_repository(key).ok_or(CORRUPT)?;
            let by = match value {
                [0] => CuratedBy::Blacklist,
                [1] => CuratedBy::Whitelist,
                _ => return Err(CORRUPT),
            };
            curated.push((repository.coordinate().clone(), by));
        }
        Ok(curated)
    }

    /// The fingerprint of the lists that were carried out last; `None` if there never were any.
    pub fn lists_applied(&self) -> Result<Option<[u8; 32]>, StoreError> {
        let bytes = self.tables.meta.get(self.reading, APPLIED)?;
        let fingerprint = bytes.map(|bytes| bytes.try_into().map_err(|_| CORRUPT));
        fingerprint.transpose()
    }

    /// Every stored announcement by its scope and stage. Reads as many records as there are: for rare work.
    pub fn announcements(&self) -> Result<Vec<(Coordinate, Stage)>, StoreError> {
        let mut announcements = Vec::new();
        for row in self.tables.listings.prefix_iter(self.reading, &ANYBODY)? {
            let (key, value) = row?;
            let stage = value.first().copied().and_then(stage_of);
            let (stage, sequence) = stage.zip(read_sequence(key)).ok_or(CORRUPT)?;
            let Some(record) = self.record_at(sequence)? else {
                continue;
            };
            let identifier = record.event()?.identifier();
            let scope = identifier.map(|it| Coordinate::new(record.public_key(), it));
            announcements.extend(scope.map(|scope| (scope, stage)));
        }
        Ok(announcements)
    }
}
