//! A server in memory that holds one identifier: it gathers, decides and applies as the real one
//! does, and checks after every step what must always hold.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::admission::{
    Answer, Decision, DeletionFacts, DeletionTarget, Known, PurgatoryLoad, Rejection,
    admit_announcement, admit_deletion, admit_proposal, admit_related, admit_state, screen,
};
use grasp_core::announcement::Announcement;
use grasp_core::event::{VerifiedEvent, Version, kind};
use grasp_core::lifecycle::{Batch, Change, Stage, Standing, UploadRecord};
use grasp_core::maintainers::confirmed_set;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::policy::{Circumstances, Origin, Policy};
use grasp_core::proposal::Proposal;
use grasp_core::purgatory::{expire_all, expire_upload};
use grasp_core::refplan::{desired, winner};
use grasp_core::related::{References, RelatedFacts, Relative};
use grasp_core::request::{Asks, Gate, Uses, is_request};
use grasp_core::settle::{applied, conclude, settle};
use grasp_core::state::StateEvent;
use grasp_core::view::{ObjectFacts, RepoView};
use grasp_core::{EventId, PublicKey, Timestamp};

use super::{NOW, at, policy, repo};

/// Another event than those of a [`RepoView`].
#[derive(Clone)]
pub struct Other {
    pub event: VerifiedEvent,
    pub stage: Stage,
    pub standing: Standing,
}

#[derive(Clone)]
pub struct World {
    pub policy: Policy,
    pub now: u64,
    pub origin: Origin,
    pub load: PurgatoryLoad,
    pub view: RepoView,
    pub facts: ObjectFacts,
    pub others: BTreeMap<EventId, Other>,
    pub standings: BTreeMap<EventId, Standing>,
    /// In the order in which subscribers see them.
    pub published: Vec<EventId>,
    pub marks: BTreeMap<EventId, Timestamp>,
    /// By request: since when it is here, and its last use.
    pub requests: BTreeMap<EventId, Uses>,
    /// With the request.
    pub gates: BTreeSet<(EventId, PublicKey, EventId)>,
    /// With the request, and until when.
    pub address_gates: BTreeSet<(String, EventId, Timestamp)>,
    /// With the request, and until when.
    pub author_gates: BTreeSet<(PublicKey, EventId, Timestamp)>,
    /// The last batch.
    pub batch: Batch,
    pub leased: BTreeSet<RepoAddress>,
}

impl World {
    pub fn new() -> Self {
        Self {
            policy: policy(),
            now: NOW,
            origin: Origin::Client,
            load: PurgatoryLoad::default(),
            view: RepoView::empty(repo()),
            facts: ObjectFacts::none(),
            others: BTreeMap::new(),
            standings: BTreeMap::new(),
            published: Vec::new(),
            marks: BTreeMap::new(),
            requests: BTreeMap::new(),
            gates: BTreeSet::new(),
            address_gates: BTreeSet::new(),
            author_gates: BTreeSet::new(),
            batch: Batch::new(),
            leased: BTreeSet::new(),
        }
    }

    pub fn cx(&self) -> Circumstances<'_> {
        Circumstances {
            policy: &self.policy,
            now: at(self.now),
            origin: self.origin,
        }
    }

    /// As the service does: screened, decided by its kind, applied.
    pub fn submit(&mut self, event: &VerifiedEvent) -> Answer {
        let known = self.known(event);
        let decision =
            screen(event, &known, self.cx()).unwrap_or_else(|| self.decide(event, &known));
        self.apply(&decision.batch);
        self.batch = decision.batch;
        decision.answer
    }

    /// The same event, found by sync.
    pub fn sync(&mut self, event: &VerifiedEvent) -> Answer {
        self.origin = Origin::Sync;
        let answer = self.submit(event);
        self.origin = Origin::Client;
        answer
    }

    fn decide(&self, event: &VerifiedEvent, known: &Known) -> Decision {
        let (view, facts, load, cx) = (&self.view, &self.facts, self.load, self.cx());
        let event = event.clone();
        match event.kind() {
            kind::ANNOUNCEMENT => match Announcement::parse(event) {
                Ok(event) => admit_announcement(&event, view, facts, load, cx),
                Err(error) => Decision::only(Rejection::from(error)),
            },
            kind::STATE => match StateEvent::parse(event) {
                Ok(event) => admit_state(&event, view, facts, known, load, cx),
                Err(error) => Decision::only(Rejection::from(error)),
            },
            kind::PULL_REQUEST | kind::PULL_REQUEST_UPDATE => {
                let related = self.related(&event);
                match Proposal::parse(event) {
                    Ok(event) => {
                        let views = std::slice::from_ref(view);
                        let views = if event.targets().is_empty() {
                            &[]
                        } else {
                            views
                        };
                        admit_proposal(&event, views, &related, facts, load, cx)
                    }
                    Err(error) => Decision::only(Rejection::from(error)),
                }
            }
            kind::DELETION => admit_deletion(&event, &self.deletion_facts(&event), facts, None, cx),
            _ => admit_related(&event, known, &self.related(&event), None, cx),
        }
    }

    fn known(&self, event: &VerifiedEvent) -> Known {
        let versions = self.others.values().filter(|other| {
            other.stage == Stage::Served
                && other.event.address().is_some()
                && other.event.address() == event.address()
        });
        Known {
            stage: self.stage(&event.id()),
            gates: self.gates_of(event),
            expired_mark: self.marks.contains_key(&event.id()),
            served_version: versions.map(|other| other.event.version()).max(),
            announced: false,
        }
    }

    fn gates_of(&self, event: &VerifiedEvent) -> Vec<Gate> {
        let covers = |until: &Timestamp| event.created_at() <= *until;
        let vanish = self.author_gates.iter().filter(|(author, request, until)| {
            *author == event.author() && *request != event.id() && covers(until)
        });
        let vanish = vanish.map(|(_, request, _)| (*request, Asks::Vanish));
        let address = event.address();
        let by_address = self
            .address_gates
            .iter()
            .filter(|(named, _, until)| Some(named) == address.as_ref() && covers(until));
        let by_id = self.gates.iter().filter(|(named, author, _)| {
            (*named, *author) == (event.id(), event.author()) && !is_request(event.kind())
        });
        let deletions = by_address
            .map(|(_, request, _)| *request)
            .chain(by_id.map(|(.., request)| *request))
            .map(|request| (request, Asks::Deletion));
        let gate = |(request, asks)| Gate {
            request,
            asks,
            uses: self.requests[&request],
            expiration: self.others[&request].event.expiration(),
        };
        vanish.chain(deletions).map(gate).collect()
    }

    fn served(&self) -> Vec<(VerifiedEvent, Standing)> {
        let announcements = self.view.announcements.values().flatten();
        let states = self.view.states.values().flatten();
        let served = |stage: Stage| stage == Stage::Served;
        announcements
            .filter(|entry| served(entry.stage))
            .map(|entry| (entry.item.event().clone(), Standing::Anchor))
            .chain(
                states
                    .filter(|entry| served(entry.stage))
                    .map(|entry| (entry.item.event().clone(), Standing::Anchor)),
            )
            .chain(
                self.others
                    .values()
                    .filter(|other| served(self.stage(&other.event.id()).unwrap_or(other.stage)))
                    .map(|other| (other.event.clone(), other.standing)),
            )
            .collect()
    }

    fn related(&self, event: &VerifiedEvent) -> RelatedFacts {
        let references = References::of(event);
        let relative = |(event, standing): (VerifiedEvent, Standing)| Relative {
            event: event.id(),
            kind: event.kind(),
            author: event.author(),
            standing,
        };
        let names = |references: &References, other: &VerifiedEvent| {
            references.events.contains(&other.id())
                || other
                    .address()
                    .is_some_and(|address| references.addresses.contains(&address))
        };
        let mut budgets: BTreeMap<EventId, (u64, u64)> = BTreeMap::new();
        for other in self.others.values() {
            if let Standing::Reply {
                root,
                counted: true,
            } = other.standing
            {
                let budget = budgets.entry(root).or_default();
                *budget = (budget.0 + 1, budget.1 + 100);
            }
        }
        RelatedFacts {
            targets: self
                .served()
                .into_iter()
                .filter(|(other, _)| names(&references, other))
                .map(relative)
                .collect(),
            mentioned_by: self
                .served()
                .into_iter()
                .filter(|(other, _)| names(&References::of(other), event))
                .map(relative)
                .collect(),
            budgets,
            exempt: self.view.announcements.keys().copied().collect(),
            participates: self.view.announcements.contains_key(&event.author()),
        }
    }

    fn deletion_facts(&self, request: &VerifiedEvent) -> DeletionFacts {
        let named: BTreeSet<String> = request.all_values("e").into_iter().collect();
        let addresses: BTreeSet<String> = request.all_values("a").into_iter().collect();
        let mut facts = DeletionFacts {
            views: vec![self.view.clone()],
            ..DeletionFacts::default()
        };
        let announcements = self.view.announcements.values().flatten();
        let states = self.view.states.values().flatten();
        let stored = announcements
            .map(|entry| entry.item.event().clone())
            .chain(states.map(|entry| entry.item.event().clone()))
            .chain(self.others.values().map(|other| other.event.clone()));
        for event in stored {
            let target = DeletionTarget {
                event: event.id(),
                author: event.author(),
                kind: event.kind(),
                version: event.version(),
                stage: self.stage(&event.id()).expect("stored"),
            };
            if named.contains(&event.id().to_hex()) {
                facts.events.insert(event.id(), target.clone());
            }
            let address = event.address().unwrap_or_default();
            if addresses.contains(&address) && event.author() == request.author() {
                facts.versions.push(target);
            }
        }
        facts
    }

    /// Objects arrived in `owner`'s repository.
    pub fn receive(&mut self, owner: PublicKey, oids: &[Oid]) {
        for oid in oids {
            self.facts.add(self.view.repository(owner), *oid);
        }
        self.settle();
    }

    pub fn settle(&mut self) {
        let batch = settle(&self.view, &self.facts, self.cx());
        self.apply(&batch);
        self.batch = batch;
    }

    /// A push to `refs/nostr/<event>` before the event is known.
    pub fn upload(&mut self, event: EventId, commit: Oid, repository: RepoAddress) {
        self.facts.add(repository.clone(), commit);
        let deadline = at(self.now + 1800);
        let upload = UploadRecord {
            event,
            commit,
            repository,
            bytes: 1,
            deadline,
        };
        let batch = conclude(
            &self.view,
            vec![Change::Upload(upload)],
            &self.facts,
            self.cx(),
        );
        self.apply(&batch);
    }

    /// Time passes, and what is due expires.
    pub fn wait(&mut self, secs: u64) {
        let before = self.view.clone();
        self.now += secs;
        let leased = self.leased.clone();
        let is_leased = |repo: &RepoAddress| leased.contains(repo);
        let batch = expire_all(&self.due(), &self.view, &is_leased, &self.facts, self.cx());
        self.apply(&batch);
        self.batch = batch;
        for upload in self.view.uploads.clone() {
            if upload.deadline <= at(self.now) {
                let leased = self.leased.clone();
                let leased = |repo: &RepoAddress| leased.contains(repo);
                let batch = expire_upload(&upload, &self.view, &leased, self.cx());
                self.apply(&batch);
                self.batch = batch;
            }
        }
        self.check_authority(&before);
    }

    /// ANN-3b, DEL-3: nobody gains authority by somebody's silence.
    fn check_authority(&self, before: &RepoView) {
        for owner in self.view.announcements.keys() {
            let set = |view| confirmed_set(owner, view, self.policy.maintainer_rule);
            assert!(
                set(&self.view).is_subset(&set(before)),
                "time gave authority"
            );
        }
    }

    fn due(&self) -> Vec<EventId> {
        let due = |deadline: Option<Timestamp>| deadline.is_some_and(|end| end <= at(self.now));
        let announcements = self.view.announcements.values().flatten();
        let states = self.view.states.values().flatten();
        let proposals = self.view.proposals.values();
        let mut events: Vec<(Timestamp, EventId)> = announcements
            .map(|entry| (entry.deadline, entry.item.id()))
            .chain(states.map(|entry| (entry.deadline, entry.item.id())))
            .chain(proposals.map(|entry| (entry.deadline, entry.event)))
            .filter(|(deadline, _)| due(*deadline))
            .map(|(deadline, event)| (deadline.expect("due"), event))
            .collect();
        events.sort();
        events.into_iter().map(|(_, event)| event).collect()
    }

    fn apply(&mut self, batch: &Batch) {
        let after = applied(&self.view, batch, self.cx());
        for repository in addresses(&self.view).union(&addresses(&after)) {
            let shown = |view| desired(repository, view, &self.policy);
            let marked = batch.contains(&Change::Dirty(repository.clone()));
            let differs = shown(&self.view) != shown(&after);
            assert!(marked || !differs, "{repository} is not marked");
        }
        self.view = after;
        for change in batch {
            match change {
                Change::Insert {
                    event,
                    stage,
                    standing,
                    ..
                } => {
                    self.publish(event.id(), *stage);
                    self.standings.insert(event.id(), *standing);
                    if !matches!(event.kind(), kind::ANNOUNCEMENT | kind::STATE) {
                        let other = Other {
                            event: event.clone(),
                            stage: *stage,
                            standing: *standing,
                        };
                        assert!(
                            self.others.insert(event.id(), other).is_none(),
                            "an event has one home"
                        );
                    }
                }
                Change::Move { event, stage, .. } => {
                    self.publish(*event, *stage);
                    if let Some(other) = self.others.get_mut(event) {
                        other.stage = *stage;
                    }
                }
                Change::Remove { event } => {
                    self.others.remove(event);
                    self.standings.remove(event);
                    self.requests.remove(event);
                    self.gates.retain(|(.., request)| request != event);
                    self.address_gates
                        .retain(|(_, request, _)| request != event);
                    self.author_gates.retain(|(_, request, _)| request != event);
                }
                Change::Mark { event, until, .. } => {
                    self.marks.insert(*event, *until);
                }
                Change::Unmark { event, .. } => {
                    self.marks.remove(event);
                }
                Change::GateEvent {
                    event,
                    author,
                    request,
                } => {
                    self.gates.insert((*event, *author, *request));
                }
                Change::GateAddress {
                    address,
                    until,
                    request,
                } => {
                    let gate = (address.clone(), *request, *until);
                    self.address_gates.insert(gate);
                }
                Change::GateAuthor {
                    author,
                    until,
                    request,
                } => {
                    self.author_gates.insert((*author, *request, *until));
                }
                Change::KeepRequest { request, uses } => {
                    self.requests.insert(*request, *uses);
                }
                Change::UseRequest { request, at } => {
                    self.requests.get_mut(request).expect("kept").last = Some(*at);
                }
                _ => {}
            }
        }
        self.check();
    }

    fn publish(&mut self, event: EventId, stage: Stage) {
        if stage == Stage::Served {
            self.published.push(event);
        }
    }

    /// What holds after every commit.
    fn check(&self) {
        assert_eq!(
            settle(&self.view, &self.facts, self.cx()),
            Batch::new(),
            "what is settled stays as it is"
        );
        let ends = |stage: Stage, deadline: Option<Timestamp>| {
            deadline.is_some() || matches!(stage, Stage::Served | Stage::Parked)
        };
        let mut states = self.view.states.values().flatten();
        assert!(states.all(|entry| ends(entry.stage, entry.deadline)));
        let mut proposals = self.view.proposals.values();
        assert!(proposals.all(|entry| ends(entry.stage, entry.deadline)));
        for versions in self.view.announcements.values() {
            let served = versions.iter().any(|entry| entry.stage == Stage::Served);
            for entry in versions {
                let kept = entry.stage == Stage::Parked && !served;
                assert!(ends(entry.stage, entry.deadline));
                assert!(
                    !kept || entry.deadline.is_some(),
                    "ANN-3b ends with the served one"
                );
            }
        }
        let at_most_one = |stages: Vec<Stage>| {
            stages
                .iter()
                .filter(|stage| **stage == Stage::Served)
                .count()
                <= 1
        };
        for versions in self.view.announcements.values() {
            assert!(at_most_one(
                versions.iter().map(|entry| entry.stage).collect()
            ));
        }
        for versions in self.view.states.values() {
            assert!(at_most_one(
                versions.iter().map(|entry| entry.stage).collect()
            ));
        }
    }

    pub fn stage(&self, event: &EventId) -> Option<Stage> {
        self.view
            .stage(event)
            .or_else(|| self.others.get(event).map(|other| other.stage))
    }

    pub fn deadline(&self, event: &EventId) -> Option<u64> {
        let announcements = self.view.announcements.values().flatten();
        let states = self.view.states.values().flatten();
        announcements
            .map(|entry| (entry.item.id(), entry.deadline))
            .chain(states.map(|entry| (entry.item.id(), entry.deadline)))
            .chain(
                self.view
                    .proposals
                    .values()
                    .map(|entry| (entry.event, entry.deadline)),
            )
            .find(|(id, _)| id == event)
            .and_then(|(_, deadline)| deadline)
            .map(|deadline| deadline.as_secs())
    }

    pub fn winner(&self, owner: PublicKey) -> Option<Version> {
        let repo = self.view.repository(owner);
        winner(&repo, &self.view, &self.policy).map(|entry| entry.item.version())
    }

    pub fn winner_id(&self, owner: PublicKey) -> Option<EventId> {
        self.winner(owner).map(|version| version.id)
    }

    pub fn is_dirty(&self, repo: &RepoAddress) -> bool {
        self.batch.contains(&Change::Dirty(repo.clone()))
    }

    pub fn hunts(&self) -> Option<u64> {
        self.batch.iter().find_map(|change| match change {
            Change::Hunt { not_before_ms, .. } => Some(*not_before_ms),
            _ => None,
        })
    }

    /// Every event that subscribers can see.
    pub fn visible(&self) -> BTreeSet<EventId> {
        self.served()
            .into_iter()
            .map(|(event, _)| event.id())
            .collect()
    }
}

/// Every repository that the view says something about.
fn addresses(view: &RepoView) -> BTreeSet<RepoAddress> {
    let announced = view.announcements.keys().map(|key| view.repository(*key));
    let uploads = view.uploads.iter().map(|upload| upload.repository.clone());
    let placed = view.placements.values().flatten().cloned();
    announced.chain(uploads).chain(placed).collect()
}
