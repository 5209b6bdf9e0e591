//! Proposals whose commit is there (PR-3, PR-4, AFTER-5).

use std::collections::BTreeSet;

use nostr::event::EventId;
use nostr::key::PublicKey;

use super::Groups;
use crate::lifecycle::Stage;
use crate::name::{Coordinate, RepoAddress};
use crate::policy::Circumstances;
use crate::view::{ObjectFacts, ProposalEntry, RepoView};

/// Binds uploads to the proposals they were made for, and serves the proposals whose commit is in a
/// repository that they concern.
pub(super) fn serve(
    view: &mut RepoView,
    groups: &Groups,
    facts: &ObjectFacts,
    cx: Circumstances<'_>,
) -> bool {
    let alive: Vec<EventId> = view
        .proposals
        .values()
        .filter(|entry| super::counts(entry.stage))
        .map(|entry| entry.event)
        .collect();
    let mut changed = false;
    for event in alive {
        if let Some(entry) = view.proposals.get(&event).cloned() {
            changed |= serve_one(view, &entry, groups, facts, cx);
        }
    }
    changed
}

fn serve_one(
    view: &mut RepoView,
    entry: &ProposalEntry,
    groups: &Groups,
    facts: &ObjectFacts,
    cx: Circumstances<'_>,
) -> bool {
    let reach = Reach::of(entry, view, groups, cx);
    let uploaded = take_uploads(view, entry, &reach);
    let in_prs = reach.prs.as_ref().filter(|prs| {
        let held = entry.commit.is_some_and(|oid| facts.holds(prs, &oid));
        uploaded.iter().any(|at| at == *prs) || (held && entry.stage != Stage::Served)
    });
    let here = |repo: &RepoAddress| entry.commit.is_some_and(|oid| facts.holds(repo, &oid));
    let in_target = uploaded.iter().any(|at| reach.targets.contains(at))
        || (!reach.targets.is_empty() && reach.relatives.iter().any(here));
    if let Some(prs) = in_prs {
        let places = view.placements.entry(entry.event).or_default();
        places.insert(prs.clone());
    }
    let ready = entry.stage != Stage::Served && (in_prs.is_some() || in_target);
    if ready && let Some(stored) = view.proposals.get_mut(&entry.event) {
        stored.stage = Stage::Served;
        stored.deadline = stored.expiration;
    }
    ready || !uploaded.is_empty()
}

/// Where the commit of a proposal may lie, and where its ref will be.
struct Reach {
    /// The served repositories that show it (PR-2).
    targets: BTreeSet<RepoAddress>,
    /// Those and the others of their maintainers: objects are taken from there (PR-3).
    relatives: BTreeSet<RepoAddress>,
    /// The submitter's own (GRASP-06).
    prs: Option<RepoAddress>,
}

impl Reach {
    fn of(entry: &ProposalEntry, view: &RepoView, groups: &Groups, cx: Circumstances<'_>) -> Self {
        let owners: Vec<&PublicKey> = groups
            .targets(&entry.named)
            .filter(|owner| groups.serves(view, owner))
            .collect();
        let coordinate = || Coordinate::new(entry.author, view.identifier.clone());
        Self {
            targets: owners.iter().map(|key| view.repository(**key)).collect(),
            relatives: owners
                .iter()
                .flat_map(|key| groups.relatives(view, key))
                .collect(),
            prs: cx
                .policy
                .proposals_hosted
                .then(|| RepoAddress::Proposals(coordinate())),
        }
    }

    fn includes(&self, repo: &RepoAddress) -> bool {
        self.targets.contains(repo) || self.prs.as_ref() == Some(repo)
    }
}

/// Ends the uploads of a proposal that is known now. Returns where the right commit lies; a wrong one,
/// or one in a repository that the proposal does not concern, goes with its ref (PR-4).
fn take_uploads(view: &mut RepoView, entry: &ProposalEntry, reach: &Reach) -> Vec<RepoAddress> {
    let (ours, others) = std::mem::take(&mut view.uploads)
        .into_iter()
        .partition(|upload| upload.event == entry.event);
    view.uploads = others;
    let ours: Vec<crate::lifecycle::UploadRecord> = ours;
    ours.into_iter()
        .filter(|upload| Some(upload.commit) == entry.commit)
        .map(|upload| upload.repository)
        .filter(|repo| reach.includes(repo))
        .collect()
}
