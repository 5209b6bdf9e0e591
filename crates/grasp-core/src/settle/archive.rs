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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Archive;
    use crate::lifecycle::Stage::{Held, Parked, Served, Superseded, Waiting};
    use crate::testing::project::{announcement, announcement_elsewhere, repo, view};
    use crate::testing::{NOW, at, cx, key, policy};

    /// Alice's only announcement, in a stage of its life.
    fn alice(stage: Option<Stage>) -> RepoView {
        let stages = stage.into_iter();
        let view = stages.fold(view(), |view, stage| {
            view.announced(announcement(key(1), 1, vec![]), stage)
        });
        view.build()
    }

    fn with_archive(mut view: RepoView, until: u64, returns: bool) -> RepoView {
        let archive = Archive {
            since: at(NOW - 10),
            until: at(until),
            returns,
        };
        view.archives.insert(key(1), archive);
        view
    }

    fn moved(before: &RepoView, after: &RepoView) -> Batch {
        moves(before, after, cx(&policy()))
    }

    /// DEL-5
    #[test]
    fn what_was_served_and_is_no_more_goes_to_the_archive() {
        let archived = Change::Archive {
            repository: repo(key(1)),
            since: at(NOW),
            until: at(NOW + 90 * 86_400),
        };
        let served = alice(Some(Served));
        for stage in [
            None,
            Some(Waiting),
            Some(Parked),
            Some(Superseded),
            Some(Held),
        ] {
            let gone = alice(stage);
            assert_eq!(
                moved(&served, &gone),
                std::slice::from_ref(&archived),
                "{stage:?}"
            );
            assert_eq!(moved(&gone, &gone), [], "{stage:?}");
        }
        assert_eq!(moved(&alice(Some(Waiting)), &alice(None)), []);
        let elsewhere = announcement_elsewhere(key(1), 1, vec![]);
        let elsewhere = view().announced(elsewhere, Served).build();
        assert_eq!(moved(&elsewhere, &alice(None)), [], "it had no repository");
        assert_eq!(moved(&served, &elsewhere), [archived]);
    }

    /// DEL-6: once, and as long as the archive has it.
    #[test]
    fn what_is_served_again_comes_back_from_the_archive() {
        let (gone, served) = (alice(Some(Held)), alice(Some(Served)));
        let back = Change::Unarchive {
            repository: repo(key(1)),
        };
        let until = |until| moved(&with_archive(gone.clone(), until, false), &served);
        assert_eq!(until(NOW + 1), [back]);
        assert_eq!(until(NOW), []);
        assert_eq!(until(NOW - 1), []);
        let returning = with_archive(gone.clone(), NOW + 1, true);
        assert_eq!(moved(&returning, &served), []);
        assert_eq!(moved(&gone, &served), [], "there is nothing to come back");
    }

    /// ANN-3: the repository is the same.
    #[test]
    fn a_newer_version_moves_nothing() {
        let newer = view()
            .announced(announcement(key(1), 1, vec![]), Superseded)
            .announced(announcement(key(1), 2, vec![]), Served);
        let served = with_archive(alice(Some(Served)), NOW + 1, false);
        assert_eq!(moved(&served, &newer.build()), []);
    }
}
