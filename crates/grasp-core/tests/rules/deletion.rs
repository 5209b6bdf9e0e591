//! What a deletion request takes, and what it gives back (§11, as far as single scopes go).

use grasp_core::PublicKey;
use grasp_core::admission::{Answer, Rejection};
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::{Change, Stage, Standing};
use grasp_core::refplan::{DesiredRefs, desired};
use grasp_core::view::ObjectFacts;

use crate::support::world::World;
use crate::support::{Draft, NOW, REPO, announcement, at, draft, key, oid, pull_request, state};

const DAYS_90: u64 = 90 * 86_400;

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

/// Alice's repository with two states, the newer served.
struct Project {
    world: World,
    announced: VerifiedEvent,
    old: VerifiedEvent,
    new: VerifiedEvent,
}

fn project() -> Project {
    let mut world = World::new();
    let announced = announcement(alice()).event();
    let old = main_at(alice(), 1, NOW - 50);
    let new = main_at(alice(), 2, NOW - 40);
    world.submit(&announced);
    world.submit(&old);
    world.receive(alice(), &[oid(1), oid(2)]);
    world.submit(&new);
    assert_eq!(world.winner_id(alice()), Some(new.id()));
    Project {
        world,
        announced,
        old,
        new,
    }
}

fn deletion(author: PublicKey) -> Draft {
    draft(kind::DELETION, author).at(NOW)
}

fn of_events(author: PublicKey, events: &[&VerifiedEvent]) -> VerifiedEvent {
    events
        .iter()
        .fold(deletion(author), |request, event| {
            request.tag(["e".to_owned(), event.id().to_hex(), "wss://hint".to_owned()])
        })
        .event()
}

fn of_address(author: PublicKey, event: &VerifiedEvent) -> VerifiedEvent {
    let address = event.address().expect("addressable");
    deletion(author).tag(["a".to_owned(), address]).event()
}

/// DEL-1, case 51
#[test]
fn an_author_s_request_takes_the_event_and_is_served_itself() {
    let Project { mut world, .. } = project();
    let issue = draft(kind::ISSUE, bob())
        .tag(["a".to_owned(), format!("30617:{}:{REPO}", alice().to_hex())])
        .event();
    assert_eq!(world.submit(&issue), Answer::Stored);
    let request = of_events(bob(), &[&issue]);
    assert_eq!(world.submit(&request), Answer::Stored);
    assert_eq!(world.stage(&issue.id()), Some(Stage::Held));
    assert_eq!(world.stage(&request.id()), Some(Stage::Served));
    assert_eq!(world.standings[&request.id()], Standing::Bare);
}

/// DEL-1, case 51: refused as a whole.
#[test]
fn one_foreign_event_refuses_the_whole_request() {
    let Project {
        mut world,
        new,
        announced,
        ..
    } = project();
    let issue = draft(kind::ISSUE, bob())
        .tag(["a".to_owned(), announced.address().expect("an address")])
        .event();
    world.submit(&issue);
    let request = of_events(bob(), &[&issue, &new]);
    assert_eq!(world.submit(&request), Rejection::ForeignDeletion.into());
    assert_eq!(world.stage(&issue.id()), Some(Stage::Served));
    assert_eq!(world.stage(&new.id()), Some(Stage::Served));
    assert!(world.gates.is_empty());
}

/// DEL-1, case 54
#[test]
fn a_request_that_names_nothing_of_its_author_removes_nothing() {
    let Project {
        mut world,
        announced,
        ..
    } = project();
    let before = world.visible();
    for request in [
        deletion(bob()).event(),
        deletion(bob()).tag(["e", ""]).tag(["e"]).event(),
        deletion(bob()).tag(["a", ""]).event(),
        of_address(bob(), &announced),
        deletion(alice()).tag(["a", "30617::"]).event(),
    ] {
        assert_eq!(world.submit(&request), Answer::Stored);
    }
    assert!(world.visible().is_superset(&before));
    assert!(world.gates.is_empty() && world.address_gates.is_empty());
}

/// DEL-1
#[test]
fn an_unknown_event_is_gated_in_advance_for_its_author_alone() {
    let Project { mut world, .. } = project();
    let coming = main_at(alice(), 2, NOW - 10);
    world.submit(&of_events(bob(), &[&coming]));
    assert_eq!(world.submit(&coming), Answer::Stored, "not Bob's to delete");
    let next = main_at(alice(), 2, NOW - 5);
    world.submit(&of_events(alice(), &[&next]));
    assert_eq!(world.submit(&next), Rejection::Deleted.into());
    assert_eq!(world.sync(&next), Rejection::Deleted.into(), "case 52");
}

/// DEL-1
#[test]
fn more_targets_than_the_limit_are_refused() {
    let Project { mut world, .. } = project();
    let name = |request: Draft, n: u64| request.tag(["e".to_owned(), format!("{n:064x}")]);
    let most = (0..2048).fold(deletion(alice()), name);
    let more = (0..2049).fold(deletion(alice()), name);
    assert_eq!(
        world.submit(&more.event()),
        Rejection::TooManyTargets.into()
    );
    assert_eq!(world.submit(&most.event()), Answer::Stored);
}

/// DEL-2, REF-1
#[test]
fn deleting_the_winner_brings_back_the_state_before_it() {
    let Project {
        mut world,
        old,
        new,
        announced,
    } = project();
    assert_eq!(world.submit(&of_events(alice(), &[&new])), Answer::Stored);
    assert_eq!(world.stage(&new.id()), Some(Stage::Held));
    assert_eq!(world.deadline(&new.id()), Some(NOW + DAYS_90));
    assert_eq!(world.stage(&old.id()), Some(Stage::Served));
    assert_eq!(world.deadline(&old.id()), None);
    assert_eq!(world.winner_id(alice()), Some(old.id()));
    assert!(world.is_dirty(&world.view.repository(alice())));
    assert_eq!(world.stage(&announced.id()), Some(Stage::Served));
    assert_eq!(world.submit(&new), Rejection::Deleted.into(), "case 52");
}

/// DEL-2a: a state whose objects are gone shows nothing. One without any needs none.
#[test]
fn an_older_state_comes_back_only_with_its_objects() {
    let Project {
        mut world,
        old,
        new,
        announced,
    } = project();
    world.facts = ObjectFacts::none();
    world.submit(&of_events(alice(), &[&new]));
    assert_eq!(world.stage(&old.id()), Some(Stage::Superseded));
    assert_eq!(world.stage(&announced.id()), Some(Stage::Waiting));
    let mut world = project().world;
    let empty = state(alice(), &[]).at(NOW - 30).event();
    let after = main_at(alice(), 1, NOW - 20);
    world.submit(&empty);
    world.submit(&after);
    assert_eq!(world.winner_id(alice()), Some(after.id()));
    world.facts = ObjectFacts::none();
    world.submit(&of_events(alice(), &[&after]));
    assert_eq!(world.winner_id(alice()), Some(empty.id()));
}

/// DEL-2: a deleted version is no rollback target.
#[test]
fn deleting_both_states_at_once_brings_neither_back() {
    let Project {
        mut world,
        old,
        new,
        announced,
    } = project();
    world.submit(&of_events(alice(), &[&old, &new]));
    assert_eq!(world.stage(&old.id()), Some(Stage::Held));
    assert_eq!(world.winner_id(alice()), None);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Waiting));
    assert_eq!(world.deadline(&announced.id()), Some(NOW + 1800));
    let repository = world.view.repository(alice());
    let shown = desired(&repository, &world.view, &world.policy);
    assert!(shown.exists);
    assert_eq!(shown.refs, DesiredRefs::Empty);
    assert!(world.is_dirty(&repository));
}

/// DEL-2: another maintainer's state takes over.
#[test]
fn without_a_state_of_its_own_the_repository_follows_the_other_maintainers() {
    let Project {
        mut world,
        old,
        new,
        ..
    } = project();
    world.submit(
        &announcement(alice())
            .maintainers(&[bob()])
            .at(NOW - 30)
            .event(),
    );
    world.submit(&announcement(bob()).maintainers(&[alice()]).event());
    let bobs = main_at(bob(), 1, NOW - 60);
    world.submit(&bobs);
    world.submit(&of_events(alice(), &[&old, &new]));
    assert_eq!(world.winner_id(alice()), Some(bobs.id()));
}

/// DEL-3
#[test]
fn deleting_an_announcement_brings_back_its_previous_version() {
    let Project {
        mut world,
        announced,
        new,
        ..
    } = project();
    let renamed = announcement(alice())
        .tag(["name", "other"])
        .at(NOW - 10)
        .event();
    world.submit(&renamed);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Superseded));
    world.submit(&of_events(alice(), &[&renamed]));
    assert_eq!(world.stage(&renamed.id()), Some(Stage::Held));
    assert_eq!(world.stage(&announced.id()), Some(Stage::Served));
    assert_eq!(world.winner_id(alice()), Some(new.id()));
}

/// DEL-3: a key that was dropped does not return with the old version.
#[test]
fn no_authority_comes_back_with_an_old_version() {
    let Project { mut world, .. } = project();
    world.submit(
        &announcement(alice())
            .maintainers(&[bob()])
            .at(NOW - 30)
            .event(),
    );
    world.submit(&announcement(bob()).maintainers(&[alice()]).event());
    let without = announcement(alice()).at(NOW - 20).event();
    world.submit(&without);
    world.submit(&of_events(alice(), &[&without]));
    let bobs = main_at(bob(), 1, NOW);
    world.submit(&bobs);
    world.receive(bob(), &[oid(1)]);
    assert_eq!(world.winner_id(bob()), Some(bobs.id()));
    assert_ne!(world.winner_id(alice()), Some(bobs.id()));
}

/// DEL-3: nor with time, until the owner announces again.
#[test]
fn the_deleted_version_is_kept_as_long_as_it_withholds_authority() {
    let Project { mut world, .. } = project();
    world.submit(
        &announcement(alice())
            .maintainers(&[bob()])
            .at(NOW - 30)
            .event(),
    );
    world.submit(&announcement(bob()).maintainers(&[alice()]).event());
    let without = announcement(alice()).at(NOW - 20).event();
    world.submit(&without);
    world.submit(&of_events(alice(), &[&without]));
    for _ in 0..3 {
        world.wait(DAYS_90);
        assert_eq!(world.stage(&without.id()), Some(Stage::Held));
    }
    let again = announcement(alice())
        .maintainers(&[bob()])
        .at(world.now)
        .event();
    assert_eq!(world.submit(&again), Answer::Stored);
    world.wait(DAYS_90);
    assert_eq!(world.stage(&without.id()), None);
}

/// ANN-3b, DEL-3: a withdrawal that waits is not undone by deleting it either.
#[test]
fn deleting_a_waiting_withdrawal_gives_nothing_back() {
    let Project { mut world, .. } = project();
    world.submit(
        &announcement(alice())
            .maintainers(&[bob()])
            .at(NOW - 30)
            .event(),
    );
    world.submit(&announcement(bob()).maintainers(&[alice()]).event());
    let withdrawal = announcement(alice())
        .roles(Some(key(3)), &[alice()])
        .at(NOW - 20)
        .event();
    assert_eq!(world.submit(&withdrawal), Answer::Purgatory);
    world.submit(&of_events(alice(), &[&withdrawal]));
    assert_eq!(world.stage(&withdrawal.id()), Some(Stage::Held));
    let bobs = main_at(bob(), 1, NOW);
    world.submit(&bobs);
    world.receive(bob(), &[oid(1)]);
    assert_ne!(world.winner_id(alice()), Some(bobs.id()));
}

/// ANN-3b, PUR-6: what a parked withdrawal held back is gone with the served version; from then on it ends.
#[test]
fn a_parked_withdrawal_ends_a_day_after_no_older_version_is_served() {
    let Project {
        mut world,
        announced,
        ..
    } = project();
    let withdrawal = announcement(alice())
        .roles(Some(key(3)), &[])
        .at(NOW - 20)
        .event();
    assert_eq!(world.submit(&withdrawal), Answer::Purgatory);
    world.wait(1800);
    assert_eq!(world.stage(&withdrawal.id()), Some(Stage::Parked));
    assert_eq!(world.deadline(&withdrawal.id()), None);
    world.submit(&of_events(alice(), &[&announced]));
    assert_eq!(world.stage(&withdrawal.id()), Some(Stage::Parked));
    assert_eq!(world.deadline(&withdrawal.id()), Some(NOW + 1800 + 86_400));
}

/// EV-4, DEL-5: what is held is kept as long as ever, and its own end, reached meanwhile, deletes it no second time.
#[test]
fn a_deleted_announcement_that_expires_is_deleted_once() {
    let Project {
        mut world,
        announced,
        ..
    } = project();
    let until = (NOW + 5000).to_string();
    let expiring = announcement(alice())
        .at(NOW - 10)
        .tag(["expiration".to_owned(), until])
        .event();
    world.submit(&expiring);
    assert_eq!(world.stage(&expiring.id()), Some(Stage::Served));
    world.submit(&of_events(alice(), &[&expiring, &announced]));
    assert_eq!(world.stage(&expiring.id()), Some(Stage::Held));
    world.wait(5000);
    assert_eq!(world.stage(&expiring.id()), Some(Stage::Held));
    world.wait(DAYS_90 - 5000);
    assert_eq!(world.stage(&expiring.id()), None);
    assert_eq!(world.stage(&announced.id()), None);
}

/// DEL-3: without a version before it the repository goes, what depends on it stays.
#[test]
fn deleting_the_only_announcement_takes_the_repository_and_leaves_the_state() {
    let Project {
        mut world,
        announced,
        new,
        ..
    } = project();
    world.submit(&of_events(alice(), &[&announced]));
    assert_eq!(world.stage(&announced.id()), Some(Stage::Held));
    assert_eq!(world.stage(&new.id()), Some(Stage::Served));
    let repository = world.view.repository(alice());
    assert!(world.is_dirty(&repository));
    assert!(!desired(&repository, &world.view, &world.policy).exists);
}

/// The state that outlived its repository is no evidence of data in a new one.
#[test]
fn announcing_again_after_a_deletion_waits_for_data() {
    let Project {
        mut world,
        announced,
        ..
    } = project();
    world.submit(&of_events(alice(), &[&announced]));
    world.facts = grasp_core::view::ObjectFacts::none();
    let again = announcement(alice()).at(NOW + 1).event();
    assert_eq!(world.submit(&again), Answer::Purgatory);
    world.receive(alice(), &[oid(2)]);
    assert_eq!(world.stage(&again.id()), Some(Stage::Served));
}

/// DEL-1, PUR-10
#[test]
fn deleting_an_address_takes_all_versions_up_to_the_request() {
    let Project {
        mut world,
        announced,
        new,
        ..
    } = project();
    let renamed = announcement(alice())
        .tag(["name", "other"])
        .at(NOW - 10)
        .event();
    world.submit(&renamed);
    world.submit(&of_address(alice(), &announced));
    assert_eq!(world.stage(&announced.id()), Some(Stage::Held));
    assert_eq!(world.stage(&renamed.id()), Some(Stage::Held));
    assert_eq!(
        world.stage(&new.id()),
        Some(Stage::Held),
        "nothing announces it"
    );
    assert!(world.is_dirty(&world.view.repository(alice())));
    assert_eq!(world.submit(&renamed), Rejection::Deleted.into());
    assert_eq!(
        world.submit(&announcement(alice()).at(NOW + 1).event()),
        Answer::Purgatory,
        "what is newer than the request is not gated"
    );
}

/// DEL-1
#[test]
fn a_version_newer_than_the_request_stays() {
    let Project {
        mut world,
        announced,
        ..
    } = project();
    let newer = announcement(alice())
        .tag(["name", "new"])
        .at(NOW + 10)
        .event();
    world.submit(&newer);
    world.submit(&of_address(alice(), &announced));
    assert_eq!(world.stage(&newer.id()), Some(Stage::Served));
    assert_eq!(world.stage(&announced.id()), Some(Stage::Held));
}

/// DEL-2, PUR-10
#[test]
fn deleting_all_states_by_address_sends_the_announcement_back() {
    let Project {
        mut world,
        new,
        announced,
        ..
    } = project();
    world.submit(&of_address(alice(), &new));
    assert_eq!(world.winner_id(alice()), None);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Waiting));
}

/// PUR-10
#[test]
fn what_waits_is_removed_for_good() {
    let mut world = World::new();
    let announced = announcement(alice()).event();
    let signed = main_at(alice(), 1, NOW - 10);
    world.submit(&announced);
    world.submit(&signed);
    world.submit(&of_events(alice(), &[&signed]));
    assert_eq!(world.stage(&signed.id()), None);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Waiting));
    world.submit(&of_address(alice(), &announced));
    assert_eq!(world.stage(&announced.id()), None);
    assert!(world.is_dirty(&world.view.repository(alice())));
}

/// PUR-10: nothing of it is held, so nothing comes back.
#[test]
fn a_waiting_pull_request_is_removed_for_good() {
    let Project { mut world, .. } = project();
    let waiting = pull_request(key(5), alice(), oid(9)).event();
    assert_eq!(world.submit(&waiting), Answer::Purgatory);
    world.submit(&of_events(key(5), &[&waiting]));
    assert_eq!(world.stage(&waiting.id()), None);
}

/// PUR-10: of a scope in purgatory the states go with it.
#[test]
fn deleting_a_waiting_scope_takes_its_waiting_states() {
    let mut world = World::new();
    let announced = announcement(alice()).event();
    let signed = main_at(alice(), 1, NOW - 10);
    world.submit(&announced);
    world.submit(&signed);
    world.submit(&of_address(alice(), &announced));
    assert_eq!(world.stage(&signed.id()), None);
}

/// REF-3
#[test]
fn a_deleted_pull_request_loses_its_ref() {
    let Project { mut world, .. } = project();
    let request = pull_request(bob(), alice(), oid(1)).event();
    assert_eq!(world.submit(&request), Answer::Stored);
    world.submit(&of_events(bob(), &[&request]));
    assert_eq!(world.stage(&request.id()), Some(Stage::Held));
    assert!(world.is_dirty(&world.view.repository(alice())));
    let moves = world
        .batch
        .iter()
        .filter(|change| matches!(change, Change::Move { event, .. } if *event == request.id()));
    assert_eq!(moves.count(), 1);
}

/// NIP-09: a deletion of a deletion has no effect.
#[test]
fn a_deletion_request_cannot_be_deleted() {
    let Project { mut world, old, .. } = project();
    let first = of_events(alice(), &[&old]);
    world.submit(&first);
    assert_eq!(world.submit(&of_events(alice(), &[&first])), Answer::Stored);
    assert_eq!(world.stage(&first.id()), Some(Stage::Served));
}

/// DEL-5: what was served goes to the archive, for as long as its events are held.
#[test]
fn git_of_what_was_served_is_archived_and_of_what_waited_is_not() {
    let archived = |world: &World| -> Vec<Change> {
        let archives = world.batch.iter();
        archives
            .filter(|change| matches!(change, Change::Archive { .. }))
            .cloned()
            .collect()
    };
    let Project {
        mut world,
        announced,
        ..
    } = project();
    let repository = world.view.repository(alice());
    world.submit(&of_address(alice(), &announced));
    let expected = Change::Archive {
        repository,
        since: at(NOW),
        until: at(NOW + DAYS_90),
    };
    assert_eq!(archived(&world), vec![expected.clone()]);

    // DEL-2: it waits again, and shows nothing of what it had.
    let Project {
        mut world,
        old,
        new,
        ..
    } = project();
    world.submit(&of_events(alice(), &[&old, &new]));
    assert_eq!(archived(&world), [expected]);

    // DEL-3: back to the version before is no way to leave.
    let Project { mut world, .. } = project();
    let renamed = announcement(alice()).tag(["name", "new"]).at(NOW).event();
    world.submit(&renamed);
    world.submit(&of_events(alice(), &[&renamed]));
    assert_eq!(archived(&world), []);

    let mut world = World::new();
    let waiting = announcement(alice()).event();
    world.submit(&waiting);
    world.submit(&of_address(alice(), &waiting));
    assert_eq!(archived(&world), []);
}

/// DEL-2, ANN-6: what waits already waits no longer by it, and what asks for no place here has none to lose.
#[test]
fn only_served_repositories_go_back_to_purgatory() {
    let mut world = World::new();
    world.submit(&announcement(alice()).maintainers(&[bob()]).event());
    let signed = main_at(alice(), 1, NOW - 50);
    world.submit(&signed);
    world.receive(alice(), &[oid(1)]);
    let bobs = announcement(bob()).maintainers(&[alice()]);
    let elsewhere = bobs.clone().without("clone").at(NOW - 40).event();
    assert_eq!(world.submit(&elsewhere), Answer::Stored);
    let empty = state(alice(), &[]).at(NOW - 30).event();
    assert_eq!(world.submit(&empty), Answer::Stored);
    let here = bobs.at(NOW - 20).event();
    assert_eq!(world.submit(&here), Answer::Purgatory, "KIND-6");
    world.now += 600;
    world.submit(&of_address(alice(), &signed));
    assert_eq!(world.winner_id(alice()), None);
    assert_eq!(world.stage(&elsewhere.id()), Some(Stage::Served));
    assert_eq!(world.stage(&here.id()), Some(Stage::Waiting));
    assert_eq!(world.deadline(&here.id()), Some(NOW + 1800));
}
