//! One run: a bad hour, and then quiet ones in which whatever was lost has to be made up for.

use std::collections::BTreeSet;
use std::time::Duration;

use grasp_core::EventId;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::filter::Filter;

use super::life::{Act, Life};
use super::model::Model;
use super::network::{Happening, Network, Peer, after};
use super::trace::Trace;

/// People are active for longer than anything fails.
const ACTIVE: Duration = Duration::from_hours(2);

/// Runs the seed. Whatever is wrong panics.
pub(crate) async fn run(seed: u64, trace: Trace) {
    let mut network = Network::new(seed, trace);
    let mut life = Life::draw(&mut network, ACTIVE).await;
    draw_crashes(&mut network);
    network.start().await;
    life.begin(&mut network).await;
    let mut act = async |network: &mut Network<Act>, act| life.act(network, act).await;
    let end = after(network.weather.judged_after);
    network.run_until(end, &mut act).await;
    judge(&network, &life);
    judge_git(&network, &life).await;
}

/// Servers are killed: at some moment, or in the middle of something.
fn draw_crashes(network: &mut Network<Act>) {
    for _ in 0..network.dice.below(3) {
        let number = network.dice.index(network.nodes.len());
        let down = Duration::from_secs(network.dice.below(3_600));
        if network.dice.one_in(2) {
            let outputs = network.dice.below(12);
            network.schedule(after(down), Happening::Stumble(number, outputs));
            continue;
        }
        // Shorter than fifteen minutes, or longer.
        let away = Duration::from_secs(*network.dice.pick(&[1, 300, 2_000]));
        network.schedule(after(down), Happening::Down(number));
        network.schedule(after(down + away), Happening::Up(number));
    }
}

fn judge(network: &Network<Act>, life: &Life) {
    let shown = network.shown.iter().map(|id| &network.events[id]);
    let shown: Vec<&VerifiedEvent> = shown.collect();
    let models = life.projects.iter().map(|project| {
        let address = project.address();
        (project, Model::of(&address, &shown))
    });
    let models: Vec<_> = models.collect();
    for node in &network.nodes {
        let mut owed: BTreeSet<EventId> = BTreeSet::new();
        for (project, model) in &models {
            if !project.is_served_by(network, node.number) {
                continue;
            }
            owed.extend(&model.owed);
            for id in &model.owed {
                let event = network.events[id].event();
                assert!(
                    node.world.serves(event),
                    "server {} does not serve what it owes: kind {} {id} {:?}",
                    node.number,
                    event.kind,
                    node.world.stage(event),
                );
            }
            for id in &model.gone {
                let event = network.events[id].event();
                let number = node.number;
                assert!(
                    !node.world.serves(event),
                    "server {number} serves what is gone: kind {} {id}",
                    event.kind
                );
            }
        }
        for id in node.world.query(&Filter::default()) {
            let genuine = network.events[&id].event();
            let served = node.text_of(&id);
            let number = node.number;
            assert_eq!(served, genuine.as_json(), "server {number} altered {id}");
            let of_itself = [kind::ANNOUNCEMENT, kind::STATE, kind::DELETION];
            let kind = genuine.kind.as_u16();
            assert!(
                of_itself.contains(&kind) || owed.contains(&id),
                "server {number} serves what it does not owe: kind {kind} {id}"
            );
        }
        let running = node.running.as_ref().expect("all are up again");
        for report in running.engine.reports() {
            let is_server = matches!(network.at(&report.url), Some(Peer::Server(_)));
            let rest = (report.pending, report.missing);
            assert!(!is_server || rest == (0, 0), "{report:#?}");
        }
    }
}

/// Every server of a repository serves its latest state, and `main` is what that says, wherever it was pushed.
async fn judge_git(network: &Network<Act>, life: &Life) {
    for project in &life.projects {
        let (state, main) = project.winner().await;
        for number in &project.listed {
            let world = &network.nodes[*number].world;
            // What waited in vain for half an hour sync may not bring back (PUR-8, EV-3): its owner has to come again.
            if project.has_expired_at(network, *number) {
                continue;
            }
            assert!(
                project.is_served_by(network, *number) && world.serves(state),
                "server {number} does not serve the state {}: {:?}",
                state.id,
                world.stage(state),
            );
            let refs = world.refs(project.owner()).unwrap_or_default();
            let shown = refs.get("refs/heads/main");
            assert_eq!(shown, Some(&main), "server {number} shows {refs:?}");
        }
    }
}
