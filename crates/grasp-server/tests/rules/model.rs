//! Random lives of one project: whatever happens, repositories agree with the events, nothing that could
//! be served is left behind, and nothing that waits is visible.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::lifecycle::Stage;
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::oid::Oid;
use grasp_core::policy::{Circumstances, Origin};
use grasp_core::refname::RefName;
use grasp_core::refplan::{self, DesiredRefs};
use grasp_core::settle;
use grasp_core::view::{ObjectFacts, RepoView};
use grasp_testkit::{Event, Person};
use proptest::prelude::*;

use crate::history::{COMMITS_MAX, commit};
use crate::world::{REPO, World, address, announcing, git, maintained, prs_url, refs_at};

const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];
const STEPS_MAX: usize = 14;
/// How many lives are lived; `GRASP_TEST_LIVES` asks for more.
const LIVES: u32 = 20;

/// Something that happens to the project.
#[derive(Debug, Clone)]
enum Step {
    /// Somebody announces: whom they list, whom they follow, and whether they list this service.
    Announce {
        who: usize,
        lists: u8,
        lead: Option<usize>,
        here: bool,
    },
    /// Somebody signs a state: `main`, maybe `dev`, or nothing at all.
    State {
        who: usize,
        main: Option<usize>,
        dev: Option<usize>,
        age: u64,
    },
    /// Somebody signs a state of `main` alone and pushes it to somebody's repository.
    Advance {
        who: usize,
        to: usize,
        at: usize,
    },
    /// Somebody pushes what the newest state of an author says.
    PushState {
        to: usize,
        of: usize,
    },
    /// Somebody pushes what they like.
    PushMain {
        to: usize,
        at: usize,
    },
    /// A contributor asks for a pull, maybe with a `/prs/` repository of their own to pull from.
    Propose {
        to: usize,
        at: usize,
        own: bool,
    },
    /// The commit of the newest proposal comes, or another one.
    PushProposal {
        to: usize,
        right: bool,
    },
    Upload {
        to: usize,
        at: usize,
    },
    /// The author of one of the last events takes it back.
    Delete {
        back: usize,
    },
    DeleteScope {
        who: usize,
    },
    SendAgain {
        back: usize,
        synced: bool,
    },
    Pass {
        secs: u64,
    },
    Restart,
}

/// A life begins with repositories that are served, or nothing much would ever happen in it.
fn life() -> impl Strategy<Value = Vec<Step>> {
    let together = |size: usize| {
        let everybody = (1 << size) - 1;
        let announced = (0..size).map(move |who| Step::Announce {
            who,
            lists: everybody,
            lead: None,
            here: true,
        });
        announced
            .chain([Step::Advance {
                who: 0,
                to: 0,
                at: 0,
            }])
            .collect::<Vec<Step>>()
    };
    let beginnings = [Vec::new(), together(1), together(2), together(3)];
    let steps = prop::collection::vec(step(), 1..=STEPS_MAX);
    (prop::sample::select(beginnings.to_vec()), steps)
        .prop_map(|(beginning, steps)| [beginning, steps].concat())
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..PEOPLE.len();
    let at = 0..COMMITS_MAX;
    let lists = prop_oneof![2 => Just(7_u8), 2 => 0..8_u8];
    let lead = prop::option::weighted(0.15, who.clone());
    let here = prop::bool::weighted(0.9);
    let main = prop::option::weighted(0.9, at.clone());
    let dev = prop::option::weighted(0.4, at.clone());
    let times = [60, 1000, 1799, 1800, 1800, 86_400, 30 * 86_400];
    prop_oneof![
        5 => (who.clone(), lists, lead, here)
            .prop_map(|(who, lists, lead, here)| Step::Announce { who, lists, lead, here }),
        4 => (who.clone(), main, dev, 0..4_u64)
            .prop_map(|(who, main, dev, age)| Step::State { who, main, dev, age }),
        6 => (who.clone(), who.clone(), at.clone())
            .prop_map(|(who, to, at)| Step::Advance { who, to, at }),
        5 => (who.clone(), who.clone()).prop_map(|(to, of)| Step::PushState { to, of }),
        1 => (who.clone(), at.clone()).prop_map(|(to, at)| Step::PushMain { to, at }),
        3 => (who.clone(), at.clone(), any::<bool>())
            .prop_map(|(to, at, own)| Step::Propose { to, at, own }),
        3 => (0..=PEOPLE.len(), prop::bool::weighted(0.8))
            .prop_map(|(to, right)| Step::PushProposal { to, right }),
        1 => (who.clone(), at).prop_map(|(to, at)| Step::Upload { to, at }),
        2 => any::<usize>().prop_map(|back| Step::Delete { back: back % 8 }),
        1 => who.prop_map(|who| Step::DeleteScope { who }),
        1 => (any::<usize>(), any::<bool>())
            .prop_map(|(back, synced)| Step::SendAgain { back: back % 12, synced }),
        2 => prop::sample::select(times.to_vec()).prop_map(|secs| Step::Pass { secs }),
        1 => Just(Step::Restart),
    ]
}

/// The project, and what was sent to the server so far.
struct Life {
    world: World,
    people: Vec<Person>,
    sent: Vec<Event>,
    uploads: u64,
    seconds: u64,
    /// Branches, tags and HEAD as last seen: what a frozen repository keeps.
    shown: BTreeMap<usize, (BTreeMap<String, String>, String)>,
}

impl Life {
    fn begin() -> Self {
        let world = World::new();
        let seconds = world.now().as_secs() - 5000;
        Self {
            people: PEOPLE.iter().map(|name| Person::named(name)).collect(),
            sent: Vec::new(),
            uploads: 0,
            seconds,
            shown: BTreeMap::new(),
            world,
        }
    }

    async fn take(&mut self, step: &Step) {
        self.seconds += 1;
        match step {
            Step::Announce {
                who,
                lists,
                lead,
                here,
            } => {
                let event = self.announcement(*who, *lists, *lead, *here);
                self.send(event).await;
            }
            Step::State {
                who,
                main,
                dev,
                age,
            } => {
                let mut draft = self.people[*who].draft(30618).tag(["d", REPO]);
                for (name, at) in [("refs/heads/main", main), ("refs/heads/dev", dev)] {
                    if let Some(at) = at {
                        draft = draft.tag([name, &commit(*at).await.oid]);
                    }
                }
                let event = draft.at(self.seconds - age).sign();
                self.send(event).await;
            }
            Step::Advance { who, to, at } => {
                let owner = &self.people[*who];
                let refs = [("refs/heads/main", &commit(*at).await.oid)];
                let state = owner.state(REPO, refs).at(self.seconds).sign();
                self.send(state).await;
                self.push_state(*to, *who).await;
            }
            Step::PushState { to, of } => self.push_state(*to, *of).await,
            Step::PushMain { to, at } => {
                let refs = [("refs/heads/main", commit(*at).await)];
                self.world.push(&self.people[*to], &refs).await;
            }
            Step::Propose { to, at, own } => {
                let (author, owner) = (contributor(), &self.people[*to]);
                let mut draft =
                    author.pull_request(&owner.coordinate(REPO), &commit(*at).await.oid);
                if *own {
                    draft = draft.tag(["clone".to_owned(), prs_url(&author)]);
                }
                self.send(draft.at(self.seconds).sign()).await;
            }
            Step::PushProposal { to, right } => self.push_proposal(*to, *right).await,
            Step::Upload { to, at } => {
                self.uploads += 1;
                let name = format!("refs/nostr/{:064x}", self.uploads);
                let refs = [(name.as_str(), commit(*at).await)];
                self.world.push(&self.people[*to], &refs).await;
            }
            Step::Delete { back } => {
                if let Some(event) = self.pick(*back) {
                    let author = self.author(&event);
                    let request = author.deletion(&event).at(self.seconds).sign();
                    self.send(request).await;
                }
            }
            Step::DeleteScope { who } => {
                let owner = &self.people[*who];
                let request = owner
                    .draft(5)
                    .tag(["a", &owner.coordinate(REPO)])
                    .at(self.seconds)
                    .sign();
                self.send(request).await;
            }
            Step::SendAgain { back, synced } => match (self.pick(*back), synced) {
                (Some(event), true) => drop(self.world.sync(&event).await),
                (Some(event), false) => drop(self.world.send(&event).await),
                (None, _) => {}
            },
            Step::Pass { secs } => self.world.pass(*secs).await,
            Step::Restart => self.world.restart_after(10).await,
        }
    }

    async fn send(&mut self, event: Event) {
        let answer = self.world.send(&event).await;
        assert!(!answer.message.starts_with("error:"), "{answer:?}");
        self.sent.push(event);
    }

    fn pick(&self, back: usize) -> Option<Event> {
        self.sent.iter().rev().nth(back).cloned()
    }

    fn author(&self, event: &Event) -> Person {
        let mut people = self.people.iter();
        let author = people.find(|person| person.key() == event.pubkey);
        author.cloned().unwrap_or_else(contributor)
    }

    fn announcement(&self, who: usize, lists: u8, lead: Option<usize>, here: bool) -> Event {
        let owner = &self.people[who];
        let others: Vec<&Person> = (0..PEOPLE.len())
            .filter(|other| lists & (1 << other) != 0 && *other != who)
            .map(|other| &self.people[other])
            .collect();
        let mut draft = maintained(announcing(owner), &others);
        if let Some(lead) = lead {
            // MNT-2: the legacy tag is ignored then.
            draft = draft.tag(["M", &self.people[lead].hex()]);
            for other in &others {
                draft = draft.tag(["m", &other.hex()]);
            }
        }
        if !here {
            draft = draft
                .without("clone")
                .tag(["clone", "https://elsewhere.example.org/x.git"]);
        }
        draft.at(self.seconds).sign()
    }

    /// Pushes exactly what the newest state by `of` says, deletions included.
    async fn push_state(&self, to: usize, of: usize) {
        let author = self.people[of].key();
        let states = self
            .sent
            .iter()
            .filter(|event| event.kind.as_u16() == 30618);
        let Some(state) = states
            .filter(|event| event.pubkey == author)
            .max_by_key(|event| (event.created_at, std::cmp::Reverse(event.id)))
        else {
            return;
        };
        let named = grasp_testkit::git::refs_named_by(state);
        let mut refs = Vec::new();
        for number in 0..COMMITS_MAX {
            let known = commit(number).await;
            let here = named.iter().filter(|(_, oid)| **oid == known.oid);
            refs.extend(here.map(|(name, _)| (name.as_str(), known)));
        }
        let owner = &self.people[to];
        let surplus = self.world.refs(owner).unwrap_or_default();
        let surplus: Vec<&str> = surplus
            .keys()
            .filter(|name| name.starts_with("refs/heads/") && !named.contains_key(*name))
            .map(String::as_str)
            .collect();
        self.world.push_all(owner, &refs, &surplus).await;
    }

    async fn push_proposal(&self, to: usize, right: bool) {
        let proposals = self.sent.iter().filter(|event| event.kind.as_u16() == 1618);
        let Some(proposal) = proposals.max_by_key(|event| event.created_at) else {
            return;
        };
        let tip = proposal.tags.iter().find(|tag| tag.as_slice()[0] == "c");
        let tip = tip.expect("a proposal has one").as_slice()[1].clone();
        for number in 0..COMMITS_MAX {
            let commit = commit(number).await;
            if (commit.oid == tip) == right {
                let name = format!("refs/nostr/{}", proposal.id.to_hex());
                match self.people.get(to) {
                    Some(owner) => self.world.push(owner, &[(&name, commit)]).await,
                    None => self.world.push_to_prs(&contributor(), &name, commit).await,
                };
                return;
            }
        }
    }

    /// What must hold whatever happened.
    fn check(&mut self) {
        let dirty = self.world.service().store().dirty().list();
        assert!(dirty.is_empty(), "not in line: {dirty:?}");
        for who in 0..PEOPLE.len() {
            let view = self.world.view(&[self.people[who].key()]);
            self.check_repository(who, &view);
            self.check_settled(&view);
        }
        self.check_prs();
        for event in &self.sent {
            let stage = self.world.stage(event);
            assert_eq!(
                self.world.serves(event),
                stage == Some(Stage::Served),
                "{stage:?}: {}",
                event.as_json()
            );
        }
    }

    /// Directory, refs and HEAD are what the events ask for (REF-*).
    fn check_repository(&mut self, who: usize, view: &RepoView) {
        let owner = self.people[who].clone();
        let policy = self.world.service().policy();
        let desired = refplan::desired(&address(&owner), view, policy);
        let facts = self.measured(view);
        let found = self.world.refs(&owner);
        assert_eq!(found.is_some(), desired.exists, "{}", PEOPLE[who]);
        let Some(found) = found else {
            self.shown.remove(&who);
            return;
        };
        let (proposals, signed): (BTreeMap<_, _>, BTreeMap<_, _>) = found
            .into_iter()
            .partition(|(name, _)| name.starts_with("refs/nostr/"));
        assert_eq!(
            proposals,
            shown(&desired.proposals, &facts),
            "{}",
            PEOPLE[who]
        );
        let head = self.world.head(&owner);
        let fresh = (BTreeMap::new(), "refs/heads/main".to_owned());
        let expected = match desired.refs {
            DesiredRefs::Winner { refs, head, .. } => {
                (shown(&refs, &facts), head.as_str().to_owned())
            }
            DesiredRefs::Empty => fresh,
            DesiredRefs::Frozen => self.shown.get(&who).cloned().unwrap_or(fresh),
        };
        assert_eq!(
            (&signed, &head),
            (&expected.0, &expected.1),
            "{}",
            PEOPLE[who]
        );
        self.shown.insert(who, (signed, head));
    }

    /// The contributor's own repository is there while something needs it (REF-6, G6-1).
    fn check_prs(&self) {
        let service = self.world.service();
        let identifier = REPO.parse().expect("valid");
        let submitter = Coordinate::new(contributor().key(), identifier);
        let snapshot = service.store().snapshot().expect("readable");
        let view = snapshot.view().prs_view(&submitter).expect("readable");
        let repository = RepoAddress::Proposals(submitter);
        let desired = refplan::desired(&repository, &view, service.policy());
        let path = service.repositories().path(&repository);
        assert_eq!(path.exists(), desired.exists, "/prs/");
        if desired.exists {
            assert_eq!(refs_at(&path), texts(&desired.proposals), "/prs/");
        }
    }

    /// Nothing that could be served is left behind: to settle once more changes nothing.
    fn check_settled(&self, view: &RepoView) {
        let service = self.world.service();
        let cx = Circumstances {
            policy: service.policy(),
            now: self.world.now(),
            origin: Origin::Client,
        };
        let facts = self.measured(view);
        assert_eq!(settle::settle(view, &facts, cx), [], "left behind");
    }

    fn measured(&self, view: &RepoView) -> ObjectFacts {
        let states = view.states.values().flatten();
        let wanted: BTreeSet<Oid> = states
            .flat_map(|entry| entry.item.oids())
            .chain(view.proposals.values().filter_map(|entry| entry.commit))
            .chain(view.uploads.iter().map(|upload| upload.commit))
            .collect();
        let wanted: Vec<Oid> = wanted.into_iter().collect();
        let git = self.world.service().repositories();
        let mut facts = ObjectFacts::none();
        for owner in view.announcements.keys() {
            let repository = view.repository(*owner);
            if git.exists(&repository) {
                let lease = git.lease(&repository);
                let objects = git.objects(&lease).expect("readable");
                for oid in objects.complete(&wanted, &[]) {
                    facts.add(repository.clone(), oid);
                }
            }
        }
        facts
    }

    fn check_objects(&self) {
        for owner in &self.people {
            if self.world.exists(owner) {
                git(&self.world.path(owner), &["fsck", "--connectivity-only"]);
            }
        }
    }
}

fn lives() -> u32 {
    let wanted = std::env::var("GRASP_TEST_LIVES").ok();
    wanted.map_or(LIVES, |count| count.parse().expect("a number"))
}

/// Who asks for pulls and maintains nothing.
fn contributor() -> Person {
    Person::named("dave")
}

fn texts(refs: &BTreeMap<RefName, Oid>) -> BTreeMap<String, String> {
    refs.iter()
        .map(|(name, oid)| (name.as_str().to_owned(), oid.to_string()))
        .collect()
}

/// REF-8: what no repository of the project holds any more is not shown; everything else is.
fn shown(refs: &BTreeMap<RefName, Oid>, facts: &ObjectFacts) -> BTreeMap<String, String> {
    refs.iter()
        .filter(|(_, oid)| facts.holders(oid).next().is_some())
        .map(|(name, oid)| (name.as_str().to_owned(), oid.to_string()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: lives(),
        max_shrink_iters: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// REF-1 … REF-6, ST-4, AFTER-3, PUR-12
    #[test]
    fn repositories_agree_with_events_whatever_happens(steps in life()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut life = Life::begin();
            for step in &steps {
                life.take(step).await;
                life.check();
            }
            life.check_objects();
        });
    }
}
