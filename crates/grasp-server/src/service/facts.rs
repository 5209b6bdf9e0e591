//! Measures which named objects are complete where, under leases that outlive the measurement (ST-7).

use std::collections::BTreeSet;

use grasp_core::lifecycle::Stage;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::view::{ObjectFacts, RepoView};
use grasp_git::{Lease, Repositories};

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

/// The objects that something waiting in the view still needs, with `extra` for what is about to join it.
fn wanted(view: &RepoView, extra: &BTreeSet<Oid>) -> BTreeSet<Oid> {
    let waits = |stage: Stage| matches!(stage, Stage::Waiting | Stage::Parked);
    let states = view
        .states
        .values()
        .flatten()
        .filter(|entry| waits(entry.stage))
        .flat_map(|entry| entry.item.oids());
    let proposals = view
        .proposals
        .values()
        .filter(|entry| waits(entry.stage))
        .filter_map(|entry| entry.commit);
    states
        .chain(proposals)
        .chain(extra.iter().copied())
        .collect()
}

/// Measures every wanted object in every repository of the view. Blocking.
pub(super) fn measure(
    git: &Repositories,
    view: &RepoView,
    extra: &BTreeSet<Oid>,
) -> Result<Measured, grasp_git::Error> {
    let wanted: Vec<Oid> = wanted(view, extra).into_iter().collect();
    let mut measured = Measured::default();
    if wanted.is_empty() {
        return Ok(measured);
    }
    for repository in repositories(view) {
        if !git.exists(&repository) {
            continue;
        }
        let lease = git.lease(&repository);
        for oid in complete_in(git, &lease, &repository, &wanted)? {
            measured.facts.add(repository.clone(), oid);
        }
        measured.leases.push(lease);
    }
    Ok(measured)
}

fn complete_in(
    git: &Repositories,
    lease: &Lease,
    repository: &RepoAddress,
    wanted: &[Oid],
) -> Result<BTreeSet<Oid>, grasp_git::Error> {
    let refs = git.refs(repository)?;
    let tips: BTreeSet<Oid> = refs.refs.values().map(|value| value.oid).collect();
    let (applied, unknown): (Vec<Oid>, Vec<Oid>) =
        wanted.iter().partition(|oid| tips.contains(oid));
    let mut complete: BTreeSet<Oid> = applied.into_iter().collect();
    if !unknown.is_empty() {
        let tips: Vec<Oid> = tips.into_iter().collect();
        complete.extend(git.objects(lease)?.complete(&unknown, &tips));
    }
    Ok(complete)
}
