//! What becomes servable once events, objects or announcements changed (ST-3, ST-4, AFTER-*, PR-3, PR-4).

use std::collections::BTreeSet;

use grasp_core::lifecycle::Stage;
use grasp_core::{EventId, PublicKey};

use super::{Kept, Naive, Ranked as _, SOFT_EXPIRED, VERSIONS_MAX};

impl Naive {
    /// Serves whatever can be, until nothing more follows.
    pub(super) fn settle(&mut self) {
        loop {
            let states = self.serve_states();
            let announcements = self.release();
            let lists = self.discover();
            let proposals = self.serve_proposals();
            if !(states || announcements || lists || proposals) {
                break;
            }
        }
        self.begin_phase_two();
        self.forget_old_versions();
    }

    /// AFTER-3: the newest complete state of each author is served.
    fn serve_states(&mut self) -> bool {
        let authors: BTreeSet<PublicKey> = self
            .kept
            .iter()
            .filter(|kept| kept.state().is_some())
            .map(Kept::author)
            .collect();
        let mut changed = false;
        for author in authors {
            let served = self.served_state(&author).map(Kept::rank);
            let ready = self
                .states_of(&author)
                .filter(|kept| kept.is_pending() && Some(kept.rank()) > served)
                .filter(|kept| kept.state().is_some_and(|state| self.is_complete(state)))
                .max_by_key(|kept| kept.rank())
                .map(Kept::id);
            if let Some(ready) = ready {
                self.serve_state(&author, &ready);
                changed = true;
            }
            changed |= self.clear_older(&author);
        }
        changed
    }

    fn serve_state(&mut self, author: &PublicKey, ready: &EventId) {
        let now = self.now;
        for kept in &mut self.kept {
            if kept.state().is_some() && kept.author() == *author && kept.stage == Stage::Served {
                kept.supersede(now);
            }
        }
        self.find_mut(ready).expect("it was found ready").serve();
    }

    /// AFTER-4: the author's own older ones are rollback material if complete, and of no use if not.
    fn clear_older(&mut self, author: &PublicKey) -> bool {
        let Some(served) = self.served_state(author).map(Kept::rank) else {
            return false;
        };
        let older: Vec<(EventId, bool)> = self
            .states_of(author)
            .filter(|kept| kept.is_pending() && kept.rank() < served)
            .map(|kept| {
                let complete = kept.state().is_some_and(|state| self.is_complete(state));
                (kept.id(), complete)
            })
            .collect();
        let now = self.now;
        for (event, complete) in &older {
            if *complete {
                self.find_mut(event).expect("just found").supersede(now);
            } else {
                self.forget(event);
            }
        }
        !older.is_empty()
    }

    /// AFTER-2, ST-4: announcements whose repository got data. KIND-6: an empty state is none.
    fn release(&mut self) -> bool {
        let ready: Vec<PublicKey> = self
            .owners()
            .into_iter()
            .filter(|owner| {
                let newest = self.counting(owner);
                newest.is_some_and(|kept| kept.is_pending() && self.is_hosted(kept))
                    && self.has_data(owner)
            })
            .collect();
        for owner in &ready {
            self.serve_newest(owner);
        }
        !ready.is_empty()
    }

    fn has_data(&self, owner: &PublicKey) -> bool {
        let Some(winner) = self.winner(owner) else {
            return false;
        };
        let author = winner.author();
        let somewhere = || {
            let mut owners = self.announcements().map(Kept::author);
            owners.any(|owner| self.holds_all(owner, winner))
        };
        let shown = || {
            let owners = self.authorising(&author);
            owners.iter().any(|owner| self.is_serving(owner))
        };
        !winner.is_empty() && (shown() || somewhere())
    }

    /// ANN-6: those that only tell who is a maintainer are served while something served lists them.
    fn discover(&mut self) -> bool {
        let known = self.known_by(&[Stage::Served], None);
        let elsewhere: Vec<(PublicKey, Stage)> = self
            .announcements()
            .map(Kept::author)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter_map(|owner| self.counting(&owner))
            .filter(|kept| !self.is_hosted(kept))
            .map(|kept| (kept.author(), kept.stage))
            .collect();
        let mut changed = false;
        for (owner, stage) in elsewhere {
            match (stage, known.contains(&owner)) {
                (Stage::Waiting | Stage::Parked, true) => self.serve_newest(&owner),
                (Stage::Served, false) => self.park_list(&owner),
                _ => continue,
            }
            changed = true;
        }
        changed
    }

    fn serve_newest(&mut self, owner: &PublicKey) {
        let newest = self.counting(owner).expect("found by this").id();
        self.supersede_served(owner);
        self.find_mut(&newest).expect("just found").serve();
        self.kept.retain(|kept| {
            !(kept.announcement().is_some() && kept.author() == *owner && kept.is_pending())
        });
    }

    fn park_list(&mut self, owner: &PublicKey) {
        let until = self.now + super::PARKED;
        let listing = self.counting(owner).expect("found by this").id();
        let listing = self.find_mut(&listing).expect("just found");
        listing.park(Some(until));
    }

    /// ANN-3b: what was parked behind a served version has the usual end once there is none.
    fn begin_phase_two(&mut self) {
        let until = self.now + SOFT_EXPIRED;
        let beginning: Vec<EventId> = self
            .announcements()
            .filter(|kept| kept.is_parked_without_end() && self.is_hosted(kept))
            .filter(|kept| {
                let owner = kept.author();
                let mut versions = self.announcements_of(&owner);
                !versions.any(|kept| kept.stage == Stage::Served)
            })
            .map(Kept::id)
            .collect();
        for event in beginning {
            self.find_mut(&event).expect("just found").park(Some(until));
        }
    }

    /// DEL-12
    fn forget_old_versions(&mut self) {
        let superseded: Vec<&Kept> = self
            .kept
            .iter()
            .filter(|kept| kept.stage == Stage::Superseded)
            .collect();
        let surplus: Vec<EventId> = superseded
            .iter()
            .filter(|kept| {
                let newer = superseded.iter().filter(|other| {
                    other.event.address() == kept.event.address() && other.rank() > kept.rank()
                });
                newer.count() >= VERSIONS_MAX
            })
            .map(|kept| kept.id())
            .collect();
        for event in surplus {
            self.forget(&event);
        }
    }
}
