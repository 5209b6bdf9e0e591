//! §8: pull requests and the commits pushed for them.

use std::collections::BTreeSet;

use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::Stage;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::proposal::Proposal;
use grasp_core::{EventId, PublicKey};

use super::authority::npub;
use super::{Carries, Kept, Naive, Said, What};

impl Naive {
    /// PR-1, G6-4.
    pub(super) fn admit_proposal(&mut self, event: VerifiedEvent) -> Result<(), Said> {
        let proposal = Proposal::parse(event).expect("the lives write real ones");
        let carries = match self.standing(proposal.event()) {
            Some(carries) => carries,
            None if self.pulls_from_prs(&proposal) => Carries::All,
            None => return Err(Said::Refused),
        };
        let now = self.now;
        let event = proposal.event().clone();
        self.put(event, What::Proposal(proposal), carries).wait(now);
        Ok(())
    }

    /// It names a repository, and the submitter's own one here as the place of its commit.
    fn pulls_from_prs(&self, proposal: &Proposal) -> bool {
        let submitter = npub(&proposal.author());
        let url = format!("{}/prs/{submitter}/{}.git", self.clone_base, self.project);
        let urls = proposal.event().all_values("clone");
        !proposal.targets().is_empty() && urls.contains(&url)
    }

    /// The owners that its `a` tags name.
    fn named(&self, proposal: &Proposal) -> BTreeSet<PublicKey> {
        let targets = proposal.targets().iter();
        targets
            .filter(|target| target.identifier == self.project)
            .map(|target| target.owner)
            .collect()
    }

    /// PR-2: whether the repository of `owner` is a target.
    pub(super) fn targets(&self, proposal: &Proposal, owner: &PublicKey) -> bool {
        !self.confirmed(owner).is_disjoint(&self.named(proposal))
    }

    /// PR-3, PR-4, AFTER-5.
    pub(super) fn serve_proposals(&mut self) -> bool {
        let alive: Vec<(EventId, Proposal)> = self
            .kept
            .iter()
            .filter(|kept| kept.counts())
            .filter_map(|kept| Some((kept.id(), kept.proposal()?.clone())))
            .collect();
        let mut changed = false;
        for (event, proposal) in alive {
            changed |= self.bind(event, &proposal);
        }
        changed
    }

    /// Ends the uploads of a known proposal, and serves it if its commit is where it should be.
    fn bind(&mut self, event: EventId, proposal: &Proposal) -> bool {
        let Some(commit) = proposal.tip().commit() else {
            return false;
        };
        let own = self.prs_repository(proposal.author());
        let uploads: Vec<(RepoAddress, Oid)> = self
            .uploads
            .iter()
            .filter(|upload| upload.event == event)
            .map(|upload| (upload.repository.clone(), upload.commit))
            .collect();
        self.uploads.retain(|upload| upload.event != event);
        let uploaded = |at: &RepoAddress| uploads.contains(&(at.clone(), commit));
        let pending = self.find(&event).is_some_and(Kept::is_pending);
        let there =
            |at: &RepoAddress| uploaded(at) || (pending && self.objects(at).contains(&commit));
        let in_prs = there(&own);
        let in_target = self.serving_targets(proposal).iter().any(|owner| {
            let relatives = self.confirmed(owner);
            there(&self.repository(*owner))
                || (pending
                    && relatives
                        .iter()
                        .any(|it| self.objects(&self.repository(*it)).contains(&commit)))
        });
        let newly_placed = in_prs && self.placed.insert(event);
        if pending && (in_prs || in_target) {
            self.find_mut(&event).expect("alive").serve();
            return true;
        }
        newly_placed || !uploads.is_empty()
    }

    /// The owners whose served repository shows it once it is served.
    pub(super) fn serving_targets(&self, proposal: &Proposal) -> Vec<PublicKey> {
        let owners = self.owners().into_iter();
        owners
            .filter(|owner| self.is_serving(owner) && self.targets(proposal, owner))
            .collect()
    }

    /// Served, and with its ref in the submitter's own repository.
    pub(super) fn is_placed(&self, kept: &Kept) -> bool {
        kept.stage == Stage::Served && self.placed.contains(&kept.id())
    }
}
