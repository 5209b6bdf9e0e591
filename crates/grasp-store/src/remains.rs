//! What an author left beside events (DEL-8).

use grasp_core::deletion::{Name, Remains};
use grasp_core::name::Coordinate;
use grasp_core::recovery::Conversation;
use nostr::key::PublicKey;

use crate::authored::NAMING_MAX;
use crate::error::StoreError;
use crate::keys::{Space, owner_key, read_repository};
use crate::uploads;
use crate::view::View;

impl View<'_> {
    /// The uploads into the author's own `/prs/` repositories, and the archives of their announced ones. What
    /// the archive is giving back belongs to its repository, and goes with that.
    pub fn remains_of(&self, author: &PublicKey) -> Result<Remains, StoreError> {
        let mut remains = Remains::default();
        let start = owner_key(Space::Proposals, author);
        for row in self.tables.uploads.prefix_iter(self.reading, &start)? {
            let (key, value) = row?;
            let upload = uploads::read(key, value)?;
            remains.uploads.push((upload.event, upload.repository));
        }
        let start = owner_key(Space::Announced, author);
        for row in self.tables.archives.prefix_iter(self.reading, &start)? {
            let (repository, _) = read_repository(row?.0).ok_or(StoreError::Corrupt("archives"))?;
            let archive = self.archive_of(&repository)?;
            let kept = archive.filter(|archive| !archive.returns);
            remains
                .archives
                .extend(kept.map(|archive| (repository, archive.since)));
        }
        Ok(remains)
    }

    /// Of `remains` what is still there and nobody else may miss.
    pub fn still_unwanted(&self, remains: &Remains) -> Result<Remains, StoreError> {
        let mut unwanted = Remains {
            uploads: remains.uploads.clone(),
            archives: Vec::new(),
        };
        for (repository, since) in &remains.archives {
            let archive = self.archive_of(repository)?;
            let same = archive.is_some_and(|it| it.since == *since && !it.returns);
            if same && !self.may_be_missed(repository.coordinate())? {
                unwanted.archives.push((repository.clone(), *since));
            }
        }
        Ok(unwanted)
    }

    /// Whether events of others hang on what the archive has of a repository, held ones too: these come back
    /// with it.
    fn may_be_missed(&self, scope: &Coordinate) -> Result<bool, StoreError> {
        let address = scope.address();
        if self.is_named_by_others(&address)? {
            return Ok(true);
        }
        let members = Conversation::referring(self, &Name::Address(address), NAMING_MAX)?;
        let mut theirs = members
            .iter()
            .filter(|member| member.event.author() != scope.owner);
        Ok(theirs.any(|member| !member.gated))
    }
}
