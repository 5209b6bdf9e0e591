//! Which repositories look different in two views.
//!
//! The same as comparing [`crate::refplan::desired`] of each, without writing out what each shows: only
//! what decides about it is compared, and what did not move is not looked at. *Invariant:* no
//! repository whose plan differs is missing; one may be named too often, and reconcile finds nothing
//! to do there.

use std::collections::{BTreeMap, BTreeSet};

use nostr::event::EventId;
use nostr::key::PublicKey;

use super::Groups;
use crate::lifecycle::Stage;
use crate::name::RepoAddress;
use crate::oid::Oid;
use crate::policy::Policy;
use crate::view::{Entry, RepoView};

/// What decides about the branches and tags of a repository, and whether it exists.
#[derive(PartialEq, Eq)]
struct Face {
    /// `Served` outranks `Waiting`: one is frozen without a winner, the other empty.
    stage: Option<Stage>,
    winner: Option<EventId>,
}

pub(super) fn changed(
    before: &RepoView,
    after: &RepoView,
    policy: &Policy,
) -> BTreeSet<RepoAddress> {
    let groups = |view| Groups::of(view, policy);
    let old = groups(before);
    // Most commits move no announcement, and then there is one answer for both views.
    let new = (!same_announcements(before, after)).then(|| groups(after));
    let now = new.as_ref().unwrap_or(&old);
    let mut changed = changed_faces((before, &old), (after, now));
    let old_proposals = shown(before);
    let new_proposals = shown(after);
    let events: BTreeSet<&EventId> = old_proposals.keys().chain(new_proposals.keys()).collect();
    for event in events {
        let (one, two) = (old_proposals.get(event), new_proposals.get(event));
        if new.is_none() && one == two {
            continue;
        }
        let was = one.map_or_else(BTreeSet::new, |it| it.places(before, &old));
        let is = two.map_or_else(BTreeSet::new, |it| it.places(after, now));
        changed.extend(was.symmetric_difference(&is).cloned());
    }
    changed.extend(changed_uploads(before, after));
    changed
}

fn same_announcements(before: &RepoView, after: &RepoView) -> bool {
    let places = |view: &RepoView| -> Vec<(EventId, Stage)> {
        let entries = view.announcements.values().flatten();
        entries.map(|entry| (entry.id(), entry.stage)).collect()
    };
    places(before) == places(after)
}

type Seen<'a> = (&'a RepoView, &'a Groups);

fn changed_faces(before: Seen<'_>, after: Seen<'_>) -> BTreeSet<RepoAddress> {
    let (old, new) = (faces(before), faces(after));
    let owners: BTreeSet<&PublicKey> = old.keys().chain(new.keys()).collect();
    owners
        .into_iter()
        .filter(|owner| old.get(*owner) != new.get(*owner))
        .map(|owner| before.0.repository(*owner))
        .collect()
}

/// Of every repository that exists.
fn faces((view, groups): Seen<'_>) -> BTreeMap<PublicKey, Face> {
    let mut winners = groups.winners(view);
    let mut faces = BTreeMap::new();
    for owner in groups.owners() {
        let stage = existence(view, groups, owner);
        if stage.is_some() {
            let winner = winners.of(owner).map(Entry::id);
            faces.insert(*owner, Face { stage, winner });
        }
    }
    faces
}

/// REF-6
fn existence(view: &RepoView, groups: &Groups, owner: &PublicKey) -> Option<Stage> {
    let versions = view.announcements.get(owner).into_iter().flatten();
    let stages = versions
        .filter(|entry| groups.hosts(&entry.id()))
        .map(|entry| entry.stage);
    stages
        .filter(|stage| matches!(stage, Stage::Served | Stage::Waiting))
        .min()
}

/// A served proposal and where it says it belongs.
#[derive(PartialEq, Eq)]
struct Shown<'v> {
    commit: Oid,
    named: &'v BTreeSet<PublicKey>,
    placed: Option<&'v BTreeSet<RepoAddress>>,
}

impl Shown<'_> {
    /// The repositories whose refs it is among (REF-3).
    fn places(&self, view: &RepoView, groups: &Groups) -> BTreeSet<RepoAddress> {
        let targets = groups.targets(self.named);
        let targets = targets
            .into_iter()
            .filter(|owner| existence(view, groups, owner).is_some())
            .map(|owner| view.repository(owner));
        targets
            .chain(self.placed.into_iter().flatten().cloned())
            .collect()
    }
}

fn shown(view: &RepoView) -> BTreeMap<EventId, Shown<'_>> {
    let served = view
        .proposals
        .values()
        .filter(|entry| entry.stage == Stage::Served);
    served
        .filter_map(|entry| {
            let shown = Shown {
                commit: entry.commit?,
                named: &entry.named,
                placed: view.placements.get(&entry.event),
            };
            Some((entry.event, shown))
        })
        .collect()
}

fn changed_uploads(before: &RepoView, after: &RepoView) -> BTreeSet<RepoAddress> {
    let (old, new) = (upload_refs(before), upload_refs(after));
    old.symmetric_difference(&new)
        .map(|(repository, ..)| (*repository).clone())
        .collect()
}

fn upload_refs(view: &RepoView) -> BTreeSet<(&RepoAddress, &EventId, &Oid)> {
    let uploads = view.uploads.iter();
    uploads
        .map(|upload| (&upload.repository, &upload.event, &upload.commit))
        .collect()
}
