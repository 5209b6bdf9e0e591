//! Proposals whose commit is there (PR-3, PR-4, AFTER-5).

use nostr::event::EventId;
use nostr::key::PublicKey;

use super::Groups;
use crate::defect::Defect;
use crate::lifecycle::{Stage, UploadRecord};
use crate::name::{Coordinate, Identifier, RepoAddress};
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
    let pending = entry.stage != Stage::Served;
    let holders: Vec<&RepoAddress> = match &entry.commit {
        Some(commit) if pending => facts.holders(commit).collect(),
        _ => Vec::new(),
    };
    let uploads = take_uploads(view, entry);
    if uploads.is_empty() && holders.is_empty() {
        return false;
    }
    let reach = Reach::of(entry, view, groups, cx);
    let uploaded: Vec<RepoAddress> = uploads
        .into_iter()
        .filter(|upload| Some(upload.commit) == entry.commit || Defect::UnboundUpload.is_on())
        .map(|upload| upload.repository)
        .filter(|repo| reach.includes(repo))
        .collect();
    let in_prs = reach
        .prs
        .as_ref()
        .filter(|prs| uploaded.contains(prs) || holders.contains(prs));
    let in_target = uploaded.iter().any(|repo| reach.is_target(repo))
        || holders.iter().any(|repo| reach.is_relative(repo, groups));
    if let Some(prs) = in_prs {
        let places = view.placements.entry(entry.event).or_default();
        places.insert(prs.clone());
    }
    let ready = pending && (in_prs.is_some() || in_target);
    if ready && let Some(stored) = view.proposals.get_mut(&entry.event) {
        stored.stage = Stage::Served;
        stored.deadline = stored.expiration;
    }
    ready || !uploaded.is_empty()
}

/// Where the commit of a proposal may lie, and where its ref will be.
struct Reach {
    identifier: Identifier,
    /// Owners of the served repositories that show it (PR-2).
    targets: Vec<PublicKey>,
    /// The submitter's own room (GRASP-06).
    prs: Option<RepoAddress>,
}

impl Reach {
    fn of(entry: &ProposalEntry, view: &RepoView, groups: &Groups, cx: Circumstances<'_>) -> Self {
        let mut targets = groups.targets(&entry.named);
        targets.retain(|owner| groups.serves(view, owner));
        let submitters = Coordinate::new(entry.author, view.identifier.clone());
        Self {
            identifier: view.identifier.clone(),
            targets,
            prs: cx
                .policy
                .proposals_hosted
                .then_some(RepoAddress::Proposals(submitters)),
        }
    }

    fn is_target(&self, repo: &RepoAddress) -> bool {
        self.owner(repo)
            .is_some_and(|owner| self.targets.contains(owner))
    }

    /// A target, or the repository of a maintainer of one: objects are taken from there (PR-3).
    fn is_relative(&self, repo: &RepoAddress, groups: &Groups) -> bool {
        self.owner(repo).is_some_and(|owner| {
            let mut targets = self.targets.iter();
            targets.any(|target| target == owner || groups.counts(target, owner))
        })
    }

    fn includes(&self, repo: &RepoAddress) -> bool {
        self.is_target(repo) || self.prs.as_ref() == Some(repo)
    }

    fn owner<'r>(&self, repo: &'r RepoAddress) -> Option<&'r PublicKey> {
        match repo {
            RepoAddress::Announced(repo) => {
                (repo.identifier == self.identifier).then_some(&repo.owner)
            }
            RepoAddress::Proposals(_) => None,
        }
    }
}

/// Ends the uploads of a proposal that is known now. A wrong one, or one in a repository that the
/// proposal does not concern, goes with its ref (PR-4).
fn take_uploads(view: &mut RepoView, entry: &ProposalEntry) -> Vec<UploadRecord> {
    let (ours, others) = std::mem::take(&mut view.uploads)
        .into_iter()
        .partition(|upload| upload.event == entry.event);
    view.uploads = others;
    ours
}
