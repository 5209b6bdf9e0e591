//! DEL-8: who vanishes takes along all they made.

use std::collections::BTreeSet;

use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::Stage;
use grasp_core::name::RepoAddress;
use grasp_core::related::References;
use grasp_core::{EventId, PublicKey};

use super::deletion::Ends;
use super::requests::Request;
use super::{Kept, Naive};

impl Naive {
    pub(super) fn admit_vanish(&mut self, event: &VerifiedEvent) {
        let relays = event.all_values("relay");
        let all = "ALL_RELAYS".to_owned();
        let here = relays.contains(&self.relay) || relays.contains(&all);
        let used = here && self.take_past(event.author(), event.created_at().as_secs());
        let request = Request::to_vanish(event, here, self.now);
        self.keep_request(event, request, used);
    }

    /// Whether there was any.
    fn take_past(&mut self, author: PublicKey, until: u64) -> bool {
        let past = |event: &VerifiedEvent| {
            event.author() == author && event.created_at().as_secs() <= until
        };
        let all = self.kept.iter().filter(|kept| past(&kept.event));
        let doomed: BTreeSet<EventId> = all.clone().map(Kept::id).collect();
        let announced = all
            .clone()
            .any(|kept| kept.announcement().is_some() && kept.counts());
        let missed = self.is_named_by_others(&author);
        let left_more = self.take_remains(&author);
        self.requests
            .retain(|request| !doomed.contains(&request.event));
        self.withdrawn.retain(|gone| !past(gone.event()));
        if announced {
            self.take_scope(&author, |naive, gone| {
                naive.take_back_with(&doomed, Ends::Vanished, gone);
            });
        } else {
            self.take_back(&doomed, Ends::Vanished);
        }
        if !missed && self.serving.remove(&author) {
            self.objects.remove(&self.repository(author));
        }
        left_more || !doomed.is_empty()
    }

    /// What is no event: pushes into their `/prs/` repository whose event did not come, and what the archive has,
    /// unless others may miss that, be it when it comes back. Whether there was anything.
    fn take_remains(&mut self, author: &PublicKey) -> bool {
        let prs = RepoAddress::Proposals(self.repository(*author).coordinate().clone());
        let uploads = self.uploads.len();
        self.uploads.retain(|upload| upload.repository != prs);
        let archived = self
            .archived
            .get(author)
            .is_some_and(|it| it.until > self.now);
        if !self.is_named_by_others(author) && !self.is_named_by_held(author) {
            self.archived.remove(author);
        }
        archived || self.uploads.len() < uploads
    }

    /// DEL-6: by something of others that would come back with it.
    fn is_named_by_held(&self, owner: &PublicKey) -> bool {
        let address = self.repository(*owner).coordinate().address();
        let mut others = self.kept.iter().filter(|kept| kept.author() != *owner);
        others.any(|kept| {
            kept.stage == Stage::Held
                && !self.is_gated(&kept.event)
                && References::of(&kept.event).addresses.contains(&address)
        })
    }

    /// DEL-5: whether somebody else may miss the repository.
    fn is_named_by_others(&self, owner: &PublicKey) -> bool {
        let address = self.repository(*owner).coordinate().address();
        let mut others = self.kept.iter().filter(|kept| kept.author() != *owner);
        others.any(|kept| {
            let waits = kept.proposal().is_some() && kept.is_pending();
            let seen = kept.stage == Stage::Served || waits;
            seen && References::of(&kept.event).addresses.contains(&address)
        })
    }
}
