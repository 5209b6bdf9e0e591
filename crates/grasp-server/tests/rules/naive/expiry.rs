//! §10: what time does.

use std::collections::BTreeSet;

use grasp_core::EventId;
use grasp_core::lifecycle::Stage;

use super::announcements::gives_more;
use super::deletion::Ends;
use super::{Kept, MARKED, Naive, PARKED, Ranked as _, SOFT_EXPIRED};

impl Naive {
    /// It is `now`, and the sweep comes.
    pub(crate) fn sweep(&mut self, now: u64) {
        self.now = now;
        self.marks.retain(|_, until| *until > now);
        self.uploads.retain(|upload| upload.until > now);
        self.clean_up_requests();
        self.forget_curated();
        while let Some(due) = self.due() {
            self.end(&due);
            self.settle();
        }
        self.bring_in_line();
    }

    /// Whatever ends first.
    fn due(&self) -> Option<EventId> {
        let over = |kept: &&Kept| {
            let own_time = kept.counts() && kept.is_expired(self.now);
            own_time || kept.until.is_some_and(|until| until <= self.now)
        };
        let first = self.kept.iter().filter(over).min_by_key(|kept| kept.until);
        first.map(Kept::id)
    }

    fn end(&mut self, event: &EventId) {
        let kept = self.find(event).expect("it is due").clone();
        if kept.counts() && kept.is_expired(self.now) {
            return self.take_back(&BTreeSet::from([*event]), Ends::Expired); // EV-4
        }
        match kept.stage {
            Stage::Superseded | Stage::Held | Stage::Served => self.forget(event),
            Stage::Parked => self.expire(event),
            Stage::Waiting if kept.announcement().is_some() => self.end_announcement(&kept),
            Stage::Waiting if kept.state().is_some() => self.end_state(&kept),
            Stage::Waiting => self.end_proposal(&kept),
        }
    }

    /// PUR-6, PUR-8
    fn expire(&mut self, event: &EventId) {
        self.forget(event);
        self.marks.insert(*event, self.now + MARKED);
    }

    /// PUR-4, ANN-3b; ANN-6 for one that lists us not.
    fn end_announcement(&mut self, kept: &Kept) {
        let (event, owner) = (kept.id(), kept.author());
        if !self.is_hosted(kept) {
            return self.end_list(kept);
        }
        let announcement = kept.announcement().expect("one of these");
        let served = self
            .announcements_of(&owner)
            .find(|other| other.stage == Stage::Served)
            .and_then(Kept::announcement);
        let gives_back = served.is_some_and(|served| gives_more(served, announcement));
        let until = (!gives_back).then_some(self.now + SOFT_EXPIRED);
        self.find_mut(&event).expect("it is due").park(until);
    }

    /// It waits as long as something waits that may list it.
    fn end_list(&mut self, kept: &Kept) {
        let (event, owner) = (kept.id(), kept.author());
        let sponsored = self
            .known_by(&[Stage::Served, Stage::Waiting], Some(&owner))
            .contains(&owner);
        let longest = self
            .announcements()
            .filter(|other| other.stage == Stage::Waiting && self.is_hosted(other))
            .filter_map(|other| other.until)
            .filter(|until| *until > self.now)
            .max();
        match longest.filter(|_| sponsored) {
            Some(until) => self.find_mut(&event).expect("it is due").until = Some(until),
            None => self.expire(&event),
        }
    }

    /// PUR-15: the newest of its author is still owed to a repository that is served.
    fn end_state(&mut self, kept: &Kept) {
        let (event, author) = (kept.id(), kept.author());
        let state = kept.state().expect("one of these");
        let newest = !self
            .states_of(&author)
            .any(|other| other.is_pending() && other.rank() > kept.rank());
        let wanted = self
            .authorising(&author)
            .iter()
            .any(|owner| self.is_serving(owner));
        if !(newest && wanted && state.unsatisfiable().is_empty()) {
            return self.expire(&event);
        }
        self.kept.retain(|other| {
            let parked = other.state().is_some() && other.stage == Stage::Parked;
            !(parked && other.author() == author)
        });
        let until = self.now + PARKED;
        self.find_mut(&event).expect("it is due").park(Some(until));
    }

    /// PUR-15, for what a served repository is asked to pull.
    fn end_proposal(&mut self, kept: &Kept) {
        let event = kept.id();
        let proposal = kept.proposal().expect("nothing else waits");
        if self.serving_targets(proposal).is_empty() {
            return self.expire(&event);
        }
        let until = self.now + PARKED;
        self.find_mut(&event).expect("it is due").park(Some(until));
    }
}
