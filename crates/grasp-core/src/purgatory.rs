//! When waiting things expire, and what becomes of them (§10).
//!
//! Nothing is forgotten in one step: an announcement is first kept without its repository, what a
//! served repository is still owed is parked and hunted on, and an id that really goes leaves a mark.
//! *Invariant:* expiry gives nobody authority that a newer announcement took (ANN-3b).

use std::collections::BTreeSet;
use std::time::Duration;

use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::announcement::Announcement;
use crate::defect::Defect;
use crate::lifecycle::{Batch, Change, MarkReason, Stage, UploadRecord};
use crate::name::{Coordinate, RepoAddress};
use crate::policy::Circumstances;
use crate::retract::{Retraction, retract, withholds_authority};
use crate::settle::{
    Groups, Versions, conclude, difference, dirtied, parked_deadline, promote, supported,
};
use crate::state::StateEvent;
use crate::view::{Entry, ObjectFacts, ProposalEntry, RepoView};

/// How long an announcement, state, proposal or upload waits (PUR-1).
pub const WAITING: Duration = Duration::from_mins(30);
/// How long a soft-expired announcement is kept (PUR-4).
pub const SOFT_EXPIRED: Duration = Duration::from_hours(24);
/// How long an expired id is remembered (PUR-8).
pub const EXPIRED_MARK: Duration = Duration::from_hours(7 * 24);
/// How long somebody's use of a repository may put off the expiry of what waits for it (PUR-2).
pub const PROTECTED_MAX: Duration = Duration::from_hours(24);
/// At most so many proposals of one identifier are parked; what expires beyond is gone (PUR-15).
pub const PARKED_PROPOSALS_MAX: usize = 100;

/// What follows when the deadlines of stored announcements, states and proposals have passed (PUR-4, PUR-6,
/// PUR-7, PUR-15, ANN-3b, DEL-12, EV-4), each in the view that the ones before it leave: what one brings
/// back another may end. Decided one by one on the same view, their batches could contradict each other.
/// `leased` says whether somebody uses a repository right now: expiry skips it and comes back with the next
/// sweep; `objects` are what the repositories hold: what they lack brings no older state back (DEL-2a).
/// Nothing follows from an event that is not due in this view.
pub fn expire_all(
    events: &[EventId],
    view: &RepoView,
    leased: &dyn Fn(&RepoAddress) -> bool,
    objects: &ObjectFacts,
    cx: Circumstances<'_>,
) -> Batch {
    let mut after = view.clone();
    let mut marks = Batch::new();
    for event in events {
        let (next, mark) = expire_one(event, &after, leased, objects, cx);
        after = next;
        marks.extend(mark);
    }
    let mut batch = difference(view, &after, None);
    batch.extend(marks);
    if !batch.is_empty() {
        batch.extend(dirtied(view, &after, cx));
    }
    batch
}

fn expire_one(
    event: &EventId,
    view: &RepoView,
    leased: &dyn Fn(&RepoAddress) -> bool,
    objects: &ObjectFacts,
    cx: Circumstances<'_>,
) -> (RepoView, Option<Change>) {
    let mut expiry = Expiry {
        view,
        after: view.clone(),
        groups: Groups::of(view, cx.policy),
        leased,
        objects,
        marked: false,
        cx,
    };
    let mut announcements = view.announcements.values().flatten();
    let mut states = view.states.values().flatten();
    if let Some(entry) = announcements.find(|entry| entry.id() == *event) {
        expiry.announcement(entry);
    } else if let Some(entry) = states.find(|entry| entry.id() == *event) {
        expiry.state(entry);
    } else if let Some(entry) = view.proposals.get(event) {
        expiry.proposal(entry);
    }
    expiry.finish(event)
}

/// What follows when an upload's deadline has passed (PUR-9).
pub fn expire_upload(
    upload: &UploadRecord,
    view: &RepoView,
    leased: &dyn Fn(&RepoAddress) -> bool,
    cx: Circumstances<'_>,
) -> Batch {
    let same = |other: &&UploadRecord| {
        (other.event, &other.repository) == (upload.event, &upload.repository)
    };
    let due = view
        .uploads
        .iter()
        .find(same)
        .is_some_and(|record| record.deadline <= cx.now);
    if !due || leased(&upload.repository) {
        return Batch::new();
    }
    let drop = Change::DropUpload {
        event: upload.event,
        repository: upload.repository.clone(),
    };
    conclude(view, vec![drop], &ObjectFacts::none(), cx)
}

struct Expiry<'a> {
    view: &'a RepoView,
    after: RepoView,
    groups: Groups,
    leased: &'a dyn Fn(&RepoAddress) -> bool,
    objects: &'a ObjectFacts,
    /// The event is gone and leaves a mark (PUR-8).
    marked: bool,
    cx: Circumstances<'a>,
}

/// Which of its times an event has reached.
enum Ending {
    /// NIP-40 (EV-4).
    OwnTime,
    /// What was replaced or deleted has been kept long enough (DEL-5, DEL-12).
    Kept,
    /// What could have come back did not (PUR-6, PUR-15).
    Parked,
    /// It has waited long enough (PUR-1).
    Waiting,
}

impl Expiry<'_> {
    fn announcement(&mut self, entry: &Entry<Announcement>) {
        let (event, owner) = (entry.id(), entry.item.owner());
        let expiration = entry.item.event().expiration();
        match self.ending(entry.stage, entry.deadline, expiration) {
            Some(Ending::OwnTime) => self.take_back(event),
            Some(Ending::Kept) => self.end_kept_announcement(event, owner),
            Some(Ending::Parked) => self.forget(event),
            Some(Ending::Waiting) if !self.groups.hosts(&event) => {
                self.end_with_its_sponsor(event, owner);
            }
            Some(Ending::Waiting)
                if self.is_protected(entry.deadline, &[self.view.repository(owner)]) => {}
            Some(Ending::Waiting) => self.soft_expire(event, owner),
            None => {}
        }
    }

    fn state(&mut self, entry: &Entry<StateEvent>) {
        let (event, author) = (entry.id(), entry.item.author());
        let expiration = entry.item.event().expiration();
        match self.ending(entry.stage, entry.deadline, expiration) {
            Some(Ending::OwnTime) => self.take_back(event),
            Some(Ending::Kept) => self.remove(event),
            Some(Ending::Parked) => self.forget(event),
            Some(Ending::Waiting) => {
                let owners = self.groups.authorising(&author);
                let repositories: Vec<RepoAddress> =
                    owners.map(|owner| self.view.repository(*owner)).collect();
                if !self.is_protected(entry.deadline, &repositories) {
                    if self.is_owed(entry) && !Defect::DroppedDebt.is_on() {
                        self.park_state(event, author);
                    } else {
                        self.forget(event);
                    }
                }
            }
            None => {}
        }
    }

    fn proposal(&mut self, entry: &ProposalEntry) {
        let event = entry.event;
        match self.ending(entry.stage, entry.deadline, entry.expiration) {
            Some(Ending::OwnTime) => self.take_back(event),
            Some(Ending::Kept) => self.remove(event),
            Some(Ending::Parked) => self.forget(event),
            Some(Ending::Waiting) => self.end_waiting_proposal(entry),
            None => {}
        }
    }

    fn end_waiting_proposal(&mut self, entry: &ProposalEntry) {
        let owners = self.groups.targets(&entry.named);
        let targets: Vec<RepoAddress> = owners
            .into_iter()
            .filter(|owner| self.groups.serves(self.view, owner))
            .map(|owner| self.view.repository(owner))
            .collect();
        let is_owed = entry.commit.is_some() && !targets.is_empty() && self.has_room();
        let submitters = Coordinate::new(entry.author, self.view.identifier.clone());
        let mut repositories = targets;
        repositories.push(RepoAddress::Proposals(submitters));
        if self.is_protected(entry.deadline, &repositories) {
            return;
        }
        match self.after.proposals.get_mut(&entry.event) {
            Some(stored) if is_owed => {
                stored.stage = Stage::Parked;
                let lifetime = self.cx.policy.parked_retention;
                stored.deadline = parked_deadline(entry.expiration, Some(lifetime), self.cx);
            }
            _ => self.forget(entry.event),
        }
    }

    fn ending(
        &self,
        stage: Stage,
        deadline: Option<Timestamp>,
        expiration: Option<Timestamp>,
    ) -> Option<Ending> {
        let reached = |end: &Timestamp| *end <= self.cx.now;
        deadline.filter(reached)?;
        match stage {
            _ if expiration.is_some_and(|end| reached(&end)) => Some(Ending::OwnTime),
            Stage::Superseded | Stage::Held => Some(Ending::Kept),
            Stage::Parked => Some(Ending::Parked),
            Stage::Waiting => Some(Ending::Waiting),
            Stage::Served => None,
        }
    }

    /// PUR-2, PUR-7: somebody may be bringing what it waits for.
    fn is_protected(&self, deadline: Option<Timestamp>, repositories: &[RepoAddress]) -> bool {
        let limit = deadline.map_or(0, |deadline| {
            deadline.as_secs().saturating_add(PROTECTED_MAX.as_secs())
        });
        self.cx.now.as_secs() < limit && repositories.iter().any(|repo| (self.leased)(repo))
    }

    fn take_back(&mut self, event: EventId) {
        let events = BTreeSet::from([event]);
        retract(
            &mut self.after,
            &events,
            Retraction::EXPIRY,
            self.objects,
            self.cx,
        );
    }

    fn remove(&mut self, event: EventId) {
        self.after.announcements.drop_event(&event);
        self.after.states.drop_event(&event);
        self.after.proposals.remove(&event);
        self.after.placements.remove(&event);
    }

    /// PUR-6, PUR-8.
    fn forget(&mut self, event: EventId) {
        self.remove(event);
        self.marked = !Defect::UnmarkedExpiry.is_on();
    }

    /// DEL-5, DEL-12. One that withholds authority stays as long as it does (DEL-3).
    fn end_kept_announcement(&mut self, event: EventId, owner: PublicKey) {
        let cx = self.cx;
        let versions = self.view.announcements.get(&owner);
        let withholds = versions.is_some_and(|versions| {
            let mut own = versions.iter().filter(|entry| entry.id() == event);
            own.any(|entry| withholds_authority(versions, entry))
        });
        match self.after.announcements.entry_mut(&event) {
            Some(entry) if withholds => entry.hold(cx),
            _ => self.remove(event),
        }
    }

    /// PUR-4, ANN-3b: known on, without a repository of its own.
    fn soft_expire(&mut self, event: EventId, owner: PublicKey) {
        let versions = self.view.announcements.get(&owner).into_iter().flatten();
        let served = versions
            .filter(|entry| entry.stage == Stage::Served)
            .max_by_key(|entry| entry.version());
        let cx = self.cx;
        if let Some(entry) = self.after.announcements.entry_mut(&event) {
            // Going back to the served one would give authority again that this one takes.
            let ordinary = Defect::AuthorityByExpiry.is_on();
            if !ordinary && served.is_some_and(|served| served.item.widens(&entry.item)) {
                entry.park(None, cx);
            } else {
                entry.soft_expire(cx);
            }
        }
    }

    /// ANN-6: it waits with the one that lists it.
    fn end_with_its_sponsor(&mut self, event: EventId, owner: PublicKey) {
        let waiting = |stage| matches!(stage, Stage::Served | Stage::Waiting);
        let sponsored = supported(self.view, &self.groups, waiting, Some(&owner)).contains(&owner);
        let sponsors = self.view.announcements.values().flatten();
        let longest = sponsors
            .filter(|entry| entry.stage == Stage::Waiting && self.groups.hosts(&entry.id()))
            .filter_map(|entry| entry.deadline)
            .filter(|deadline| *deadline > self.cx.now)
            .max();
        match longest.filter(|_| sponsored) {
            Some(deadline) => {
                if let Some(entry) = self.after.announcements.entry_mut(&event) {
                    entry.deadline = Some(deadline);
                }
            }
            None => self.forget(event),
        }
    }

    /// PUR-15: the newest of its author, for a repository that is served.
    fn is_owed(&self, entry: &Entry<StateEvent>) -> bool {
        let author = entry.item.author();
        let newer =
            |other: &Entry<StateEvent>| other.is_pending() && other.version() > entry.version();
        let versions = self.view.states.get(&author).into_iter().flatten();
        entry.item.unsatisfiable().is_empty()
            && !versions.into_iter().any(newer)
            && self
                .groups
                .authorising(&author)
                .any(|owner| self.groups.serves(self.view, owner))
    }

    fn park_state(&mut self, event: EventId, author: PublicKey) {
        let cx = self.cx;
        let Some(versions) = self.after.states.get_mut(&author) else {
            return;
        };
        versions.retain(|entry| entry.stage != Stage::Parked);
        for entry in versions.iter_mut().filter(|entry| entry.id() == event) {
            entry.park(Some(cx.policy.parked_retention), cx);
        }
    }

    fn has_room(&self) -> bool {
        let parked = |entry: &&ProposalEntry| entry.stage == Stage::Parked;
        self.view.proposals.values().filter(parked).count() < PARKED_PROPOSALS_MAX
    }

    fn finish(mut self, event: &EventId) -> (RepoView, Option<Change>) {
        promote(&mut self.after, self.objects, self.cx);
        let mark = self.marked.then(|| Change::Mark {
            event: *event,
            reason: MarkReason::Expired,
            until: self.cx.after(EXPIRED_MARK),
        });
        (self.after, mark)
    }
}
