//! The founding figure of memory: 1,000 repositories, 100 relays, 50 roots each, in 10 MB. A process of its own, or other
//! tests would be measured too.

use grasp_core::name::Coordinate;
use grasp_core::{EventId, PublicKey};
use grasp_sync::engine::{
    Engine, Input, Notice, Output, PeerInfo, PeerMessage, Settings, SyncLevel, Time,
};

const REPOSITORIES: u32 = 1_000;
const RELAYS: u32 = 100;
const ROOTS: u32 = 50;
/// How many relays one repository lists.
const LISTED: u32 = 5;

fn id(n: u32, salt: u8) -> EventId {
    let mut bytes = [salt; 32];
    let mixed = n.wrapping_mul(0x9e37_79b1);
    bytes[..4].copy_from_slice(&mixed.to_be_bytes());
    EventId::from_byte_array(bytes)
}

fn coordinate(n: u32) -> Coordinate {
    let owner = PublicKey::from_byte_array(id(n, 1).to_bytes());
    Coordinate::new(owner, format!("repository-{n}").parse().expect("valid"))
}

fn notices() -> impl Iterator<Item = Notice> {
    (0..REPOSITORIES).flat_map(|n| {
        let relay = |k| format!("wss://relay-{}.example.com", (n + k * 7) % RELAYS);
        let repository = Notice::Repository {
            coordinate: coordinate(n),
            relays: (0..LISTED)
                .map(|k| relay(k).parse().expect("valid"))
                .collect(),
            level: SyncLevel::Full,
        };
        let root = move |k| Notice::Root {
            id: id(n * ROOTS + k, 2),
            repositories: vec![coordinate(n)],
        };
        std::iter::once(repository).chain((0..ROOTS).map(root))
    })
}

/// Memory of this process that no file stands behind: its data, without its code.
fn resident() -> usize {
    #[expect(
        clippy::disallowed_methods,
        reason = "what is measured is this process"
    )]
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: Vec<usize> = statm
        .split(' ')
        .filter_map(|pages| pages.parse().ok())
        .collect();
    (pages[1] - pages[2]) * 4_096
}

/// A peer that has nothing: answers every question at once.
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

#[test]
fn a_thousand_repositories_fit_ten_megabytes() {
    let settings = Settings {
        batch_window: std::time::Duration::ZERO,
        ..Settings::default()
    };
    let before = resident();
    let mut engine = Engine::new(settings, 1);
    let mut now = Time::from_secs(1_800_000_000);
    let (cursors, none) = (Vec::new(), Vec::new());
    engine.handle(
        Input::Loaded {
            notices: none,
            cursors,
        },
        now,
    );
    // One by one, as a store is read: what the input holds is not what the engine keeps.
    for notice in notices() {
        engine.handle(Input::Noticed(notice), now);
    }
    let pairs = REPOSITORIES as usize * LISTED as usize * (1 + ROOTS as usize);
    let sum = |part: fn(&grasp_sync::engine::RelayReport) -> usize, engine: &Engine| {
        engine.reports().map(|report| part(&report)).sum::<usize>()
    };
    assert_eq!(sum(|report| report.missing, &engine), pairs);
    let grown = resident().saturating_sub(before);
    assert!(grown < 10_000_000, "{grown} bytes for {pairs} pairs");

    // All relays come at once, so everything is in flight at once; then it is confirmed.
    let end = now + std::time::Duration::from_mins(20);
    while let Some(at) = engine.next_deadline().filter(|at| *at <= end) {
        now = at;
        let outputs = engine.handle(Input::Wake, now);
        answer(&mut engine, outputs, now);
    }
    assert_eq!(sum(|report| report.confirmed, &engine), pairs);
    let grown = resident().saturating_sub(before);
    assert!(grown < 25_000_000, "{grown} bytes at the peak");
}
