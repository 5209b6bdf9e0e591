//! Which repositories lie in the archive, and how long (DEL-5).

use grasp_core::lifecycle::Archive;
use grasp_core::name::RepoAddress;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::keys::{read_repository, repository_key};
use crate::lifecycle::Writing;
use crate::view::View;

const CORRUPT: StoreError = StoreError::Corrupt("archives");

impl Writing<'_, '_> {
    pub(crate) fn archive(
        &mut self,
        repository: &RepoAddress,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let key = repository_key(repository);
        let before = self.tables.archives.get(self.transaction, &key)?;
        // Its name is the time: two of one second would be one.
        let after_it = before.map(read).transpose()?.map(|it| it.since + 1);
        let archive = Archive {
            since: after_it.map_or(since, |least| since.max(least)),
            until,
            returns: false,
        };
        self.put_archive(repository, &archive)
    }

    /// Without an archive there is nothing that could return.
    pub(crate) fn unarchive(&mut self, repository: &RepoAddress) -> Result<(), StoreError> {
        let key = repository_key(repository);
        let Some(value) = self.tables.archives.get(self.transaction, &key)? else {
            return Ok(());
        };
        let archive = Archive {
            returns: true,
            ..read(value)?
        };
        self.put_archive(repository, &archive)
    }

    pub(crate) fn drop_archive(&mut self, repository: &RepoAddress) -> Result<(), StoreError> {
        let key = repository_key(repository);
        self.tables.archives.delete(self.transaction, &key)?;
        Ok(())
    }

    fn put_archive(
        &mut self,
        repository: &RepoAddress,
        archive: &Archive,
    ) -> Result<(), StoreError> {
        let key = repository_key(repository);
        let value = value(archive);
        Ok(self.tables.archives.put(self.transaction, &key, &value)?)
    }
}

impl View<'_> {
    /// All archives. As many as scopes that left within the retention.
    pub fn archives(&self) -> Result<Vec<(RepoAddress, Archive)>, StoreError> {
        let mut archives = Vec::new();
        for row in self.tables.archives.iter(self.reading)? {
            let (key, value) = row?;
            let (repository, _) = read_repository(key).ok_or(CORRUPT)?;
            archives.push((repository, read(value)?));
        }
        Ok(archives)
    }

    /// The archive of a repository, if it has one.
    pub fn archive_of(&self, repository: &RepoAddress) -> Result<Option<Archive>, StoreError> {
        let key = repository_key(repository);
        let value = self.tables.archives.get(self.reading, &key)?;
        value.map(read).transpose()
    }
}

fn value(archive: &Archive) -> [u8; 17] {
    let mut out = [0; 17];
    out[..8].copy_from_slice(&archive.since.as_secs().to_be_bytes());
    out[8..16].copy_from_slice(&archive.until.as_secs().to_be_bytes());
    out[16] = u8::from(archive.returns);
    out
}

fn read(value: &[u8]) -> Result<Archive, StoreError> {
    let (since, rest) = value.split_first_chunk::<8>().ok_or(CORRUPT)?;
    let (until, returns) = rest.split_first_chunk::<8>().ok_or(CORRUPT)?;
    let time = |bytes: &[u8; 8]| Timestamp::from_secs(u64::from_be_bytes(*bytes));
    Ok(Archive {
        since: time(since),
        until: time(until),
        returns: match returns {
            [0] => false,
            [1] => true,
            _ => return Err(CORRUPT),
        },
    })
}
