//! What becomes of things whose git data does not arrive (§10).

use grasp_core::PublicKey;
use grasp_core::admission::{Answer, PurgatoryBound, Rejection};
use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::{Change, Stage};
use grasp_core::name::npub;

use crate::support::project::{announcement_elsewhere, maintainers, prs_repo};
use crate::support::world::World;
use crate::support::{HOST, NOW, REPO, announcement, key, oid, pull_request, state};

const MINUTES_30: u64 = 1800;
const DAY: u64 = 86_400;

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

/// Alice's repository with one served commit; she lists Bob, and Bob lists her.
fn served() -> World {
    let mut world = World::new();
    world.submit(&announcement(alice()).maintainers(&[bob()]).event());
    world.submit(&announcement(bob()).maintainers(&[alice()]).event());
    world.submit(&main_at(alice(), 1, NOW - 50));
    world.receive(alice(), &[oid(1)]);
    world
}

fn is_marked(world: &World, event: &VerifiedEvent) -> bool {
    world.marks.contains_key(&event.id())
}

/// PUR-1, PUR-4, PUR-6
#[test]
fn an_announcement_loses_its_repository_first_and_is_forgotten_a_day_later() {
    let mut world = World::new();
    let announced = announcement(alice()).event();
    world.submit(&announced);
    world.wait(MINUTES_30 - 1);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Waiting));
    world.wait(1);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Parked));
    assert!(world.is_dirty(&world.view.repository(alice())));
    assert!(!is_marked(&world, &announced), "PUR-8");
    world.wait(DAY);
    assert_eq!(world.stage(&announced.id()), None);
    assert_eq!(
        world
            .marks
            .get(&announced.id())
            .map(grasp_core::Timestamp::as_secs),
        Some(NOW + MINUTES_30 + DAY + 7 * DAY)
    );
}

/// PUR-8
#[test]
fn what_expired_comes_back_by_a_client_and_not_by_sync() {
    let mut world = World::new();
    let announced = announcement(alice()).event();
    world.submit(&announced);
    world.wait(MINUTES_30);
    world.wait(DAY);
    assert_eq!(world.sync(&announced), Rejection::PreviouslyExpired.into());
    assert_eq!(world.submit(&announced), Answer::Purgatory);
}

/// PUR-15
#[test]
fn a_client_that_sends_a_parked_announcement_again_has_its_repository_made_again() {
    let mut world = World::new();
    let announced = announcement(alice()).event();
    world.submit(&announced);
    world.wait(MINUTES_30);
    assert_eq!(world.sync(&announced), Answer::DuplicateWaiting);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Parked));
    assert_eq!(world.submit(&announced), Answer::Purgatory);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Waiting));
    assert!(world.is_dirty(&world.view.repository(alice())));
}

/// PUR-15, PUR-13
#[test]
fn coming_back_from_parked_needs_room_too() {
    let mut world = World::new();
    let announced = announcement(alice()).event();
    world.submit(&announced);
    world.wait(MINUTES_30);
    world.load.events = 20_000;
    let full = Rejection::PurgatoryFull(PurgatoryBound::Events);
    assert_eq!(world.submit(&announced), full.into());
    assert_eq!(world.stage(&announced.id()), Some(Stage::Parked));
}

/// PUR-2, PUR-7, case 39
#[test]
fn nothing_expires_under_a_lease_but_for_a_day_at_most() {
    let mut world = World::new();
    let announced = announcement(alice()).event();
    let signed = main_at(alice(), 1, NOW);
    world.submit(&announced);
    world.submit(&signed);
    let repository = world.view.repository(alice());
    world.leased.insert(repository);
    world.wait(MINUTES_30 + DAY - 1);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Waiting));
    assert_eq!(world.stage(&signed.id()), Some(Stage::Waiting));
    world.wait(1);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Parked));
    assert_eq!(world.stage(&signed.id()), None);
}

/// PUR-8, ST-5
#[test]
fn a_state_of_a_scope_that_was_never_served_goes_and_is_marked() {
    let mut world = World::new();
    world.submit(&announcement(alice()).event());
    let signed = main_at(alice(), 1, NOW);
    world.submit(&signed);
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&signed.id()), None);
    assert!(is_marked(&world, &signed));
    assert_eq!(world.sync(&signed), Rejection::PreviouslyExpired.into());
    assert_eq!(world.submit(&signed), Answer::Purgatory, "ST-5");
}

/// PUR-15
#[test]
fn the_newest_state_owed_to_a_served_scope_is_parked_for_thirty_days() {
    let mut world = served();
    let older = main_at(bob(), 2, NOW - 20);
    let newest = main_at(bob(), 3, NOW - 10);
    world.submit(&older);
    world.submit(&newest);
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&older.id()), None);
    assert!(is_marked(&world, &older));
    assert_eq!(world.stage(&newest.id()), Some(Stage::Parked));
    assert!(!is_marked(&world, &newest));
    world.wait(30 * DAY);
    assert_eq!(world.stage(&newest.id()), None);
    assert!(is_marked(&world, &newest));
}

/// PUR-15
#[test]
fn a_parked_state_is_served_when_its_data_arrives() {
    let mut world = served();
    let signed = main_at(bob(), 2, NOW);
    world.submit(&signed);
    world.wait(MINUTES_30);
    world.receive(alice(), &[oid(2)]);
    assert_eq!(world.stage(&signed.id()), Some(Stage::Served));
    assert_eq!(world.winner_id(alice()), Some(signed.id()));
}

/// PUR-15
#[test]
fn a_client_that_sends_a_parked_state_again_makes_it_wait_again() {
    let mut world = served();
    let signed = main_at(bob(), 2, NOW);
    world.submit(&signed);
    world.wait(MINUTES_30);
    assert_eq!(world.sync(&signed), Answer::DuplicateWaiting);
    assert_eq!(world.submit(&signed), Answer::Purgatory);
    assert_eq!(world.stage(&signed.id()), Some(Stage::Waiting));
    assert!(world.hunts().is_some());
}

/// PUR-15
#[test]
fn only_the_newest_expired_state_of_an_author_stays_parked() {
    let mut world = served();
    let first = main_at(bob(), 2, NOW - 20);
    world.submit(&first);
    world.wait(MINUTES_30);
    let second = main_at(bob(), 3, NOW - 10);
    world.submit(&second);
    assert_eq!(world.stage(&first.id()), Some(Stage::Parked));
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&first.id()), None);
    assert_eq!(world.stage(&second.id()), Some(Stage::Parked));
}

/// KIND-3: nobody is owed what cannot exist.
#[test]
fn a_state_that_nothing_can_satisfy_is_not_parked() {
    let mut world = served();
    let signed = state(bob(), &[])
        .tag(["refs/heads/main", "nonsense"])
        .at(NOW)
        .event();
    world.submit(&signed);
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&signed.id()), None);
}

/// ANN-3b
#[test]
fn a_waiting_replacement_never_gives_authority_back_by_expiring() {
    let mut world = served();
    // Carol gets the lead and Bob loses his place; nobody has a served state in that set.
    let replacement = announcement(alice())
        .roles(Some(key(3)), &[alice()])
        .at(NOW)
        .event();
    assert_eq!(world.submit(&replacement), Answer::Purgatory);
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&replacement.id()), Some(Stage::Parked));
    assert_eq!(world.deadline(&replacement.id()), None);
    assert!(!world.is_dirty(&world.view.repository(alice())));
    assert_eq!(world.winner_id(alice()), None, "frozen");
    world.wait(10 * DAY);
    assert_eq!(world.stage(&replacement.id()), Some(Stage::Parked));
    let carols = announcement(key(3)).roles(Some(key(3)), &[alice()]).event();
    world.submit(&carols);
    assert_eq!(world.stage(&replacement.id()), Some(Stage::Served));
}

/// PUR-4: one that only adds authority goes like any other, and touches no served repository.
#[test]
fn a_waiting_replacement_that_takes_nothing_is_soft_expired() {
    let mut world = World::new();
    let first = announcement(alice()).at(NOW - 30).event();
    world.submit(&first);
    world.submit(&main_at(alice(), 1, NOW - 50));
    world.receive(alice(), &[oid(1)]);
    let pull = announcement(alice())
        .roles(Some(bob()), &[alice()])
        .at(NOW)
        .event();
    assert_eq!(world.submit(&pull), Answer::Purgatory);
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&pull.id()), Some(Stage::Parked));
    assert_eq!(world.stage(&first.id()), Some(Stage::Served));
    assert!(!world.is_dirty(&world.view.repository(alice())));
}

/// ANN-6
#[test]
fn a_maintainer_s_announcement_expires_with_the_one_that_lists_it() {
    let mut world = World::new();
    let listed = announcement(alice()).maintainers(&[bob(), key(3)]);
    world.submit(&listed.event());
    let elsewhere = |owner| announcement_elsewhere(owner, NOW, vec![maintainers(&[alice()])]);
    let bobs = elsewhere(bob()).event().clone();
    world.submit(&bobs);
    world.wait(1000);
    world.submit(&main_at(alice(), 1, NOW));
    world.wait(200);
    world.submit(elsewhere(key(3)).event()); // Waits longest, and supports nobody.
    world.wait(600);
    assert_eq!(world.stage(&bobs.id()), Some(Stage::Waiting));
    assert_eq!(world.deadline(&bobs.id()), Some(NOW + 1000 + MINUTES_30));
    world.wait(1000);
    assert_eq!(world.stage(&bobs.id()), None);
}

/// PUR-15
#[test]
fn an_open_pull_request_of_a_served_scope_is_parked() {
    let mut world = served();
    let request = pull_request(key(5), alice(), oid(7)).event();
    assert_eq!(world.submit(&request), Answer::Purgatory);
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&request.id()), Some(Stage::Parked));
    assert_eq!(world.submit(&request), Answer::Purgatory);
    assert_eq!(world.stage(&request.id()), Some(Stage::Waiting));
    world.wait(MINUTES_30);
    world.wait(30 * DAY);
    assert_eq!(world.stage(&request.id()), None);
    assert!(is_marked(&world, &request));
}

/// PUR-15: at most a hundred.
#[test]
fn no_more_than_a_hundred_pull_requests_are_parked() {
    let mut world = served();
    for n in 0..=100_u8 {
        let request = pull_request(key(5), alice(), oid(n + 7)).at(NOW - u64::from(n));
        world.submit(&request.event());
    }
    world.wait(MINUTES_30);
    let stages: Vec<Stage> = world
        .view
        .proposals
        .values()
        .map(|entry| entry.stage)
        .collect();
    assert_eq!(stages, vec![Stage::Parked; 100]);
    assert_eq!(world.marks.len(), 1);
}

/// PR-4, PUR-9, case 37
#[test]
fn an_upload_whose_event_does_not_come_goes_with_its_ref() {
    let mut world = served();
    let repository = world.view.repository(alice());
    let event = pull_request(key(5), alice(), oid(7)).event().id();
    world.upload(event, oid(7), repository.clone());
    world.leased.insert(repository.clone());
    world.wait(MINUTES_30);
    assert_eq!(world.view.uploads.len(), 1, "not under a lease");
    world.leased.clear();
    world.wait(60);
    assert!(world.view.uploads.is_empty());
    assert!(world.is_dirty(&repository));
}

/// PUR-9, REF-6
#[test]
fn a_contributor_s_repository_goes_with_its_last_upload() {
    let mut world = served();
    let event = pull_request(key(5), alice(), oid(7)).event().id();
    world.upload(event, oid(7), prs_repo(key(5)));
    world.wait(MINUTES_30);
    assert!(world.is_dirty(&prs_repo(key(5))));
}

/// EV-4, DEL-2
#[test]
fn a_served_state_that_reaches_its_own_end_gives_way_to_the_one_before() {
    let mut world = served();
    let until = (NOW + 100).to_string();
    let brief = state(alice(), &[("refs/heads/main", oid(2))])
        .tag(["expiration".to_owned(), until])
        .at(NOW)
        .event();
    let before = world.winner_id(alice());
    world.submit(&brief);
    world.receive(alice(), &[oid(2)]);
    assert_eq!(world.winner_id(alice()), Some(brief.id()));
    assert_eq!(world.deadline(&brief.id()), Some(NOW + 100));
    world.wait(100);
    assert_eq!(world.stage(&brief.id()), None);
    assert_eq!(world.winner_id(alice()), before);
    assert!(world.is_dirty(&world.view.repository(alice())));
    assert!(!is_marked(&world, &brief));
}

/// EV-4: being parked outlives no event's own end, or a push could bring it back.
#[test]
fn what_is_parked_goes_at_its_own_end() {
    let mut world = served();
    let until = (NOW + MINUTES_30 + 100).to_string();
    let brief = state(bob(), &[("refs/heads/main", oid(2))])
        .tag(["expiration".to_owned(), until])
        .at(NOW)
        .event();
    world.submit(&brief);
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&brief.id()), Some(Stage::Parked));
    world.wait(100);
    assert_eq!(world.stage(&brief.id()), None);
}

/// Sweeping twice is harmless.
#[test]
fn what_is_not_due_does_not_expire() {
    let mut world = served();
    let signed = main_at(bob(), 2, NOW);
    world.submit(&signed);
    world.wait(10);
    let batch = grasp_core::purgatory::expire_all(
        &[signed.id()],
        &world.view,
        &|_| false,
        &world.facts,
        world.cx(),
    );
    assert_eq!(batch, Vec::<Change>::new());
}

/// EV-4, DEL-3: an announcement that ends by itself leaves its place to the one before it.
#[test]
fn an_announcement_that_expires_gives_its_place_back() {
    let mut world = served();
    let before = world.view.announcements[&alice()][0].item.id();
    let short = announcement(alice())
        .maintainers(&[bob()])
        .tag(["expiration".to_owned(), (NOW + 100).to_string()])
        .at(NOW)
        .event();
    assert_eq!(world.submit(&short), Answer::Stored);
    assert_eq!(world.stage(&before), Some(Stage::Superseded));
    world.wait(99);
    assert_eq!(world.stage(&short.id()), Some(Stage::Served));
    world.wait(1);
    assert_eq!(world.stage(&short.id()), None);
    assert_eq!(world.stage(&before), Some(Stage::Served));
}

/// PUR-4, ANN-3b: one that takes no authority away ends like any other, although an older is served.
#[test]
fn what_only_adds_to_the_served_version_ends_a_day_later() {
    let mut world = served();
    let two_leads = |others: &[PublicKey], at| {
        let draft = announcement(alice()).roles(Some(alice()), others).at(at);
        draft.tag(["M".to_owned(), bob().to_hex()]).event()
    };
    assert_eq!(world.submit(&two_leads(&[], NOW - 20)), Answer::Stored);
    let adds = two_leads(&[key(3)], NOW - 10);
    assert_eq!(world.submit(&adds), Answer::Purgatory);
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&adds.id()), Some(Stage::Parked));
    assert_eq!(world.deadline(&adds.id()), Some(NOW + MINUTES_30 + DAY));
}

/// PUR-15, KIND-3: nothing is owed where nothing is served, nor for a commit that cannot exist.
#[test]
fn a_pull_request_that_nobody_can_show_is_forgotten() {
    let mut world = served();
    let hollow = pull_request(key(5), alice(), oid(7)).with(["c", "abc123"]);
    let hollow = hollow.event();
    assert_eq!(world.submit(&hollow), Answer::Purgatory);
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&hollow.id()), None);
    assert!(is_marked(&world, &hollow));

    let mut world = World::new();
    world.submit(&announcement(alice()).event());
    let request = pull_request(key(5), alice(), oid(7)).tag([
        "clone".to_owned(),
        format!("https://{HOST}/prs/{}/{REPO}.git", npub(&key(5))),
    ]);
    let request = request.event();
    assert_eq!(world.submit(&request), Answer::Purgatory);
    world.wait(MINUTES_30);
    assert_eq!(world.stage(&request.id()), None);
}
