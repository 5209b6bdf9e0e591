//! Announcements whose repository got data, and those that only tell who is a maintainer.

use nostr::key::PublicKey;

use super::{Groups, counts, supported};
use crate::announcement::Announcement;
use crate::lifecycle::Stage;
use crate::policy::Circumstances;
use crate::state::StateEvent;
use crate::view::{Entry, ObjectFacts, RepoView};

/// Serves the announcements that wait for data that is there now (AFTER-2): their repository has a
/// winner that declares at least one ref (KIND-6).
pub(super) fn release(
    view: &mut RepoView,
    groups: &Groups,
    facts: &ObjectFacts,
    cx: Circumstances<'_>,
) -> bool {
    let mut winners = groups.winners(view);
    let mut ready: Vec<PublicKey> = Vec::new();
    for owner in view.announcements.keys() {
        let waits = view
            .announcement(owner)
            .is_some_and(|entry| entry.is_pending() && groups.hosts(&entry.id()));
        let winner = winners.of(owner).filter(|_| waits);
        if winner.is_some_and(|winner| has_data(&winner.item, view, groups, facts)) {
            ready.push(*owner);
        }
    }
    for owner in &ready {
        serve_newest(view, owner, cx);
    }
    !ready.is_empty()
}

/// A state may have outlived its last repository: the data must be somewhere now. Whose repository that
/// is does not matter, reconcile takes it from any relative.
fn has_data(state: &StateEvent, view: &RepoView, groups: &Groups, facts: &ObjectFacts) -> bool {
    let shows = |owner| groups.serves(view, owner);
    let holds =
        |owner: &PublicKey| facts.holds_all(&view.repository(*owner), state.refs().values());
    !state.is_empty()
        && (groups.authorising(&state.author()).any(shows) || view.announcements.keys().any(holds))
}

/// ANN-6: serves those that tell who is a maintainer of something served, and parks those that do not
/// any more.
pub(super) fn discover(view: &mut RepoView, groups: &Groups, cx: Circumstances<'_>) -> bool {
    let elsewhere: Vec<(PublicKey, Stage)> = view
        .announcements
        .keys()
        .filter_map(|owner| Some((owner, view.announcement(owner)?)))
        .filter(|(_, entry)| !groups.hosts(&entry.id()))
        .map(|(owner, entry)| (*owner, entry.stage))
        .collect();
    if elsewhere.is_empty() {
        return false;
    }
    let supported = supported(view, groups, |stage| stage == Stage::Served, None);
    let mut changed = false;
    for (owner, stage) in elsewhere {
        match (stage, supported.contains(&owner)) {
            (Stage::Waiting | Stage::Parked, true) => serve_newest(view, &owner, cx),
            (Stage::Served, false) => park(view, &owner, cx),
            _ => continue,
        }
        changed = true;
    }
    changed
}

/// ANN-3b: what waited behind a served version has the usual end once there is none.
pub(super) fn begin_phase_two(view: &mut RepoView, groups: &Groups, cx: Circumstances<'_>) {
    for versions in view.announcements.values_mut() {
        if versions.iter().any(|entry| entry.stage == Stage::Served) {
            continue;
        }
        for entry in versions {
            if entry.is_parked_without_end() && groups.hosts(&entry.id()) {
                entry.soft_expire(cx);
            }
        }
    }
}

/// Serves the newest version that counts; the served one before it is replaced, what waited is gone.
fn serve_newest(view: &mut RepoView, owner: &PublicKey, cx: Circumstances<'_>) {
    let Some(versions) = view.announcements.get_mut(owner) else {
        return;
    };
    let newest = versions
        .iter()
        .filter(|entry| counts(entry.stage))
        .map(Entry::version)
        .max();
    versions.retain_mut(|entry| {
        if Some(entry.version()) == newest {
            entry.serve();
        } else if entry.stage == Stage::Served {
            entry.supersede(cx);
        }
        !entry.is_pending()
    });
}

fn park(view: &mut RepoView, owner: &PublicKey, cx: Circumstances<'_>) {
    let versions = view.announcements.get_mut(owner).into_iter().flatten();
    let served = |entry: &&mut Entry<Announcement>| entry.stage == Stage::Served;
    versions
        .filter(served)
        .for_each(|entry| entry.park(Some(cx.policy.parked_retention), cx));
}

#[cfg(test)]
mod tests {
    use nostr::types::Timestamp;

    use crate::lifecycle::Change;
    use crate::lifecycle::Stage::{Parked, Served, Superseded};
    use crate::settle::settle;
    use crate::testing::project::{announcement, announcement_elsewhere, view};
    use crate::testing::{NOW, at, cx, key, policy};
    use crate::view::{ObjectFacts, RepoView};

    fn parked_until(deadline: Option<Timestamp>, mut view: RepoView) -> RepoView {
        let entries = view.announcements.values_mut().flatten();
        for entry in entries.filter(|entry| entry.stage == Parked) {
            entry.deadline = deadline;
        }
        view
    }

    /// ANN-3b, PUR-4: the day begins once, when nothing is served any more.
    #[test]
    fn what_waited_behind_a_served_version_ends_a_day_after_it() {
        let parked = announcement(key(1), 20, vec![]);
        let behind = |stage| {
            view()
                .announced(announcement(key(1), 10, vec![]), stage)
                .announced(parked.clone(), Parked)
                .build()
        };
        let settled = |view: &RepoView| settle(view, &ObjectFacts::none(), cx(&policy()));
        let ends = Change::Extend {
            event: parked.id(),
            deadline: Some(at(NOW + 86_400)),
        };
        assert_eq!(settled(&behind(Served)), []);
        assert_eq!(settled(&behind(Superseded)), [ends]);
        let begun = parked_until(Some(at(NOW + 60)), behind(Superseded));
        assert_eq!(settled(&begun), []);
    }

    /// ANN-6: of something that is not served at present nothing ends by this.
    #[test]
    fn who_asks_for_no_place_here_is_not_soft_expired() {
        let elsewhere = announcement_elsewhere(key(1), 20, vec![]);
        let view = view().announced(elsewhere, Parked).build();
        let batch = settle(&view, &ObjectFacts::none(), cx(&policy()));
        assert_eq!(batch, []);
    }
}
