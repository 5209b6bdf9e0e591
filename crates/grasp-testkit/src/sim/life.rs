//! What people do meanwhile: each thing at one server of the repository only. The others have to find out.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{Endpoint, Event, Person, history};
use grasp_core::EventId;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::Stage;

use super::dice::Dice;
use super::network::{Network, START, after};
use super::world::REPO;
use super::{liar, node};

/// Something that somebody does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    Issue,
    Patch,
    /// On anything that is there.
    Comment,
    /// A note that quotes something that is there.
    Quote,
    /// The author takes back what is there.
    Delete,
    /// The owner's data comes to a server that has none.
    Push,
    /// The owner announces anew, now and then twice in a second.
    Announce,
    /// The owner commits, and pushes to one server only.
    Commit,
}

/// Commits that build on each other.
const LINE: usize = 5;

const ACTS: [Act; 16] = [
    Act::Issue,
    Act::Issue,
    Act::Patch,
    Act::Comment,
    Act::Comment,
    Act::Comment,
    Act::Comment,
    Act::Comment,
    Act::Quote,
    Act::Quote,
    Act::Delete,
    Act::Push,
    Act::Push,
    Act::Announce,
    Act::Commit,
    Act::Commit,
];

/// A repository and what was said about it.
pub(crate) struct Project {
    owner: Person,
    /// All versions, the latest last.
    announcements: Vec<Event>,
    /// All states, the latest last; each is one commit further.
    states: Vec<Event>,
    /// The servers that it lists, and the liars.
    pub(crate) listed: Vec<usize>,
    liars: Vec<usize>,
    /// Accepted by some server.
    said: Vec<Event>,
    deleted: BTreeSet<EventId>,
}

/// All projects, and whoever takes part in them.
pub(crate) struct Life {
    pub(crate) projects: Vec<Project>,
    people: Vec<Person>,
}

impl Life {
    /// Draws projects, and when something happens.
    pub(crate) async fn draw(network: &mut Network<Act>, span: Duration) -> Self {
        let mut projects = Vec::new();
        for n in 0..=network.dice.below(2) {
            projects.push(Project::draw(n, network).await);
        }
        for _ in 0..20 + network.dice.below(30) {
            let at = after(Duration::from_millis(
                network
                    .dice
                    .below(u64::try_from(span.as_millis()).expect("short")),
            ));
            let act = *network.dice.pick(&ACTS);
            network.schedule(at, super::network::Happening::Act(act));
        }
        let names = ["carol", "dave", "erin"];
        Self {
            projects,
            people: names.map(Person::named).into(),
        }
    }

    /// The owners announce at every server, and push to most.
    pub(crate) async fn begin(&mut self, network: &mut Network<Act>) {
        for project in &self.projects {
            for (nth, number) in project.listed.iter().enumerate() {
                let announced = network.publish(*number, project.latest()).await;
                assert!(announced, "a new announcement is taken");
                if nth == 0 || network.dice.one_in(2) {
                    project.push(network, *number).await;
                }
            }
        }
    }

    pub(crate) async fn act(&mut self, network: &mut Network<Act>, act: Act) {
        let nth = network.dice.index(self.projects.len());
        let project = &mut self.projects[nth];
        let number = *network.dice.pick(&project.listed);
        if network.nodes[number].running.is_none() {
            return;
        }
        if matches!(act, Act::Push) {
            return project.push(network, number).await;
        }
        if !project.is_served_by(network, number) {
            return;
        }
        match act {
            Act::Announce => return project.announce(network, number).await,
            Act::Commit => return project.commit(network, number).await,
            _ => {}
        }
        let serves = |event: &Event| network.nodes[number].world.serves(event);
        let now = network.now.as_secs();
        let is_there = |event: &&Event| !project.deleted.contains(&event.id) && serves(event);
        let seen: Vec<_> = project.said.iter().filter(is_there).cloned().collect();
        let Some(draft) = draw(&mut network.dice, &self.people, (act, now), project, &seen) else {
            return;
        };
        let (event, deletes) = draft;
        if network.publish(number, &event).await {
            match deletes {
                // Whoever never had what it deletes has no need of the request.
                Some(id) => drop(project.deleted.insert(id)),
                None => project.said.push(event),
            }
        }
    }
}

/// The event that it takes, and what that deletes.
fn draw(
    dice: &mut Dice,
    people: &[Person],
    (act, now): (Act, u64),
    project: &Project,
    seen: &[Event],
) -> Option<(Event, Option<EventId>)> {
    let author = dice.pick(people);
    let address = project.address();
    let on = (!seen.is_empty()).then(|| dice.pick(seen));
    let draft = match act {
        Act::Issue => author.issue(&address),
        Act::Patch => author.draft(1617).tag(["a", &address]),
        Act::Comment => author.comment(on?),
        Act::Quote => author.draft(1).tag(["q", &on?.id.to_hex()]),
        Act::Delete => {
            // Nothing hangs on it: what hangs on what is gone may stay or go.
            let on = on.filter(|on| !project.is_named(&on.id))?;
            let author = people.iter().find(|person| person.key() == on.pubkey)?;
            let request = author.deletion(on).at(now);
            return Some((request.sign(), Some(on.id)));
        }
        Act::Push | Act::Announce | Act::Commit => return None,
    };
    // Some clients' clocks are behind, by less than questions about what is new overlap (SYNC-45).
    let late = *dice.pick(&[0, 0, 0, 10, 30]);
    let unique = dice.below(u64::MAX).to_string();
    Some((draft.content(&unique).at(now - late).sign(), None))
}

impl Project {
    async fn draw(n: u64, network: &mut Network<Act>) -> Self {
        let (servers, liars, dice) = (network.nodes.len(), network.liars.len(), &mut network.dice);
        let owner = Person::named(&format!("owner {n}"));
        let mut listed: Vec<usize> = (0..servers).collect();
        if listed.len() > 2 && dice.one_in(3) {
            listed.remove(dice.index(servers));
        }
        let first = &history::commit(0).await.oid;
        let state = owner.state(REPO, [("refs/heads/main", first)]);
        let mut project = Self {
            announcements: Vec::new(),
            states: vec![state.at(START - 90).sign()],
            owner,
            listed,
            liars: (0..liars).filter(|_| !dice.one_in(4)).collect(),
            said: Vec::new(),
            deleted: BTreeSet::new(),
        };
        let announcement = project.announcement("the first", START - 100);
        project.announcements.push(announcement);
        project
    }

    fn announcement(&self, description: &str, at: u64) -> Event {
        let endpoints: Vec<Endpoint> = self.listed.iter().copied().map(node::endpoint).collect();
        let endpoints: Vec<&Endpoint> = endpoints.iter().collect();
        let servers = endpoints.iter().map(|endpoint| endpoint.ws.clone());
        let liars = self.liars.iter().copied().map(liar::address);
        let relays = ["relays".to_owned()]
            .into_iter()
            .chain(servers)
            .chain(liars);
        let liar_hosts = self.liars.iter().copied().map(liar::address);
        let mut endpoints = endpoints.clone();
        let liar_endpoints: Vec<Endpoint> = liar_hosts.map(|ws| node::endpoint_at(&ws)).collect();
        endpoints.extend(&liar_endpoints);
        let draft = self.owner.announcement_on(REPO, &endpoints);
        let draft = draft.without("relays").tag(relays);
        draft.tag(["description", description]).at(at).sign()
    }

    fn latest(&self) -> &Event {
        self.announcements.last().expect("there is a first")
    }

    /// A new version, at one server only.
    async fn announce(&mut self, network: &mut Network<Act>, number: usize) {
        let now = network.now.as_secs();
        let same_second = network
            .dice
            .one_in(2)
            .then(|| self.latest().created_at.as_secs());
        let unique = network.dice.below(u64::MAX).to_string();
        let event = self.announcement(&unique, same_second.unwrap_or(now));
        if network.publish(number, &event).await {
            self.announcements.push(event);
        }
    }

    /// The owner brings state and data to a server. Where it is there already nothing changes.
    async fn push(&self, network: &mut Network<Act>, number: usize) {
        network.publish(number, self.latest()).await;
        network
            .publish(number, self.states.last().expect("there is a first"))
            .await;
        let world = &network.nodes[number].world;
        let tip = history::commit(self.states.len() - 1).await;
        let pushed = world.push(&self.owner, &[("refs/heads/main", tip)]).await;
        // What is up to date is refused as nothing to do by some clients only; the server takes it.
        drop(pushed);
        network.nodes[number].settle().await;
        network.told(number);
    }

    /// One commit more.
    async fn commit(&mut self, network: &mut Network<Act>, number: usize) {
        if self.states.len() < LINE {
            let tip = &history::commit(self.states.len()).await.oid;
            let state = self.owner.state(REPO, [("refs/heads/main", tip)]);
            let now = network.now.as_secs();
            self.states.push(state.at(now).sign());
            self.push(network, number).await;
        }
    }

    /// The state that decides, and what `main` is by it.
    pub(crate) async fn winner(&self) -> (&Event, String) {
        let tip = history::commit(self.states.len() - 1).await;
        (
            self.states.last().expect("there is a first"),
            tip.oid.clone(),
        )
    }

    pub(crate) fn owner(&self) -> &Person {
        &self.owner
    }

    /// How events name it.
    pub(crate) fn address(&self) -> String {
        self.owner.coordinate(REPO)
    }

    /// Whether anything said refers to this event.
    fn is_named(&self, id: &EventId) -> bool {
        let hex = id.to_hex();
        let mut tags = self.said.iter().flat_map(|event| event.tags.iter());
        tags.any(|tag| tag.as_slice().get(1) == Some(&hex))
    }

    /// Whether the repository, or what it should show, waited there in vain for so long that it is over.
    pub(crate) fn has_expired_at(&self, network: &Network<Act>, number: usize) -> bool {
        let world = &network.nodes[number].world;
        let expired = |event| world.is_marked(event) || world.stage(event) == Some(Stage::Parked);
        let latest = self.states.last();
        latest.is_some_and(expired) || self.announcements.iter().any(expired)
    }

    /// Whether the server has the repository's data, so that everything about it belongs there.
    pub(crate) fn is_served_by(&self, network: &Network<Act>, number: usize) -> bool {
        let world = &network.nodes[number].world;
        let mut versions = self.announcements.iter();
        self.listed.contains(&number) && versions.any(|version| world.serves(version))
    }
}

impl Network<Act> {
    /// A client sends an event to one server. Whether it was taken.
    pub(crate) async fn publish(&mut self, number: usize, event: &Event) -> bool {
        let verified = VerifiedEvent::verify(event.clone()).expect("it was just signed");
        self.events.insert(event.id, verified);
        let accepted = self.nodes[number].world.send(event).await.accepted;
        self.nodes[number].settle().await;
        self.trace(|| {
            let id = event.id.to_hex();
            let tags = event.tags.iter().map(|tag| tag.as_slice().join(" "));
            let tags: Vec<_> = tags.collect();
            format!(
                "{number} is sent kind {} {id}: {accepted} {tags:?}",
                event.kind
            )
        });
        if accepted && event.kind.as_u16() == kind::DELETION {
            self.shown.insert(event.id);
        }
        self.told(number);
        accepted
    }
}
