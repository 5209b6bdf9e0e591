//! The order in which events and objects arrive does not show in what is served, and whatever happens,
//! a commit leaves nothing undone.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::admission::Answer;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::{EventId, PublicKey};
use proptest::prelude::*;

use crate::support::project::{announcement_elsewhere, maintainers};
use crate::support::world::World;
use crate::support::{NOW, announcement, draft, key, oid, pull_request, state};

/// So few keys and objects that they meet all the time.
const KEYS: u8 = 3;
const OIDS: u8 = 4;

/// Something that reaches the server.
#[derive(Debug, Clone)]
enum Step {
    Event(VerifiedEvent),
    Objects(PublicKey, u8),
    Wait(u64),
    Lease(PublicKey, bool),
}

fn keys(bits: u8) -> Vec<PublicKey> {
    (0..KEYS)
        .filter(|n| bits & (1 << n) != 0)
        .map(|n| key(n + 1))
        .collect()
}

fn owner() -> impl Strategy<Value = PublicKey> {
    (1..=KEYS).prop_map(key)
}

/// Each owner announces, perhaps twice, and the second time lists whoever was listed the first time.
/// (Taking authority away depends on what was served before, by ANN-3a.)
fn growing_announcements() -> impl Strategy<Value = Vec<VerifiedEvent>> {
    let one = |n: u8| {
        (0..8_u8, prop::option::of(0..8_u8)).prop_map(move |(listed, more)| {
            let owner = key(n);
            let version = |at, bits| announcement(owner).maintainers(&keys(bits)).at(at).event();
            let newer = more.map(|more| version(NOW - 500, listed | more));
            [Some(version(NOW - 1000, listed)), newer]
        })
    };
    (one(1), one(2), one(3))
        .prop_map(|(a, b, c)| [a, b, c].into_iter().flatten().flatten().collect())
}

fn a_state() -> impl Strategy<Value = VerifiedEvent> {
    let refs = prop::collection::btree_map(0..2_u8, 1..=OIDS, 1..3);
    (owner(), 0..20_u64, refs).prop_map(|(author, age, refs)| {
        let signed = state(author, &[]).at(NOW - age);
        let name = |n: u8| ["refs/heads/main", "refs/tags/v1"][usize::from(n)];
        refs.into_iter()
            .fold(signed, |signed, (n, object)| {
                signed.tag([name(n).to_owned(), oid(object).to_string()])
            })
            .event()
    })
}

fn a_proposal() -> impl Strategy<Value = VerifiedEvent> {
    (owner(), 1..=OIDS).prop_map(|(owner, commit)| pull_request(key(8), owner, oid(commit)).event())
}

fn a_project() -> impl Strategy<Value = Vec<Step>> {
    let objects = prop::collection::btree_set((1..=KEYS, 1..=OIDS), 0..8);
    (
        growing_announcements(),
        prop::collection::vec(a_state(), 0..6),
        prop::collection::vec(a_proposal(), 0..3),
        objects,
    )
        .prop_map(|(announcements, states, proposals, objects)| {
            let events = announcements.into_iter().chain(states).chain(proposals);
            let objects = objects
                .into_iter()
                .map(|(owner, object)| Step::Objects(key(owner), object));
            events.map(Step::Event).chain(objects).collect()
        })
}

fn in_two_orders() -> impl Strategy<Value = (Vec<Step>, Vec<Step>)> {
    a_project().prop_flat_map(|steps| (Just(steps.clone()), Just(steps).prop_shuffle()))
}

/// A project of which authors take some events back, each by its id or all by its address, in two orders:
/// proposals, or states in a project without any. (A proposal that was taken stays when the state goes
/// that its repository was served by; one that comes after it is refused.)
fn in_two_orders_with_requests() -> impl Strategy<Value = (Vec<Step>, Vec<Step>)> {
    let picks = prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..4);
    (a_project(), picks, any::<bool>()).prop_flat_map(|(steps, picks, of_states)| {
        let kind_of = |step: &Step| match step {
            Step::Event(event) => Some(event.kind()),
            _ => None,
        };
        let proposal = |step: &Step| kind_of(step).is_some_and(kind::is_proposal);
        let kept = |step: &Step| !(of_states && proposal(step));
        let mut steps: Vec<Step> = steps.into_iter().filter(kept).collect();
        for (index, by_address) in picks {
            let Some(Step::Event(event)) = steps.get(index.index(steps.len().max(1))) else {
                continue;
            };
            let wanted = if of_states {
                kind::STATE
            } else {
                kind::PULL_REQUEST
            };
            if event.kind() == wanted {
                let request = deletion(event, by_address);
                steps.push(Step::Event(request));
            }
        }
        let in_any_order = || Just(steps.clone()).prop_shuffle();
        (in_any_order(), in_any_order())
    })
}

fn perform(world: &mut World, step: &Step) {
    match step {
        Step::Event(event) => {
            world.submit(event);
        }
        Step::Objects(owner, object) => world.receive(*owner, &[oid(*object)]),
        Step::Wait(secs) => world.wait(*secs),
        Step::Lease(owner, held) => {
            let repository = world.view.repository(*owner);
            if *held {
                world.leased.insert(repository);
            } else {
                world.leased.remove(&repository);
            }
        }
    }
}

type Outcome = (BTreeSet<EventId>, BTreeMap<PublicKey, Option<EventId>>);

/// As sync does: what was refused is offered again until nothing changes.
fn outcome(steps: &[Step]) -> Outcome {
    let mut world = World::new();
    for step in steps {
        perform(&mut world, step);
    }
    let events = || {
        steps.iter().filter_map(|step| match step {
            Step::Event(event) => Some(event),
            _ => None,
        })
    };
    loop {
        let before = world.visible();
        let mut taken = false;
        for event in events() {
            let known = world.stage(&event.id()).is_some();
            let answer = world.submit(event);
            taken |= !known && matches!(answer, Answer::Stored | Answer::Purgatory);
        }
        if !taken && world.visible() == before {
            break;
        }
    }
    let winners = (1..=KEYS).map(|n| (key(n), world.winner_id(key(n))));
    (world.visible(), winners.collect())
}

fn an_announcement() -> impl Strategy<Value = VerifiedEvent> {
    (owner(), 0..8_u8, 0..20_u64, 0..6_u8).prop_map(|(owner, listed, age, form)| {
        let at = NOW - age;
        let end = (NOW + 100 * age).to_string();
        match form {
            0 => announcement_elsewhere(owner, at, vec![maintainers(&keys(listed))])
                .event()
                .clone(),
            1 => announcement(owner)
                .roles(keys(listed).first().copied(), &keys(listed))
                .at(at)
                .event(),
            2 => announcement(owner)
                .maintainers(&keys(listed))
                .tag(["expiration".to_owned(), end])
                .at(at)
                .event(),
            _ => announcement(owner)
                .maintainers(&keys(listed))
                .at(at)
                .event(),
        }
    })
}

/// Anything, in any order: events of all kinds, deletions of some of them, objects, time, leases.
fn a_life() -> impl Strategy<Value = Vec<Step>> {
    let event = prop_oneof![
        3 => an_announcement(),
        4 => a_state(),
        1 => a_proposal(),
        1 => owner().prop_map(|author| state(author, &[]).at(NOW - 5).event()),
    ];
    let step = prop_oneof![
        6 => event.prop_map(Step::Event),
        3 => (owner(), 1..=OIDS).prop_map(|(owner, object)| Step::Objects(owner, object)),
        2 => prop::sample::select(vec![10, 1800, 86_400, 31 * 86_400]).prop_map(Step::Wait),
        1 => (owner(), any::<bool>()).prop_map(|(owner, held)| Step::Lease(owner, held)),
    ];
    (
        prop::collection::vec(step, 1..24),
        prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..4),
    )
        .prop_map(|(mut steps, deletions)| {
            for (index, by_address) in deletions {
                let at = index.index(steps.len());
                if let Step::Event(event) = &steps[at] {
                    let request = deletion(event, by_address);
                    steps.push(Step::Event(request));
                }
            }
            steps
        })
}

fn deletion(event: &VerifiedEvent, by_address: bool) -> VerifiedEvent {
    let request = draft(kind::DELETION, event.author()).at(NOW);
    match event.address().filter(|_| by_address) {
        Some(address) => request.tag(["a".to_owned(), address]).event(),
        None => request.tag(["e".to_owned(), event.id().to_hex()]).event(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    /// Any permutation of announcements, states, proposals and objects serves the same events, and
    /// gives each repository the same winner.
    #[test]
    fn the_order_of_arrival_never_changes_the_outcome((one, other) in in_two_orders()) {
        prop_assert_eq!(outcome(&one), outcome(&other));
    }

    /// DEL-1, DEL-2: a request may come before what it is about, and means the same.
    #[test]
    fn a_deletion_means_the_same_before_and_after_what_it_deletes(
        (one, other) in in_two_orders_with_requests()
    ) {
        prop_assert_eq!(outcome(&one), outcome(&other));
    }

    /// Settled is settled, every repository whose view changes is marked, every stage ends: the world
    /// checks these after each commit.
    #[test]
    fn whatever_happens_a_commit_leaves_nothing_undone(steps in a_life()) {
        let mut world = World::new();
        for step in &steps {
            perform(&mut world, step);
        }
    }

    /// What nobody touches ends, and purgatory is empty in the end.
    #[test]
    fn everything_that_waits_has_an_end(steps in a_life()) {
        let mut world = World::new();
        for step in &steps {
            perform(&mut world, step);
        }
        world.leased.clear();
        for _ in 0..4 {
            world.wait(91 * 86_400);
        }
        let waiting = world.view.states.values().flatten().map(|entry| entry.stage);
        prop_assert!(waiting.into_iter().all(|stage| stage == grasp_core::lifecycle::Stage::Served));
        prop_assert!(world.view.uploads.is_empty());
    }
}
