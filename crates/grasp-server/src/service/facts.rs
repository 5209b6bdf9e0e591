//! Measures which named objects are complete where, under leases that outlive the measurement (ST-7).

use std::collections::BTreeSet;

use grasp_core::lifecycle::Stage;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::view::{ObjectFacts, RepoView};
use grasp_git::{Lease, Objects, RefSnapshot, Repositories};
use nostr::key::PublicKey;

/// What was found, and the leases that keep it true until they are dropped.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// The facts.
    pub(super) facts: ObjectFacts,
    /// Hold them until the commit that rests on the facts.
    pub(super) leases: Vec<Lease>,
}

impl Measured {
    /// Adds what was found elsewhere.
    pub(super) fn merge(&mut self, other: Self) {
        self.facts.extend(other.facts);
        self.leases.extend(other.leases);
    }
}

/// The repositories that a view speaks of and that may hold objects: those of its owners, those that
/// uploads went to, and those that proposals are placed in.
pub(super) fn repositories(view: &RepoView) -> BTreeSet<RepoAddress> {
    let owners = view
        .announcements
        .keys()
        .map(|owner| view.repository(*owner));
    let uploads = view.uploads.iter().map(|upload| upload.repository.clone());
    let placed = view.placements.values().flatten().cloned();
    owners.chain(uploads).chain(placed).collect()
}

/// The objects that something still needs.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Of any kind: what branches and tags name.
    pub(super) objects: BTreeSet<Oid>,
    /// Only good if it is a commit, or peels to one: the tip of a proposal (PR-6).
    pub(super) commits: BTreeSet<Oid>,
    /// An announcement arrives, and what served states name may release it (MNT-9).
    pub(super) announced: bool,
    /// Whose repository may come back, and what was held with it (DEL-6).
    pub(super) returning: Option<PublicKey>,
    /// Something leaves, and a state that was replaced may take its place (DEL-2a). What is served is looked
    /// at too: it may be replaced before the commit.
    pub(super) leaving: bool,
}

impl Wanted {
    /// Adds what the view's waiting events need.
    pub(super) fn waiting_in(mut self, view: &RepoView) -> Self {
        let waits = |stage: Stage| matches!(stage, Stage::Waiting | Stage::Parked);
        let mut announcements = view.announcements.values().flatten();
        let announced = self.announced || announcements.any(|entry| waits(entry.stage));
        let leaving = self.leaving;
        let replaced = |stage| leaving && matches!(stage, Stage::Served | Stage::Superseded);
        let returning = self.returning.is_some();
        // What requests keep away too: who respects none wants it (DEL-10).
        let returns = |stage| returning && stage == Stage::Held;
        let states = view.states.values().flatten();
        let states = states.filter(|entry| {
            waits(entry.stage)
                || (announced && entry.stage == Stage::Served)
                || replaced(entry.stage)
                || returns(entry.stage)
        });
        self.objects
            .extend(states.flat_map(|entry| entry.item.oids()));
        let proposals = view.proposals.values();
        let proposals = proposals.filter(|entry| waits(entry.stage) || returns(entry.stage));
        self.commits
            .extend(proposals.filter_map(|entry| entry.commit));
        self
    }
}

/// Measures in every repository of the view what `wanted` names and what waits there. Blocking.
pub(super) fn measure(
    git: &Repositories,
    view: &RepoView,
    wanted: Wanted,
) -> Result<Measured, grasp_git::Error> {
    measure_in(repositories(view), git, view, wanted)
}

/// [`measure`], also in repositories that the view does not speak of (yet): where a push went, or the
/// `/prs/` repository of whoever sends a proposal.
pub(super) fn measure_with(
    others: impl IntoIterator<Item = RepoAddress>,
    git: &Repositories,
    view: &RepoView,
    wanted: Wanted,
) -> Result<Measured, grasp_git::Error> {
    let mut places = repositories(view);
    places.extend(others);
    measure_in(places, git, view, wanted)
}

fn measure_in(
    places: BTreeSet<RepoAddress>,
    git: &Repositories,
    view: &RepoView,
    wanted: Wanted,
) -> Result<Measured, grasp_git::Error> {
    let returning = wanted.returning;
    let wanted = wanted.waiting_in(view);
    let oids: Vec<Oid> = wanted.objects.union(&wanted.commits).copied().collect();
    let mut measured = Measured::default();
    if oids.is_empty() {
        return Ok(measured);
    }
    for repository in places {
        if !git.exists(&repository) {
            continue;
        }
        let lease = git.lease(&repository);
        let objects = git.objects(&lease)?;
        for oid in complete_among(&*git.refs(&repository)?, &objects, &oids) {
            if wanted.objects.contains(&oid) || objects.peel_to_commit(&oid).is_some() {
                measured.facts.add(repository.clone(), oid);
            }
        }
        measured.leases.push(lease);
    }
    if let Some(owner) = returning {
        measure_archive(git, view, owner, &wanted, &mut measured)?;
    }
    Ok(measured)
}

/// What the archive would bring back (DEL-6).
fn measure_archive(
    git: &Repositories,
    view: &RepoView,
    owner: PublicKey,
    wanted: &Wanted,
    measured: &mut Measured,
) -> Result<(), grasp_git::Error> {
    let archive = view.archives.get(&owner).filter(|it| !it.returns);
    let repository = view.repository(owner);
    let Some(copy) = archive.and_then(|it| git.archived(&repository, it.since)) else {
        return Ok(());
    };
    let objects = git.objects(&copy)?;
    let oids: Vec<Oid> = wanted.objects.union(&wanted.commits).copied().collect();
    for oid in complete_among(&git.archived_refs(&copy)?, &objects, &oids) {
        if wanted.objects.contains(&oid) || objects.peel_to_commit(&oid).is_some() {
            measured.facts.add_archived(repository.clone(), oid);
        }
    }
    measured.leases.push(copy);
    Ok(())
}

/// Of `wanted` what is complete in a repository that shows `refs`.
pub(super) fn complete_among(
    refs: &RefSnapshot,
    objects: &Objects,
    wanted: &[Oid],
) -> BTreeSet<Oid> {
    let tips: BTreeSet<Oid> = refs.refs.values().map(|value| value.oid).collect();
    let (applied, unknown): (Vec<Oid>, Vec<Oid>) =
        wanted.iter().partition(|oid| tips.contains(oid));
    let mut complete: BTreeSet<Oid> = applied.into_iter().collect();
    if !unknown.is_empty() {
        let tips: Vec<Oid> = tips.into_iter().collect();
        complete.extend(objects.complete(&unknown, &tips));
    }
    complete
}
