//! The view of a repository: whether its directory exists, its refs and its HEAD (REF-1 … REF-6).
//!
//! A function of events and upload records alone, so that a push, a fetched pack, an expiry and a
//! start-up after a crash all lead to the same repository. *Invariant:* only Served events
//! contribute; what waits shows nothing until it is promoted as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::defect::Defect;
use crate::lifecycle::Stage;
use crate::maintainers::Resolution;
use crate::name::{Coordinate, RepoAddress};
use crate::oid::Oid;
use crate::policy::{Hosting, Policy};
use crate::refname::{RefName, RefSpace};
use crate::state::StateEvent;
use crate::view::{Entry, ProposalEntry, RepoView};

/// What a repository shall look like. `reconcile` makes it so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The directory exists (REF-6). If not, the rest is empty.
    pub exists: bool,
    /// Branches and tags.
    pub refs: DesiredRefs,
    /// `refs/nostr/*`, exactly (REF-3).
    pub proposals: BTreeMap<RefName, Oid>,
}

/// The branches and tags a repository shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DesiredRefs {
    /// No winner in a served scope: they and HEAD stay as last applied (REF-5). A new repository has
    /// none, and HEAD names `refs/heads/main`.
    Frozen,
    /// None, and HEAD names `refs/heads/main`: nothing was ever served, or the last state was deleted
    /// and the announcement waits again (DEL-2). So is every `/prs/` repository (G6-3).
    Empty,
    /// Exactly those of the winner (REF-2).
    Winner {
        /// The winning state.
        state: EventId,
        /// Its branches and tags.
        refs: BTreeMap<RefName, Oid>,
        /// What HEAD names (REF-4).
        head: RefName,
    },
}

/// The view of `repo`, as a function of events and upload records. For several repositories of a view
/// a [`Planner`] does it once.
pub fn desired(repo: &RepoAddress, view: &RepoView, policy: &Policy) -> Desired {
    Planner::new(view, policy).desired(repo)
}

/// The winner of the repository of `repo`'s owner: the newest served state by its confirmed set
/// (REF-1). A `/prs/` repository has none.
pub fn winner<'v>(
    repo: &RepoAddress,
    view: &'v RepoView,
    policy: &Policy,
) -> Option<&'v Entry<StateEvent>> {
    let maintainers = Planner::new(view, policy).maintainers(repo);
    newest_served(&maintainers, view)
}

/// The plans of all repositories of one view.
#[derive(Debug)]
pub struct Planner<'v> {
    view: &'v RepoView,
    policy: &'v Policy,
    maintainers: Resolution,
}

impl<'v> Planner<'v> {
    /// Reads a view.
    pub fn new(view: &'v RepoView, policy: &'v Policy) -> Self {
        Self {
            view,
            policy,
            maintainers: Resolution::of(view, policy.maintainer_rule),
        }
    }

    /// See [`desired`].
    pub fn desired(&mut self, repo: &RepoAddress) -> Desired {
        let served = is_hosted(repo, Stage::Served, self.view, self.policy);
        if !served && !is_needed(repo, self.view, self.policy) {
            return Desired {
                exists: false,
                refs: DesiredRefs::Empty,
                proposals: BTreeMap::new(),
            };
        }
        let maintainers = self.maintainers(repo);
        let refs = match newest_served(&maintainers, self.view) {
            Some(winner) => refs_of(winner),
            None if served && !Defect::ThawedRefs.is_on() => DesiredRefs::Frozen,
            None => DesiredRefs::Empty,
        };
        Desired {
            exists: true,
            refs,
            proposals: proposals(repo, &maintainers, self.view),
        }
    }

    /// See [`winner`].
    pub fn winner(&mut self, repo: &RepoAddress) -> Option<&'v Entry<StateEvent>> {
        newest_served(&self.maintainers(repo), self.view)
    }

    /// Whether the directory exists (REF-6).
    pub fn exists(&self, repo: &RepoAddress) -> bool {
        is_hosted(repo, Stage::Served, self.view, self.policy)
            || is_needed(repo, self.view, self.policy)
    }

    /// Whose states move the refs of `repo`: for a `/prs/` repository nobody's.
    pub fn maintainers(&mut self, repo: &RepoAddress) -> Arc<BTreeSet<PublicKey>> {
        match repo {
            RepoAddress::Announced(coordinate) => self.maintainers.confirmed(&coordinate.owner),
            RepoAddress::Proposals(_) => Arc::default(),
        }
    }
}

/// REF-4. `branches` are the names that will exist.
pub fn head<'a>(
    declared: Option<&RefName>,
    branches: impl IntoIterator<Item = &'a RefName>,
) -> RefName {
    let branches: BTreeSet<&RefName> = branches
        .into_iter()
        .filter(|name| name.space() == RefSpace::Branch)
        .collect();
    let named = |text: &str| branches.iter().find(|name| name.as_str() == text).copied();
    declared
        .filter(|name| branches.contains(name))
        .or_else(|| named("refs/heads/main"))
        .or_else(|| named("refs/heads/master"))
        .or_else(|| branches.first().copied())
        .or(declared)
        .map_or_else(RefName::main, Clone::clone)
}

/// REF-6, but for what is served.
fn is_needed(repo: &RepoAddress, view: &RepoView, policy: &Policy) -> bool {
    match repo {
        RepoAddress::Announced(_) => is_hosted(repo, Stage::Waiting, view, policy),
        RepoAddress::Proposals(_) => {
            let uploaded = view.uploads.iter().any(|upload| upload.repository == *repo);
            let mut proposals = view.proposals.values();
            uploaded || proposals.any(|entry| is_placed(entry, repo, view))
        }
    }
}

/// Whether an announcement of this stage asks for the repository here.
fn is_hosted(repo: &RepoAddress, stage: Stage, view: &RepoView, policy: &Policy) -> bool {
    let RepoAddress::Announced(Coordinate { owner, .. }) = repo else {
        return false;
    };
    let versions = view.announcements.get(owner).into_iter().flatten();
    versions
        .filter(|entry| entry.stage == stage)
        .any(|entry| policy.hosting(&entry.item) == Hosting::Listed)
}

/// REF-1. A state that nothing can satisfy was never served; should one be, it still wins nothing
/// (KIND-3).
fn newest_served<'v>(
    maintainers: &BTreeSet<PublicKey>,
    view: &'v RepoView,
) -> Option<&'v Entry<StateEvent>> {
    maintainers
        .iter()
        .filter_map(|key| view.states.get(key))
        .flatten()
        .filter(|entry| {
            let early = Defect::WaitingWinner.is_on() && entry.stage == Stage::Waiting;
            (entry.stage == Stage::Served || early) && entry.item.unsatisfiable().is_empty()
        })
        .max_by_key(|entry| entry.item.version())
}

fn refs_of(winner: &Entry<StateEvent>) -> DesiredRefs {
    let state = &winner.item;
    DesiredRefs::Winner {
        state: state.id(),
        refs: state.refs().clone(),
        head: head(state.head(), state.refs().keys()),
    }
}

/// REF-3. A served proposal outranks an upload of its id: its `c` is what the id stands for (PR-3).
fn proposals(
    repo: &RepoAddress,
    maintainers: &BTreeSet<PublicKey>,
    view: &RepoView,
) -> BTreeMap<RefName, Oid> {
    let uploads = view
        .uploads
        .iter()
        .filter(|upload| upload.repository == *repo)
        .map(|upload| (RefName::proposal(&upload.event), upload.commit));
    let served = view
        .proposals
        .values()
        .filter(|entry| match repo {
            RepoAddress::Announced(_) => {
                entry.stage == Stage::Served && !maintainers.is_disjoint(&entry.named)
            }
            RepoAddress::Proposals(_) => is_placed(entry, repo, view),
        })
        .filter_map(|entry| Some((RefName::proposal(&entry.event), entry.commit?)));
    uploads.chain(served).collect()
}

/// Served, and with its ref in this `/prs/` repository.
fn is_placed(entry: &ProposalEntry, repo: &RepoAddress, view: &RepoView) -> bool {
    let placements = view.placements.get(&entry.event);
    entry.stage == Stage::Served && placements.is_some_and(|places| places.contains(repo))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Stage::{Held, Parked, Served, Superseded, Waiting};
    use crate::testing::project::{
        announcement, announcement_elsewhere, maintainers, proposal, prs_repo, refname, repo, role,
        state, upload, view,
    };
    use crate::testing::{key, oid, policy};

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn winner_of(owner: u8, view: &RepoView) -> Option<EventId> {
        winner(&repo(key(owner)), view, &policy()).map(|entry| entry.item.id())
    }

    /// REF-1
    #[test]
    fn the_newest_served_state_of_the_confirmed_set_wins() {
        let old = state(key(1), 10, &[("refs/heads/main", ONE)]);
        let new = state(key(2), 20, &[("refs/heads/main", TWO)]);
        let stranger = state(key(3), 30, &[("refs/heads/main", TWO)]);
        let waiting = state(key(1), 40, &[("refs/heads/main", TWO)]);
        let view = view()
            .announced(
                announcement(key(1), 1, vec![maintainers(&[key(2)])]),
                Served,
            )
            .announced(
                announcement(key(2), 1, vec![maintainers(&[key(1)])]),
                Served,
            )
            .announced(
                announcement(key(3), 1, vec![maintainers(&[key(1)])]),
                Served,
            )
            .stated(old, Served)
            .stated(new.clone(), Served)
            .stated(stranger.clone(), Served)
            .stated(waiting.clone(), Waiting)
            .stated(waiting.clone(), Parked)
            .stated(waiting.clone(), Superseded)
            .stated(waiting, Held)
            .build();
        assert_eq!(winner_of(1, &view), Some(new.id()));
        assert_eq!(winner_of(2, &view), Some(new.id()));
        assert_eq!(winner_of(3, &view), Some(stranger.id()));
    }

    /// KIND-5, REF-1
    #[test]
    fn in_the_same_second_the_lower_id_wins() {
        let states = [
            state(key(1), 10, &[("refs/heads/main", ONE)]),
            state(key(1), 10, &[("refs/heads/main", TWO)]),
        ];
        let lowest = states.iter().map(StateEvent::id).min();
        for order in [[0, 1], [1, 0]] {
            let view = order.iter().fold(
                view().announced(announcement(key(1), 1, vec![]), Served),
                |view, at| view.stated(states[*at].clone(), Served),
            );
            assert_eq!(winner_of(1, &view.build()), lowest);
        }
    }

    /// KIND-3
    #[test]
    fn a_state_that_nothing_satisfies_never_wins() {
        let hollow = state(key(1), 10, &[("refs/heads/main", "abc123")]);
        let view = view()
            .announced(announcement(key(1), 1, vec![]), Served)
            .stated(hollow, Served)
            .build();
        assert_eq!(winner_of(1, &view), None);
    }

    /// REF-2, KIND-6
    #[test]
    fn the_winner_s_refs_are_all_there_is() {
        let refs = [
            ("HEAD", "ref: refs/heads/trunk"),
            ("refs/heads/trunk", ONE),
            ("refs/heads/alias", "ref: refs/heads/trunk"),
            ("refs/tags/v1", TWO),
            ("refs/tags/v1^{}", ONE),
        ];
        let named = state(key(1), 10, &refs);
        let hosted = view().announced(announcement(key(1), 1, vec![]), Served);
        let view = hosted.clone().stated(named.clone(), Served).build();
        let expected = DesiredRefs::Winner {
            state: named.id(),
            refs: BTreeMap::from([
                (refname("refs/heads/trunk"), oid(0x11)),
                (refname("refs/tags/v1"), oid(0x22)),
            ]),
            head: refname("refs/heads/trunk"),
        };
        assert_eq!(desired(&repo(key(1)), &view, &policy()).refs, expected);

        let empty = state(key(1), 10, &[]);
        let view = hosted.stated(empty.clone(), Served).build();
        let expected = DesiredRefs::Winner {
            state: empty.id(),
            refs: BTreeMap::new(),
            head: refname("refs/heads/main"),
        };
        assert_eq!(desired(&repo(key(1)), &view, &policy()).refs, expected);
    }

    /// REF-5: cases, 32.
    #[test]
    fn without_a_winner_the_refs_are_frozen() {
        let left = announcement(key(1), 2, vec![role("m", key(1), &["1", "2"])]);
        let view = view()
            .announced(left, Served)
            .stated(state(key(1), 10, &[("refs/heads/main", ONE)]), Served)
            .build();
        let desired = desired(&repo(key(1)), &view, &policy());
        assert!(desired.exists);
        assert_eq!(desired.refs, DesiredRefs::Frozen);
    }

    /// DEL-2
    #[test]
    fn a_scope_that_waits_without_a_winner_is_empty() {
        let view = view()
            .announced(announcement(key(1), 2, vec![]), Waiting)
            .stated(state(key(1), 10, &[("refs/heads/main", ONE)]), Held)
            .build();
        let desired = desired(&repo(key(1)), &view, &policy());
        assert!(desired.exists);
        assert_eq!(desired.refs, DesiredRefs::Empty);
    }

    /// REF-4: cases, 20 and 21.
    #[test]
    fn head_never_dangles_beside_real_branches() {
        let [main, master, gone, a, b, tag] = [
            "refs/heads/main",
            "refs/heads/master",
            "refs/heads/gone",
            "refs/heads/a",
            "refs/heads/b",
            "refs/tags/a",
        ]
        .map(refname);
        assert_eq!(head(Some(&b), [&a, &b, &main]), b);
        assert_eq!(head(Some(&gone), [&a, &master, &main]), main);
        assert_eq!(head(Some(&gone), [&a, &master]), master);
        assert_eq!(head(None, [&b, &a]), a);
        assert_eq!(head(Some(&gone), [&tag]), gone);
        assert_eq!(head(None, []), main);
    }

    /// REF-6
    #[test]
    fn a_directory_needs_an_announcement_that_lists_us() {
        let exists = |item, stage| {
            let view = view().announced(item, stage).build();
            desired(&repo(key(1)), &view, &policy()).exists
        };
        let listed = || announcement(key(1), 1, vec![]);
        assert!(exists(listed(), Served));
        assert!(exists(listed(), Waiting));
        for stage in [Parked, Superseded, Held] {
            assert!(!exists(listed(), stage), "{stage:?}");
        }
        assert!(!exists(announcement_elsewhere(key(1), 1, vec![]), Served));
    }

    /// REF-6: a served version keeps the directory while its replacement is parked (ANN-3b).
    #[test]
    fn an_older_served_version_keeps_the_directory() {
        let view = view()
            .announced(announcement(key(1), 1, vec![]), Served)
            .announced(announcement(key(1), 2, vec![]), Parked)
            .build();
        assert!(desired(&repo(key(1)), &view, &policy()).exists);
    }

    /// REF-6, G6-1
    #[test]
    fn a_prs_repository_lives_by_uploads_and_served_proposals() {
        let here = prs_repo(key(9));
        let request = proposal(key(9), 5, ONE, &[key(1)]);
        let desired = |view: &RepoView| desired(&here, view, &policy());
        assert!(!desired(&view().build()).exists);
        let waiting = view()
            .proposed(&request, Waiting)
            .placed(request.id(), here.clone());
        assert!(!desired(&waiting.build()).exists);

        let expected = BTreeMap::from([(request.ref_name(), oid(0x11))]);
        let record = upload(request.id(), oid(0x11), here.clone());
        let uploaded = desired(&view().uploaded(record).build());
        assert!(uploaded.exists);
        assert_eq!(uploaded.proposals, expected);
        assert_eq!(uploaded.refs, DesiredRefs::Empty);

        let served = view()
            .proposed(&request, Served)
            .placed(request.id(), here.clone());
        let served = desired(&served.build());
        assert!(served.exists);
        assert_eq!(served.proposals, expected);
        let elsewhere = view().proposed(&request, Served);
        assert!(!desired(&elsewhere.build()).exists);
    }

    /// REF-3, PR-2
    #[test]
    fn proposals_show_in_every_repository_whose_maintainers_they_name() {
        let to_two = proposal(key(9), 5, ONE, &[key(2)]);
        let to_three = proposal(key(9), 5, TWO, &[key(3)]);
        let waiting = proposal(key(9), 6, TWO, &[key(1)]);
        let hollow = proposal(key(9), 7, "nonsense", &[key(1)]);
        let orphan = EventId::from_byte_array([7; 32]);
        let view = view()
            .announced(
                announcement(key(1), 1, vec![maintainers(&[key(2)])]),
                Served,
            )
            .announced(
                announcement(key(2), 1, vec![maintainers(&[key(1)])]),
                Served,
            )
            .announced(announcement(key(3), 1, vec![]), Served)
            .proposed(&to_two, Served)
            .proposed(&to_three, Served)
            .proposed(&waiting, Waiting)
            .proposed(&hollow, Served)
            .uploaded(upload(orphan, oid(7), repo(key(1))))
            .uploaded(upload(to_two.id(), oid(8), repo(key(1))))
            .build();
        let shown = |owner| desired(&repo(key(owner)), &view, &policy()).proposals;
        let expected = BTreeMap::from([
            (to_two.ref_name(), oid(0x11)),
            (RefName::proposal(&orphan), oid(7)),
        ]);
        assert_eq!(shown(1), expected);
        assert_eq!(shown(2), BTreeMap::from([(to_two.ref_name(), oid(0x11))]));
        assert_eq!(shown(3), BTreeMap::from([(to_three.ref_name(), oid(0x22))]));
    }
}
