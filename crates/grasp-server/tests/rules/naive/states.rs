//! §7: whose states are taken, and what they wake.

use grasp_core::PublicKey;
use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::Stage;
use grasp_core::state::StateEvent;

use super::{Carries, Kept, Naive, Ranked as _, Said, What};

impl Naive {
    /// ST-1, ST-2.
    pub(super) fn admit_state(&mut self, event: VerifiedEvent) -> Result<(), Said> {
        let state = StateEvent::parse(event).expect("the lives write real ones");
        let author = state.author();
        if self
            .served_state(&author)
            .is_some_and(|kept| kept.rank() > state.rank())
        {
            return Err(Said::Duplicate); // PUSH-14
        }
        let owners = self.authorising(&author);
        if owners.is_empty() {
            return Err(Said::Refused);
        }
        let now = self.now;
        let event = state.event().clone();
        self.put(event, What::State(state), Carries::All).wait(now);
        // PUR-3, PUR-5
        let woken: Vec<_> = self
            .announcements()
            .filter(|kept| owners.contains(&kept.author()) && kept.is_pending())
            .filter(|kept| self.is_hosted(kept))
            .map(Kept::id)
            .collect();
        for announcement in woken {
            if let Some(kept) = self.find_mut(&announcement) {
                kept.wait(now);
            }
        }
        Ok(())
    }

    pub(super) fn states_of(&self, author: &PublicKey) -> impl Iterator<Item = &Kept> {
        self.kept
            .iter()
            .filter(|kept| kept.state().is_some() && kept.author() == *author)
    }

    pub(super) fn served_state(&self, author: &PublicKey) -> Option<&Kept> {
        self.states_of(author)
            .find(|kept| kept.stage == Stage::Served)
    }

    /// REF-1: the newest served state of the repository's confirmed set.
    pub(super) fn winner(&self, owner: &PublicKey) -> Option<&StateEvent> {
        let confirmed = self.confirmed(owner);
        self.kept
            .iter()
            .filter(|kept| kept.stage == Stage::Served && confirmed.contains(&kept.author()))
            .filter_map(Kept::state)
            .filter(|state| state.unsatisfiable().is_empty())
            .max_by_key(|state| state.rank())
    }

    /// ST-3, KIND-6: a repository that the state concerns holds all it names; an empty one needs a
    /// repository that is served.
    pub(super) fn is_complete(&self, state: &StateEvent) -> bool {
        let here = |owner: &PublicKey| {
            if state.is_empty() {
                self.is_serving(owner)
            } else {
                self.holds_all(*owner, state)
            }
        };
        state.unsatisfiable().is_empty() && self.authorising(&state.author()).iter().any(here)
    }

    /// Whether the directory of `owner` has every object that the state names.
    pub(super) fn holds_all(&self, owner: PublicKey, state: &StateEvent) -> bool {
        let held = self.objects(&self.repository(owner));
        state.refs().values().all(|oid| held.contains(oid))
    }
}
