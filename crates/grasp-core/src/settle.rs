//! What becomes servable once objects or announcements changed (ST-3, ST-4, AFTER-2 … AFTER-5, PR-3, PR-4).

use crate::lifecycle::Batch;
use crate::policy::Circumstances;
use crate::view::{ObjectFacts, RepoView};

/// Promotes every waiting or parked event of the view that is authorised and complete, supersedes what
/// that replaces, releases the announcements whose repository got data, binds uploads to their events,
/// and marks every repository whose view changes. Idempotent: settling a settled view yields nothing.
/// Promotions are in the order in which they are to be published (AFTER-3: oldest first).
pub fn settle(view: &RepoView, facts: &ObjectFacts, cx: Circumstances<'_>) -> Batch {
    todo!()
}

/// The repositories whose [`crate::refplan::desired`] differs between two views, as `Dirty` changes.
pub fn dirtied(before: &RepoView, after: &RepoView, cx: Circumstances<'_>) -> Batch {
    todo!()
}

/// The view after a batch: what the decisions chained in one commit see.
pub fn applied(view: &RepoView, batch: &Batch, cx: Circumstances<'_>) -> RepoView {
    todo!()
}
