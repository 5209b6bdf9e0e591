//! Looks whether repositories on the disk are what events say, object by object, and mends what can be mended.
//!
//! What runs all the time trusts what it saw before; here nothing is trusted. *Invariant:* a look changes nothing,
//! and a repair deletes no data: it moves aside, marks, and lets reconciling do the rest.

mod finding;
mod look;
mod repair;
mod unwanted;

use std::collections::BTreeSet;
use std::path::PathBuf;

use grasp_core::name::{Identifier, RepoAddress};
use grasp_store::{CommitError, StoreError};

use super::Service;
use super::reconcile::ReconcileError;

pub use finding::Finding;
pub use unwanted::Unwanted;

/// One repository, looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Which.
    pub repository: RepoAddress,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
    /// Objects that were read and are what they are called.
    pub objects: u64,
}

/// What there is to look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// Repositories that an event speaks of, or that are on the disk.
    pub repositories: BTreeSet<RepoAddress>,
    /// What lies in the git folder and is no repository.
    pub strays: Vec<PathBuf>,
}

/// Why something could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The store could not be read.
    #[error("the events cannot be read")]
    Store(#[from] StoreError),
    /// The disk could not be read or written.
    #[error(transparent)]
    Git(#[from] grasp_git::Error),
    /// The repair could not be decided.
    #[error("the repair could not be written down")]
    Commit(#[from] CommitError),
    /// The repair could not be applied; the repository stays marked.
    #[error("the repair is not done yet")]
    Reconcile(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<ReconcileError> for CheckError {
    fn from(error: ReconcileError) -> Self {
        Self::Reconcile(Box::new(error))
    }
}

impl Service {
    /// Everything there is to look at, of one identifier or of all.
    pub async fn places(&self, identifier: Option<Identifier>) -> Result<Places, CheckError> {
        let service = self.clone();
        self.blocking(move || service.places_now(identifier.as_ref()))
            .await
    }

    fn places_now(&self, identifier: Option<&Identifier>) -> Result<Places, CheckError> {
        let listed = self.git.list()?;
        let concerned = |it: &Identifier| identifier.is_none_or(|identifier| identifier == it);
        let mut places = Places {
            repositories: listed.repositories,
            strays: if identifier.is_none() {
                listed.strays
            } else {
                Vec::new()
            },
        };
        places
            .repositories
            .retain(|repository| concerned(repository.identifier()));
        let mut after = None;
        loop {
            let snapshot = self.store.snapshot()?;
            let (found, next) = snapshot.view().announced(identifier, after.as_ref())?;
            places
                .repositories
                .extend(found.into_iter().map(RepoAddress::Announced));
            match next {
                Some(next) => after = Some(next),
                None => return Ok(places),
            }
        }
    }
}
