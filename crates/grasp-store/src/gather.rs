//! Gathers what decisions about repositories look at.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;

use grasp_core::announcement::Announcement;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::Stage;
use grasp_core::name::{Coordinate, Identifier, RepoAddress};
use grasp_core::state::StateEvent;
use grasp_core::view::{ANNOUNCEMENTS_MAX, Entry, RepoView};
use nostr::key::PublicKey;

use crate::error::StoreError;
use crate::index::ANYBODY;
use crate::keys::Key;
use crate::proposals;
use crate::record::{Record, stage_of};
use crate::view::View;

/// At most so many keys are looked at for one view: the seeds' own first, then whom they reach by
/// listing, then who lists them. An announcement can list a hundred keys that never announced.
const KEYS_MAX: usize = 10_000;
/// Of versions that only rollback reads, at most so many per author, the newest first (DEL-12 keeps
/// ten; deleted ones come on top).
const ROLLBACK_MAX: usize = 25;

/// Which versions of states a view holds. Announcements are there in every stage: what authority a
/// restored one gives depends on deleted ones too (DEL-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// Served, waiting and parked ones: what authority and refs depend on.
    Current,
    /// Superseded and held ones too: for replacement and deletion.
    WithSuperseded,
}

/// A walk over the keys of one identifier.
struct Walk {
    seen: BTreeSet<PublicKey>,
    /// Seeds and whom they reach by listing.
    reached: VecDeque<PublicKey>,
    /// Who lists them.
    listing: VecDeque<PublicKey>,
    /// Keys whose listers are not yet looked up.
    visited: VecDeque<PublicKey>,
}

impl View<'_> {
    /// One identifier as seen from `seeds`: see [`RepoView`].
    pub fn repo_view(
        &self,
        identifier: &Identifier,
        seeds: &[PublicKey],
        history: History,
    ) -> Result<RepoView, StoreError> {
        let mut view = RepoView::empty(identifier.clone());
        let mut walk = Walk {
            seen: seeds.iter().copied().collect(),
            reached: seeds.iter().copied().collect(),
            listing: VecDeque::new(),
            visited: VecDeque::new(),
        };
        while let Some(key) = self.next_key(&mut walk, identifier, history)? {
            if view.announcements.len() < ANNOUNCEMENTS_MAX {
                self.gather_announcements(&mut view, &mut walk, key, history)?;
            }
            self.gather_states(&mut view, key, history)?;
            self.gather_proposals(&mut view, key)?;
            let own = RepoAddress::Announced(Coordinate::new(key, identifier.clone()));
            let prs = RepoAddress::Proposals(Coordinate::new(key, identifier.clone()));
            for repository in [&own, &prs] {
                view.uploads.extend(self.uploads_into(repository)?);
            }
            if let Some(archive) = self.archive_of(&own)? {
                view.archives.insert(key, archive);
            }
        }
        if history == History::WithSuperseded {
            self.gather_gates(&mut view)?;
        }
        self.gather_proposal_uploads(&mut view)?;
        for (event, repository) in self.placements(identifier, None)? {
            if view.proposals.contains_key(&event) {
                view.placements.entry(event).or_default().insert(repository);
            }
        }
        Ok(view)
    }

    /// A `/prs/` repository: its uploads, its submitter's proposals to that identifier, and those
    /// that have their ref in it.
    pub fn prs_view(&self, coordinate: &Coordinate) -> Result<RepoView, StoreError> {
        let Coordinate { owner, identifier } = coordinate;
        let mut view = RepoView::empty(identifier.clone());
        let start = self.hash.submitter(owner, identifier);
        for row in self.tables.proposals.prefix_iter(self.reading, &start)? {
            let mut entry = proposals::decode(row?.1)?;
            if entry.author != *owner {
                continue;
            }
            if let Some((_, record)) = self.record(&entry.event)? {
                entry.named = named(&record, identifier);
                view.proposals.insert(entry.event, entry);
            }
        }
        view.uploads = self.uploads_into(&RepoAddress::Proposals(coordinate.clone()))?;
        self.gather_proposal_uploads(&mut view)?;
        for (event, repository) in self.placements(identifier, Some(owner))? {
            if view.proposals.contains_key(&event) {
                view.placements.entry(event).or_default().insert(repository);
            }
        }
        Ok(view)
    }

    fn next_key(
        &self,
        walk: &mut Walk,
        identifier: &Identifier,
        history: History,
    ) -> Result<Option<PublicKey>, StoreError> {
        loop {
            if let Some(key) = walk
                .reached
                .pop_front()
                .or_else(|| walk.listing.pop_front())
            {
                walk.visited.push_back(key);
                return Ok(Some(key));
            }
            let Some(listed) = walk.visited.pop_front() else {
                return Ok(None);
            };
            for owner in self.listers(&listed, Some(identifier), |stage| counts(stage, history))? {
                if walk.seen.len() < KEYS_MAX && walk.seen.insert(owner) {
                    walk.listing.push_back(owner);
                }
            }
        }
    }

    /// The owners of announcements in the stages that count that list `listed`, at most as many as
    /// join a resolution (MNT-10).
    pub(crate) fn listers(
        &self,
        listed: &PublicKey,
        identifier: Option<&Identifier>,
        counts: impl Fn(Stage) -> bool,
    ) -> Result<BTreeSet<PublicKey>, StoreError> {
        let mut start = Key::new(&[&self.hash.listed(listed)]);
        if let Some(identifier) = identifier {
            start.push(&self.hash.identifier(identifier));
        }
        let mut owners = BTreeSet::new();
        for row in self.tables.listings.prefix_iter(self.reading, &start)? {
            let (stage, owner) = read_listing(row?.1)?;
            if owners.len() == ANNOUNCEMENTS_MAX {
                break;
            }
            if counts(stage) {
                owners.insert(owner);
            }
        }
        Ok(owners)
    }

    /// Whether anybody's announcement of `identifier` is served, waiting or parked (ST-1).
    pub fn is_announced(&self, identifier: &Identifier) -> Result<bool, StoreError> {
        let start = Key::new(&[&ANYBODY, &self.hash.identifier(identifier)]);
        for row in self.tables.listings.prefix_iter(self.reading, &start)? {
            let stage = row?.1.first().copied().and_then(stage_of);
            if counts(
                stage.ok_or(StoreError::Corrupt("listings"))?,
                History::Current,
            ) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Everybody whose announcement of `identifier` is served, waiting or parked; at most as many as join a
    /// resolution (MNT-10).
    pub fn owners_of(&self, identifier: &Identifier) -> Result<Vec<PublicKey>, StoreError> {
        let start = Key::new(&[&ANYBODY, &self.hash.identifier(identifier)]);
        let mut owners = BTreeSet::new();
        for row in self.tables.listings.prefix_iter(self.reading, &start)? {
            let (stage, owner) = read_listing(row?.1)?;
            if owners.len() == ANNOUNCEMENTS_MAX {
                break;
            }
            if counts(stage, History::Current) {
                owners.insert(owner);
            }
        }
        Ok(owners.into_iter().collect())
    }

    fn gather_announcements(
        &self,
        view: &mut RepoView,
        walk: &mut Walk,
        owner: PublicKey,
        history: History,
    ) -> Result<(), StoreError> {
        let read = |event| Announcement::parse(event).ok();
        let all = History::WithSuperseded;
        let entries = self.entries(kind::ANNOUNCEMENT, &owner, &view.identifier, all, read)?;
        let counting = entries.iter().filter(|entry| counts(entry.stage, history));
        for listed in counting.flat_map(|entry| entry.item.listing().active()) {
            if walk.seen.len() < KEYS_MAX && walk.seen.insert(*listed) {
                walk.reached.push_back(*listed);
            }
        }
        if !entries.is_empty() {
            view.announcements.insert(owner, entries);
        }
        Ok(())
    }

    fn gather_states(
        &self,
        view: &mut RepoView,
        author: PublicKey,
        history: History,
    ) -> Result<(), StoreError> {
        let read = |event| StateEvent::parse(event).ok();
        let entries = self.entries(kind::STATE, &author, &view.identifier, history, read)?;
        if !entries.is_empty() {
            view.states.insert(author, entries);
        }
        Ok(())
    }

    fn entries<T>(
        &self,
        kind: u16,
        author: &PublicKey,
        identifier: &Identifier,
        history: History,
        read: impl Fn(VerifiedEvent) -> Option<T>,
    ) -> Result<Vec<Entry<T>>, StoreError> {
        let mut entries = Vec::new();
        let mut rollback = 0;
        self.versions(kind, author, identifier.as_str(), |stage, _, record| {
            if matches!(stage, Stage::Superseded | Stage::Held) {
                rollback += 1;
            }
            if counts(stage, history) && rollback <= ROLLBACK_MAX {
                let item = read(record.event()?);
                let deadline = record.deadline();
                entries.extend(item.map(|item| Entry {
                    item,
                    stage,
                    deadline,
                }));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(entries)
    }

    fn gather_proposals(&self, view: &mut RepoView, owner: PublicKey) -> Result<(), StoreError> {
        let start = self.hash.target(&owner, &view.identifier);
        for row in self.tables.proposals.prefix_iter(self.reading, &start)? {
            let entry = proposals::decode(row?.1)?;
            let named = &mut view.proposals.entry(entry.event).or_insert(entry).named;
            named.insert(owner);
        }
        Ok(())
    }

    /// Which held events of the view their author's requests keep where they are.
    fn gather_gates(&self, view: &mut RepoView) -> Result<(), StoreError> {
        let mut held: Vec<VerifiedEvent> = Vec::new();
        let announcements = view.announcements.values().flatten();
        let announcements = announcements.filter(|entry| entry.stage == Stage::Held);
        held.extend(announcements.map(|entry| entry.item.event().clone()));
        let states = view.states.values().flatten();
        let states = states.filter(|entry| entry.stage == Stage::Held);
        held.extend(states.map(|entry| entry.item.event().clone()));
        let proposals = view.proposals.values();
        for proposal in proposals.filter(|entry| entry.stage == Stage::Held) {
            if let Some((_, record)) = self.record(&proposal.event)? {
                held.push(record.event()?);
            }
        }
        for event in held {
            if !self.gates(&event)?.is_empty() {
                view.gated.insert(event.id());
            }
        }
        Ok(())
    }

    /// Uploads made for proposals of the view that are not served, wherever they went.
    fn gather_proposal_uploads(&self, view: &mut RepoView) -> Result<(), StoreError> {
        let mut uploads: BTreeMap<_, _> = std::mem::take(&mut view.uploads)
            .into_iter()
            .map(|upload| ((upload.event, upload.repository.clone()), upload))
            .collect();
        for proposal in view
            .proposals
            .values()
            .filter(|it| it.stage != Stage::Served)
        {
            for upload in self.uploads_of(&proposal.event)? {
                if *upload.repository.identifier() == view.identifier {
                    uploads.insert((upload.event, upload.repository.clone()), upload);
                }
            }
        }
        view.uploads = uploads.into_values().collect();
        Ok(())
    }
}

fn read_listing(value: &[u8]) -> Result<(Stage, PublicKey), StoreError> {
    let read = || {
        let (stage, owner) = value.split_first()?;
        let owner = PublicKey::from_byte_array(owner.try_into().ok()?);
        Some((stage_of(*stage)?, owner))
    };
    read().ok_or(StoreError::Corrupt("listings"))
}

fn counts(stage: Stage, history: History) -> bool {
    history == History::WithSuperseded || !matches!(stage, Stage::Superseded | Stage::Held)
}

/// The owners that a proposal's `a` tags name for `identifier`.
fn named(record: &Record<'_>, identifier: &Identifier) -> BTreeSet<PublicKey> {
    record
        .tags()
        .filter(|(letter, _)| *letter == 'a')
        .filter_map(|(_, value)| value.as_text(Coordinate::from_address))
        .filter(|target| target.identifier == *identifier)
        .map(|target| target.owner)
        .collect()
}
