//! A life: the server, the naive model beside it, and whoever acts on both.

use std::collections::BTreeMap;

use grasp_core::Timestamp;
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::oid::Oid;
use grasp_core::policy::Origin;
use grasp_testkit::{Draft, Event, Person};

use super::step::{Declared, Form, PEOPLE, PRS, Step};
use crate::history::{self, COMMITS_MAX, commit};
use crate::naive::{Command, Naive, Said};
use crate::world::{
    Answer, HOST, PURGATORY, REPO, World, ZERO, address, announcing, maintained, prs_url,
};

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
    drafts: Vec<Event>,
    uploads: u64,
    /// Dates of events: each step is a second later.
    seconds: u64,
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
        }
    }

    pub(super) async fn take(&mut self, step: &Step) {
        self.seconds += 1;
        match step {
            Step::Announce { .. }
            | Step::State { .. }
            | Step::Issue { .. }
            | Step::Comment { .. }
            | Step::SendDraft
            | Step::Update { .. }
            | Step::Propose { .. } => {
                if let Some(event) = self.written(step).await {
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
            Step::Pass { secs } => {
                self.world.pass(*secs).await;
                self.naive.sweep(self.world.now().as_secs());
            }
            Step::Restart => {
                self.world.restart_after(10).await;
                self.naive.sweep(self.world.now().as_secs());
            }
            Step::Kill => {
                self.world.kill_and_start_after(10).await;
                self.naive.sweep(self.world.now().as_secs());
            }
        }
    }

    /// The event that a step is about.
    async fn written(&mut self, step: &Step) -> Option<Event> {
        Some(match step {
            Step::Announce {
                who,
                lists,
                lead,
                here,
                lasts,
            } => {
                let draft = self.announcement(*who, *lists, *lead, *here);
                self.lasting(draft, *lasts).at(self.seconds).sign()
            }
            Step::State {
                who,
                declared,
                age,
                lasts,
            } => {
                let draft = declaring(&self.people[*who], declared).await;
                self.lasting(draft, *lasts).at(self.seconds - age).sign()
            }
            Step::Propose { to, at, own } => self.proposal(*to, *at, *own).await,
            Step::SendDraft => self.drafts.pop()?,
            Step::Update { at } => {
                let request = self.sent.iter().rfind(|it| it.kind.as_u16() == 1618)?;
                let target = request.tags.iter().find(|tag| tag.as_slice()[0] == "a")?;
                let target = target.as_slice()[1].clone();
                contributor()
                    .pull_request_update(&target, request, &commit(*at).await.oid)
                    .at(self.seconds)
                    .sign()
            }
            Step::Issue { to, also, patch } => {
                let kind = if *patch { 1617 } else { 1621 };
                let author = contributor();
                let [to, also] = [to, also].map(|owner| self.people[*owner].coordinate(REPO));
                let draft = author.draft(kind).tag(["a", &to]).tag(["a", &also]);
                draft.at(self.seconds).sign()
            }
            Step::Comment { back } => {
                let on = self.pick(*back)?;
                self.people[2].comment(&on).at(self.seconds).sign()
            }
            _ => return None,
        })
    }

    async fn delete(&mut self, step: &Step) {
        let request = match step {
            Step::Delete { back, by_address } => {
                let Some(event) = self.pick(*back) else {
                    return;
                };
                let author = self.author(&event);
                match address_of(&event).filter(|_| *by_address) {
                    Some(address) => {
                        let draft = author.draft(5).tag(["a".to_owned(), address]);
                        draft.at(self.seconds).sign()
                    }
                    None => author.deletion(&event).at(self.seconds).sign(),
                }
            }
            Step::DeleteNewest { who, state } => {
                let kind = if *state { 30618 } else { 30617 };
                let Some(event) = self.newest(*who, kind) else {
                    return;
                };
                let request = self.people[*who].deletion(&event);
                request.at(self.seconds).sign()
            }
            Step::DeleteForeign { back, who } => {
                let Some(event) = self.pick(*back) else {
                    return;
                };
                let request = self.people[*who].deletion(&event);
                request.at(self.seconds).sign()
            }
            Step::DeleteScope { who } => {
                let owner = &self.people[*who];
                let request = owner.draft(5).tag(["a", &owner.coordinate(REPO)]);
                request.at(self.seconds).sign()
            }
            Step::DeleteFirst { who, at } => {
                let author = self.people[*who].clone();
                let refs = [("refs/heads/main", &commit(*at).await.oid)];
                let state = author.state(REPO, refs).at(self.seconds).sign();
                self.send(author.deletion(&state).at(self.seconds).sign())
                    .await;
                return self.send(state).await;
            }
            _ => return,
        };
        self.send(request).await;
    }

    async fn send(&mut self, event: Event) {
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

    fn pick(&self, back: usize) -> Option<Event> {
        self.sent.iter().rev().nth(back).cloned()
    }

    /// The newest event of this kind by one of the people, deleted or not.
    fn newest(&self, who: usize, kind: u16) -> Option<Event> {
        let author = self.people[who].key();
        let own = self.sent.iter();
        let own = own.filter(|event| event.kind.as_u16() == kind && event.pubkey == author);
        own.max_by_key(|event| (event.created_at, std::cmp::Reverse(event.id)))
            .cloned()
    }

    fn author(&self, event: &Event) -> Person {
        let mut people = self.people.iter();
        let author = people.find(|person| person.key() == event.pubkey);
        author.cloned().unwrap_or_else(contributor)
    }

    /// NIP-40, from now.
    fn lasting<'d>(&self, draft: Draft<'d>, lasts: Option<u64>) -> Draft<'d> {
        match lasts {
            Some(secs) => {
                let end = self.world.now().as_secs() + secs;
                draft.tag(["expiration".to_owned(), end.to_string()])
            }
            None => draft,
        }
    }

    fn announcement(&self, who: usize, lists: u8, lead: Option<usize>, here: bool) -> Draft<'_> {
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
        if here {
            draft
        } else {
            draft
                .without("clone")
                .tag(["clone", "https://elsewhere.example.org/x.git"])
        }
    }

    async fn proposal(&self, to: usize, at: usize, own: bool) -> Event {
        let (author, owner) = (contributor(), &self.people[to]);
        let mut draft = author.pull_request(&owner.coordinate(REPO), &commit(at).await.oid);
        if own {
            draft = draft.tag(["clone".to_owned(), prs_url(&author)]);
        }
        draft.at(self.seconds).sign()
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

/// Who asks for pulls and maintains nothing.
pub(super) fn contributor() -> Person {
    Person::named("dave")
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

async fn declaring<'p>(author: &'p Person, declared: &Declared) -> Draft<'p> {
    let mut draft = author.draft(30618).tag(["d", REPO]);
    if !declared.head.is_empty() {
        draft = draft.tag(["HEAD".to_owned(), format!("ref: {}", declared.head)]);
    }
    let refs = BTreeMap::from([
        ("refs/heads/main", declared.main),
        ("refs/heads/dev", declared.dev),
        ("refs/tags/v1", declared.tag),
    ]);
    for (name, at) in refs {
        if let Some(at) = at {
            draft = draft.tag([name, &commit(at).await.oid]);
        }
    }
    draft
}

/// What `a` calls it by; `None` for events that are not replaced.
fn address_of(event: &Event) -> Option<String> {
    let kind = event.kind.as_u16();
    let addressable = matches!(kind, 30617 | 30618);
    addressable.then(|| format!("{kind}:{}:{REPO}", event.pubkey.to_hex()))
}
