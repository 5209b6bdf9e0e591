//! Which git data is owed here, and where it may be: gathered for the hunt.

use grasp_core::EventId;
use grasp_core::hunt::{self, Owed, ProposalUrls, Sought};
use grasp_core::name::Identifier;
use grasp_store::{CommitVersion, History, StoreError, View};

use super::Service;
use super::facts::{self, Wanted};

/// Why nothing can be said of what is owed.
#[derive(Debug, thiserror::Error)]
pub enum OwedError {
    /// Events cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Objects cannot be looked at.
    #[error(transparent)]
    Git(#[from] grasp_git::Error),
}

impl Service {
    /// What is owed of an identifier, and the last commit that this knows of. Of each proposal
    /// `proposal_urls` addresses count (ANN-8). Blocking.
    pub fn owed(
        &self,
        identifier: &Identifier,
        proposal_urls: usize,
    ) -> Result<(Owed, CommitVersion), OwedError> {
        let snapshot = self.store.snapshot()?;
        let version = snapshot.version();
        let view = snapshot.view();
        let owners = view.owners_of(identifier)?;
        let around = view.repo_view(identifier, &owners, History::Current)?;
        let Sought {
            objects,
            commits,
            proposals,
        } = hunt::sought(&around, &self.policy);
        let urls = urls_of(&view, proposals, proposal_urls)?;
        drop(snapshot);
        let wanted = Wanted {
            objects,
            commits,
            ..Wanted::default()
        };
        // The leases of the look do not count: whoever fetches takes its own and looks again.
        let facts = facts::measure(&self.git, &around, wanted)?.facts;
        Ok((hunt::owed(&around, &facts, &urls, &self.policy), version))
    }
}

/// Where the authors of proposals say that their commits are.
fn urls_of(
    view: &View<'_>,
    proposals: impl IntoIterator<Item = EventId>,
    max: usize,
) -> Result<ProposalUrls, StoreError> {
    let mut urls = ProposalUrls::new(max);
    for id in proposals {
        if let Some(stored) = view.event(&id)? {
            urls.add(id, stored.event.all_values("clone"));
        }
    }
    Ok(urls)
}
