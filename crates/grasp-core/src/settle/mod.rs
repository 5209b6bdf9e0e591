//! What becomes servable once objects or announcements changed (ST-3, ST-4, AFTER-2 … AFTER-5, PR-3, PR-4).
//!
//! One function promotes, whatever brought the news: a push, a fetch, an admission, a start-up. It works
//! on a copy of the view until nothing more follows, and the difference between the two views is the
//! batch. Hence it is idempotent, and what it does in between leaves no trace: a state that would be
//! served and replaced within one settlement is never published.

mod announcements;
mod archive;
mod difference;
mod dirty;
mod edit;
mod entry;
mod groups;
mod proposals;
mod recover;
mod states;

use nostr::key::PublicKey;

use crate::defect::Defect;
use crate::lifecycle::{Batch, Change};
use crate::policy::Circumstances;
use crate::view::{ObjectFacts, RepoView};

pub(crate) use archive::has_archive;
pub(crate) use difference::difference;
pub(crate) use edit::Versions;
pub(crate) use entry::{counts, parked_deadline, waiting_deadline};
pub(crate) use groups::{Groups, supported};
pub(crate) use recover::recover;

/// Of replaced versions so many are kept per coordinate (DEL-12).
pub const SUPERSEDED_MAX: usize = 10;

/// Promotes every waiting or parked event of the view that is authorised and complete, supersedes what
/// that replaces, releases the announcements whose repository got data, binds uploads to their events,
/// and marks every repository whose view changes. Idempotent: settling a settled view yields nothing.
/// Promotions are in the order in which they are to be published: announcements, then states, the
/// oldest first (AFTER-3), then proposals.
pub fn settle(view: &RepoView, facts: &ObjectFacts, cx: Circumstances<'_>) -> Batch {
    conclude(view, Batch::new(), facts, cx)
}

/// `changes`, then what becomes servable by them ([`settle`]), then the marks of every repository whose
/// view all of it changes. What a commit that begins with `changes` has to contain.
pub fn conclude(
    view: &RepoView,
    changes: Batch,
    facts: &ObjectFacts,
    cx: Circumstances<'_>,
) -> Batch {
    let middle = applied(view, &changes, cx);
    let mut after = middle.clone();
    promote(&mut after, facts, cx);
    let mut batch = changes;
    batch.extend(difference(&middle, &after, None));
    if !batch.is_empty() {
        batch.extend(dirtied(view, &after, cx));
    }
    batch
}

/// What comes back to a scope of `owner` that is served again, now that its objects are there (DEL-6).
pub fn returned(
    owner: &PublicKey,
    view: &RepoView,
    facts: &ObjectFacts,
    cx: Circumstances<'_>,
) -> Batch {
    let mut after = view.clone();
    recover(&mut after, owner, facts, cx);
    let mut batch = difference(view, &after, None);
    if !batch.is_empty() {
        batch.extend(dirtied(view, &after, cx));
    }
    batch
}

/// What two views mean for repositories: which of them goes to the archive (DEL-5), and as `Dirty`
/// changes those whose [`crate::refplan::desired`] differs. One of which only the reason for a ref
/// changed may be among them.
pub fn dirtied(before: &RepoView, after: &RepoView, cx: Circumstances<'_>) -> Batch {
    let changed = dirty::changed(before, after, cx.policy);
    let mut batch = archive::moves(before, after, cx);
    let marked = if Defect::OneMark.is_on() {
        1
    } else {
        changed.len()
    };
    batch.extend(changed.into_iter().take(marked).map(Change::Dirty));
    batch
}

/// The view after a batch: what the decisions chained in one commit see.
pub fn applied(view: &RepoView, batch: &Batch, _cx: Circumstances<'_>) -> RepoView {
    let mut after = view.clone();
    for change in batch {
        edit::apply(&mut after, change);
    }
    after
}

/// Settles in place, and thins out what was replaced.
pub(crate) fn promote(view: &mut RepoView, facts: &ObjectFacts, cx: Circumstances<'_>) {
    let mut groups = Groups::of(view, cx.policy);
    // Each round moves an announcement forward in its life, and no life runs backwards here.
    loop {
        states::serve(view, &groups, facts, cx);
        let released = announcements::release(view, &groups, facts, cx);
        let discovered = announcements::discover(view, &groups, cx);
        if !(released || discovered) {
            break;
        }
        groups.resolve(view, cx.policy);
    }
    proposals::serve(view, &groups, facts, cx);
    announcements::begin_phase_two(view, &groups, cx);
    edit::forget_old_versions(view);
}
