//! DEL-4: what hung on a scope that left. What stays is what would be accepted if it had never been here.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::EventId;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::Stage;

use super::related::names;
use super::{Carries, Kept, Naive};

/// What becomes of what others made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// DEL-5
    Held,
    /// DEL-11
    Gone,
}

/// What an event may carry without the scope; `None` if nothing supports it.
type Support = BTreeMap<EventId, Option<Carries>>;

impl Naive {
    /// Takes away what only `lost` supported.
    pub(super) fn cascade(&mut self, lost: &[VerifiedEvent], fate: Fate) {
        let concerned = self.concerned(lost);
        let support = self.support(&concerned);
        let now = self.now;
        for (event, carries) in support {
            let kept = self.find_mut(&event).expect("concerned");
            match carries {
                None if kept.is_pending() || fate == Fate::Gone => self.forget(&event),
                None => kept.hold(now),
                Some(Carries::Nothing) if kept.stage == Stage::Served => {
                    kept.carries = Carries::Nothing;
                }
                Some(_) => {}
            }
        }
    }

    /// Along references in both directions, as far as what is here because of others.
    fn concerned(&self, lost: &[VerifiedEvent]) -> BTreeSet<EventId> {
        let touches =
            |one: &VerifiedEvent, other: &VerifiedEvent| names(one, other) || names(other, one);
        let mut concerned: BTreeSet<EventId> = BTreeSet::new();
        let mut edge: Vec<VerifiedEvent> = lost.to_vec();
        while let Some(event) = edge.pop() {
            let next: Vec<&Kept> = self
                .kept
                .iter()
                .filter(|kept| self.is_dependent(kept) && touches(&event, &kept.event))
                .filter(|kept| !concerned.contains(&kept.id()))
                .collect();
            concerned.extend(next.iter().map(|kept| kept.id()));
            edge.extend(next.into_iter().map(|kept| kept.event.clone()));
        }
        concerned
    }

    /// Other announcements, lists, requests and proposals in `/prs/` stop the walk.
    fn is_dependent(&self, kept: &Kept) -> bool {
        let seen = kept.stage == Stage::Served || (kept.proposal().is_some() && kept.is_pending());
        let own = matches!(
            kept.event.kind(),
            kind::ANNOUNCEMENT | kind::STATE | kind::GRASP_LIST | kind::DELETION | kind::VANISH
        );
        seen && !own && !self.is_placed(kept)
    }

    fn support(&self, concerned: &BTreeSet<EventId>) -> Support {
        let mut support: Support = concerned.iter().map(|event| (*event, None)).collect();
        loop {
            let found: Support = concerned
                .iter()
                .map(|event| (*event, self.supported_by(event, &support)))
                .collect();
            if found == support {
                return support;
            }
            support = found;
        }
    }

    fn supported_by(&self, event: &EventId, support: &Support) -> Option<Carries> {
        let kept = self.find(event).expect("concerned");
        if kept.stage == Stage::Served && kept.proposal().is_some() && !self.is_backed(kept) {
            return None;
        }
        let carries = |other: &Kept| match support.get(&other.id()) {
            Some(carries) => *carries,
            None => Some(other.carries),
        };
        let standing = self.standing_among(&kept.event, carries);
        // REL-4: what waits carries nothing yet.
        let waits = kept.stage != Stage::Served;
        standing.map(|carries| if waits { Carries::Nothing } else { carries })
    }

    /// A proposal needs its commit in a repository that it names and that is still served.
    fn is_backed(&self, kept: &Kept) -> bool {
        let proposal = kept.proposal().expect("asked of proposals");
        let mut owners = proposal.targets().iter().map(|target| target.owner);
        proposal.tip().commit().is_some_and(|commit| {
            owners.any(|owner| {
                let held = self.objects(&self.repository(owner));
                let served = || {
                    let mut versions = self.announcements_of(&owner);
                    versions.any(|kept| kept.stage == Stage::Served)
                };
                held.contains(&commit) && served()
            })
        })
    }
}
