//! A life: the server, the naive model beside it, and whoever acts on both.

use grasp_core::Timestamp;
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::oid::Oid;
use grasp_core::policy::Origin;
use grasp_testkit::{Event, Person};

use super::step::{Form, PEOPLE, PRS, Step};
pub(super) use super::write::contributor;
use super::write::declaring;
use crate::history::{self, COMMITS_MAX, commit};
use crate::naive::{Command, Naive, Said};
use crate::world::{Answer, HOST, PURGATORY, REPO, World, ZERO, address};

/// When lives begin: the same events in every run of a seed.
const BIRTH: u64 = 1_800_000_000;

/// The project, and what was sent to the server so far.
pub(super) struct Life {
    pub(super) world: World,
    pub(super) naive: Naive,
    pub(super) people: Vec<Person>,
    /// The last one last.
    pub(super) sent: Vec<Event>,
    /// Pull requests whose commit came before them.
    pub(super) drafts: Vec<Event>,
    uploads: u64,
    /// Dates of events: each step is a second later.
    pub(super) seconds: u64,
    /// What is signed now is signed by a test of the service.
    pub(super) tests: bool,
}

impl Life {
    pub(super) async fn begin() -> Self {
        let closures = history::closures().await;
        let oid = |text: &String| -> Oid { text.parse().expect("git made it") };
        let history = closures
            .iter()
            .map(|(tip, needed)| (oid(tip), needed.iter().map(oid).collect()))
            .collect();
        let (clone, relay) = (format!("https://{HOST}"), format!("wss://{HOST}"));
        Self {
            world: World::since(Timestamp::from_secs(BIRTH)),
            naive: Naive::new(REPO, &clone, &relay, BIRTH, history),
            people: PEOPLE.iter().map(|name| Person::named(name)).collect(),
            sent: Vec::new(),
            drafts: Vec::new(),
            uploads: 0,
            seconds: BIRTH - 5000,
            tests: false,
        }
    }

    pub(super) async fn take(&mut self, step: &Step) {
        self.seconds += 1;
        match step {
            Step::Announce { .. }
            | Step::State { .. }
            | Step::Issue { .. }
            | Step::Comment { .. }
            | Step::Vanish { .. }
            | Step::SendDraft
            | Step::Update { .. }
            | Step::Propose { .. } => {
                if let Some(event) = self.written(step).await {
                    self.send(event).await;
                }
            }
            Step::Test(step) => {
                self.tests = true;
                let event = self.written(step).await;
                self.tests = false;
                if let Some(event) = event {
                    self.send(event).await;
                }
            }
            Step::Delete { .. }
            | Step::DeleteScope { .. }
            | Step::DeleteNewest { .. }
            | Step::DeleteForeign { .. }
            | Step::DeleteFirst { .. } => self.delete(step).await,
            Step::Advance {
                who,
                to,
                declared,
                age,
            } => {
                let state = declaring(&self.people[*who], declared).await;
                let state = state.at(self.seconds - age).sign();
                self.send(state).await;
                self.push_state(*to, *who, Form::Exact).await;
            }
            Step::PushState { to, of, form } => self.push_state(*to, *of, *form).await,
            Step::PushMain { to, at } => {
                let moves = [("refs/heads/main".to_owned(), Some(*at))];
                self.push(*to, &moves, false).await;
            }
            Step::UploadFirst {
                to,
                place,
                at,
                right,
            } => {
                let request = self.proposal(*to, *at, *place == PRS).await;
                // The one before: it lacks what is asked for, but for the first.
                let wrong = (at + COMMITS_MAX - 1) % COMMITS_MAX;
                let at = if *right { *at } else { wrong };
                let name = format!("refs/nostr/{}", request.id.to_hex());
                self.drafts.push(request);
                self.push(*place, &[(name, Some(at))], false).await;
            }
            Step::PushProposal { to, right } => self.push_proposal(*to, *right).await,
            Step::Upload { to, at } => {
                self.uploads += 1;
                let name = format!("refs/nostr/{:064x}", self.uploads);
                self.push(*to, &[(name, Some(*at))], false).await;
            }
            Step::SendAgain { back, synced } => {
                if let Some(event) = self.pick(*back) {
                    let origin = if *synced {
                        Origin::Sync
                    } else {
                        Origin::Client
                    };
                    self.offer(&event, origin).await;
                }
            }
            Step::Forge { to } => self.forge(*to).await,
            _ => self.operate(step).await,
        }
    }

    pub(super) async fn send(&mut self, event: Event) {
        self.offer(&event, Origin::Client).await;
        if !self.sent.contains(&event) {
            self.sent.push(event);
        }
    }

    /// Both get an event, and say the same of it.
    async fn offer(&mut self, event: &Event, origin: Origin) {
        let answer = match origin {
            Origin::Client => self.world.send(event).await,
            Origin::Sync => self.world.sync(event).await,
        };
        let expected = self.naive.offer(event, origin);
        assert_eq!(said(&answer), expected, "{answer:?}: {}", event.as_json());
    }

    /// Nobody can forge a signature, and nothing is remembered of who tried.
    async fn forge(&mut self, to: usize) {
        let coordinate = self.people[to].coordinate(REPO);
        let event = contributor().issue(&coordinate).at(self.seconds).sign();
        let mut forged = event.clone();
        forged.sig = "0".repeat(128).parse().expect("the shape of a signature");
        let answer = self.world.send(&forged).await;
        assert!(!answer.accepted, "{answer:?}");
        self.offer(&event, Origin::Sync).await;
        self.sent.push(event);
    }

    pub(super) fn pick(&self, back: usize) -> Option<Event> {
        self.sent.iter().rev().nth(back).cloned()
    }

    /// Pushes what the newest state by `of` says, deletions included.
    async fn push_state(&mut self, to: usize, of: usize, form: Form) {
        let Some(state) = self.newest(of, 30618) else {
            return;
        };
        let named = grasp_testkit::git::refs_named_by(&state);
        let mut moves = Vec::new();
        for number in 0..COMMITS_MAX {
            let known = commit(number).await;
            let here = named.iter().filter(|(_, oid)| **oid == known.oid);
            moves.extend(here.map(|(name, _)| (name.clone(), Some(number))));
        }
        let shown = self.world.refs(&self.people[to]).unwrap_or_default();
        let surplus = shown
            .keys()
            .filter(|name| !name.starts_with("refs/nostr/") && !named.contains_key(*name));
        moves.extend(surplus.map(|name| (name.clone(), None)));
        match form {
            Form::Exact => {}
            Form::Partial => drop(moves.drain(..moves.len().min(1))),
            Form::Surplus | Form::AtomicSurplus => {
                moves.push(("refs/heads/unsigned".to_owned(), Some(0)));
            }
        }
        self.push(to, &moves, form == Form::AtomicSurplus).await;
    }

    async fn push_proposal(&mut self, to: usize, right: bool) {
        let proposals = self
            .sent
            .iter()
            .filter(|event| matches!(event.kind.as_u16(), 1618 | 1619));
        let Some(proposal) = proposals.max_by_key(|event| event.created_at) else {
            return;
        };
        let name = format!("refs/nostr/{}", proposal.id.to_hex());
        let tip = proposal.tags.iter().find(|tag| tag.as_slice()[0] == "c");
        let tip = tip.expect("a proposal has one").as_slice()[1].clone();
        for number in 0..COMMITS_MAX {
            if (commit(number).await.oid == tip) == right {
                return self.push(to, &[(name, Some(number))], false).await;
            }
        }
    }

    /// Both get a push: refs with the number of the commit they shall be at. They take the same of it.
    async fn push(&mut self, to: usize, moves: &[(String, Option<usize>)], atomic: bool) {
        if moves.is_empty() {
            return;
        }
        let (mut commits, mut lines, mut commands) = (Vec::new(), Vec::new(), Vec::new());
        for (name, number) in moves {
            let commit = match number {
                Some(number) => Some(commit(*number).await),
                None => None,
            };
            let oid = commit.map(|commit| commit.oid.clone());
            commits.extend(commit);
            commands.push(Command {
                name: name.clone(),
                new: oid.as_ref().map(|oid| oid.parse().expect("git made it")),
            });
            lines.push((name.clone(), oid.unwrap_or_else(|| ZERO.to_owned())));
        }
        let pack = history::pack(&commits).await;
        let pushed = self
            .world
            .push_commands(&self.path(to), &lines, atomic, pack.as_ref())
            .await;
        let expected = self.naive.push(&self.place(to), &commands, atomic);
        let taken: Vec<bool> = lines.iter().map(|(name, _)| pushed.took(name)).collect();
        assert_eq!(taken, expected, "{commands:?}: {}", pushed.text);
    }

    /// The repository of one of the people, or the `/prs/` repository of the contributor.
    pub(super) fn place(&self, number: usize) -> RepoAddress {
        match self.people.get(number) {
            Some(owner) => address(owner),
            None => RepoAddress::Proposals(Coordinate::new(
                contributor().key(),
                REPO.parse().expect("valid"),
            )),
        }
    }

    fn path(&self, number: usize) -> String {
        match self.people.get(number) {
            Some(owner) => format!("/{}/{REPO}.git", owner.npub()),
            None => format!("/prs/{}/{REPO}.git", contributor().npub()),
        }
    }
}

fn said(answer: &Answer) -> Said {
    match (answer.accepted, answer.message.as_str()) {
        (false, message) => {
            assert!(!message.starts_with("error:"), "{message}");
            Said::Refused
        }
        (true, "") => Said::Served,
        (true, PURGATORY) => Said::Waits,
        (true, message) => {
            assert!(message.starts_with("duplicate:"), "{message}");
            Said::Duplicate
        }
    }
}
