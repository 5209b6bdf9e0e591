//! The figures of the sync engine at its target scale: `cargo run --release -p grasp-sync --example sync_scale`.
//!
//! 100,000 repositories on 5 of 5,000 relays each, 1,000,000 roots: resident memory, the time to build all of it at the start, the
//! time of one five-second batch of 100 new events. Then one repository with 25,000 and with 50,000 roots, of which its relay
//! gives 500 at a time. A number after `--` divides repositories and relays by it.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures looks at its process and tells what it saw"
)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use grasp_core::filter::Filter;
use grasp_core::name::Coordinate;
use grasp_core::{EventId, PublicKey};
use grasp_sync::engine::{
    Delivery, Engine, Input, Notice, Output, PeerInfo, PeerMessage, Settings, SubscriptionId,
    SyncLevel, Time,
};

const REPOSITORIES: u32 = 100_000;
const ROOTS: u32 = 10;
const LISTED: u32 = 5;
const RELAYS: u32 = 5_000;

fn id(n: u32, salt: u8) -> EventId {
    let mut bytes = [salt; 32];
    bytes[..4].copy_from_slice(&n.wrapping_mul(0x9e37_79b1).to_be_bytes());
    EventId::from_byte_array(bytes)
}

fn coordinate(n: u32) -> Coordinate {
    let owner = PublicKey::from_byte_array(id(n, 1).to_bytes());
    let identifier = format!("repository-{n}").parse().expect("an identifier");
    Coordinate::new(owner, identifier)
}

fn root(n: u32, repository: u32) -> Notice {
    Notice::Root {
        id: id(n, 2),
        repositories: vec![coordinate(repository)],
    }
}

fn notices(repositories: u32, relays: u32) -> Vec<Notice> {
    let of_repository = |n: u32| {
        let relay = move |k| format!("wss://relay-{}.example.com", (n + k * 977) % relays);
        let repository = Notice::Repository {
            coordinate: coordinate(n),
            relays: (0..LISTED).filter_map(|k| relay(k).parse().ok()).collect(),
            level: SyncLevel::Full,
        };
        std::iter::once(repository).chain((0..ROOTS).map(move |k| root(n * ROOTS + k, n)))
    };
    (0..repositories).flat_map(of_repository).collect()
}

/// Counts the time that this thread had a core: others that want it do not show.
struct Clock(Duration);

impl Clock {
    fn start() -> Self {
        Self(Self::on_a_core())
    }

    fn elapsed(&self) -> Duration {
        Self::on_a_core().saturating_sub(self.0)
    }

    fn on_a_core() -> Duration {
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let nanos = schedstat
            .split(' ')
            .next()
            .and_then(|nanos| nanos.parse().ok());
        Duration::from_nanos(nanos.unwrap_or(0))
    }
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.map_or(0, |pages: usize| pages * 4_096)
}

/// Every peer takes everything and has nothing.
fn answer(engine: &mut Engine, outputs: Vec<Output>, now: Time) {
    let mut outputs = VecDeque::from(outputs);
    while let Some(output) = outputs.pop_front() {
        if let Some(input) = reply(&output) {
            outputs.extend(engine.handle(input, now));
        }
    }
}

fn reply(output: &Output) -> Option<Input> {
    match *output {
        Output::Connect { connection, .. } => Some(Input::Connected {
            connection,
            peer: PeerInfo {
                negentropy: Some(false),
                ..PeerInfo::default()
            },
        }),
        Output::Subscribe {
            connection,
            subscription,
            ..
        } => Some(Input::Received {
            connection,
            message: PeerMessage::Eose { subscription },
        }),
        _ => None,
    }
}

fn run_until(engine: &mut Engine, end: Time) {
    while let Some(at) = engine.next_deadline().filter(|at| *at <= end) {
        let outputs = engine.handle(Input::Wake, at);
        answer(engine, outputs, at);
    }
}

/// One repository whose roots a relay has, newest first, [`PAGE`] at a time.
struct Large {
    engine: Engine,
    roots: u32,
    questions: u32,
    delivered: u32,
}

/// The roots of a large repository are a second apart from here on.
const FIRST_ROOT: u64 = 1_700_000_000;
const PAGE: usize = 500;

impl Large {
    fn new(roots: u32) -> Self {
        Self {
            engine: Engine::new(Settings::default(), 1),
            roots,
            questions: 0,
            delivered: 0,
        }
    }

    fn load(&mut self, now: Time) {
        let repository = Notice::Repository {
            coordinate: coordinate(0),
            relays: "wss://relay.example.com".parse().into_iter().collect(),
            level: SyncLevel::Full,
        };
        let roots = (0..self.roots).map(|n| root(n, 0));
        let notices = std::iter::once(repository).chain(roots).collect();
        let cursors = Vec::new();
        let outputs = self.engine.handle(Input::Loaded { notices, cursors }, now);
        self.answer(outputs, now);
    }

    fn run_until(&mut self, end: Time) {
        while let Some(at) = self.engine.next_deadline().filter(|at| *at <= end) {
            let outputs = self.engine.handle(Input::Wake, at);
            self.answer(outputs, at);
        }
    }

    fn answer(&mut self, outputs: Vec<Output>, now: Time) {
        let mut outputs = VecDeque::from(outputs);
        while let Some(output) = outputs.pop_front() {
            if let Output::Subscribe {
                connection,
                subscription,
                filters,
            } = &output
            {
                self.questions += 1;
                for message in self.page(*subscription, filters) {
                    let connection = *connection;
                    let received = Input::Received {
                        connection,
                        message,
                    };
                    outputs.extend(self.engine.handle(received, now));
                }
            }
            if let Some(input) = reply(&output) {
                outputs.extend(self.engine.handle(input, now));
            }
        }
    }

    /// The events of one page.
    fn page(&mut self, subscription: SubscriptionId, filters: &[Arc<Filter>]) -> Vec<PeerMessage> {
        let asks = |filter: &&Arc<Filter>| filter.tags.contains_key(&'a') && filter.limit.is_none();
        let Some(filter) = filters.iter().find(asks) else {
            return Vec::new();
        };
        let newest = FIRST_ROOT + u64::from(self.roots) - 1;
        let from = filter.until.unwrap_or(newest).min(newest);
        let first = filter.since.unwrap_or(FIRST_ROOT).max(FIRST_ROOT);
        let seconds = (first..=from).rev().take(PAGE);
        let events = seconds.map(|created_at| PeerMessage::Event {
            subscription,
            delivery: Delivery::Genuine {
                id: id(u32::try_from(created_at - FIRST_ROOT).unwrap_or(0), 2),
                created_at,
            },
        });
        let events: Vec<_> = events.collect();
        self.delivered += u32::try_from(events.len()).unwrap_or(0);
        events
    }
}

fn large(roots: u32, start: Time) {
    let mut large = Large::new(roots);
    let clock = Clock::start();
    large.load(start);
    large.run_until(start + Duration::from_hours(2));
    println!(
        "a repository with {roots} roots in {:?}: {} questions, {} events in pages of {PAGE}",
        clock.elapsed(),
        large.questions,
        large.delivered
    );
}

/// Batches of the self-subscriber that are measured, one after the other.
const BATCHES: u32 = 21;

/// Takes 100 new roots of as many repositories in, and returns how long their batch takes.
fn batch(engine: &mut Engine, number: u32, repositories: u32, settled: Time) -> Duration {
    let start = settled + Duration::from_secs(10) * number;
    run_until(engine, start);
    for n in number * 100..(number + 1) * 100 {
        let new = root(20_000_000 + n, (n * 97) % repositories);
        engine.handle(Input::Noticed(new), start);
    }
    // What else is due meanwhile, cursors above all, is not the batch.
    let fires_at = start + Duration::from_secs(5);
    run_until(engine, fires_at.minus(Duration::from_millis(1)));
    let clock = Clock::start();
    let outputs = engine.handle(Input::Wake, fires_at);
    let took = clock.elapsed();
    answer(engine, outputs, fires_at);
    took
}

fn main() {
    let start = Time::from_secs(1_800_000_000);
    let divisor = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let divisor = divisor.unwrap_or(1).clamp(1, RELAYS / 10);
    let (repositories, relays) = (REPOSITORIES / divisor, RELAYS / divisor);
    let notices = notices(repositories, relays);
    let input = resident();
    let mut engine = Engine::new(Settings::default(), 1);
    let clock = Clock::start();
    let cursors = Vec::new();
    engine.handle(Input::Loaded { notices, cursors }, start);
    println!(
        "built in {:?}; {} MiB with the input, which alone had {}",
        clock.elapsed(),
        resident() >> 20,
        input >> 20
    );

    let clock = Clock::start();
    let settled = start + Duration::from_hours(2);
    run_until(&mut engine, settled);
    let confirmed: usize = engine.reports().map(|report| report.confirmed).sum();
    println!(
        "two hours with {relays} peers in {:?}; {confirmed} pairs confirmed; {} MiB",
        clock.elapsed(),
        resident() >> 20
    );

    let mut batches: Vec<_> = (0..BATCHES)
        .map(|n| batch(&mut engine, n, repositories, settled))
        .collect();
    batches.sort_unstable();
    println!(
        "a batch of 100 new events in {:?}; the slowest of {BATCHES} in {:?}",
        batches[batches.len() / 2],
        batches[batches.len() - 1]
    );
    drop(engine);
    large(25_000, start);
    large(50_000, start);
}
