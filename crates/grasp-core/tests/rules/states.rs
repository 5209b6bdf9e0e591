//! Whose states are taken, when they are served, and what that replaces (§7, AFTER-*).

use std::collections::BTreeSet;

use grasp_core::PublicKey;
use grasp_core::admission::{Answer, PurgatoryBound, Rejection};
use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::{Change, Stage};

use crate::support::world::World;
use crate::support::{NOW, announcement, key, oid, state};

const MINUTES_30: u64 = 1800;

fn alice() -> PublicKey {
    key(1)
}

fn bob() -> PublicKey {
    key(2)
}

fn main_at(author: PublicKey, commit: u8, at: u64) -> VerifiedEvent {
    state(author, &[("refs/heads/main", oid(commit))])
        .at(at)
        .event()
}

/// Alice and Bob, who maintain the project together, with nothing pushed yet.
fn two_maintainers() -> World {
    let mut world = World::new();
    world.submit(&announcement(alice()).maintainers(&[bob()]).event());
    world.submit(&announcement(bob()).maintainers(&[alice()]).event());
    world
}

/// ST-1
#[test]
fn a_state_needs_an_announcement() {
    let mut world = World::new();
    let signed = main_at(alice(), 1, NOW);
    assert_eq!(world.submit(&signed), Rejection::NoAnnouncement.into());
    world.submit(&announcement(bob()).event());
    assert_eq!(world.submit(&signed), Rejection::NotAuthorised.into());
    assert_eq!(world.batch, []);
}

/// MNT-8: to be invited is not to be confirmed.
#[test]
fn an_invited_key_has_no_authority() {
    let mut world = World::new();
    world.submit(&announcement(alice()).maintainers(&[bob()]).event());
    assert_eq!(
        world.submit(&main_at(bob(), 1, NOW)),
        Rejection::NotAuthorised.into()
    );
}

/// ST-2, PUR-3
#[test]
fn a_state_prolongs_the_wait_of_the_announcements_it_concerns() {
    let mut world = World::new();
    let announced = announcement(alice()).event();
    let stranger = announcement(key(9)).event();
    world.submit(&announced);
    world.submit(&stranger);
    world.now += 1000;
    assert_eq!(world.submit(&main_at(alice(), 1, NOW)), Answer::Purgatory);
    assert_eq!(
        world.deadline(&announced.id()),
        Some(NOW + 1000 + MINUTES_30)
    );
    assert_eq!(world.deadline(&stranger.id()), Some(NOW + MINUTES_30));
    let moves = |change: &Change| matches!(change, Change::Move { .. });
    assert!(!world.batch.iter().any(moves), "nothing arrives anew");
    assert_eq!(world.hunts(), Some((NOW + 1000 + 180) * 1000));
}

/// PUR-5
#[test]
fn an_authorised_state_revives_a_parked_announcement() {
    let mut world = World::new();
    let announced = announcement(alice()).event();
    world.submit(&announced);
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Parked));
    assert!(world.is_dirty(&world.view.repository(alice())));
    assert_eq!(world.submit(&main_at(alice(), 1, NOW)), Answer::Purgatory);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Waiting));
    assert_eq!(world.deadline(&announced.id()), Some(NOW + 2 * MINUTES_30));
    assert!(world.is_dirty(&world.view.repository(alice())));
}

/// ST-3
#[test]
fn a_state_whose_objects_are_here_is_served_at_once() {
    let mut world = two_maintainers();
    world.submit(&main_at(alice(), 1, NOW - 10));
    world.receive(alice(), &[oid(1), oid(2)]);
    let next = main_at(bob(), 2, NOW);
    assert_eq!(world.submit(&next), Answer::Stored);
    assert_eq!(world.hunts(), None);
    for owner in [alice(), bob()] {
        assert_eq!(world.winner_id(owner), Some(next.id()));
        assert!(world.is_dirty(&world.view.repository(owner)));
    }
}

/// ST-3: strangers with the same identifier are not searched.
#[test]
fn objects_in_a_stranger_s_repository_do_not_count() {
    let mut world = two_maintainers();
    world.submit(&announcement(key(9)).event());
    world.receive(key(9), &[oid(1)]);
    assert_eq!(world.submit(&main_at(alice(), 1, NOW)), Answer::Purgatory);
}

/// ST-7, case 25: never in part.
#[test]
fn a_state_waits_until_all_of_it_is_there() {
    let mut world = two_maintainers();
    let signed = state(
        alice(),
        &[("refs/heads/main", oid(1)), ("refs/heads/next", oid(2))],
    )
    .event();
    world.submit(&signed);
    world.receive(alice(), &[oid(1)]);
    world.receive(bob(), &[oid(2)]);
    assert_eq!(
        world.stage(&signed.id()),
        Some(Stage::Waiting),
        "in two halves"
    );
    world.receive(alice(), &[oid(2)]);
    assert_eq!(world.stage(&signed.id()), Some(Stage::Served));
}

/// Case 23: branches and tags alike.
#[test]
fn a_tag_on_an_abandoned_line_is_part_of_the_state() {
    let mut world = two_maintainers();
    let refs = [("refs/heads/main", oid(1)), ("refs/tags/v0.9", oid(2))];
    let signed = state(alice(), &refs)
        .tag(["refs/tags/v0.9^{}", &oid(3).to_string()])
        .event();
    world.submit(&signed);
    world.receive(bob(), &[oid(1)]);
    assert_eq!(world.stage(&signed.id()), Some(Stage::Waiting));
    world.receive(bob(), &[oid(2)]);
    assert_eq!(world.stage(&signed.id()), Some(Stage::Served));
}

/// KIND-3
#[test]
fn a_state_that_nothing_can_satisfy_waits_and_is_never_served() {
    let mut world = two_maintainers();
    let signed = state(alice(), &[("refs/heads/main", oid(1))])
        .tag(["refs/heads/odd", "not an object"])
        .event();
    assert_eq!(world.submit(&signed), Answer::Purgatory);
    world.receive(alice(), &[oid(1)]);
    assert_eq!(world.stage(&signed.id()), Some(Stage::Waiting));
}

/// KIND-6
#[test]
fn an_empty_state_releases_no_announcement() {
    let mut world = World::new();
    let announced = announcement(alice()).event();
    let empty = state(alice(), &[]).at(NOW).event();
    world.submit(&announced);
    assert_eq!(world.submit(&empty), Answer::Purgatory);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Waiting));
}

/// KIND-6
#[test]
fn an_empty_state_empties_a_served_repository() {
    let mut world = two_maintainers();
    world.submit(&main_at(alice(), 1, NOW - 10));
    world.receive(alice(), &[oid(1)]);
    let empty = state(alice(), &[]).at(NOW).event();
    assert_eq!(world.submit(&empty), Answer::Stored);
    assert_eq!(world.winner_id(bob()), Some(empty.id()));
}

/// ST-1, PUSH-14
#[test]
fn older_than_the_author_s_own_served_state_is_superseded() {
    let mut world = two_maintainers();
    world.submit(&main_at(alice(), 2, NOW));
    world.receive(alice(), &[oid(2)]);
    assert_eq!(
        world.submit(&main_at(alice(), 1, NOW - 10)),
        Answer::Superseded
    );
    assert_eq!(world.batch, []);
}

/// ST-6, PUSH-14: purgatory takes a losing state of another maintainer, and serves it without
/// moving a ref.
#[test]
fn a_state_that_loses_to_another_maintainer_s_is_served_and_moves_nothing() {
    let mut world = two_maintainers();
    let winner = main_at(alice(), 2, NOW);
    world.submit(&winner);
    world.receive(alice(), &[oid(2)]);
    let losing = main_at(bob(), 1, NOW - 10);
    assert_eq!(world.submit(&losing), Answer::Purgatory);
    world.receive(bob(), &[oid(1)]);
    assert_eq!(world.stage(&losing.id()), Some(Stage::Served));
    for owner in [alice(), bob()] {
        assert_eq!(world.winner_id(owner), Some(winner.id()));
        assert!(!world.is_dirty(&world.view.repository(owner)));
    }
}

/// ST-6: a client may sign the next before the data of the first arrived.
#[test]
fn several_states_of_one_author_wait_side_by_side() {
    let mut world = two_maintainers();
    let first = main_at(alice(), 1, NOW - 20);
    let second = main_at(alice(), 2, NOW - 10);
    world.submit(&first);
    world.submit(&second);
    world.receive(alice(), &[oid(1)]);
    assert_eq!(world.stage(&first.id()), Some(Stage::Served));
    assert_eq!(world.stage(&second.id()), Some(Stage::Waiting));
    world.receive(alice(), &[oid(2)]);
    assert_eq!(world.stage(&first.id()), Some(Stage::Superseded));
    assert_eq!(world.stage(&second.id()), Some(Stage::Served));
}

/// AFTER-3: what would be replaced in the same commit is never seen.
#[test]
fn of_one_author_only_the_newest_is_published() {
    let mut world = two_maintainers();
    let first = main_at(alice(), 1, NOW - 20);
    let second = main_at(alice(), 2, NOW - 10);
    world.submit(&first);
    world.submit(&second);
    world.published.clear();
    world.facts.add(world.view.repository(alice()), oid(1));
    world.receive(alice(), &[oid(2)]);
    assert_eq!(world.stage(&first.id()), Some(Stage::Superseded));
    assert!(!world.published.contains(&first.id()));
    assert!(world.published.contains(&second.id()));
}

/// AFTER-4
#[test]
fn what_a_served_state_overtakes_is_dropped_if_it_is_incomplete() {
    let mut world = two_maintainers();
    let first = main_at(alice(), 1, NOW - 20);
    let others = main_at(bob(), 3, NOW - 30);
    let second = main_at(alice(), 2, NOW - 10);
    for signed in [&first, &others, &second] {
        world.submit(signed);
    }
    world.receive(alice(), &[oid(2)]);
    assert_eq!(world.stage(&first.id()), None);
    assert_eq!(world.stage(&others.id()), Some(Stage::Waiting));
}

/// AFTER-2, AFTER-3: whatever their ids are.
#[test]
fn announcements_are_published_first_and_states_oldest_first() {
    for n in 0..8_u8 {
        let mut world = two_maintainers();
        let old = main_at(alice(), 1, NOW - 30 - u64::from(n));
        let new = main_at(bob(), 2, NOW - 10);
        world.submit(&new);
        world.submit(&old);
        let announcements: Vec<_> = world.view.announcements.values().flatten().collect();
        let announced: BTreeSet<_> = announcements.iter().map(|entry| entry.id()).collect();
        world.facts.add(world.view.repository(alice()), oid(1));
        world.receive(alice(), &[oid(2)]);
        let states = world.published.split_off(2);
        assert_eq!(states, [old.id(), new.id()]);
        assert_eq!(announced, world.published.iter().copied().collect());
        for owner in [alice(), bob()] {
            assert_eq!(world.winner_id(owner), Some(new.id()));
        }
    }
}

/// Case 42
#[test]
fn of_fifty_versions_in_any_order_the_newest_is_served_alone() {
    let mut world = two_maintainers();
    world.submit(&main_at(alice(), 1, NOW - 500));
    world.receive(alice(), &[oid(1)]);
    let versions: Vec<VerifiedEvent> = (0..50)
        .map(|n| main_at(alice(), 1, NOW - 300 + n))
        .collect();
    for n in 0..50 {
        let answer = world.submit(&versions[n * 17 % 50]);
        assert!(matches!(answer, Answer::Stored | Answer::Superseded));
    }
    assert_eq!(world.winner_id(alice()), Some(versions[49].id()));
    // DEL-12
    let kept = world.view.states[&alice()].len();
    assert_eq!(kept, 11, "the served one and ten replaced ones");
}

/// Case 38
#[test]
fn a_state_that_came_first_is_taken_once_its_announcement_is_here() {
    let mut world = World::new();
    let signed = main_at(alice(), 1, NOW);
    assert_eq!(world.sync(&signed), Rejection::NoAnnouncement.into());
    world.sync(&announcement(alice()).event());
    assert_eq!(world.sync(&signed), Answer::Purgatory);
    assert_eq!(world.hunts(), Some(NOW * 1000 + 500), "case 35");
}

/// PUR-13
#[test]
fn a_full_purgatory_refuses_what_would_wait_and_takes_what_would_not() {
    let mut world = two_maintainers();
    world.facts.add(world.view.repository(alice()), oid(1));
    world.load.author_events = 1000;
    let full = Rejection::PurgatoryFull(PurgatoryBound::AuthorEvents);
    assert_eq!(world.submit(&main_at(alice(), 2, NOW - 10)), full.into());
    assert_eq!(world.submit(&main_at(alice(), 1, NOW)), Answer::Stored);
}

/// EV-5, case 47
#[test]
fn the_same_state_again_is_a_duplicate_and_changes_nothing() {
    let mut world = two_maintainers();
    let signed = main_at(alice(), 1, NOW);
    world.submit(&signed);
    assert_eq!(world.submit(&signed), Answer::DuplicateWaiting);
    assert_eq!(world.batch, []);
    world.receive(alice(), &[oid(1)]);
    assert_eq!(world.submit(&signed), Answer::Duplicate);
    assert_eq!(world.sync(&signed), Answer::Duplicate);
}

/// MNT-9, ST-4: losing the last authorised state freezes; nothing is promoted from elsewhere.
#[test]
fn a_repository_that_loses_its_winner_keeps_its_announcement() {
    let mut world = two_maintainers();
    world.submit(&main_at(bob(), 1, NOW - 10));
    world.receive(bob(), &[oid(1)]);
    let alone = announcement(alice()).at(NOW).event();
    assert_eq!(world.submit(&alone), Answer::Stored);
    assert_eq!(world.winner_id(alice()), None);
    assert_eq!(world.stage(&alone.id()), Some(Stage::Served));
}

/// AFTER-4, DEL-12
#[test]
fn a_replaced_state_is_kept_for_ninety_days() {
    let mut world = two_maintainers();
    let old = main_at(alice(), 1, NOW - 10);
    world.submit(&old);
    world.receive(alice(), &[oid(1), oid(2)]);
    world.submit(&main_at(alice(), 2, NOW));
    assert_eq!(world.deadline(&old.id()), Some(NOW + 90 * 86_400));
    assert_eq!(world.submit(&old), Answer::Superseded);
    world.wait(90 * 86_400);
    assert_eq!(world.stage(&old.id()), None);
    assert!(
        !world
            .batch
            .iter()
            .any(|change| matches!(change, Change::Mark { .. }))
    );
}
