//! ANN-1, DEL-6, DEL-7: what the operator takes off the service, and brings back.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::PublicKey;
use grasp_core::announcement::Announcement;
use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::Stage;
use grasp_core::policy::Origin;

use super::{Kept, Naive, Ranked as _, Said};

/// Whose repositories the operator does not want, or wants alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    /// Not these.
    pub(crate) black: BTreeSet<PublicKey>,
    /// These alone.
    pub(crate) white: Option<BTreeSet<PublicKey>>,
    /// Who leaves the blacklist comes back by that.
    pub(crate) restores: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Blacklist,
    Whitelist,
}

/// The lists, and what they did.
#[derive(Debug, Clone, Default)]
pub(super) struct Curated {
    lists: Lists,
    took: BTreeMap<PublicKey, By>,
}

/// What became of a wish to bring a scope back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restored {
    Served,
    Waits,
    /// It is here.
    Live,
    Gone,
    /// Its owner wanted it gone.
    Requested,
    Refused,
}

impl Naive {
    /// ANN-1
    pub(super) fn is_unlisted(&self, event: &VerifiedEvent) -> bool {
        let Ok(announcement) = Announcement::parse(event.clone()) else {
            return false;
        };
        let (owner, lists) = (announcement.owner(), &self.curated.lists);
        let unwanted = |white: &BTreeSet<PublicKey>| !white.contains(&owner);
        lists.black.contains(&owner)
            || (self.lists_us(&announcement) && lists.white.as_ref().is_some_and(unwanted))
    }

    /// DEL-7: at a start.
    pub(crate) fn apply_lists(&mut self, lists: &Lists) {
        if self.curated.lists == *lists {
            return;
        }
        self.curated.lists = lists.clone();
        self.take_off(By::Blacklist, |_, owner| lists.black.contains(owner));
        if lists.restores {
            self.give_back(By::Blacklist, |owner| !lists.black.contains(owner));
        }
        if let Some(white) = &lists.white {
            let hosted = |owner: &PublicKey| white.contains(owner) && !lists.black.contains(owner);
            self.take_off(By::Whitelist, |naive, owner| {
                !hosted(owner) && naive.owners().contains(owner)
            });
            self.give_back(By::Whitelist, hosted);
        }
    }

    fn take_off(&mut self, by: By, unwanted: impl Fn(&Self, &PublicKey) -> bool) {
        let here = self.announcements().filter(|kept| kept.counts());
        let here: BTreeSet<PublicKey> = here.map(Kept::author).collect();
        let leaving: Vec<PublicKey> = here.into_iter().filter(|it| unwanted(self, it)).collect();
        for owner in leaving {
            self.curated.took.insert(owner, by);
            let now = self.now;
            self.take_scope(&owner, |naive, gone| {
                naive.kept.retain_mut(|kept| {
                    let own = kept.announcement().is_some() && kept.author() == owner;
                    let pending = own && kept.is_pending();
                    if own && !pending && kept.stage != Stage::Held {
                        kept.hold(now);
                    }
                    !pending
                });
                gone(naive);
            });
            self.bring_in_line();
        }
    }

    fn give_back(&mut self, by: By, wanted: impl Fn(&PublicKey) -> bool) {
        for (owner, taken_by) in self.curated.took.clone() {
            if taken_by == by && wanted(&owner) && self.restore(&owner) != Restored::Refused {
                self.curated.took.remove(&owner);
            }
        }
    }

    /// DEL-6: as if its owner announced it again.
    pub(crate) fn restore(&mut self, owner: &PublicKey) -> Restored {
        if self.counting(owner).is_some() {
            return Restored::Live;
        }
        let held: Vec<&Kept> = self
            .announcements_of(owner)
            .filter(|kept| kept.stage == Stage::Held && self.is_hosted(kept))
            .collect();
        let free = held.iter().filter(|kept| !self.is_gated(&kept.event));
        let Some(newest) = free.max_by_key(|kept| kept.rank()) else {
            let gone = held.is_empty();
            return if gone {
                Restored::Gone
            } else {
                Restored::Requested
            };
        };
        let event = newest.event.clone();
        let said = self.take_in(event, Origin::Client);
        self.sweep(self.now);
        match said {
            Said::Served => Restored::Served,
            Said::Waits => Restored::Waits,
            Said::Duplicate => Restored::Live,
            Said::Refused => Restored::Refused,
        }
    }

    /// Nothing is left that could come back.
    pub(super) fn forget_curated(&mut self) {
        let known: BTreeSet<PublicKey> = self.announcements().map(Kept::author).collect();
        self.curated.took.retain(|owner, _| known.contains(owner));
    }
}
