//! REF-*: what git shows of a project.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::lifecycle::Stage;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::state::StateEvent;
use grasp_core::{EventId, PublicKey};

use super::{Kept, Naive, RETENTION};

/// What plain git says about a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Face {
    /// Name to object.
    pub(crate) refs: BTreeMap<String, String>,
    /// The branch that `HEAD` names.
    pub(crate) head: String,
    /// Of commits whose directory left: one that came before its event may be found again with a relative, and
    /// one of a proposal may have been copied to it in time. Whether they are shown is left open.
    pub(crate) open: BTreeSet<String>,
}

/// A directory that left.
#[derive(Debug, Clone)]
pub(super) struct Archived {
    pub(super) objects: BTreeSet<Oid>,
    pub(super) face: Option<Face>,
    /// How long it is kept.
    pub(super) until: u64,
}

impl Face {
    fn empty() -> Self {
        Self {
            open: BTreeSet::new(),
            refs: BTreeMap::new(),
            head: "refs/heads/main".to_owned(),
        }
    }

    /// Branches and tags.
    pub(super) fn signed(&self) -> BTreeMap<String, String> {
        let refs = self.refs.clone().into_iter();
        refs.filter(|(name, _)| !name.starts_with("refs/nostr/"))
            .collect()
    }
}

impl Naive {
    /// Every directory becomes what events ask for; what came with that is looked at in turn.
    pub(super) fn bring_in_line(&mut self) {
        loop {
            self.archive();
            let before = self.objects.clone();
            self.write_directories();
            if self.objects == before {
                return;
            }
            self.settle();
        }
    }

    /// DEL-5: what a scope held that was served and is not any more is out of reach. DEL-6: it is there again
    /// once the scope is.
    fn archive(&mut self) {
        let owners = self.announcements().map(Kept::author);
        let serving = owners.filter(|owner| self.is_serving(owner)).collect();
        let before = std::mem::replace(&mut self.serving, serving);
        for owner in before.difference(&self.serving.clone()) {
            let repository = self.repository(*owner);
            let archived = Archived {
                objects: self.objects.remove(&repository).unwrap_or_default(),
                face: self.shown.remove(&repository),
                until: self.now + RETENTION,
            };
            self.archived.insert(*owner, archived);
        }
        for owner in self.serving.clone().difference(&before) {
            self.unarchive(owner);
        }
    }

    /// What the archive holds.
    pub(crate) fn left(&self) -> BTreeSet<Oid> {
        let archived = self.archived.values();
        archived.flat_map(|it| it.objects.clone()).collect()
    }

    fn write_directories(&mut self) {
        let faces: BTreeMap<RepoAddress, Face> = self
            .directories()
            .into_iter()
            .map(|repository| {
                let face = self.wanted_face(&repository);
                (repository, face)
            })
            .collect();
        self.objects
            .retain(|repository, _| faces.contains_key(repository));
        for (repository, face) in &faces {
            let held = self.objects.entry(repository.clone()).or_default();
            for oid in face.refs.values() {
                let oid: Oid = oid.parse().expect("one of ours");
                held.extend(self.history[&oid].iter().copied());
            }
        }
        self.shown = faces;
    }

    /// REF-6
    fn directories(&self) -> BTreeSet<RepoAddress> {
        let announced = self
            .announcements()
            .filter(|kept| matches!(kept.stage, Stage::Served | Stage::Waiting))
            .filter(|kept| self.is_hosted(kept))
            .map(|kept| self.repository(kept.author()));
        let uploads = self.uploads.iter().map(|upload| upload.repository.clone());
        let in_prs = uploads.filter(|repository| matches!(repository, RepoAddress::Proposals(_)));
        let placed = self.kept.iter().filter(|kept| self.is_placed(kept));
        let placed = placed.map(|kept| self.prs_repository(kept.author()));
        announced.chain(in_prs).chain(placed).collect()
    }

    pub(super) fn wanted_face(&self, repository: &RepoAddress) -> Face {
        let mut face = match repository {
            RepoAddress::Announced(repo) => self.signed_face(&repo.owner, repository),
            RepoAddress::Proposals(_) => Face::empty(),
        };
        let proposals = self.proposals_in(repository);
        face.refs.extend(proposals);
        let here = self.objects(repository);
        for upload in &self.uploads {
            if upload.repository == *repository && !here.contains(&upload.commit) {
                let name = ref_of(&upload.event);
                face.refs.remove(&name);
                face.open.insert(name);
            }
        }
        // REF-8: what is nowhere cannot be shown.
        let left = self.left();
        let open = &mut face.open;
        face.refs.retain(|name, oid| {
            let oid: Oid = oid.parse().expect("one of ours");
            let held = self.objects.values().any(|held| held.contains(&oid));
            if !held && name.starts_with("refs/nostr/") && left.contains(&oid) {
                open.insert(name.clone());
            }
            held
        });
        face
    }

    /// REF-1, REF-2, REF-4, REF-5
    fn signed_face(&self, owner: &PublicKey, repository: &RepoAddress) -> Face {
        if let Some(winner) = self.winner(owner) {
            return face_of(winner);
        }
        match self.shown.get(repository) {
            Some(shown) if self.is_serving(owner) => Face {
                refs: shown.signed(),
                head: shown.head.clone(),
                open: BTreeSet::new(),
            },
            _ => Face::empty(),
        }
    }

    /// REF-3
    fn proposals_in(&self, repository: &RepoAddress) -> BTreeMap<String, String> {
        let uploads = self
            .uploads
            .iter()
            .filter(|upload| upload.repository == *repository)
            .map(|upload| (upload.event, upload.commit));
        let shows = |kept: &&Kept| match (repository, kept.proposal()) {
            (RepoAddress::Announced(repo), Some(proposal)) => {
                kept.stage == Stage::Served && self.targets(proposal, &repo.owner)
            }
            (RepoAddress::Proposals(repo), Some(_)) => {
                kept.author() == repo.owner && self.is_placed(kept)
            }
            (_, None) => false,
        };
        let served = self
            .kept
            .iter()
            .filter(shows)
            .filter_map(|kept| Some((kept.id(), kept.proposal()?.tip().commit()?)));
        uploads
            .chain(served)
            .map(|(event, oid)| (ref_of(&event), oid.to_string()))
            .collect()
    }
}

fn ref_of(event: &EventId) -> String {
    format!("refs/nostr/{}", event.to_hex())
}

fn face_of(winner: &StateEvent) -> Face {
    let refs: BTreeMap<String, String> = winner
        .refs()
        .iter()
        .map(|(name, oid)| (name.as_str().to_owned(), oid.to_string()))
        .collect();
    let declared = winner.head().map(|name| name.as_str().to_owned());
    let branches: Vec<String> = refs
        .keys()
        .filter(|name| name.starts_with("refs/heads/"))
        .cloned()
        .collect();
    let usual = ["refs/heads/main", "refs/heads/master"].map(str::to_owned);
    let there = declared
        .iter()
        .chain(&usual)
        .find(|name| branches.contains(name));
    let head = there.or(branches.first()).or(declared.as_ref());
    Face {
        head: head
            .cloned()
            .unwrap_or_else(|| "refs/heads/main".to_owned()),
        refs,
        open: BTreeSet::new(),
    }
}
