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
) {
    let alive: Vec<EventId> = view
        .proposals
        .values()
        .filter(|entry| super::counts(entry.stage))
        .map(|entry| entry.event)
        .collect();
    for event in alive {
        if let Some(entry) = view.proposals.get(&event).cloned() {
            serve_one(view, &entry, groups, facts, cx);
        }
    }
}

fn serve_one(
    view: &mut RepoView,
    entry: &ProposalEntry,
    groups: &Groups,
    facts: &ObjectFacts,
    cx: Circumstances<'_>,
) {
    let pending = entry.stage != Stage::Served;
    let holders: Vec<&RepoAddress> = match &entry.commit {
        Some(commit) if pending => facts.holders(commit).collect(),
        _ => Vec::new(),
    };
    let uploads = take_uploads(view, entry);
    if uploads.is_empty() && holders.is_empty() {
        return; // Most proposals, most of the time: nothing to work out.
    }
    let reach = Reach::of(entry, view, groups, cx);
    let uploaded: Vec<RepoAddress> = uploads
        .into_iter()
        .filter(|upload| Some(upload.commit) == entry.commit || Defect::UnboundUpload.is_on())
        .map(|upload| upload.repository)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Change;
    use crate::lifecycle::Stage::{Parked, Served, Waiting};
    use crate::oid::Oid;
    use crate::policy::Policy;
    use crate::proposal::Proposal;
    use crate::settle::settle;
    use crate::testing::project::{
        ViewBuilder, announcement, maintainers, prs_repo, repo, role, upload, view,
    };
    use crate::testing::{cx, key, oid, policy, pull_request};

    /// Alice and Bob share a project, and Carol has one of the same name. Dora's is led by Alice, and she is no
    /// maintainer of it herself.
    fn project() -> ViewBuilder {
        [
            (1, vec![role("M", key(1), &[]), role("m", key(2), &[])]),
            (2, vec![maintainers(&[key(1)])]),
            (3, vec![]),
            (4, vec![role("M", key(1), &[])]),
        ]
        .into_iter()
        .fold(view(), |view, (owner, tags)| {
            view.announced(announcement(key(owner), 1, tags), Served)
        })
    }

    /// Erin asks the owner to take commit 1.
    fn asked(owner: u8) -> Proposal {
        pull_request(key(5), key(owner), oid(1)).proposal()
    }

    fn holding(places: &[RepoAddress]) -> ObjectFacts {
        let mut facts = ObjectFacts::none();
        for place in places {
            facts.add(place.clone(), oid(1));
        }
        facts
    }

    fn is_served(asked: &Proposal, view: ViewBuilder, facts: &ObjectFacts) -> bool {
        is_served_by(&policy(), asked, view, facts)
    }

    fn is_served_by(
        policy: &Policy,
        asked: &Proposal,
        view: ViewBuilder,
        facts: &ObjectFacts,
    ) -> bool {
        let batch = settle(&view.build(), facts, cx(policy));
        let served = Change::Move {
            event: asked.id(),
            stage: Served,
            deadline: None,
        };
        batch.contains(&served)
    }

    /// PR-3
    #[test]
    fn a_proposal_is_served_once_its_commit_is_with_a_maintainer_or_in_the_submitter_s_own_place() {
        let submitter_s_own = prs_repo(key(5));
        for (asked, place, served) in [
            (asked(1), repo(key(1)), true),
            (asked(1), repo(key(2)), true),
            (asked(2), repo(key(1)), true),
            (asked(1), repo(key(3)), false),
            (asked(3), repo(key(3)), true),
            (asked(3), repo(key(1)), false),
            (asked(1), repo(key(4)), true),
            (asked(1), submitter_s_own.clone(), true),
            (asked(1), prs_repo(key(1)), false),
        ] {
            for stage in [Waiting, Parked] {
                let view = project().proposed(&asked, stage);
                let is = is_served(&asked, view, &holding(std::slice::from_ref(&place)));
                assert_eq!(is, served, "{place} {stage:?}");
            }
        }
        let closed = Policy {
            proposals_hosted: false,
            ..policy()
        };
        let asked = asked(1);
        let view = project().proposed(&asked, Waiting);
        let facts = holding(&[submitter_s_own]);
        assert!(!is_served_by(&closed, &asked, view, &facts), "G6-1");
    }

    /// PR-3: what is not served shows nothing, and lends nothing.
    #[test]
    fn a_proposal_to_a_repository_that_waits_itself_waits() {
        let asked = asked(6);
        let view = project()
            .announced(announcement(key(6), 1, vec![]), Waiting)
            .proposed(&asked, Waiting);
        assert!(!is_served(&asked, view, &holding(&[repo(key(6))])));
    }

    /// PR-4: what was pushed for it before it was known proves that the commit is there, where it concerns
    /// the proposal. All records of it end.
    #[test]
    fn an_upload_is_bound_to_its_event_if_the_commit_and_the_place_are_right() {
        let bound = |place: RepoAddress, commit: Oid| {
            let asked = asked(1);
            let view = project()
                .proposed(&asked, Waiting)
                .uploaded(upload(asked.id(), commit, place.clone()))
                .uploaded(upload(self::asked(3).id(), commit, place.clone()));
            let batch = settle(&view.clone().build(), &ObjectFacts::none(), cx(&policy()));
            let ended = Change::DropUpload {
                event: asked.id(),
                repository: place,
            };
            assert!(batch.contains(&ended));
            let ends = |change: &&Change| matches!(change, Change::DropUpload { .. });
            assert_eq!(batch.iter().filter(ends).count(), 1);
            is_served(&asked, view, &ObjectFacts::none())
        };
        for (place, served) in [
            (repo(key(1)), true),
            (repo(key(2)), true),
            (prs_repo(key(5)), true),
            (repo(key(3)), false),
            (prs_repo(key(1)), false),
        ] {
            assert_eq!(bound(place.clone(), oid(1)), served, "{place}");
            assert!(!bound(place, oid(2)));
        }
    }

    /// PR-3, REF-6: in the submitter's own repository it has a ref as long as it is served.
    #[test]
    fn a_proposal_has_a_place_in_prs_only_where_its_commit_lies_there() {
        let placed = |stage, places: &[RepoAddress], uploads: &[RepoAddress]| {
            let asked = asked(1);
            let view = uploads
                .iter()
                .fold(project().proposed(&asked, stage), |view, place| {
                    view.uploaded(upload(asked.id(), oid(1), place.clone()))
                });
            let batch = settle(&view.build(), &holding(places), cx(&policy()));
            let place = Change::Place {
                event: asked.id(),
                repository: prs_repo(key(5)),
            };
            batch.contains(&place)
        };
        let (own, target) = ([prs_repo(key(5))], [repo(key(1))]);
        assert!(placed(Waiting, &own, &[]) && placed(Waiting, &[], &own));
        assert!(!placed(Waiting, &target, &[]) && !placed(Waiting, &[], &target));
        assert!(placed(Served, &[], &own) && !placed(Served, &own, &[]));
    }
}
