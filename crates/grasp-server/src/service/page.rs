//! What the page of a repository tells.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::Stage;
use grasp_core::maintainers;
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::refplan;
use grasp_core::{PublicKey, Timestamp};
use grasp_git::RefSnapshot;
use grasp_store::{History, StoreError};

use super::Service;

/// The last second that has a date with a year of four digits.
const LAST_DATE: u64 = 253_402_300_799;

/// A hosted repository as it is now.
pub(crate) struct RepositorySeen {
    /// Its announcement.
    pub(crate) announcement: VerifiedEvent,
    /// Whether that still waits for git data.
    pub(crate) waiting: bool,
    /// Whose states count.
    pub(crate) maintainers: BTreeSet<PublicKey>,
    /// When the winning state was signed, in words.
    pub(crate) signed: Option<String>,
    /// What git shows.
    pub(crate) refs: Arc<RefSnapshot>,
}

impl Service {
    /// The repository, if it is hosted here.
    pub(crate) async fn repository(
        &self,
        repo: &Coordinate,
    ) -> Result<Option<RepositorySeen>, StoreError> {
        let address = RepoAddress::Announced(repo.clone());
        let Ok(refs) = self.refs(&address).await else {
            return Ok(None);
        };
        let service = self.clone();
        let repo = repo.clone();
        self.blocking(move || {
            let snapshot = service.store.snapshot()?;
            let view =
                snapshot
                    .view()
                    .repo_view(&repo.identifier, &[repo.owner], History::Current)?;
            let served = view.announcement_in(&repo.owner, Stage::Served);
            let Some(announced) =
                served.or_else(|| view.announcement_in(&repo.owner, Stage::Waiting))
            else {
                return Ok(None);
            };
            let winner = refplan::winner(&address, &view, &service.policy);
            Ok(Some(RepositorySeen {
                announcement: announced.item.event().clone(),
                waiting: announced.stage == Stage::Waiting,
                maintainers: maintainers::confirmed_set(
                    &repo.owner,
                    &view,
                    service.policy.maintainer_rule,
                ),
                signed: winner.map(|state| in_words(state.item.event().created_at())),
                refs,
            }))
        })
        .await
    }
}

/// A point in time for people.
fn in_words(at: Timestamp) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(at.as_secs().min(LAST_DATE)))
}
