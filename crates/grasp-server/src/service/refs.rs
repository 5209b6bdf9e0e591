//! What a repository shows to git right now, and never while it is being brought in line (GIT-13).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::refname::{RefName, RefSpace};
use grasp_git::RefSnapshot;
use grasp_store::History;
use tracing::error;

use super::{Service, facts, reconcile};

/// How long a reader waits for a repository that is being brought in line before it is told to come
/// again: a reconcile takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// At most so many objects of relatives are named to a pusher (GIT-4a).
const HAVES_MAX: usize = 1000;

/// At most so many proposals are listed to a pusher (GIT-4b).
const PROPOSALS_MAX: usize = 200;

/// Why refs cannot be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefsError {
    /// There is no such repository here.
    #[error("repository not found")]
    NotFound,
    /// Its events changed and its refs do not follow yet.
    #[error("repository is being brought in line, try again")]
    NotInLine,
    /// Our own fault; logged.
    #[error("the repository cannot be read")]
    Broken,
}

impl Service {
    /// The refs of a repository, once they agree with what the relay serves. A well-formed `/prs/` path
    /// without a repository is an empty one (G6-1).
    pub(crate) async fn refs(
        &self,
        repository: &RepoAddress,
    ) -> Result<Arc<RefSnapshot>, RefsError> {
        if self.store.dirty().contains(repository) {
            let clean = self.store.dirty().wait_clean(repository);
            tokio::time::timeout(PATIENCE, clean)
                .await
                .map_err(|_| RefsError::NotInLine)?;
        }
        if let Some(cached) = self.git.cached_refs(repository) {
            return Ok(cached);
        }
        let service = self.clone();
        let wanted = repository.clone();
        let loaded = self.blocking(move || service.git.refs(&wanted)).await;
        match (loaded, repository) {
            (Ok(refs), _) => Ok(refs),
            (Err(grasp_git::Error::NotFound { .. }), RepoAddress::Proposals(_)) => Ok(Arc::new(
                RefSnapshot::unborn(grasp_git::refs::default_head()),
            )),
            (Err(grasp_git::Error::NotFound { .. }), RepoAddress::Announced(_)) => {
                Err(RefsError::NotFound)
            }
            (Err(failure), _) => {
                error!(%repository, error = &failure as &dyn std::error::Error, "refs cannot be read");
                Err(RefsError::Broken)
            }
        }
    }

    /// The refs that a pusher is shown: branches, tags and the newest proposals (GIT-4b).
    pub(crate) fn listed_to_pushers(&self, refs: &RefSnapshot) -> BTreeSet<RefName> {
        let (proposals, signed): (Vec<&RefName>, Vec<&RefName>) = refs
            .refs
            .keys()
            .partition(|name| name.space() == RefSpace::Proposal);
        let shown = if proposals.len() > PROPOSALS_MAX {
            self.newest(proposals)
        } else {
            proposals
        };
        signed.into_iter().chain(shown).cloned().collect()
    }

    fn newest<'r>(&self, proposals: Vec<&'r RefName>) -> Vec<&'r RefName> {
        let Ok(snapshot) = self.store.snapshot() else {
            return Vec::new();
        };
        let view = snapshot.view();
        let made = |name: &RefName| {
            let stored = name
                .proposal_event()
                .and_then(|id| view.event(&id).ok().flatten());
            stored.map(|stored| stored.event.created_at())
        };
        let mut dated: Vec<_> = proposals
            .into_iter()
            .map(|name| (made(name), name))
            .collect();
        // An upload whose event is still to come is the newest of all.
        dated.sort_by_key(|(made, _)| std::cmp::Reverse(made.map_or(u64::MAX, |at| at.as_secs())));
        dated
            .into_iter()
            .map(|(_, name)| name)
            .take(PROPOSALS_MAX)
            .collect()
    }

    /// Tips of relatives, so that a second owner's push uploads little (GIT-4a). Best effort: without
    /// them a push is larger, not wrong.
    pub(crate) async fn haves(&self, repository: &RepoAddress) -> Vec<Oid> {
        let service = self.clone();
        let repository = repository.clone();
        self.blocking(move || {
            let Ok(snapshot) = service.store.snapshot() else {
                return Vec::new();
            };
            let Ok(view) = reconcile::view_of(&snapshot.view(), &repository, History::Current)
            else {
                return Vec::new();
            };
            drop(snapshot);
            let relatives = facts::repositories(&view)
                .into_iter()
                .filter(|other| *other != repository);
            let shown = relatives.filter_map(|other| service.git.refs(&other).ok());
            let tips: BTreeSet<Oid> = shown
                .flat_map(|refs| {
                    refs.refs
                        .values()
                        .map(|value| value.oid)
                        .collect::<Vec<_>>()
                })
                .take(HAVES_MAX)
                .collect();
            tips.into_iter().collect()
        })
        .await
    }
}
