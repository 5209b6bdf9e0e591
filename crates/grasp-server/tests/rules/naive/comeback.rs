//! DEL-6: how a scope comes back that left.

use std::collections::BTreeSet;

use grasp_core::announcement::Announcement;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::Stage;
use grasp_core::{EventId, PublicKey};

use super::related::names;
use super::{Carries, Kept, Naive, Ranked as _, What};

impl Naive {
    /// ANN-2: if it is served by what the archive has, it is back at once; if not, nothing of it is.
    pub(super) fn come_back(&mut self, owner: &PublicKey) {
        let mut back = self.clone();
        if !back.take_archive(owner) {
            return;
        }
        back.recover(owner);
        if back.is_serving(owner) {
            *self = back;
            self.return_conversation(owner);
        }
    }

    /// Once it is served, by whatever data.
    pub(super) fn unarchive(&mut self, owner: &PublicKey) {
        if self.take_archive(owner) {
            self.recover(owner);
            self.return_conversation(owner);
        }
    }

    /// What hangs on it and went with it.
    fn return_conversation(&mut self, owner: &PublicKey) {
        let found = self.held_around(owner);
        loop {
            let supported = |kept: &&Kept| {
                let names_served =
                    |other: &Kept| other.stage == Stage::Served && names(&kept.event, &other.event);
                kept.stage == Stage::Held
                    && found.contains(&kept.id())
                    && (kept.carries == Carries::Nothing || self.kept.iter().any(names_served))
            };
            let Some(next) = self.kept.iter().find(supported).map(Kept::id) else {
                return;
            };
            self.find_mut(&next).expect("just found").serve();
        }
    }

    fn held_around(&self, owner: &PublicKey) -> BTreeSet<EventId> {
        let returns = |kept: &Kept| {
            matches!(kept.what, What::Other)
                && !matches!(kept.event.kind(), kind::DELETION | kind::VANISH)
                && self.may_return(kept)
        };
        let begins = |kept: &&Kept| match kept.what {
            What::Announcement(_) => kept.author() == *owner,
            What::State(_) => true,
            What::Proposal(_) => kept.stage == Stage::Served,
            What::Other => false,
        };
        let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
        let mut edge: Vec<&Kept> = self.kept.iter().filter(begins).collect();
        while let Some(one) = edge.pop() {
            for kept in &self.kept {
                if !names(&kept.event, &one.event) || !seen.insert(kept.id()) {
                    continue;
                }
                if returns(kept) {
                    found.insert(kept.id());
                    let mentioned = self.kept.iter().filter(|other| {
                        let bare = other.carries == Carries::Nothing && returns(other);
                        bare && names(&kept.event, &other.event)
                    });
                    found.extend(mentioned.map(Kept::id));
                }
                if returns(kept) || kept.stage == Stage::Served {
                    edge.push(kept);
                }
            }
        }
        found
    }

    /// Its objects, and if the directory is away also what it showed. Whether there is something.
    fn take_archive(&mut self, owner: &PublicKey) -> bool {
        let now = self.now;
        let alive = self.archived.get(owner).is_some_and(|it| it.until > now);
        let Some(archived) = self.archived.remove(owner).filter(|_| alive) else {
            return false;
        };
        let repository = self.repository(*owner);
        let held = self.objects.entry(repository.clone()).or_default();
        held.extend(archived.objects);
        if let Some(face) = archived.face {
            self.shown.entry(repository).or_insert(face);
        }
        true
    }

    /// Of every maintainer the newest state that can come back, and the proposals to it.
    fn recover(&mut self, owner: &PublicKey) {
        for author in self.confirmed(owner) {
            let served = self.served_state(&author).map(Kept::rank);
            let newest = self
                .states_of(&author)
                .filter(|kept| self.may_return(kept) && Some(kept.rank()) > served)
                .filter(|kept| kept.state().is_some_and(|state| self.is_complete(state)))
                .max_by_key(|kept| kept.rank())
                .map(Kept::id);
            if let Some(newest) = newest {
                self.find_mut(&newest).expect("just found").serve();
            }
        }
        let proposals: Vec<Kept> = self
            .kept
            .iter()
            .filter(|kept| self.may_return(kept))
            .filter(|kept| {
                let proposal = kept.proposal();
                proposal.is_some_and(|proposal| self.targets(proposal, owner))
            })
            .cloned()
            .collect();
        for kept in &proposals {
            self.find_mut(&kept.id()).expect("just found").stage = Stage::Waiting;
        }
        self.settle();
        for before in proposals {
            let kept = self.find_mut(&before.id()).expect("nothing of it goes");
            if kept.stage != Stage::Served {
                *kept = before;
            }
        }
    }

    fn may_return(&self, kept: &Kept) -> bool {
        kept.stage == Stage::Held && !self.is_gated(&kept.event) && !kept.is_expired(self.now)
    }

    /// What another server still has of a scope that left here.
    pub(super) fn is_old_news(&self, event: &VerifiedEvent) -> bool {
        let announcement = Announcement::parse(event.clone());
        let for_us = announcement.is_ok_and(|it| self.lists_us(&it));
        let author = event.author();
        let mut versions = self.announcements_of(&author);
        let held = versions.any(|kept| kept.stage == Stage::Held && kept.rank() >= event.rank());
        event.kind() == kind::ANNOUNCEMENT && for_us && held && self.counting(&author).is_none()
    }
}
