//! Pull requests, event first and git first (§8).

use grasp_core::admission::{Answer, PurgatoryBound, Rejection};
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::{Change, Stage, Standing};
use grasp_core::name::npub;
use grasp_core::oid::Oid;
use grasp_core::refname::RefName;
use grasp_core::refplan::desired;
use grasp_core::{EventId, PublicKey};

use crate::support::project::prs_repo;
use crate::support::world::World;
use crate::support::{HOST, NOW, REPO, announcement, draft, key, oid, pull_request, state};

fn alice() -> PublicKey {
    key(1)
}

fn bob() -> PublicKey {
    key(2)
}

/// Who contributes.
fn carol() -> PublicKey {
    key(3)
}

/// Alice's and Bob's common project, served.
fn served() -> World {
    let mut world = World::new();
    world.submit(&announcement(alice()).maintainers(&[bob()]).event());
    world.submit(&announcement(bob()).maintainers(&[alice()]).event());
    world.submit(&state(alice(), &[("refs/heads/main", oid(1))]).event());
    world.receive(alice(), &[oid(1)]);
    world
}

fn shown(world: &World, owner: PublicKey, event: EventId) -> Option<Oid> {
    let repo = world.view.repository(owner);
    let proposals = desired(&repo, &world.view, &world.policy).proposals;
    proposals.get(&RefName::proposal(&event)).copied()
}

fn hosted_by_submitter(author: PublicKey, owner: PublicKey, commit: Oid) -> VerifiedEvent {
    let url = format!("https://{HOST}/prs/{}/{REPO}.git", npub(&author));
    pull_request(author, owner, commit)
        .tag(["clone".to_owned(), url])
        .event()
}

/// PR-1
#[test]
fn a_pull_request_needs_a_commit() {
    let mut world = served();
    let request = pull_request(carol(), alice(), oid(7)).without("c").event();
    let text = world.submit(&request).to_string();
    assert_eq!(
        text,
        format!("invalid: PR event {} has no 'c' tag", request.id())
    );
}

/// PUR-13
#[test]
fn a_full_purgatory_refuses_what_would_wait_and_takes_what_would_not() {
    let mut world = served();
    world.load.author_events = 1000;
    let full = Rejection::PurgatoryFull(PurgatoryBound::AuthorEvents);
    let waiting = pull_request(carol(), alice(), oid(7)).event();
    assert_eq!(world.submit(&waiting), full.into());
    let complete = pull_request(carol(), alice(), oid(1)).event();
    assert_eq!(world.submit(&complete), Answer::Stored);
}

/// PR-1: only served announcements count.
#[test]
fn a_pull_request_for_a_repository_in_purgatory_is_refused() {
    let mut world = World::new();
    world.submit(&announcement(alice()).event());
    let request = pull_request(carol(), alice(), oid(7)).event();
    assert_eq!(world.submit(&request), Rejection::Unrelated.into());
}

/// PR-2, PR-3, AFTER-5
#[test]
fn a_pull_request_is_served_when_its_commit_arrives_and_shown_by_every_target() {
    let mut world = served();
    let request = pull_request(carol(), alice(), oid(7)).event();
    assert_eq!(world.submit(&request), Answer::Purgatory);
    assert!(world.hunts().is_some());
    assert_eq!(shown(&world, alice(), request.id()), None);
    world.receive(bob(), &[oid(7)]);
    assert_eq!(world.stage(&request.id()), Some(Stage::Served));
    for owner in [alice(), bob()] {
        assert_eq!(shown(&world, owner, request.id()), Some(oid(7)));
        assert!(world.is_dirty(&world.view.repository(owner)));
    }
}

/// PR-3
#[test]
fn a_pull_request_whose_commit_is_here_is_served_at_once() {
    let mut world = served();
    let request = pull_request(carol(), alice(), oid(1)).event();
    assert_eq!(world.submit(&request), Answer::Stored);
    assert_eq!(world.standings[&request.id()], Standing::Anchor);
    assert_eq!(world.submit(&request), Answer::Duplicate);
}

/// A commit in a stranger's repository of the same identifier is none of its business.
#[test]
fn a_stranger_s_repository_lends_no_commit() {
    let mut world = served();
    world.submit(&announcement(key(9)).event());
    world.receive(key(9), &[oid(7)]);
    let request = pull_request(carol(), alice(), oid(7)).event();
    assert_eq!(world.submit(&request), Answer::Purgatory);
}

/// PR-4, case 37
#[test]
fn a_pull_request_after_its_upload_is_served_at_once() {
    let mut world = served();
    let request = pull_request(carol(), alice(), oid(7)).event();
    let repository = world.view.repository(bob());
    world.upload(request.id(), oid(7), repository.clone());
    assert_eq!(shown(&world, bob(), request.id()), Some(oid(7)));
    assert_eq!(shown(&world, alice(), request.id()), None);
    assert_eq!(world.submit(&request), Answer::Stored);
    assert!(world.view.uploads.is_empty());
    let dropped = Change::DropUpload {
        event: request.id(),
        repository,
    };
    assert!(world.batch.contains(&dropped));
    assert_eq!(shown(&world, alice(), request.id()), Some(oid(7)));
    assert!(world.is_dirty(&world.view.repository(alice())));
}

/// PR-4, G6-8, case 31
#[test]
fn an_upload_of_another_commit_goes_and_the_event_waits() {
    let mut world = served();
    let request = pull_request(carol(), alice(), oid(7)).event();
    world.upload(request.id(), oid(8), world.view.repository(alice()));
    assert_eq!(world.submit(&request), Answer::Purgatory);
    assert!(world.view.uploads.is_empty());
    assert_eq!(shown(&world, alice(), request.id()), None);
    assert!(world.is_dirty(&world.view.repository(alice())));
}

/// KIND-3
#[test]
fn a_commit_that_cannot_exist_waits_and_is_not_served() {
    let mut world = served();
    let request = pull_request(carol(), alice(), oid(7))
        .with(["c".to_owned(), "a".repeat(64)])
        .event();
    assert_eq!(world.submit(&request), Answer::Purgatory);
    world.receive(alice(), &[oid(7)]);
    assert_eq!(world.stage(&request.id()), Some(Stage::Waiting));
}

/// G6-4
#[test]
fn a_hosted_pull_request_needs_no_accepted_announcement() {
    let mut world = World::new();
    let request = hosted_by_submitter(carol(), alice(), oid(7));
    assert_eq!(world.submit(&request), Answer::Purgatory);
    world.facts.add(prs_repo(carol()), oid(7));
    world.settle();
    assert_eq!(world.stage(&request.id()), Some(Stage::Served));
    let placed = Change::Place {
        event: request.id(),
        repository: prs_repo(carol()),
    };
    assert!(world.batch.contains(&placed));
    assert!(world.is_dirty(&prs_repo(carol())));
}

/// PR-4, G6-2
#[test]
fn a_hosted_pull_request_after_its_upload_is_placed() {
    let mut world = World::new();
    let request = hosted_by_submitter(carol(), alice(), oid(7));
    world.upload(request.id(), oid(7), prs_repo(carol()));
    assert_eq!(world.submit(&request), Answer::Stored);
    assert!(world.view.placements[&request.id()].contains(&prs_repo(carol())));
    assert!(world.view.uploads.is_empty());
}

/// G6-5
#[test]
fn no_weaker_reason_hosts_a_pull_request() {
    let mut world = World::new();
    let foreign = hosted_by_submitter(key(4), alice(), oid(7));
    let clone = foreign.first_value("clone").expect("given").to_owned();
    for weaker in [
        pull_request(carol(), alice(), oid(7)).event(),
        pull_request(carol(), alice(), oid(7))
            .tag(["clone".to_owned(), clone])
            .event(),
        draft(kind::PULL_REQUEST, carol())
            .tag(["c".to_owned(), oid(7).to_string()])
            .tag([
                "clone".to_owned(),
                format!("https://{HOST}/prs/{}/{REPO}.git", npub(&carol())),
            ])
            .event(),
    ] {
        assert_eq!(world.submit(&weaker), Rejection::Unrelated.into());
    }
    world.policy.proposals_hosted = false;
    let request = hosted_by_submitter(carol(), alice(), oid(7));
    assert_eq!(world.submit(&request), Rejection::Unrelated.into());
}

/// PR-4: for `/prs/` the signer is compared too.
#[test]
fn an_upload_to_somebody_else_s_room_is_no_evidence() {
    let mut world = served();
    let request = pull_request(carol(), alice(), oid(7)).event();
    world.upload(request.id(), oid(7), prs_repo(key(4)));
    assert_eq!(world.submit(&request), Answer::Purgatory);
    assert!(world.view.uploads.is_empty());
    assert!(world.is_dirty(&prs_repo(key(4))));
}

/// G6-7: what lies in the contributor's room is shown by the announced repositories.
#[test]
fn a_hosted_pull_request_is_shown_by_its_targets() {
    let mut world = served();
    let request = hosted_by_submitter(carol(), alice(), oid(7));
    world.upload(request.id(), oid(7), prs_repo(carol()));
    assert_eq!(world.submit(&request), Answer::Stored);
    for owner in [alice(), bob()] {
        assert_eq!(shown(&world, owner, request.id()), Some(oid(7)));
    }
}

/// PR-5: an update hangs on its pull request, and has a ref of its own.
#[test]
fn an_update_is_shown_beside_its_pull_request() {
    let mut world = served();
    let request = pull_request(carol(), alice(), oid(1)).event();
    world.submit(&request);
    let update = draft(kind::PULL_REQUEST_UPDATE, carol())
        .tag(["a".to_owned(), format!("30617:{}:{REPO}", alice().to_hex())])
        .tag(["E".to_owned(), request.id().to_hex()])
        .tag(["c".to_owned(), oid(9).to_string()])
        .at(NOW)
        .event();
    assert_eq!(world.submit(&update), Answer::Purgatory);
    world.receive(alice(), &[oid(9)]);
    assert_eq!(shown(&world, alice(), update.id()), Some(oid(9)));
    assert_eq!(shown(&world, alice(), request.id()), Some(oid(1)));
}

/// MNT-9, PR-2: targets follow the maintainers.
#[test]
fn a_target_that_leaves_the_group_stops_to_show_it() {
    let mut world = served();
    let request = pull_request(carol(), alice(), oid(1)).event();
    world.submit(&request);
    assert_eq!(shown(&world, bob(), request.id()), Some(oid(1)));
    world.submit(&announcement(bob()).at(NOW).event());
    assert_eq!(shown(&world, bob(), request.id()), None);
    assert!(world.is_dirty(&world.view.repository(bob())));
    assert_eq!(shown(&world, alice(), request.id()), Some(oid(1)));
}
