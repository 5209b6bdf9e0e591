//! §6: which announcements are taken, and what a newer one does to the older.

use grasp_core::PublicKey;
use grasp_core::announcement::Announcement;
use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::Stage;

use super::{Carries, Naive, Ranked as _, Said, What};

impl Naive {
    pub(super) fn admit_announcement(&mut self, event: VerifiedEvent) -> Result<(), Said> {
        let announcement = Announcement::parse(event).expect("the lives write real ones");
        let newer = self
            .counting(&announcement.owner())
            .is_some_and(|kept| kept.rank() > announcement.rank());
        if self.lists_us(&announcement) {
            self.for_a_repository(announcement, newer)
        } else {
            self.for_its_list(announcement, newer)
        }
    }

    /// ANN-2, ANN-3, ANN-3a, ANN-4.
    fn for_a_repository(&mut self, announcement: Announcement, newer: bool) -> Result<(), Said> {
        if newer {
            return Err(Said::Duplicate);
        }
        let owner = announcement.owner();
        let served = self
            .announcements_of(&owner)
            .find(|kept| kept.stage == Stage::Served && self.is_hosted(kept))
            .and_then(|kept| kept.announcement().cloned());
        let waiting_states = self.waiting_states_for(&owner);
        self.drop_pending_of(&owner);
        match served {
            Some(served) if !gives_more(&announcement, &served) => {
                self.supersede_served(&owner);
                self.put_announcement(announcement, |kept, _| kept.serve());
            }
            _ => self.put_announcement(announcement, super::Kept::wait),
        }
        let now = self.now;
        for state in waiting_states {
            if let Some(kept) = self.find_mut(&state) {
                kept.wait(now);
            }
        }
        self.come_back(&owner);
        Ok(())
    }

    /// ANN-5, ANN-6.
    fn for_its_list(&mut self, announcement: Announcement, newer: bool) -> Result<(), Said> {
        let owner = announcement.owner();
        let served = [Stage::Served];
        let waiting = [Stage::Served, Stage::Waiting];
        if self.known_by(&served, Some(&owner)).contains(&owner) {
            if newer {
                return Err(Said::Duplicate);
            }
            self.drop_pending_of(&owner);
            self.supersede_served(&owner);
            self.put_announcement(announcement, |kept, _| kept.serve());
            return Ok(());
        }
        if self.owners().contains(&owner) {
            if !newer {
                self.leave(&owner);
            }
            return Err(Said::Refused);
        }
        if let Some(before) = self.counting(&owner) {
            if newer {
                return Err(Said::Duplicate);
            }
            let (stage, until) = (before.stage, before.until);
            self.drop_pending_of(&owner);
            self.put_announcement(announcement, |kept, _| {
                kept.stage = stage;
                kept.until = until;
            });
            return Ok(());
        }
        if self.known_by(&waiting, Some(&owner)).contains(&owner) {
            self.put_announcement(announcement, super::Kept::wait);
            return Ok(());
        }
        Err(Said::Refused)
    }

    fn put_announcement(
        &mut self,
        announcement: Announcement,
        settle_down: impl FnOnce(&mut super::Kept, u64),
    ) {
        let (now, event) = (self.now, announcement.event().clone());
        let kept = self.put(event, What::Announcement(announcement), Carries::All);
        settle_down(kept, now);
    }

    /// ANN-4: the states that begin to wait anew with this owner's announcement.
    fn waiting_states_for(&self, owner: &PublicKey) -> Vec<grasp_core::EventId> {
        let states = self.kept.iter().filter(|kept| kept.state().is_some());
        states
            .filter(|kept| kept.stage == Stage::Waiting)
            .filter(|kept| self.authorising(&kept.author()).contains(owner))
            .map(super::Kept::id)
            .collect()
    }

    fn drop_pending_of(&mut self, owner: &PublicKey) {
        self.kept.retain(|kept| {
            !(kept.announcement().is_some() && kept.author() == *owner && kept.is_pending())
        });
    }

    pub(super) fn supersede_served(&mut self, owner: &PublicKey) {
        let now = self.now;
        let versions = self.kept.iter_mut();
        versions
            .filter(|kept| kept.announcement().is_some() && kept.author() == *owner)
            .filter(|kept| kept.stage == Stage::Served)
            .for_each(|kept| kept.supersede(now));
    }
}

/// ANN-3: makes a key active, or moves the lead.
pub(super) fn gives_more(new: &Announcement, old: &Announcement) -> bool {
    let more = new
        .listing()
        .active()
        .iter()
        .any(|key| !old.listing().lists(key));
    let lead = lead_of(new);
    more || (lead.is_some() && lead != lead_of(old))
}

/// MNT-6: where resolution goes from here; two leads lead nowhere.
fn lead_of(announcement: &Announcement) -> Option<PublicKey> {
    let leads: Vec<&PublicKey> = announcement.listing().leads().iter().collect();
    match leads[..] {
        [] => Some(announcement.owner()).filter(|owner| announcement.listing().lists(owner)),
        [one] => Some(*one),
        _ => None,
    }
}
