//! DEL-4: a scope that leaves takes along what only it supported.

use grasp_core::PublicKey;
use grasp_core::deletion::{self, Cause};
use grasp_core::lifecycle::Stage;
use grasp_core::name::Coordinate;
use grasp_core::policy::{Circumstances, Origin};
use grasp_store::History;
use grasp_testkit::{Event, Person};

use crate::history::commit;
use crate::world::{REPO, World, announcing, git, main_at, main_only, proposing};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

fn carol() -> Person {
    Person::named("carol")
}

fn scope(owner: &Person) -> Coordinate {
    Coordinate::new(owner.key(), REPO.parse().expect("valid"))
}

fn deletion_of(owner: &Person) -> Event {
    owner.draft(5).tag(["a", &owner.coordinate(REPO)]).sign()
}

/// The disk loses the pack that an object came in.
fn lose(world: &World, owner: &Person, oid: &str) {
    let repository = world.path(owner);
    let packs = std::fs::read_dir(repository.join("objects/pack")).expect("a folder");
    let mut lost = 0;
    for entry in packs {
        let index = entry.expect("an entry").path();
        if index.extension().is_none_or(|end| end != "idx") {
            continue;
        }
        let path = index.to_str().expect("text");
        if git(&repository, &["verify-pack", "-v", path]).contains(oid) {
            std::fs::remove_file(index.with_extension("pack")).expect("ours");
            std::fs::remove_file(&index).expect("ours");
            lost += 1;
        }
    }
    assert!(lost > 0);
}

/// What hangs on a repository, everything by carol and served.
async fn conversation(world: &World, owner: &Person) -> Vec<Event> {
    let repository = owner.coordinate(REPO);
    let issue = carol().issue(&repository).sign();
    let patch = carol().draft(1617).tag(["a", &repository]).sign();
    let proposal = proposing(&carol(), owner, commit(0).await);
    let comment = carol().comment(&issue).sign();
    let answer = carol().comment(&comment).sign();
    let status = carol().draft(1632).tag(["e", &proposal.id.to_hex()]).sign();
    let events = vec![issue, patch, proposal, comment, answer, status];
    for event in &events {
        world.send(event).await.is_stored();
    }
    events
}

/// DEL-4
#[tokio::test]
async fn a_deletion_by_address_takes_the_whole_conversation() {
    let world = World::new();
    let (announcement, state) = world.serving(&alice()).await;
    let hanging = conversation(&world, &alice()).await;
    let list = carol()
        .draft(10317)
        .tag(["a", &alice().coordinate(REPO)])
        .sign();
    world.send(&list).await.is_stored();
    world.send(&deletion_of(&alice())).await.is_stored();
    for event in hanging.iter().chain([&announcement, &state]) {
        assert!(!world.serves(event), "kind {}", event.kind);
        assert_eq!(world.stage(event), Some(Stage::Held), "kind {}", event.kind);
    }
    assert!(world.serves(&list), "a list is nobody's dependant");
    assert!(!world.exists(&alice()));
    let late = carol().comment(&hanging[0]).sign();
    world.send(&late).await.is_refused();
}

/// DEL-4: what another scope supports stays, and so does what hangs on that.
#[tokio::test]
async fn what_another_repository_supports_stays() {
    let world = World::new();
    let (_, state) = world.serving(&alice()).await;
    world.serving(&bob()).await;
    let both = carol()
        .issue(&alice().coordinate(REPO))
        .tag(["a", &bob().coordinate(REPO)])
        .sign();
    let shared = proposing(&carol(), &bob(), commit(0).await);
    let about_both = carol().comment(&both).sign();
    let own = carol().issue(&alice().coordinate(REPO)).sign();
    let about_own = carol().comment(&own).sign();
    let mention = bob().comment(&shared).tag(["q", &own.id.to_hex()]).sign();
    for event in [&both, &shared, &about_both, &own, &about_own, &mention] {
        world.send(event).await.is_stored();
    }
    world.send(&deletion_of(&alice())).await.is_stored();
    for event in [&both, &shared, &about_both, &own, &mention] {
        assert!(world.serves(event), "kind {}", event.kind);
    }
    assert!(!world.serves(&about_own));
    // MNT-10: a stranger's repository of the same name is no reason to show it.
    assert_eq!(world.stage(&state), Some(Stage::Held));
    // REL-6: the mention keeps the issue, and opens nothing.
    world.send(&carol().comment(&own).sign()).await.is_refused();
    world.send(&carol().comment(&both).sign()).await.is_stored();
}

/// DEL-4: states stay while somebody they belong to announces the repository.
#[tokio::test]
async fn states_stay_while_a_co_maintainer_announces() {
    let world = World::new();
    let state = world.serving_together(&alice(), &bob()).await;
    world.send(&deletion_of(&alice())).await.is_stored();
    assert!(world.serves(&state));
    assert!(!world.exists(&alice()));
    // REF-5: nobody's state decides there any more.
    assert_eq!(world.refs(&bob()), Some(main_only(commit(0).await)));
    world.send(&deletion_of(&bob())).await.is_stored();
    assert_eq!(world.stage(&state), Some(Stage::Held));
    assert!(!world.exists(&bob()));
}

/// DEL-4: a deletion by `e` is no cascade (DEL-3), nor is one that leaves a newer version.
#[tokio::test]
async fn dependants_stay_when_the_scope_does() {
    let world = World::new();
    let (first, _) = world.serving(&alice()).await;
    let hanging = conversation(&world, &alice()).await;
    let renamed = announcing(&alice()).tag(["web", "https://x"]).sign();
    world.send(&renamed).await.is_stored();
    let old = alice()
        .draft(5)
        .tag(["a", &alice().coordinate(REPO)])
        .at(first.created_at.as_secs())
        .sign();
    world.send(&old).await.is_stored();
    world
        .send(&alice().deletion(&renamed).sign())
        .await
        .is_stored();
    for event in &hanging {
        assert!(world.serves(event), "kind {}", event.kind);
    }
}

/// DEL-4, PUR-10: a proposal that waits for the scope goes with it.
#[tokio::test]
async fn a_waiting_proposal_goes_with_its_repository() {
    let world = World::new();
    world.serving(&alice()).await;
    world.serving(&bob()).await;
    let alone = proposing(&carol(), &alice(), commit(3).await);
    world.send(&alone).await.waits();
    let both = carol()
        .pull_request(&alice().coordinate(REPO), &commit(3).await.oid)
        .tag(["a", &bob().coordinate(REPO)])
        .sign();
    world.send(&both).await.waits();
    world.send(&deletion_of(&alice())).await.is_stored();
    assert_eq!(world.stage(&alone), None);
    assert_eq!(world.stage(&both), Some(Stage::Waiting));
}

/// The commit alone, as if the process had ended right after it.
async fn remove_alone(world: &World, owner: &Person) {
    let policy = world.service().policy().clone();
    let (at, now) = (scope(owner), world.now());
    let committed = world
        .service()
        .store()
        .commit(move |view| {
            let seeds: [PublicKey; 1] = [at.owner];
            let repo = view.repo_view(&at.identifier, &seeds, History::WithSuperseded)?;
            let cx = Circumstances {
                policy: &policy,
                now,
                origin: Origin::Client,
            };
            let batch = deletion::remove_scope(at.owner, &repo, Cause::Deleted, cx);
            Ok((batch, ()))
        })
        .await;
    committed.expect("a commit");
}

/// DEL-4, DEL-6: an owner who comes back before everything went keeps what was still there.
#[tokio::test]
async fn who_announces_again_in_the_middle_of_it_loses_no_more() {
    let mut world = World::new();
    world.serving(&alice()).await;
    let hanging = conversation(&world, &alice()).await;
    remove_alone(&world, &alice()).await;
    world.service().retry_marked().await;
    let again = announcing(&alice()).sign();
    world.send(&again).await;
    assert!(world.serves(&again), "it comes back with its state");
    world.restart_after(1).await;
    for event in &hanging {
        assert!(world.serves(event), "kind {}", event.kind);
    }
}

/// PUR-10: what only waits goes with the request, and a push in that moment finds nothing.
#[tokio::test]
async fn deleting_a_scope_that_waits_drops_it_at_once() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let state = main_at(&alice(), commit(0).await);
    world.send(&state).await.waits();
    world.send(&deletion_of(&alice())).await.is_stored();
    assert_eq!(world.stage(&announcement), None);
    assert_eq!(world.stage(&state), None);
    assert!(!world.exists(&alice()));
    assert!(world.archived(&alice()).is_empty());
    let push = [("refs/heads/main", commit(0).await)];
    world.push(&alice(), &push).await.refused();
    world.send(&announcement).await.is_refused();
    world.send(&announcing(&alice()).sign()).await.waits();
    assert!(world.exists(&alice()));
}

/// DEL-4: a plan that a crash cut short is found by its row.
#[tokio::test]
async fn a_plan_goes_on_after_a_restart() {
    let mut world = World::new();
    world.serving(&alice()).await;
    let hanging = conversation(&world, &alice()).await;
    remove_alone(&world, &alice()).await;
    assert!(hanging.iter().all(|event| world.serves(event)));
    world.restart_after(1).await;
    for event in &hanging {
        assert_eq!(world.stage(event), Some(Stage::Held), "kind {}", event.kind);
    }
    assert!(!world.exists(&alice()));
}

/// ANN-5, DEL-4: an owner who moves elsewhere takes the conversation along.
#[tokio::test]
async fn de_listing_a_repository_takes_what_hangs_on_it() {
    let world = World::new();
    let (announcement, state) = world.serving(&alice()).await;
    let hanging = conversation(&world, &alice()).await;
    let elsewhere = announcing(&alice())
        .without("clone")
        .without("relays")
        .tag(["clone", "https://elsewhere.example/x.git"])
        .tag(["relays", "wss://elsewhere.example"])
        .sign();
    world.send(&elsewhere).await.is_refused();
    for event in hanging.iter().chain([&announcement, &state]) {
        assert_eq!(world.stage(event), Some(Stage::Held), "kind {}", event.kind);
    }
    assert!(!world.exists(&alice()) && !world.serves(&elsewhere));
    assert_eq!(world.archived(&alice()).len(), 1);
}

/// DEL-4: the operator takes a repository off the service.
#[tokio::test]
async fn a_scope_is_taken_off_by_whoever_runs_the_service() {
    let world = World::new();
    let (announcement, _) = world.serving(&alice()).await;
    let hanging = conversation(&world, &alice()).await;
    let remove = async || {
        let service = world.service();
        let removed = service.remove_scope(&scope(&alice()), Cause::Curated).await;
        removed.expect("no fault")
    };
    assert!(remove().await, "there is one");
    for event in hanging.iter().chain([&announcement]) {
        assert_eq!(world.stage(event), Some(Stage::Held), "kind {}", event.kind);
    }
    assert!(!remove().await, "there is none any more");
}

/// DEL-2a: a state whose objects are gone does not come back; the one before it does.
#[tokio::test]
async fn a_rollback_skips_a_state_whose_objects_are_gone() {
    let world = World::new();
    let (_, first) = world.serving(&alice()).await;
    let mut states = vec![first];
    for number in [1, 2] {
        let state = main_at(&alice(), commit(number).await);
        world.send(&state).await.waits();
        world
            .push(&alice(), &[("refs/heads/main", commit(number).await)])
            .await
            .accepted();
        states.push(state);
    }
    lose(&world, &alice(), &commit(1).await.oid);
    world
        .send(&alice().deletion(&states[2]).sign())
        .await
        .is_stored();
    assert_eq!(world.stage(&states[1]), Some(Stage::Superseded));
    assert!(world.serves(&states[0]));
}

/// EV-4, DEL-2a: the same when a state ends by its own time.
#[tokio::test]
async fn an_expiring_state_gives_way_to_one_whose_objects_are_there() {
    let world = World::new();
    let (_, first) = world.serving(&alice()).await;
    let mut states = vec![first];
    for (number, lifetime) in [(1, 1_000_000), (2, 3600)] {
        let until = world.now().as_secs() + lifetime;
        let state = alice()
            .state(REPO, [("refs/heads/main", &commit(number).await.oid)])
            .tag(["expiration", &until.to_string()])
            .sign();
        world.send(&state).await.waits();
        world
            .push(&alice(), &[("refs/heads/main", commit(number).await)])
            .await
            .accepted();
        states.push(state);
    }
    lose(&world, &alice(), &commit(1).await.oid);
    world.pass(3601).await;
    assert_eq!(world.stage(&states[2]), None);
    assert_eq!(world.stage(&states[1]), Some(Stage::Superseded));
    assert!(world.serves(&states[0]));
}
