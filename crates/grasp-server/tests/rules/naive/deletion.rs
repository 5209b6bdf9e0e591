//! §11: events that are taken back.

use std::collections::BTreeSet;

use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::Stage;
use grasp_core::{EventId, PublicKey};

use super::cascade::Fate;
use super::{Kept, Naive, Ranked as _, Request, Said};

/// What becomes of an event that is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// DEL-5: what was seen is held; what waited is gone (PUR-10).
    Deleted,
    /// EV-4: gone.
    Expired,
    /// DEL-8: gone, and nothing older takes its place.
    Vanished,
}

impl Naive {
    /// DEL-1, DEL-2, DEL-3, DEL-4, PUR-10.
    pub(super) fn admit_deletion(&mut self, event: &VerifiedEvent) -> Result<(), Said> {
        let request = Request::read(event, self.now);
        let author = event.author();
        let foreign = |kept: &Kept| request.ids.contains(&kept.id()) && kept.author() != author;
        if self.kept.iter().any(foreign) {
            return Err(Said::Refused);
        }
        let doomed: Vec<&Kept> = self
            .kept
            .iter()
            .filter(|kept| kept.stage != Stage::Held && request.names(&kept.event))
            .collect();
        let scope = doomed
            .iter()
            .any(|kept| kept.announcement().is_some() && request.covers(&kept.event));
        let doomed: BTreeSet<EventId> = doomed.iter().map(|kept| kept.id()).collect();
        let used = !doomed.is_empty();
        if scope {
            self.take_scope(&author, |naive, gone| {
                naive.take_back_with(&doomed, Ends::Deleted, gone);
            });
        } else {
            self.take_back(&doomed, Ends::Deleted);
        }
        self.keep_request(event, request, used);
        Ok(())
    }

    /// ANN-5: the owner goes elsewhere.
    pub(super) fn leave(&mut self, owner: &PublicKey) {
        let now = self.now;
        self.take_scope(owner, |naive, gone| {
            naive.kept.retain_mut(|kept| {
                let own = kept.announcement().is_some() && kept.author() == *owner;
                let pending = own && kept.is_pending();
                if own && kept.stage == Stage::Served {
                    kept.hold(now);
                }
                !pending
            });
            gone(naive);
        });
    }

    /// DEL-4: with a scope go the states that no other wants and, if it was served, what hung on it. `take`
    /// takes the announcements away, and calls what it is given when they are gone.
    pub(super) fn take_scope(
        &mut self,
        owner: &PublicKey,
        take: impl FnOnce(&mut Self, &dyn Fn(&mut Self)),
    ) {
        self.take_scope_as(owner, Fate::Held, take);
    }

    /// The same, with this fate for what others made.
    pub(super) fn take_scope_as(
        &mut self,
        owner: &PublicKey,
        fate: Fate,
        take: impl FnOnce(&mut Self, &dyn Fn(&mut Self)),
    ) {
        let (authority, group) = (self.authority(), self.group(owner));
        let is_served = |naive: &Self| {
            let mut versions = naive.announcements_of(owner);
            versions.any(|kept| kept.stage == Stage::Served)
        };
        let was_served = is_served(self);
        let before: Vec<Kept> = self.kept.clone();
        take(self, &|naive| {
            naive.abandon_states(&authority, &group, fate);
        });
        self.settle();
        if !was_served || is_served(self) {
            return;
        }
        let left = |kept: &&Kept| {
            let own = kept.announcement().is_some() && kept.author() == *owner;
            let state = kept.state().is_some() && kept.stage == Stage::Served;
            own || (state && self.stage(&kept.id()) != Some(Stage::Served))
        };
        let lost: Vec<VerifiedEvent> = before
            .iter()
            .filter(left)
            .map(|it| it.event.clone())
            .collect();
        self.cascade(&lost, fate);
    }

    /// Whose announcements list each other, directly or by others: strangers of the same `d` are not in it
    /// (MNT-10).
    fn group(&self, owner: &PublicKey) -> BTreeSet<PublicKey> {
        let lists = |kept: &Kept, key: &PublicKey| {
            kept.announcement()
                .is_some_and(|it| it.listing().lists(key))
        };
        let mut group = BTreeSet::from([*owner]);
        loop {
            let joining = self
                .announcements()
                .filter(|kept| kept.counts())
                .find(|kept| {
                    let near = group.contains(&kept.author())
                        || group.iter().any(|member| lists(kept, member));
                    let listed = kept.announcement().map(|it| it.listing().active().clone());
                    let mut all = listed.unwrap_or_default();
                    all.insert(kept.author());
                    near && !all.is_subset(&group)
                });
            match joining {
                Some(kept) => {
                    let announcement = kept.announcement().expect("one of these");
                    group.insert(kept.author());
                    group.extend(announcement.listing().active().iter().copied());
                }
                None => return group,
            }
        }
    }

    /// Whose states count anywhere.
    fn authority(&self) -> BTreeSet<PublicKey> {
        let owners = self.owners();
        owners
            .iter()
            .flat_map(|owner| self.confirmed(owner))
            .collect()
    }

    /// After a scope went: waiting states that no other scope wants go with it, and with the last
    /// announcement the served ones are held.
    fn abandon_states(
        &mut self,
        before: &BTreeSet<PublicKey>,
        group: &BTreeSet<PublicKey>,
        fate: Fate,
    ) {
        let after = self.authority();
        let announced = self
            .announcements()
            .any(|kept| kept.counts() && group.contains(&kept.author()));
        let now = self.now;
        self.kept.retain_mut(|kept| {
            if kept.state().is_none() {
                return true;
            }
            let author = kept.author();
            let lost = before.contains(&author) && !after.contains(&author);
            let gone = kept.is_pending() && lost;
            if kept.stage == Stage::Served && !announced && group.contains(&author) {
                kept.hold(now);
                return fate == Fate::Held;
            }
            !gone
        });
    }

    /// DEL-2, DEL-3: what they had replaced comes back, and a scope that loses its last winner by it goes
    /// back to purgatory.
    pub(super) fn take_back(&mut self, events: &BTreeSet<EventId>, ends: Ends) {
        self.take_back_with(events, ends, &|_| {});
    }

    pub(super) fn take_back_with(
        &mut self,
        events: &BTreeSet<EventId>,
        ends: Ends,
        and_then: &dyn Fn(&mut Self),
    ) {
        let losers: Vec<PublicKey> = self
            .owners()
            .into_iter()
            .filter(|owner| {
                let winner = self.winner(owner);
                winner.is_some_and(|state| events.contains(&state.id()))
            })
            .collect();
        let mut addresses = BTreeSet::new();
        for event in events {
            let Some(kept) = self.find(event).cloned() else {
                continue;
            };
            if ends != Ends::Vanished {
                self.withdrawn.extend(kept.announcement().cloned());
                let served = kept.stage == Stage::Served;
                addresses.extend(kept.event.address().filter(|_| served));
            }
            let now = self.now;
            if ends != Ends::Deleted || kept.is_pending() {
                self.forget(event);
            } else {
                self.find_mut(event).expect("just found").hold(now);
            }
        }
        for address in addresses {
            self.roll_back(&address);
        }
        and_then(self);
        let now = self.now;
        for owner in losers {
            if self.winner(&owner).is_some() {
                continue;
            }
            let served: Vec<EventId> = self
                .announcements_of(&owner)
                .filter(|kept| kept.stage == Stage::Served && self.is_hosted(kept))
                .map(Kept::id)
                .collect();
            for event in served {
                self.find_mut(&event).expect("just found").wait(now);
            }
        }
    }

    /// DEL-2, DEL-3: the newest version that was replaced and not deleted. DEL-2a: what is not complete
    /// any more is no target.
    fn roll_back(&mut self, address: &str) {
        let mut targets: Vec<Kept> = self
            .kept
            .iter()
            .filter(|kept| kept.event.address().as_deref() == Some(address))
            .filter(|kept| kept.stage == Stage::Superseded && !kept.is_expired(self.now))
            .filter(|kept| kept.state().is_none_or(|state| self.is_somewhere(state)))
            .cloned()
            .collect();
        targets.sort_by_key(Kept::rank);
        if let Some(target) = targets.last() {
            self.find_mut(&target.id()).expect("just found").serve();
        }
    }

    fn is_somewhere(&self, state: &grasp_core::state::StateEvent) -> bool {
        let mut owners = self.announcements().map(Kept::author);
        state.is_empty() || owners.any(|owner| self.holds_all(owner, state))
    }
}
