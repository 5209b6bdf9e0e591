//! What all commands of one push are measured against, gathered once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nostr::event::EventId;
use nostr::key::PublicKey;

use super::Push;
use crate::lifecycle::UploadRecord;
use crate::refplan::Planner;
use crate::state::StateEvent;

/// Facts of the repository that every command shares.
pub(super) struct Ground<'a> {
    /// The announcement asks for the repository, or a proposal needs it (REF-6).
    pub(super) exists: bool,
    /// Of the owner in the URL (PUSH-6).
    pub(super) maintainers: Arc<BTreeSet<PublicKey>>,
    /// The served state that wins (REF-1).
    pub(super) winner: Option<&'a StateEvent>,
    /// Records of the view by the event they wait for.
    uploads: BTreeMap<EventId, Vec<&'a UploadRecord>>,
    /// How many of them are in this repository.
    pub(super) uploads_here: usize,
}

impl<'a> Ground<'a> {
    pub(super) fn of(push: &Push<'a>) -> Self {
        let mut planner = Planner::new(push.view, push.cx.policy);
        let mut uploads: BTreeMap<EventId, Vec<&UploadRecord>> = BTreeMap::new();
        for upload in &push.view.uploads {
            uploads.entry(upload.event).or_default().push(upload);
        }
        let here = |upload: &&UploadRecord| upload.repository == *push.repo;
        Self {
            exists: planner.exists(push.repo),
            maintainers: planner.maintainers(push.repo),
            winner: planner.winner(push.repo).map(|entry| &entry.item),
            uploads,
            uploads_here: push.view.uploads.iter().filter(here).count(),
        }
    }

    /// The records that bind an id to a commit (PUSH-4).
    pub(super) fn uploads_of(&self, event: &EventId) -> &[&'a UploadRecord] {
        self.uploads.get(event).map_or(&[], Vec::as_slice)
    }
}
