//! What people do meanwhile: each thing at one server of the repository only. The others have to find out.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{Endpoint, Event, Person, history};
use grasp_core::EventId;
use grasp_core::event::VerifiedEvent;

use super::dice::Dice;
use super::network::{Network, START, after};
use super::node;
use super::world::REPO;

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
}

const ACTS: [Act; 12] = [
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
];

/// A repository and what was said about it.
pub(crate) struct Project {
    owner: Person,
    pub(crate) announcement: Event,
    state: Event,
    /// The servers that it lists.
    pub(crate) listed: Vec<usize>,
    /// Accepted by some server.
    pub(crate) said: Vec<Event>,
    pub(crate) deleted: BTreeSet<EventId>,
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
            projects.push(Project::draw(n, network.nodes.len(), &mut network.dice).await);
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
                let announced = network.publish(*number, &project.announcement).await;
                assert!(announced, "a new announcement is taken");
                if nth == 0 || !network.dice.one_in(4) {
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
        let serves = |event: &Event| network.nodes[number].world.serves(event);
        if !serves(&project.announcement) {
            return;
        }
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
    let address = project.owner.coordinate(REPO);
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
        Act::Push => return None,
    };
    // Some clients' clocks are behind, by less than questions about what is new overlap (SYNC-45).
    let late = *dice.pick(&[0, 0, 0, 10, 40]);
    let unique = dice.below(u64::MAX).to_string();
    Some((draft.content(&unique).at(now - late).sign(), None))
}

impl Project {
    async fn draw(n: u64, servers: usize, dice: &mut Dice) -> Self {
        let owner = Person::named(&format!("owner {n}"));
        let mut listed: Vec<usize> = (0..servers).collect();
        if listed.len() > 2 && dice.one_in(3) {
            listed.remove(dice.index(servers));
        }
        let endpoints: Vec<Endpoint> = listed.iter().copied().map(node::endpoint).collect();
        let endpoints: Vec<&Endpoint> = endpoints.iter().collect();
        let announcement = owner.announcement_on(REPO, &endpoints);
        let first = &history::commit(0).await.oid;
        let state = owner.state(REPO, [("refs/heads/main", first)]);
        Self {
            announcement: announcement.at(START - 100).sign(),
            state: state.at(START - 90).sign(),
            owner,
            listed,
            said: Vec::new(),
            deleted: BTreeSet::new(),
        }
    }

    /// The owner brings state and data to a server. Where it is there already nothing changes.
    async fn push(&self, network: &mut Network<Act>, number: usize) {
        network.publish(number, &self.announcement).await;
        network.publish(number, &self.state).await;
        let world = &network.nodes[number].world;
        let first = history::commit(0).await;
        let pushed = world.push(&self.owner, &[("refs/heads/main", first)]).await;
        // What is up to date is refused as nothing to do by some clients only; the server takes it.
        drop(pushed);
        network.nodes[number].settle().await;
        network.told(number);
    }

    /// Whether anything said refers to this event.
    fn is_named(&self, id: &EventId) -> bool {
        let hex = id.to_hex();
        let mut tags = self.said.iter().flat_map(|event| event.tags.iter());
        tags.any(|tag| tag.as_slice().get(1) == Some(&hex))
    }

    /// Whether the server has the repository's data, so that everything about it belongs there.
    pub(crate) fn is_served_by(&self, network: &Network<Act>, number: usize) -> bool {
        self.listed.contains(&number) && network.nodes[number].world.serves(&self.announcement)
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
        self.told(number);
        accepted
    }
}
