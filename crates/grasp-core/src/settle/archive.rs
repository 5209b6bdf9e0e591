//! Which repositories go to the archive (DEL-5): those that were served and are no more. What never was
//! served has nothing that anybody could want back.

use nostr::key::PublicKey;

use crate::announcement::Announcement;
use crate::lifecycle::{Batch, Change, Stage};
use crate::policy::{Circumstances, Hosting};
use crate::view::{Entry, RepoView};

pub(super) fn moves(before: &RepoView, after: &RepoView, cx: Circumstances<'_>) -> Batch {
    let owners = before.announcements.keys();
    let leaves = owners.filter(|owner| {
        let (was, is) = (served(before, owner), served(after, owner));
        // Most commits move no announcement: what an address says is read only if one moved.
        let same = was.map(Entry::id) == is.map(Entry::id);
        !same && hosted(was, cx) && !hosted(is, cx)
    });
    leaves
        .map(|owner| Change::Archive {
            repository: after.repository(*owner),
            since: cx.now,
            until: cx.after(cx.policy.holding_retention),
        })
        .collect()
}

fn served<'v>(view: &'v RepoView, owner: &PublicKey) -> Option<&'v Entry<Announcement>> {
    view.announcement_in(owner, Stage::Served)
}

fn hosted(entry: Option<&Entry<Announcement>>, cx: Circumstances<'_>) -> bool {
    entry.is_some_and(|entry| cx.policy.hosting(&entry.item) == Hosting::Listed)
}
