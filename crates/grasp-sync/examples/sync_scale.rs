//! The figures of the sync engine at its target scale: `cargo run --release -p grasp-sync --example sync_scale`.
//!
//! 100,000 repositories on 5 of 5,000 relays each, 1,000,000 roots: resident memory, the time to build all of it at the start, the
//! time of one five-second batch of 100 new events. A number after `--` divides repositories and relays by it.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures looks at the clock and tells what it saw"
)]

use std::time::{Duration, Instant};

use grasp_core::name::Coordinate;
use grasp_core::{EventId, PublicKey};
use grasp_sync::engine::{
    Engine, Input, Notice, Output, PeerInfo, PeerMessage, Settings, SyncLevel, Time,
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

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.map_or(0, |pages: usize| pages * 4_096)
}

/// Every peer takes everything and has nothing.
fn answer(engine: &mut Engine, outputs: Vec<Output>, now: Time) {
    let mut outputs = std::collections::VecDeque::from(outputs);
    while let Some(output) = outputs.pop_front() {
        let input = match output {
            Output::Connect { connection, .. } => Input::Connected {
                connection,
                peer: PeerInfo {
                    negentropy: Some(false),
                    ..PeerInfo::default()
                },
            },
            Output::Subscribe {
                connection,
                subscription,
                ..
            } => Input::Received {
                connection,
                message: PeerMessage::Eose { subscription },
            },
            _ => continue,
        };
        outputs.extend(engine.handle(input, now));
    }
}

fn run_until(engine: &mut Engine, end: Time) {
    while let Some(at) = engine.next_deadline().filter(|at| *at <= end) {
        let outputs = engine.handle(Input::Wake, at);
        answer(engine, outputs, at);
    }
}

fn main() {
    let start = Time::from_secs(1_800_000_000);
    let divisor = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let divisor = divisor.unwrap_or(1).clamp(1, RELAYS / 10);
    let (repositories, relays) = (REPOSITORIES / divisor, RELAYS / divisor);
    let notices = notices(repositories, relays);
    let input = resident();
    let mut engine = Engine::new(Settings::default(), 1);
    let clock = Instant::now();
    let cursors = Vec::new();
    engine.handle(Input::Loaded { notices, cursors }, start);
    println!(
        "built in {:?}; {} MiB with the input, which alone had {}",
        clock.elapsed(),
        resident() >> 20,
        input >> 20
    );

    let clock = Instant::now();
    let settled = start + Duration::from_hours(2);
    run_until(&mut engine, settled);
    let confirmed: usize = engine.reports().map(|report| report.confirmed).sum();
    println!(
        "two hours with {relays} peers in {:?}; {confirmed} pairs confirmed; {} MiB",
        clock.elapsed(),
        resident() >> 20
    );

    for n in 0..100 {
        engine.handle(
            Input::Noticed(root(20_000_000 + n, (n * 97) % repositories)),
            settled,
        );
    }
    let fires_at = settled + Duration::from_secs(5);
    let clock = Instant::now();
    let outputs = engine.handle(Input::Wake, fires_at);
    println!(
        "a batch of 100 new events in {:?}: {} outputs",
        clock.elapsed(),
        outputs.len()
    );
}
