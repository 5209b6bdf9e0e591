//! Whatever happens to the network: once it heals, everything wanted is confirmed and everything is here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use grasp_core::EventId;
use grasp_sync::engine::{Input, PeerInfo, Progress, Settings, Time};
use grasp_sync::relay_url::RelayUrl;

use crate::network::{ALL, PASSING};
use crate::peer::{Dice, Peer};
use crate::sim::{START, Sim};
use crate::world::{Event, coordinate, id, relay, repository};

const HOUR: u64 = 3_600;

/// A small world of repositories, relays and conversations, all of it decided by the dice.
struct World {
    repositories: Vec<Vec<u32>>,
    events: Vec<(RelayUrl, Event)>,
    next: u32,
}

impl World {
    fn new(dice: &mut Dice, relays: u32, repositories: u32, per_repository: u64) -> Self {
        let mut world = Self {
            repositories: Vec::new(),
            events: Vec::new(),
            next: 1_000,
        };
        for n in 0..repositories {
            let listed: BTreeSet<u32> = (0..=dice.below(3))
                .map(|_| 1 + small(dice.below(u64::from(relays))))
                .collect();
            let listed: Vec<_> = listed.into_iter().collect();
            for _ in 0..=dice.below(per_repository) {
                world.conversation(dice, n, &listed);
            }
            world.repositories.push(listed);
        }
        world
    }

    /// A root, replies of both kinds, a quote and a state, each on one of the repository's relays.
    fn conversation(&mut self, dice: &mut Dice, repo: u32, relays: &[u32]) {
        let address = coordinate(repo).address();
        let kind = dice.pick(&[1617, 1618, 1621]);
        let root = self.event(dice, relays, kind, vec![('a', address.clone())]);
        let hex = root.to_hex();
        for tags in [
            vec![('e', hex.clone())],
            vec![('E', hex.clone())],
            vec![('q', hex)],
            vec![('q', address.clone())],
            vec![('A', address)],
        ] {
            for _ in 0..dice.below(3) {
                self.event(dice, relays, 1111, tags.clone());
            }
        }
        if dice.one_in(3) {
            let name = coordinate(repo).identifier.to_string();
            self.event(dice, relays, 30_618, vec![('d', name)]);
        }
    }

    fn event(
        &mut self,
        dice: &mut Dice,
        relays: &[u32],
        kind: u16,
        tags: Vec<(char, String)>,
    ) -> EventId {
        self.next += 1;
        // Many share a second, some are a month old.
        let oldest = dice.pick(&[50, 50, 50, 30 * 24 * HOUR]);
        let event = Event {
            id: id(self.next),
            kind,
            created_at: START.as_secs() - dice.below(oldest),
            tags,
        };
        let id = event.id;
        self.events.push((relay(dice.pick(relays)), event));
        id
    }
}

fn small(n: u64) -> u32 {
    u32::try_from(n).expect("small")
}

fn some_peer(dice: &mut Dice) -> Peer {
    let page = dice.pick(&[20, 30, 100, 500]);
    let info = PeerInfo {
        max_subscriptions: dice.pick(&[None, Some(3), Some(10), Some(100)]),
        default_limit: dice.pick(&[None, Some(page)]),
        negentropy: dice.pick(&[None, Some(true), Some(false)]),
    };
    let mut peer = Peer::new(info, page);
    peer.has_negentropy &= dice.one_in(2);
    peer.filters_max = dice.pick(&[1, 4, 10, 20]);
    peer.wants_auth = dice.one_in(4);
    peer
}

/// How bad it gets, and how long it takes until nothing can be missing.
struct Weather {
    /// Everything may fail that long.
    faults: Duration,
    refusals: &'static [&'static str],
    restarts: u32,
    /// Whether some of what comes while nobody can listen is a month old.
    with_old_news: bool,
    judged_after: Duration,
}

/// A relay that did not want us is asked again after a day, and what it refused comes with the day after.
const FOUL: Weather = Weather {
    faults: Duration::from_secs(HOUR),
    refusals: ALL,
    restarts: 0,
    with_old_news: true,
    judged_after: Duration::from_secs(60 * HOUR),
};

/// Nothing keeps us away for a day, so nothing may be left for the daily run.
const PASSING_SHOWERS: Weather = Weather {
    refusals: PASSING,
    with_old_news: false,
    judged_after: Duration::from_secs(22 * HOUR),
    ..FOUL
};

/// Runs a bad network for a while, then a good one.
fn heal(seed: u64, weather: &Weather) {
    let faults = weather.faults;
    let mut dice = Dice::new(seed);
    let peers = 5;
    let world = World::new(&mut dice, peers, 12, 4);
    let mut network: BTreeMap<_, _> = (1..=peers)
        .map(|n| (relay(n), some_peer(&mut dice)))
        .collect();
    let wanted: BTreeSet<_> = world.events.iter().map(|(_, event)| event.id).collect();
    let mut later = Vec::new();
    for (url, event) in world.events {
        if dice.one_in(3) {
            later.push((url, event));
        } else {
            network
                .get_mut(&url)
                .expect("known")
                .events
                .insert(event.id, event);
        }
    }
    let mut sim = Sim::new(seed, Settings::default(), network);
    sim.faults_for(faults);
    sim.refusals = weather.refusals;
    let repositories = (0..).zip(&world.repositories);
    sim.start(
        repositories
            .map(|(n, relays)| repository(n, relays))
            .collect(),
    );
    for (url, mut event) in later {
        // Half of them are as old as they say, which only a full history finds.
        let at = START + Duration::from_secs(dice.below(faults.as_secs() * 2 + 60));
        if dice.one_in(2) || !weather.with_old_news {
            event.created_at = at.as_secs();
        }
        sim.publish_at(at, url, event);
    }
    for _ in 0..weather.restarts {
        sim.restart_at(START + Duration::from_secs(dice.below(2 * HOUR)));
    }
    sim.run_until(START + weather.judged_after);
    for report in sim.engine.reports() {
        let rest = (report.pending, report.missing);
        assert_eq!(rest, (0, 0), "replay with seed {seed}: {report:#?}");
        assert_eq!(
            report.progress,
            Progress::Connected,
            "replay with seed {seed}: {report:#?}"
        );
    }
    if let Some(lacking) = wanted.difference(&sim.stored).next() {
        let holder = sim
            .peers
            .iter()
            .find(|(_, peer)| peer.events.contains_key(lacking));
        let (url, peer) = holder.expect("each event is somewhere");
        let event = &peer.events[lacking];
        panic!(
            "replay with seed {seed}: {event:?} never came from {url} {:?}",
            peer.info
        );
    }
}

/// SYNC-4, SYNC-5, SYNC-23, SYNC-26, SYNC-27, SYNC-36, SYNC-40 … SYNC-46 at once; cases 56 … 60.
#[test]
fn every_wanted_repository_is_confirmed_once_the_network_heals() {
    for seed in seeds(24, 0) {
        heal(seed, &FOUL);
    }
}

/// The same without the daily run, which would make up for what was lost.
#[test]
fn what_fails_for_a_while_is_made_up_for_before_the_day_is_over() {
    for seed in seeds(24, 20_000) {
        heal(seed, &PASSING_SHOWERS);
    }
    let with_restarts = Weather {
        restarts: 3,
        ..PASSING_SHOWERS
    };
    for seed in seeds(24, 30_000) {
        heal(seed, &with_restarts);
    }
}

/// SYNC-11
#[test]
fn so_it_is_when_our_server_is_killed_again_and_again() {
    for seed in seeds(12, 10_000) {
        heal(
            seed,
            &Weather {
                restarts: 3,
                ..FOUL
            },
        );
    }
}

/// How many seeds a run of the tests takes; `SIM_SEEDS=1000` takes more, and `SIM_FIRST` begins elsewhere.
fn seeds(usual: u64, first: u64) -> std::ops::Range<u64> {
    #[expect(
        clippy::disallowed_methods,
        reason = "which seeds to run is no part of a run"
    )]
    let set = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = set("SIM_FIRST").unwrap_or(first);
    first..first + set("SIM_SEEDS").unwrap_or(usual)
}

/// A good network: everything is here soon, and live events cross at once.
#[test]
fn without_faults_everything_is_here_within_minutes() {
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let world = World::new(&mut dice, 5, 12, 4);
        let info = PeerInfo {
            negentropy: dice.pick(&[Some(true), Some(false)]),
            ..PeerInfo::default()
        };
        let mut network: BTreeMap<_, _> =
            (1..=5).map(|n| (relay(n), Peer::new(info, 500))).collect();
        let wanted: BTreeSet<_> = world.events.iter().map(|(_, event)| event.id).collect();
        for (url, event) in world.events {
            network
                .get_mut(&url)
                .expect("known")
                .events
                .insert(event.id, event);
        }
        let mut sim = Sim::new(seed, Settings::default(), network);
        let repositories = (0..).zip(&world.repositories);
        sim.start(
            repositories
                .map(|(n, relays)| repository(n, relays))
                .collect(),
        );
        sim.run_until(START + Duration::from_secs(90));
        let lacking = wanted.difference(&sim.stored).count();
        assert_eq!(lacking, 0, "replay with seed {seed}");
        let live = Event {
            id: id(1),
            kind: 1111,
            created_at: sim.now.as_secs(),
            tags: vec![('A', coordinate(0).address())],
        };
        sim.publish_at(sim.now, relay(world.repositories[0][0]), live);
        let soon = sim.now + Duration::from_secs(2);
        sim.run_until(soon);
        assert!(sim.stored.contains(&id(1)), "replay with seed {seed}");
    }
}

/// A run is its seed: the same inputs give the same outputs.
#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let notices: Vec<_> = (0..30).map(|n| repository(n, &[n % 7, n % 5])).collect();
        let mut engine = grasp_sync::engine::Engine::new(Settings::default(), seed);
        let cursors = Vec::new();
        let mut out = engine.handle(Input::Loaded { notices, cursors }, START);
        let end = START + Duration::from_secs(3 * HOUR);
        while let Some(at) = engine.next_deadline().filter(|at: &Time| *at <= end) {
            out.extend(engine.handle(Input::Wake, at));
        }
        out
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2), "jitter is by the seed");
}

/// Case 57: an event that a peer got while we were away, dated last month, is here within a day.
#[test]
fn an_old_event_that_came_while_we_were_away_is_found_within_a_day() {
    let peer = Peer::new(PeerInfo::default(), 500);
    let mut sim = Sim::new(5, Settings::default(), BTreeMap::from([(relay(1), peer)]));
    sim.start(vec![repository(1, &[1])]);
    sim.restart_at(START + Duration::from_secs(HOUR));
    let old = Event {
        id: id(77),
        kind: 1621,
        created_at: START.as_secs() - 30 * 24 * HOUR,
        tags: vec![('a', coordinate(1).address())],
    };
    // In the very moment in which nobody listens.
    sim.publish_at(START + Duration::from_secs(HOUR), relay(1), old);
    sim.run_until(START + Duration::from_secs(HOUR + 600));
    assert!(
        !sim.stored.contains(&id(77)),
        "a quick reconnect asks since"
    );
    sim.run_until(START + Duration::from_secs(27 * HOUR));
    assert!(sim.stored.contains(&id(77)));
}
