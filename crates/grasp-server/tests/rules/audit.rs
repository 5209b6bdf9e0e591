//! DEL-11: what tests of the service leave behind.

use grasp_testkit::{Draft, Event, Person};

use crate::history::commit;
use crate::world::{REPO, World, announcing, main_at, proposing};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

const MARK: [&str; 2] = ["t", "grasp-audit-test-event"];
const TWO_HOURS: u64 = 7200;

async fn clean_up(world: &World) {
    let cleaned = world.service().clean_up_tests().await;
    cleaned.expect("no fault");
}

async fn stored(world: &World, draft: Draft<'_>, at: u64) -> Event {
    let event = draft.at(at).sign();
    world.send(&event).await.is_stored();
    event
}

/// DEL-11
#[tokio::test]
async fn test_events_go_once_they_are_older_than_two_hours() {
    let world = World::new();
    world.serving(&alice()).await;
    let now = world.now().as_secs();
    let (tester, repository) = (bob(), alice().coordinate(REPO));
    let issue = || tester.issue(&repository);
    let old = stored(&world, issue().tag(MARK), now - TWO_HOURS).await;
    let younger = stored(&world, issue().tag(MARK), now - TWO_HOURS + 1).await;
    let real = stored(&world, issue(), 1_000_000).await;
    let other = issue().tag(["t", "grasp-audit-test-events"]);
    let other = stored(&world, other, 1_000_000).await;
    clean_up(&world).await;
    assert!(world.serves(&old), "two hours are not more than two hours");
    world.clock().advance(1);
    clean_up(&world).await;
    assert_eq!(world.stage(&old), None, "gone for good");
    for event in [&younger, &real, &other] {
        assert!(world.serves(event));
    }
    world.clock().advance(1);
    clean_up(&world).await;
    assert_eq!(world.stage(&younger), None);
    world.clock().advance(10 * TWO_HOURS);
    clean_up(&world).await;
    assert!(world.serves(&real) && world.serves(&other));
}

/// DEL-11: scope and all.
#[tokio::test]
async fn a_test_repository_goes_with_everything_on_it() {
    let world = World::new();
    let (theirs, _) = world.serving(&bob()).await;
    let announcement = announcing(&alice()).tag(MARK).sign();
    world.send(&announcement).await.waits();
    let state = main_at(&alice(), commit(0).await);
    world.send(&state).await.waits();
    let push = [("refs/heads/main", commit(0).await)];
    world.push(&alice(), &push).await.accepted();
    let proposal = proposing(&bob(), &alice(), commit(0).await);
    let issue = bob().issue(&alice().coordinate(REPO)).sign();
    let comment = bob().comment(&issue).sign();
    let shared = bob()
        .issue(&alice().coordinate(REPO))
        .tag(["a", &bob().coordinate(REPO)])
        .sign();
    for event in [&proposal, &issue, &comment, &shared] {
        world.send(event).await.is_stored();
    }
    world.clock().advance(2 * TWO_HOURS);
    clean_up(&world).await;
    for event in [&announcement, &state, &proposal, &issue, &comment] {
        assert_eq!(world.stage(event), None, "kind {}", event.kind);
    }
    assert!(!world.exists(&alice()));
    assert!(world.archived(&alice()).is_empty(), "nobody wants it back");
    assert!(world.serves(&theirs) && world.serves(&shared));
    assert!(world.exists(&bob()));
    // Whoever tests again begins anew.
    world
        .send(&announcing(&alice()).tag(MARK).sign())
        .await
        .waits();
}
