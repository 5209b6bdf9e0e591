//! What announcements do to each other and to their repository (§6).

use grasp_core::PublicKey;
use grasp_core::admission::{Answer, Blacklisted, PurgatoryBound, Rejection};
use grasp_core::curation::RepositoryList;
use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::{Change, Stage};
use grasp_core::name::npub;

use crate::support::project::announcement_elsewhere;
use crate::support::world::World;
use crate::support::{Draft, NOW, REPO, announcement, announcement_of, key, oid, state};

const MINUTES_30: u64 = 1800;
const DAYS_30: u64 = 30 * 86_400;
const DAYS_90: u64 = 90 * 86_400;

fn alice() -> PublicKey {
    key(1)
}

fn bob() -> PublicKey {
    key(2)
}

/// Alice's repository, served with one commit.
fn served(more: impl Fn(Draft) -> Draft) -> (World, VerifiedEvent, VerifiedEvent) {
    let mut world = World::new();
    let announced = more(announcement(alice()).at(NOW - 50)).event();
    let signed = state(alice(), &[("refs/heads/main", oid(1))]).event();
    assert_eq!(world.submit(&announced), Answer::Purgatory);
    assert_eq!(world.submit(&signed), Answer::Purgatory);
    world.receive(alice(), &[oid(1)]);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Served));
    (world, announced, signed)
}

/// An announcement by `owner` that does not name this service.
fn elsewhere(owner: PublicKey, at: u64, maintainers: &[PublicKey]) -> VerifiedEvent {
    let tags = vec![crate::support::project::maintainers(maintainers)];
    announcement_elsewhere(owner, at, tags).event().clone()
}

fn not_listed() -> Answer {
    Rejection::ServiceNotListed.into()
}

/// ANN-2, PUR-1, case 33
#[test]
fn a_new_announcement_waits_and_has_its_repository_at_once() {
    let mut world = World::new();
    let event = announcement(alice()).event();
    assert_eq!(world.submit(&event), Answer::Purgatory);
    assert_eq!(world.stage(&event.id()), Some(Stage::Waiting));
    assert_eq!(world.deadline(&event.id()), Some(NOW + MINUTES_30));
    assert!(world.is_dirty(&world.view.repository(alice())));
    assert!(world.published.is_empty());
}

/// ANN-7, HUNT-2
#[test]
fn the_hunt_begins_later_for_a_client_than_for_sync() {
    let mut world = World::new();
    world.submit(&announcement(alice()).event());
    assert_eq!(world.hunts(), Some((NOW + 180) * 1000));
    let mut world = World::new();
    world.sync(&announcement(alice()).event());
    assert_eq!(world.hunts(), Some(NOW * 1000 + 500));
}

/// AFTER-2, case 33
#[test]
fn the_announcement_is_published_before_the_state_that_released_it() {
    let (world, announced, signed) = served(|draft| draft);
    assert_eq!(world.published, [announced.id(), signed.id()]);
    assert!(world.is_dirty(&world.view.repository(alice())));
    assert_eq!(world.hunts(), None);
}

/// PRIV-7
#[test]
fn a_private_repository_is_refused() {
    let mut world = World::new();
    let event = announcement(alice()).tag(["private", "true"]).event();
    assert_eq!(world.submit(&event), Rejection::Private.into());
    assert_eq!(world.sync(&event), Rejection::Private.into());
}

/// ANN-1, G1-2
#[test]
fn a_stranger_that_does_not_list_the_service_is_refused() {
    let (mut world, ..) = served(|draft| draft);
    assert_eq!(world.submit(&elsewhere(bob(), NOW, &[])), not_listed());
    assert_eq!(world.batch, []);
}

/// G1-2: the service in `clone` alone is not enough.
#[test]
fn both_clone_and_relays_must_name_the_service() {
    let mut world = World::new();
    assert_eq!(
        world.submit(&announcement(alice()).without("relays").event()),
        not_listed()
    );
    assert_eq!(
        world.submit(&announcement(alice()).without("clone").event()),
        not_listed()
    );
}

/// PUR-13
#[test]
fn a_full_purgatory_takes_no_more_and_evicts_nobody() {
    let mut world = World::new();
    world.load.author_announcements = 100;
    let event = announcement(alice()).event();
    let full = Rejection::PurgatoryFull(PurgatoryBound::AuthorAnnouncements);
    assert_eq!(world.submit(&event), full.into());
    world.load.author_announcements = 0;
    world.load.events = 20_000;
    let full = Rejection::PurgatoryFull(PurgatoryBound::Events);
    assert_eq!(world.submit(&event), full.into());
    assert_eq!(world.stage(&event.id()), None);
}

/// PUR-13: a replacement needs no room of its own.
#[test]
fn a_full_purgatory_still_takes_the_next_version_of_what_waits() {
    let mut world = World::new();
    world.submit(&announcement(alice()).at(NOW - 20).event());
    world.load.events = 20_000;
    let newer = announcement(alice()).at(NOW - 10).event();
    assert_eq!(world.submit(&newer), Answer::Purgatory);
}

/// ANN-4, case 34
#[test]
fn a_newer_version_replaces_the_waiting_one_and_begins_anew() {
    let mut world = World::new();
    let old = announcement(alice()).at(NOW - 20).event();
    let new = announcement(alice()).at(NOW - 10).event();
    let signed = state(alice(), &[("refs/heads/main", oid(1))]).event();
    world.submit(&old);
    world.submit(&signed);
    world.now += 600;
    assert_eq!(world.submit(&new), Answer::Purgatory);
    assert_eq!(world.stage(&old.id()), None);
    assert_eq!(world.deadline(&new.id()), Some(NOW + 600 + MINUTES_30));
    assert_eq!(world.deadline(&signed.id()), Some(NOW + 600 + MINUTES_30));
    assert_eq!(world.submit(&old), Answer::Superseded);
    assert_eq!(world.submit(&new), Answer::DuplicateWaiting);
    assert_eq!(world.sync(&new), Answer::DuplicateWaiting);
}

/// KIND-5, case 40
#[test]
fn of_two_in_one_second_the_lower_id_stays_whatever_the_order() {
    let mut versions = [
        announcement(alice()).tag(["name", "one"]).event(),
        announcement(alice()).tag(["name", "two"]).event(),
    ];
    versions.sort_by_key(VerifiedEvent::id);
    for order in [[0, 1], [1, 0]] {
        let mut world = World::new();
        for index in order {
            world.submit(&versions[index]);
        }
        world.submit(&state(alice(), &[("refs/heads/main", oid(1))]).event());
        world.receive(alice(), &[oid(1)]);
        assert_eq!(world.stage(&versions[0].id()), Some(Stage::Served));
        assert_eq!(world.stage(&versions[1].id()), None);
    }
}

/// ANN-3a
#[test]
fn a_change_of_text_is_served_at_once() {
    let (mut world, old, _) = served(|draft| draft);
    let new = announcement(alice())
        .tag(["name", "better"])
        .at(NOW)
        .event();
    assert_eq!(world.submit(&new), Answer::Stored);
    assert_eq!(world.stage(&new.id()), Some(Stage::Served));
    assert_eq!(world.stage(&old.id()), Some(Stage::Superseded));
    assert_eq!(world.deadline(&old.id()), Some(NOW + DAYS_90));
}

/// ANN-3a, case 32
#[test]
fn removal_of_authority_never_waits() {
    let (mut world, ..) = served(|draft| draft.maintainers(&[bob()]));
    let bobs = announcement(bob()).maintainers(&[alice()]).event();
    assert_eq!(world.submit(&bobs), Answer::Stored);
    let by_bob = state(bob(), &[("refs/heads/main", oid(2))]).at(NOW).event();
    world.submit(&by_bob);
    world.receive(bob(), &[oid(2)]);
    assert_eq!(world.winner_id(alice()), Some(by_bob.id()));
    let without_bob = announcement(alice()).at(NOW).event();
    assert_eq!(world.submit(&without_bob), Answer::Stored);
    assert!(world.is_dirty(&world.view.repository(alice())));
    assert_ne!(world.winner_id(alice()), Some(by_bob.id()));
    let later = state(bob(), &[("refs/heads/main", oid(3))])
        .at(NOW + 1)
        .event();
    world.submit(&later);
    world.receive(bob(), &[oid(3)]);
    assert_ne!(world.winner_id(alice()), Some(later.id()));
}

/// ANN-3: authority is given only together with data.
#[test]
fn a_new_maintainer_waits_while_the_set_has_no_served_state() {
    let (mut world, old, signed) = served(|draft| draft);
    // Carol leads from now on, but has signed nothing here.
    let lead = announcement(alice())
        .roles(Some(key(3)), &[alice()])
        .at(NOW)
        .event();
    assert_eq!(world.submit(&lead), Answer::Purgatory);
    assert_eq!(world.stage(&old.id()), Some(Stage::Served));
    assert_eq!(world.stage(&lead.id()), Some(Stage::Waiting));
    assert_eq!(world.stage(&signed.id()), Some(Stage::Served));
    let carols = announcement(key(3))
        .roles(Some(key(3)), &[alice()])
        .at(NOW)
        .event();
    assert_eq!(
        world.submit(&carols),
        Answer::Stored,
        "alice's state counts there"
    );
    assert_eq!(world.stage(&lead.id()), Some(Stage::Served));
    assert_eq!(world.stage(&old.id()), Some(Stage::Superseded));
}

/// ANN-3: the answer is a plain one where an authorised state's data is complete.
#[test]
fn a_new_maintainer_is_served_at_once_where_data_is() {
    let (mut world, ..) = served(|draft| draft);
    let new = announcement(alice()).maintainers(&[bob()]).at(NOW).event();
    assert_eq!(world.submit(&new), Answer::Stored);
}

/// MNT-9
#[test]
fn an_acceptance_needs_no_new_push() {
    let (mut world, ..) = served(|draft| draft.maintainers(&[bob()]));
    let by_bob = state(bob(), &[("refs/heads/main", oid(2))]).at(NOW).event();
    assert_eq!(world.submit(&by_bob), Rejection::NotAuthorised.into());
    let alone = announcement(bob()).at(NOW - 40).event();
    assert_eq!(world.submit(&alone), Answer::Purgatory);
    assert_eq!(world.submit(&by_bob), Answer::Purgatory);
    world.receive(alice(), &[oid(2)]);
    assert_eq!(world.stage(&by_bob.id()), Some(Stage::Waiting));
    let accepting = announcement(bob()).maintainers(&[alice()]).at(NOW).event();
    assert_eq!(world.submit(&accepting), Answer::Stored);
    assert_eq!(world.stage(&by_bob.id()), Some(Stage::Served));
    for owner in [alice(), bob()] {
        assert!(world.is_dirty(&world.view.repository(owner)));
        assert_eq!(world.winner_id(owner), Some(by_bob.id()));
    }
}

/// ANN-5
#[test]
fn a_waiting_scope_that_goes_elsewhere_is_evicted_with_its_states() {
    let mut world = World::new();
    let waiting = announcement(alice()).at(NOW - 20).event();
    let signed = state(alice(), &[("refs/heads/main", oid(1))]).event();
    world.submit(&waiting);
    world.submit(&signed);
    assert_eq!(world.submit(&elsewhere(alice(), NOW, &[])), not_listed());
    assert_eq!(world.stage(&waiting.id()), None);
    assert_eq!(world.stage(&signed.id()), None);
    assert!(world.is_dirty(&world.view.repository(alice())));
}

/// ANN-5
#[test]
fn a_state_that_another_scope_waits_for_survives_the_eviction() {
    let mut world = World::new();
    world.submit(
        &announcement(alice())
            .maintainers(&[bob()])
            .at(NOW - 20)
            .event(),
    );
    world.submit(
        &announcement(bob())
            .maintainers(&[alice()])
            .at(NOW - 20)
            .event(),
    );
    let signed = state(bob(), &[("refs/heads/main", oid(1))]).event();
    world.submit(&signed);
    world.submit(&elsewhere(alice(), NOW, &[bob()]));
    assert_eq!(world.stage(&signed.id()), Some(Stage::Waiting));
}

/// ANN-5
#[test]
fn a_served_scope_that_goes_elsewhere_is_delisted_and_held() {
    let (mut world, announced, signed) = served(|draft| draft);
    assert_eq!(world.submit(&elsewhere(alice(), NOW, &[])), not_listed());
    assert_eq!(world.stage(&announced.id()), Some(Stage::Held));
    assert_eq!(world.stage(&signed.id()), Some(Stage::Held));
    assert!(world.is_dirty(&world.view.repository(alice())));
    assert!(world.visible().is_empty());
}

/// ANN-5: an older one changes nothing.
#[test]
fn an_old_announcement_from_elsewhere_delists_nothing() {
    let (mut world, announced, _) = served(|draft| draft);
    assert_eq!(
        world.submit(&elsewhere(alice(), NOW - 80, &[])),
        not_listed()
    );
    assert_eq!(world.batch, []);
    assert_eq!(world.stage(&announced.id()), Some(Stage::Served));
    assert_eq!(
        world.submit(&announcement(alice()).at(NOW - 80).event()),
        Answer::Superseded
    );
}

/// ANN-6, MNT-7
#[test]
fn a_maintainer_s_announcement_is_served_without_a_repository() {
    let (mut world, ..) = served(|draft| draft.maintainers(&[bob()]));
    let bobs = elsewhere(bob(), NOW - 40, &[alice()]);
    assert_eq!(world.submit(&bobs), Answer::Stored);
    assert!(!world.is_dirty(&world.view.repository(bob())));
    let by_bob = state(bob(), &[("refs/heads/main", oid(2))]).at(NOW).event();
    assert_eq!(world.submit(&by_bob), Answer::Purgatory);
    world.receive(alice(), &[oid(2)]);
    assert_eq!(world.winner_id(alice()), Some(by_bob.id()));
}

/// ANN-6
#[test]
fn a_maintainer_s_announcement_waits_along_with_the_one_that_lists_it() {
    let mut world = World::new();
    world.submit(&announcement(alice()).maintainers(&[bob()]).event());
    let bobs = elsewhere(bob(), NOW - 40, &[alice()]);
    assert_eq!(world.submit(&bobs), Answer::Purgatory);
    world.submit(&state(alice(), &[("refs/heads/main", oid(1))]).event());
    world.receive(alice(), &[oid(1)]);
    assert_eq!(world.stage(&bobs.id()), Some(Stage::Served));
}

/// ANN-6
#[test]
fn a_maintainer_s_announcement_is_parked_when_nobody_lists_it_any_more_and_comes_back() {
    let (mut world, ..) = served(|draft| draft.maintainers(&[bob()]));
    let bobs = elsewhere(bob(), NOW - 40, &[alice()]);
    world.submit(&bobs);
    world.submit(&announcement(alice()).at(NOW).event());
    assert_eq!(world.stage(&bobs.id()), Some(Stage::Parked));
    assert_eq!(world.deadline(&bobs.id()), Some(NOW + DAYS_30));
    world.submit(
        &announcement(alice())
            .maintainers(&[bob()])
            .at(NOW + 1)
            .event(),
    );
    assert_eq!(world.stage(&bobs.id()), Some(Stage::Served));
}

/// ANN-1 before ANN-5: who stays a maintainer may take the own repository elsewhere.
#[test]
fn a_maintainer_who_moves_stays_a_maintainer() {
    let (mut world, ..) = served(|draft| draft.maintainers(&[bob()]));
    let here = announcement(bob()).maintainers(&[alice()]).event();
    world.submit(&here);
    let away = elsewhere(bob(), NOW, &[alice()]);
    assert_eq!(world.submit(&away), Answer::Stored);
    assert_eq!(world.stage(&here.id()), Some(Stage::Superseded));
    assert!(world.is_dirty(&world.view.repository(bob())));
}

/// DEL-12
#[test]
fn the_last_ten_replaced_versions_are_kept() {
    let (mut world, first, _) = served(|draft| draft);
    for n in 1..=11 {
        let next = announcement(alice()).tag(["name".to_owned(), n.to_string()]);
        assert_eq!(world.submit(&next.at(NOW + n).event()), Answer::Stored);
    }
    let versions = &world.view.announcements[&alice()];
    assert_eq!(versions.len(), 11);
    assert_eq!(world.stage(&first.id()), None);
    assert!(world.batch.contains(&Change::Remove { event: first.id() }));
}

/// NAME-5, case 71
#[test]
fn another_host_is_not_this_service() {
    let mut world = World::new();
    let event = announcement(alice())
        .with(["clone", "https://grasp.example.com.evil/x/project.git"])
        .event();
    assert_eq!(world.submit(&event), not_listed());
    assert_eq!(
        world.submit(&announcement_of(alice(), "..x").event()),
        Answer::Purgatory
    );
}

fn entries(names: &[&str]) -> RepositoryList {
    let entries = names.iter().map(|name| name.parse().expect("an entry"));
    entries.collect()
}

/// ANN-1: whatever it asks for, and whoever else is known here.
#[test]
fn a_blacklisted_repository_is_neither_hosted_nor_known() {
    for (names, what) in [
        (npub(&bob()), Blacklisted::Owner),
        (format!("{}/{REPO}", npub(&bob())), Blacklisted::Repository),
        (REPO.to_owned(), Blacklisted::Identifier),
    ] {
        let mut world = World::new();
        world.policy.curation.blacklist = entries(&[&names]);
        let refused = Answer::Rejected(Rejection::Blacklisted(what));
        assert_eq!(world.submit(&announcement(bob()).event()), refused);
        let elsewhere = announcement(bob()).without("clone").event();
        assert_eq!(world.submit(&elsewhere), refused);
        let other = announcement(alice()).event();
        let taken = names != REPO;
        assert_eq!(world.submit(&other) == Answer::Purgatory, taken);
    }
}

/// ANN-1, ANN-6: the whitelist says who may have a place, not who may be a maintainer.
#[test]
fn a_whitelist_is_about_what_asks_for_a_place() {
    let mut world = World::new();
    world.policy.curation.whitelist = Some(entries(&[&npub(&alice())]));
    let listed = announcement(alice()).maintainers(&[bob()]).event();
    assert_eq!(world.submit(&listed), Answer::Purgatory);
    let refused = Answer::Rejected(Rejection::NotWhitelisted);
    assert_eq!(world.submit(&announcement(bob()).event()), refused);
    let elsewhere = announcement(bob()).without("clone").event();
    assert_eq!(world.submit(&elsewhere), Answer::Purgatory);
}

/// DEL-6, ANN-5: what left comes back by its owner, or by news of it, not by a server that has not heard.
#[test]
fn old_news_of_a_scope_that_left_is_nothing_new() {
    let (mut world, announced, _) = served(|draft| draft);
    let elsewhere = announcement(alice()).without("clone").at(NOW - 10).event();
    assert_eq!(world.submit(&elsewhere), not_listed());
    assert_eq!(world.stage(&announced.id()), Some(Stage::Held));
    let at = |at| announcement(alice()).at(at).event();
    for old in [announced, at(NOW - 60)] {
        assert_eq!(world.clone().sync(&old), Answer::Superseded);
        assert_eq!(world.clone().submit(&old), Answer::Purgatory);
    }
    assert_eq!(world.clone().sync(&at(NOW - 5)), Answer::Purgatory);
    assert_eq!(world.submit(&at(NOW - 5)), Answer::Purgatory);
    assert_eq!(world.sync(&at(NOW - 4)), Answer::Purgatory, "it is here");
}

/// ANN-6: who is listed by somebody who is listed is known with them, however long the chain.
#[test]
fn a_chain_of_listed_keys_is_served_with_its_first() {
    let mut world = World::new();
    world.submit(&announcement(alice()).maintainers(&[bob()]).event());
    let chain = [2, 3, 4, 5].map(|n| {
        let lists = vec![crate::support::project::maintainers(&[key(n + 1)])];
        announcement_elsewhere(key(n), NOW, lists).event().clone()
    });
    for link in &chain {
        assert_eq!(world.submit(link), Answer::Purgatory);
    }
    world.submit(&state(alice(), &[("refs/heads/main", oid(1))]).event());
    world.receive(alice(), &[oid(1)]);
    for link in &chain {
        assert_eq!(world.stage(&link.id()), Some(Stage::Served));
    }
}

/// ANN-6: a newer word of somebody who asks for no place waits on in the place of the older.
#[test]
fn a_newer_listing_waits_as_long_as_the_one_before_it() {
    let mut world = World::new();
    let elsewhere = |owner, at| announcement_elsewhere(owner, at, vec![]).event().clone();
    world.submit(
        &announcement(alice())
            .maintainers(&[bob()])
            .at(NOW - 90)
            .event(),
    );
    let old = elsewhere(bob(), NOW - 50);
    assert_eq!(world.submit(&old), Answer::Purgatory);
    // Nobody who waits lists Bob any more.
    world.submit(&announcement(alice()).at(NOW - 40).event());
    world.now += 600;
    let new = elsewhere(bob(), NOW - 30);
    assert_eq!(world.submit(&new), Answer::Purgatory);
    assert_eq!(world.stage(&old.id()), None);
    assert_eq!(world.deadline(&new.id()), Some(NOW + MINUTES_30));
    assert_eq!(world.submit(&old), Answer::Superseded);
    assert_eq!(world.submit(&elsewhere(key(3), NOW)), not_listed());
}
