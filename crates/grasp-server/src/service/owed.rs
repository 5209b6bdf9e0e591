//! Which git data is owed here, and where it may be: gathered for the hunt.

use grasp_core::EventId;
use grasp_core::hunt::{self, Owed, ProposalUrls, Sought};
use grasp_core::name::Identifier;
use grasp_core::proposal::Proposal;
use grasp_core::view::{ProposalEntry, RepoView};
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
    /// What is owed of an identifier, and the last commit that this knows of. `pending` are proposals that may wait
    /// though nothing is announced for them here (G6-4). Of each proposal `proposal_urls` addresses count (ANN-8).
    /// Blocking.
    pub fn owed(
        &self,
        identifier: &Identifier,
        pending: &[EventId],
        proposal_urls: usize,
    ) -> Result<(Owed, CommitVersion), OwedError> {
        let snapshot = self.store.snapshot()?;
        let version = snapshot.version();
        let view = snapshot.view();
        let owners = view.owners_of(identifier)?;
        let mut around = view.repo_view(identifier, &owners, History::Current)?;
        add_pending(&view, pending, &mut around)?;
        let Sought {
            objects,
            commits,
            proposals,
            submitters,
        } = hunt::sought(&around, &self.policy);
        let urls = urls_of(&view, proposals, proposal_urls)?;
        drop(snapshot);
        let wanted = Wanted {
            objects,
            commits,
            ..Wanted::default()
        };
        // The leases of the look do not count: whoever fetches takes its own and looks again.
        let facts = facts::measure_with(submitters, &self.git, &around, wanted)?.facts;
        Ok((hunt::owed(&around, &facts, &urls, &self.policy), version))
    }
}

/// Adds those of the proposals that are stored and name a repository of the view's identifier.
fn add_pending(
    view: &View<'_>,
    pending: &[EventId],
    around: &mut RepoView,
) -> Result<(), StoreError> {
    for id in pending {
        if around.proposals.contains_key(id) {
            continue;
        }
        let Some(stored) = view.event(id)? else {
            continue; // It left since.
        };
        let Ok(proposal) = Proposal::parse(stored.event) else {
            continue;
        };
        let entry = ProposalEntry::of(&proposal, &around.identifier, stored.stage, stored.deadline);
        if !entry.named.is_empty() {
            around.proposals.insert(*id, entry);
        }
    }
    Ok(())
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
