//! Announcements (§6): which are taken, and what a newer one does to the older.

use nostr::key::PublicKey;

use super::outcome::{Arrival, full_for_announcement, repeats};
use super::{Answer, Decision, PurgatoryLoad, Rejection};
use crate::announcement::Announcement;
use crate::deletion::{Cause, Fate, leaves_behind};
use crate::lifecycle::{Batch, Stage};
use crate::policy::{Circumstances, Hosting, Origin};
use crate::retract::abandon_states;
use crate::settle::{
    Groups, Versions, difference, dirtied, has_archive, promote, recover, supported,
};
use crate::view::{Entry, ObjectFacts, RepoView};

/// §6.
pub fn admit_announcement(
    event: &Announcement,
    view: &RepoView,
    facts: &ObjectFacts,
    load: PurgatoryLoad,
    cx: Circumstances<'_>,
) -> Decision {
    if event.is_private() {
        return Decision::only(Rejection::Private);
    }
    if let Some(rejection) = refused_by_lists(event, cx) {
        return Decision::only(rejection);
    }
    if let Some(decision) = repeats(view.stage(&event.id()), cx) {
        return decision;
    }
    let asking = Asking {
        event,
        view,
        facts,
        load,
        cx,
        groups: Groups::of(view, cx.policy),
    };
    match cx.policy.hosting(event) {
        Hosting::Listed => asking.for_a_repository(),
        Hosting::Elsewhere => asking.for_its_list(),
    }
}

/// ANN-1: the blacklist comes first; the whitelist is about what asks for a place here.
fn refused_by_lists(event: &Announcement, cx: Circumstances<'_>) -> Option<Rejection> {
    let (lists, scope) = (&cx.policy.curation, event.coordinate());
    if let Some(entry) = lists.blacklist.entry_for(&scope) {
        return Some(Rejection::Blacklisted(entry.into()));
    }
    let asks = cx.policy.hosting(event) == Hosting::Listed;
    (asks && !lists.hosts(&scope)).then_some(Rejection::NotWhitelisted)
}

/// An announcement and what is known of its scope.
struct Asking<'a> {
    event: &'a Announcement,
    view: &'a RepoView,
    facts: &'a ObjectFacts,
    load: PurgatoryLoad,
    cx: Circumstances<'a>,
    groups: Groups,
}

impl Asking<'_> {
    /// ANN-2, ANN-3, ANN-3a, ANN-4: it lists the service.
    fn for_a_repository(self) -> Decision {
        if self.is_outdated() || self.is_old_news() {
            return Decision::only(Answer::Superseded);
        }
        let served = self
            .versions()
            .find(|entry| entry.stage == Stage::Served && self.groups.hosts(&entry.id()));
        let widens = served.is_none_or(|served| self.event.widens(&served.item));
        let mut after = self.view.clone();
        self.replace_waiting(&mut after);
        if widens {
            self.put(&mut after, Entry::wait);
        } else {
            supersede_served(&mut after, &self.event.owner(), self.cx);
            self.put(&mut after, |entry, _| entry.serve());
        }
        self.extend_states(&mut after);
        match self.come_back(&after) {
            Some(decision) => decision,
            None => self.arrive(after),
        }
    }

    /// ANN-2, DEL-6: with what the archive has of its repository it is served at once. If not, it waits like
    /// a new one, and the archive stays where it is.
    fn come_back(&self, after: &RepoView) -> Option<Decision> {
        let owner = self.event.owner();
        if !has_archive(self.view, &owner, self.cx) {
            return None;
        }
        let facts = self.facts.with_archives();
        let mut after = after.clone();
        recover(&mut after, &owner, &facts, self.cx);
        let decision = Arrival {
            event: self.event.event(),
            before: self.view,
            facts: &facts,
            cx: self.cx,
            full: None,
        }
        .settle(after);
        Some(decision).filter(|decision| decision.answer == Answer::Stored)
    }

    /// ANN-5, ANN-6: it does not.
    fn for_its_list(self) -> Decision {
        let owner = self.event.owner();
        let served = |stage| stage == Stage::Served;
        let waiting = |stage| matches!(stage, Stage::Served | Stage::Waiting);
        let known_by_served = supported(self.view, &self.groups, served, Some(&owner));
        let known_by_waiting = supported(self.view, &self.groups, waiting, Some(&owner));
        let hosted = self.versions().any(|entry| self.groups.hosts(&entry.id()));
        let mut after = self.view.clone();
        if known_by_served.contains(&owner) {
            if self.is_outdated() {
                return Decision::only(Answer::Superseded);
            }
            self.replace_waiting(&mut after);
            supersede_served(&mut after, &owner, self.cx);
            self.put(&mut after, |entry, _| entry.serve());
            self.arrive(after)
        } else if hosted {
            self.leave()
        } else if let Some(before) = self.view.announcement(&owner) {
            if self.is_outdated() {
                return Decision::only(Answer::Superseded);
            }
            // It tells who is a maintainer, but of nothing that is served at present.
            let (stage, deadline) = (before.stage, before.deadline);
            self.replace_waiting(&mut after);
            self.put(&mut after, |entry, _| {
                entry.stage = stage;
                entry.deadline = deadline;
            });
            self.arrive(after)
        } else if known_by_waiting.contains(&owner) {
            self.put(&mut after, Entry::wait);
            self.arrive(after)
        } else {
            Decision::only(Rejection::ServiceNotListed)
        }
    }

    /// ANN-5: the owner goes elsewhere. What waited goes, what was served is kept for a while.
    fn leave(self) -> Decision {
        let refused = Decision::only(Rejection::ServiceNotListed);
        if self.is_outdated() {
            return refused;
        }
        let owner = self.event.owner();
        let mut after = self.view.clone();
        if let Some(versions) = after.announcements.get_mut(&owner) {
            versions.retain_mut(|entry| {
                let pending = entry.is_pending();
                if entry.stage == Stage::Served {
                    entry.hold(self.cx);
                }
                !pending
            });
        }
        abandon_states(&mut after, &self.groups, Fate::Held, self.cx);
        promote(&mut after, self.facts, self.cx);
        let mut batch: Batch = difference(self.view, &after, None);
        batch.extend(dirtied(self.view, &after, self.cx));
        batch.extend(leaves_behind(owner, self.view, &after, Cause::Delisted));
        Decision { batch, ..refused }
    }

    fn versions(&self) -> impl Iterator<Item = &Entry<Announcement>> {
        let versions = self.view.announcements.get(&self.event.owner());
        versions.into_iter().flatten()
    }

    /// A newer one of its owner counts (KIND-5).
    fn is_outdated(&self) -> bool {
        self.view
            .announcement(&self.event.owner())
            .is_some_and(|entry| entry.version() > self.event.version())
    }

    /// DEL-6: a scope that left comes back by its owner, not by a server that has not heard of it.
    fn is_old_news(&self) -> bool {
        let is_here = self.view.announcement(&self.event.owner()).is_some();
        let held = |entry: &Entry<Announcement>| {
            entry.stage == Stage::Held && entry.version() >= self.event.version()
        };
        self.cx.origin == Origin::Sync && !is_here && self.versions().any(held)
    }

    /// ANN-4: what waited or was kept gives way.
    fn replace_waiting(&self, after: &mut RepoView) {
        if let Some(versions) = after.announcements.get_mut(&self.event.owner()) {
            versions.retain(|entry| !entry.is_pending());
        }
    }

    fn put(
        &self,
        after: &mut RepoView,
        settle_down: impl FnOnce(&mut Entry<Announcement>, Circumstances<'_>),
    ) {
        let mut entry = Entry {
            item: self.event.clone(),
            stage: Stage::Waiting,
            deadline: None,
        };
        settle_down(&mut entry, self.cx);
        after.announcements.put(self.event.owner(), entry);
    }

    /// ANN-4: the waiting states of the scope begin anew with their announcement.
    fn extend_states(&self, after: &mut RepoView) {
        let owner = self.event.owner();
        for (author, states) in &mut after.states {
            if self.groups.authorising(author).any(|other| *other == owner) {
                states
                    .iter_mut()
                    .filter(|entry| entry.stage == Stage::Waiting)
                    .for_each(|entry| entry.wait(self.cx));
            }
        }
    }

    fn arrive(self, after: RepoView) -> Decision {
        let replaces_waiting = self.versions().any(|entry| entry.stage == Stage::Waiting);
        let full = full_for_announcement(self.load, self.cx).filter(|_| !replaces_waiting);
        Arrival {
            event: self.event.event(),
            before: self.view,
            facts: self.facts,
            cx: self.cx,
            full,
        }
        .settle(after)
    }
}

fn supersede_served(after: &mut RepoView, owner: &PublicKey, cx: Circumstances<'_>) {
    let versions = after.announcements.get_mut(owner).into_iter().flatten();
    versions
        .filter(|entry| entry.stage == Stage::Served)
        .for_each(|entry| entry.supersede(cx));
}

#[cfg(test)]
mod tests {
    use nostr::event::EventId;

    use super::*;
    use crate::lifecycle::Stage::{Held, Served, Waiting};
    use crate::lifecycle::{Archive, Change};
    use crate::testing::project::{announcement, repo, state, view};
    use crate::testing::{NOW, at, cx, key, oid, policy};

    /// What was Alice's, held since a while, and its git data in the archive until then.
    fn left(until: u64) -> (RepoView, EventId) {
        let signed = state(key(1), 10, &[("refs/heads/main", &oid(1).to_string())]);
        let mut left = view()
            .announced(announcement(key(1), 10, vec![]), Held)
            .stated(signed.clone(), Held)
            .build();
        let archive = Archive {
            since: at(NOW - 100),
            until: at(until),
            returns: false,
        };
        left.archives.insert(key(1), archive);
        (left, signed.id())
    }

    fn announced_again(left: &RepoView, facts: &ObjectFacts) -> (EventId, Decision) {
        let again = announcement(key(1), 20, vec![]);
        let load = PurgatoryLoad::default();
        let decision = admit_announcement(&again, left, facts, load, cx(&policy()));
        (again.id(), decision)
    }

    fn archived(commit: u8) -> ObjectFacts {
        let mut facts = ObjectFacts::none();
        facts.add_archived(repo(key(1)), oid(commit));
        facts
    }

    fn returns(batch: &Batch) -> bool {
        let repository = repo(key(1));
        batch.contains(&Change::Unarchive { repository })
    }

    fn stored_as(batch: &Batch, id: EventId) -> Option<Stage> {
        batch.iter().find_map(|change| match change {
            Change::Insert { event, stage, .. } if event.id() == id => Some(*stage),
            _ => None,
        })
    }

    /// ANN-2, DEL-6
    #[test]
    fn a_scope_comes_back_at_once_with_what_the_archive_has() {
        let (left, signed) = left(NOW + 1);
        let (again, decision) = announced_again(&left, &archived(1));
        assert_eq!(decision.answer, Answer::Stored);
        assert_eq!(stored_as(&decision.batch, again), Some(Served));
        let served = Change::Move {
            event: signed,
            stage: Served,
            deadline: None,
        };
        assert!(decision.batch.contains(&served) && returns(&decision.batch));
    }

    /// ANN-2, DEL-6: like a new one, and the archive stays where it is.
    #[test]
    fn without_its_data_a_scope_that_comes_back_waits() {
        let (kept, signed) = left(NOW + 1);
        let (over, _) = left(NOW);
        for (left, facts) in [(&kept, archived(2)), (&over, archived(1))] {
            let (again, decision) = announced_again(left, &facts);
            assert_eq!(decision.answer, Answer::Purgatory);
            assert_eq!(stored_as(&decision.batch, again), Some(Waiting));
            let moved =
                |change: &Change| matches!(change, Change::Move { event, .. } if *event == signed);
            assert!(!decision.batch.iter().any(moved) && !returns(&decision.batch));
        }
    }
}
