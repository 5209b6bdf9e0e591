//! §9: events that hang on others. The lives stay within every budget.

use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::Stage;
use grasp_core::related::References;

use super::{Carries, Kept, Naive, Said, What};

impl Naive {
    pub(super) fn admit_related(&mut self, event: VerifiedEvent) -> Result<(), Said> {
        let carries = self.standing(&event).ok_or(Said::Refused)?;
        self.put(event, What::Other, carries).serve();
        Ok(())
    }

    /// REL-2, REL-5, REL-6: what an event may carry by what it names or by what names it.
    pub(super) fn standing(&self, event: &VerifiedEvent) -> Option<Carries> {
        self.standing_among(event, |other| Some(other.carries))
    }

    /// The same if others carry what `carries` says; `None`: they are not there.
    pub(super) fn standing_among(
        &self,
        event: &VerifiedEvent,
        carries: impl Fn(&Kept) -> Option<Carries>,
    ) -> Option<Carries> {
        let carries_some =
            |other: &Kept| matches!(carries(other), Some(Carries::All | Carries::Replies));
        let served = || self.kept.iter().filter(|kept| kept.stage == Stage::Served);
        let targets = || served().filter(|other| names(event, &other.event));
        let anchors = || targets().filter(|other| carries(other) == Some(Carries::All));
        let announced = anchors().any(|other| other.event.kind() == kind::ANNOUNCEMENT);
        if kind::is_root(event.kind()) && announced {
            return Some(Carries::All);
        }
        if targets().any(carries_some) {
            return Some(Carries::Replies);
        }
        let named_by = |other: &Kept| names(&other.event, event);
        served()
            .any(|other| carries_some(other) && named_by(other))
            .then_some(Carries::Nothing)
    }
}

/// REL-1, REL-3
pub(super) fn names(event: &VerifiedEvent, other: &VerifiedEvent) -> bool {
    let references = References::of(event);
    let address = other.address();
    references.events.contains(&other.id())
        || address.is_some_and(|address| references.addresses.contains(&address))
}
