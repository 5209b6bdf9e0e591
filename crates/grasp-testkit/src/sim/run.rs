//! Whatever happens to the network: once it heals, every server of a repository serves all that was said about it.

use std::time::Duration;

use grasp_sync::engine::PeerInfo;

use super::dice::Dice;
use super::life::{Act, Life};
use super::network::{Happening, Network, after};
use super::node::Manners;
use super::trace::Trace;

const HOUR: Duration = Duration::from_hours(1);

fn manners(dice: &mut Dice) -> Manners {
    let page = *dice.pick(&[3, 20, 500]);
    let info = PeerInfo {
        max_subscriptions: *dice.pick(&[None, Some(3), Some(10), Some(100)]),
        default_limit: *dice.pick(&[None, Some(page)]),
        negentropy: *dice.pick(&[None, Some(true), Some(false)]),
    };
    Manners {
        info,
        page,
        filters_max: *dice.pick(&[1, 4, 20]),
        has_negentropy: info.negentropy != Some(false) && dice.one_in(2),
    }
}

/// A bad hour, and then quiet ones in which whatever was lost has to be made up for. The daily run comes later.
pub(crate) async fn run(seed: u64, trace: Trace) {
    let mut dice = Dice::new(seed);
    let servers = 2 + dice.index(2);
    let manners: Vec<_> = (0..servers).map(|_| manners(&mut dice)).collect();
    let mut network = Network::new(seed, &manners, trace);
    network.heals_at = after(HOUR);
    let mut life = Life::draw(&mut network, HOUR * 2).await;
    for _ in 0..network.dice.below(3) {
        let number = network.dice.index(servers);
        let down = Duration::from_secs(network.dice.below(3_600));
        // Shorter than fifteen minutes, or longer.
        let away = Duration::from_secs(*network.dice.pick(&[1, 300, 2_000]));
        network.schedule(after(down), Happening::Down(number));
        network.schedule(after(down + away), Happening::Up(number));
    }
    network.start().await;
    life.begin(&mut network).await;
    let mut act = async |network: &mut Network<Act>, act| life.act(network, act).await;
    network.run_until(after(HOUR * 12), &mut act).await;
    judge(&network, &life);
}

fn judge(network: &Network<Act>, life: &Life) {
    for project in &life.projects {
        for number in &project.listed {
            if !project.is_served_by(network, *number) {
                continue;
            }
            let node = &network.nodes[*number];
            for event in &project.said {
                let is_owed = !project.deleted.contains(&event.id);
                assert_eq!(
                    node.world.serves(event),
                    is_owed,
                    "kind {} {} at server {number}: {:#?}",
                    event.kind,
                    event.id,
                    node.world.stage(event),
                );
            }
        }
    }
    for node in &network.nodes {
        let running = node.running.as_ref().expect("all are up again");
        for report in running.engine.reports() {
            let rest = (report.pending, report.missing);
            assert_eq!(rest, (0, 0), "{report:#?}");
        }
    }
}
