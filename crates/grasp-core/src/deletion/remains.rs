//! What an author leaves beside events: pushes whose event never came, and git data in the archive.

use nostr::event::EventId;
use nostr::types::Timestamp;

use crate::lifecycle::{Batch, Change};
use crate::name::RepoAddress;

/// One commit takes away so many of them.
pub const REMAINS_MAX: usize = 100;

/// No event of the author speaks of these, so no step of a plan finds them (DEL-8).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remains {
    /// Upload records (PR-4), each with its repository.
    pub uploads: Vec<(EventId, RepoAddress)>,
    /// Repositories in the archive, each with the time it was taken away at.
    pub archives: Vec<(RepoAddress, Timestamp)>,
}

impl Remains {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.uploads.is_empty() && self.archives.is_empty()
    }

    /// In parts that are small enough for one commit each.
    pub fn parts(&self) -> Vec<Self> {
        let uploads = self.uploads.chunks(REMAINS_MAX).map(|part| Self {
            uploads: part.to_vec(),
            archives: Vec::new(),
        });
        let archives = self.archives.chunks(REMAINS_MAX).map(|part| Self {
            uploads: Vec::new(),
            archives: part.to_vec(),
        });
        uploads.chain(archives).collect()
    }

    /// Takes them away.
    pub fn removal(&self) -> Batch {
        let mut batch = Batch::new();
        for (event, repository) in &self.uploads {
            batch.push(Change::DropUpload {
                event: *event,
                repository: repository.clone(),
            });
            batch.push(Change::Dirty(repository.clone()));
        }
        let drop = |(repository, _): &(RepoAddress, Timestamp)| Change::DropArchive {
            repository: repository.clone(),
        };
        batch.extend(self.archives.iter().map(drop));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Coordinate;
    use crate::testing::{at, key};

    /// DEL-8: every one of them goes, in commits of a bounded size.
    #[test]
    fn remains_go_in_parts() {
        let coordinate = Coordinate::new(key(1), "x".parse().expect("valid"));
        let prs = RepoAddress::Proposals(coordinate.clone());
        let event = |n: u8| EventId::from_byte_array([n; 32]);
        let remains = Remains {
            uploads: (0..=100).map(|n| (event(n), prs.clone())).collect(),
            archives: vec![(RepoAddress::Announced(coordinate), at(5))],
        };
        let parts = remains.parts();
        let sizes = parts.iter().map(|it| (it.uploads.len(), it.archives.len()));
        assert_eq!(sizes.collect::<Vec<_>>(), [(100, 0), (1, 0), (0, 1)]);
        let last = parts.last().expect("three").removal();
        let [(repository, _)] = remains.archives.as_slice() else {
            unreachable!("one");
        };
        let repository = repository.clone();
        assert_eq!(last, [Change::DropArchive { repository }]);
        assert!(Remains::default().parts().is_empty());
    }
}
