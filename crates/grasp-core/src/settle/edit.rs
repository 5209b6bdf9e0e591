//! Changes of a view: the same that the store makes to its rows.

use std::collections::BTreeMap;

use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use super::SUPERSEDED_MAX;
use crate::announcement::Announcement;
use crate::event::{Parsed, VerifiedEvent, kind};
use crate::lifecycle::{Change, Stage};
use crate::proposal::Proposal;
use crate::state::StateEvent;
use crate::view::{Entry, ProposalEntry, RepoView};

/// Versions by author, newest first.
pub(crate) trait Versions<T> {
    /// Puts one in its place; an entry of the same event is replaced.
    fn put(&mut self, author: PublicKey, entry: Entry<T>);
    /// The entry of an event.
    fn entry_mut(&mut self, event: &EventId) -> Option<&mut Entry<T>>;
    /// Takes an event out.
    fn drop_event(&mut self, event: &EventId);
}

impl<T: Parsed> Versions<T> for BTreeMap<PublicKey, Vec<Entry<T>>> {
    fn put(&mut self, author: PublicKey, entry: Entry<T>) {
        let versions = self.entry(author).or_default();
        versions.retain(|other| other.id() != entry.id());
        let place = versions.partition_point(|other| other.version() > entry.version());
        versions.insert(place, entry);
    }

    fn entry_mut(&mut self, event: &EventId) -> Option<&mut Entry<T>> {
        self.values_mut()
            .flatten()
            .find(|entry| entry.id() == *event)
    }

    fn drop_event(&mut self, event: &EventId) {
        for versions in self.values_mut() {
            versions.retain(|entry| entry.id() != *event);
        }
        self.retain(|_, versions| !versions.is_empty());
    }
}

/// Makes one change. What does not concern the view leaves it as it is.
pub(crate) fn apply(view: &mut RepoView, change: &Change) {
    match change {
        Change::Insert {
            event,
            stage,
            deadline,
            ..
        } => insert(view, event, *stage, *deadline),
        Change::Move {
            event,
            stage,
            deadline,
        } => place(view, event, Some(*stage), *deadline),
        Change::Extend { event, deadline } => place(view, event, None, *deadline),
        Change::Remove { event } => {
            view.announcements.drop_event(event);
            view.states.drop_event(event);
            view.proposals.remove(event);
            view.placements.remove(event);
        }
        Change::Upload(upload) => {
            view.uploads.retain(|other| {
                (other.event, &other.repository) != (upload.event, &upload.repository)
            });
            view.uploads.push(upload.clone());
        }
        Change::DropUpload { event, repository } => view
            .uploads
            .retain(|other| (&other.event, &other.repository) != (event, repository)),
        Change::Place { event, repository } => {
            view.placements
                .entry(*event)
                .or_default()
                .insert(repository.clone());
        }
        Change::Idle { .. }
        | Change::NotIdle { .. }
        | Change::Mark { .. }
        | Change::Unmark { .. }
        | Change::Archive { .. }
        | Change::Unarchive { .. }
        | Change::DropArchive { .. }
        | Change::Curate { .. }
        | Change::ListsApplied { .. }
        | Change::KeepCursor { .. }
        | Change::Dirty(_)
        | Change::Hunt { .. }
        | Change::HuntLater { .. }
        | Change::HuntOver { .. }
        | Change::GateEvent { .. }
        | Change::GateAddress { .. }
        | Change::GateAuthor { .. }
        | Change::KeepRequest { .. }
        | Change::UseRequest { .. }
        | Change::Unburden { .. }
        | Change::Plan(_)
        | Change::Steps { .. }
        | Change::StepDone { .. } => {}
    }
}

/// DEL-12: of what was replaced, the last versions stay.
pub(crate) fn forget_old_versions(view: &mut RepoView) {
    view.announcements.values_mut().for_each(thin_out);
    view.states.values_mut().for_each(thin_out);
}

fn thin_out<T>(versions: &mut Vec<Entry<T>>) {
    let mut kept = 0;
    versions.retain(|entry| {
        kept += usize::from(entry.stage == Stage::Superseded);
        entry.stage != Stage::Superseded || kept <= SUPERSEDED_MAX
    });
}

fn insert(view: &mut RepoView, event: &VerifiedEvent, stage: Stage, deadline: Option<Timestamp>) {
    if event.kind() == kind::ANNOUNCEMENT {
        if let Some(item) = Announcement::parse(event.clone()).ok()
            && *item.identifier() == view.identifier
        {
            let entry = Entry {
                item,
                stage,
                deadline,
            };
            view.announcements.put(event.author(), entry);
        }
    } else if event.kind() == kind::STATE {
        if let Some(item) = StateEvent::parse(event.clone()).ok()
            && *item.identifier() == view.identifier
        {
            let entry = Entry {
                item,
                stage,
                deadline,
            };
            view.states.put(event.author(), entry);
        }
    } else if let Ok(proposal) = Proposal::parse(event.clone()) {
        let entry = ProposalEntry::of(&proposal, &view.identifier, stage, deadline);
        if !entry.named.is_empty() {
            view.proposals.insert(event.id(), entry);
        }
    }
}

fn place(view: &mut RepoView, event: &EventId, stage: Option<Stage>, deadline: Option<Timestamp>) {
    if let Some(entry) = view.announcements.entry_mut(event) {
        entry.stage = stage.unwrap_or(entry.stage);
        entry.deadline = deadline;
    } else if let Some(entry) = view.states.entry_mut(event) {
        entry.stage = stage.unwrap_or(entry.stage);
        entry.deadline = deadline;
    } else if let Some(entry) = view.proposals.get_mut(event) {
        entry.stage = stage.unwrap_or(entry.stage);
        entry.deadline = deadline;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::project::{repo, state, upload, view};
    use crate::testing::{key, oid};

    /// PR-4: one record for each event and repository.
    #[test]
    fn an_upload_takes_the_place_of_the_one_before() {
        let id = |n| EventId::from_byte_array([n; 32]);
        let record = |event, commit, owner| upload(id(event), oid(commit), repo(key(owner)));
        let mut after = view().build();
        for one in [
            record(1, 1, 1),
            record(2, 1, 1),
            record(1, 1, 2),
            record(1, 2, 1),
        ] {
            apply(&mut after, &Change::Upload(one));
        }
        let others = [record(2, 1, 1), record(1, 1, 2)];
        assert_eq!(after.uploads, [&others[..], &[record(1, 2, 1)]].concat());
        let drop = Change::DropUpload {
            event: id(1),
            repository: repo(key(1)),
        };
        apply(&mut after, &drop);
        assert_eq!(after.uploads, others);
    }

    /// KIND-5: whatever came first.
    #[test]
    fn versions_stand_newest_first_and_once() {
        let entry = |at| Entry {
            item: state(key(1), at, &[]),
            stage: Stage::Waiting,
            deadline: None,
        };
        let mut versions = BTreeMap::new();
        for at in [20, 30, 10, 25, 30] {
            versions.put(key(1), entry(at));
        }
        let times = |versions: &[Entry<_>]| -> Vec<u64> {
            let times = versions.iter().map(|entry| entry.version().created_at);
            times.map(|at| at.as_secs()).collect()
        };
        assert_eq!(times(&versions[&key(1)]), [30, 25, 20, 10]);
        versions.drop_event(&entry(25).id());
        assert_eq!(times(&versions[&key(1)]), [30, 20, 10]);
        assert!(versions.entry_mut(&entry(25).id()).is_none());
    }
}
