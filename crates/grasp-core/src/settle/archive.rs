//! Which repositories go to the archive and come back (DEL-5, DEL-6): those that were served and are no more,
//! and those that are again. What never was served has nothing that anybody could want back.

use nostr::key::PublicKey;

use crate::announcement::Announcement;
use crate::lifecycle::{Batch, Change, Stage};
use crate::policy::{Circumstances, Hosting};
use crate::view::{Entry, RepoView};

pub(super) fn moves(before: &RepoView, after: &RepoView, cx: Circumstances<'_>) -> Batch {
    let mut batch = Batch::new();
    for owner in before
        .announcements
        .keys()
        .chain(after.announcements.keys())
    {
        let (was, is) = (served(before, owner), served(after, owner));
        if was.map(Entry::id) == is.map(Entry::id) {
            // Most commits move no announcement: what an address says is read only if one moved.
            continue;
        }
        let change = match (hosted(was, cx), hosted(is, cx)) {
            (true, false) => Some(Change::Archive {
                repository: after.repository(*owner),
                since: cx.now,
                until: cx.after(cx.policy.holding_retention),
            }),
            (false, true) => has_archive(before, owner, cx).then(|| Change::Unarchive {
                repository: after.repository(*owner),
            }),
            _ => None,
        };
        batch.extend(change.filter(|change| !batch.contains(change)));
    }
    batch
}

/// Whether the archive has something of the owner's repository that can still come back.
pub(crate) fn has_archive(view: &RepoView, owner: &PublicKey, cx: Circumstances<'_>) -> bool {
    let archive = view.archives.get(owner);
    archive.is_some_and(|archive| !archive.returns && archive.until > cx.now)
}

fn served<'v>(view: &'v RepoView, owner: &PublicKey) -> Option<&'v Entry<Announcement>> {
    view.announcement_in(owner, Stage::Served)
}

fn hosted(entry: Option<&Entry<Announcement>>, cx: Circumstances<'_>) -> bool {
    entry.is_some_and(|entry| cx.policy.hosting(&entry.item) == Hosting::Listed)
}
