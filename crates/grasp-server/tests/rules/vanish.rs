//! DEL-8: who vanishes takes along all they made, and nothing of it returns.

use grasp_core::event::kind;
use grasp_core::lifecycle::Stage;
use grasp_testkit::{Draft, Event, Person};

use crate::history::commit;
use crate::world::{Answer, REPO, World, announcing, listing, main_at, main_only, proposing};

const DAY: u64 = 86_400;
const HERE: &str = "wss://grasp.example.com";
const VANISHED: &str = "invalid: this pubkey has requested to vanish";

fn alice() -> Person {
    Person::named("alice")
}

fn vanish<'p>(who: &'p Person, relay: &str) -> Draft<'p> {
    who.draft(kind::VANISH).tag(["relay", relay])
}

/// An event that is always taken, another one for each second.
fn list(author: &Person, second: u64) -> Event {
    let draft = author.draft(kind::GRASP_LIST);
    draft.at(1_700_000_000 + second).sign()
}

impl Answer {
    #[track_caller]
    fn is_vanished(&self) {
        assert_eq!((self.accepted, self.message.as_str()), (false, VANISHED));
    }
}

/// Something of Alice's in every stage.
async fn past(world: &World) -> Vec<Event> {
    let (announcement, first) = world.serving(&alice()).await;
    let second = main_at(&alice(), commit(1).await);
    world.send(&second).await.waits();
    let refs = [("refs/heads/main", commit(1).await)];
    world.push(&alice(), &refs).await.accepted();
    let third = main_at(&alice(), commit(2).await);
    world.send(&third).await.waits();
    let issue = alice().issue(&alice().coordinate(REPO)).sign();
    let deleted = alice().issue(&alice().coordinate(REPO)).sign();
    let request = alice().deletion(&deleted).sign();
    for event in [&issue, &deleted, &request, &list(&alice(), 0)] {
        world.send(event).await.is_stored();
    }
    assert_eq!(world.stage(&first), Some(Stage::Superseded));
    assert_eq!(world.stage(&third), Some(Stage::Waiting));
    assert_eq!(world.stage(&deleted), Some(Stage::Held));
    let list = list(&alice(), 0);
    vec![
        announcement,
        first,
        second,
        third,
        issue,
        deleted,
        request,
        list,
    ]
}

/// DEL-8, case 55: from every stage, and by no way back.
#[tokio::test]
async fn everything_of_an_author_goes_and_cannot_return() {
    for relay in [HERE, "ALL_RELAYS"] {
        let mut world = World::new();
        let past = past(&world).await;
        let request = vanish(&alice(), relay).sign();
        world.send(&request).await.is_stored();
        assert!(world.serves(&request));
        for event in &past {
            assert_eq!(world.stage(event), None, "kind {}", event.kind);
        }
        assert!(!world.exists(&alice()));
        assert!(world.archived(&alice()).is_empty(), "nobody else named it");
        for after in [0, 270 * DAY, 10_000 * DAY] {
            world.restart_after(after).await;
            for event in &past {
                world.send(event).await.is_vanished();
                world.sync(event).await.is_vanished();
            }
        }
        world.send(&request).await.is_duplicate();
    }
}

/// DEL-8, case 55
#[tokio::test]
async fn a_request_to_vanish_from_elsewhere_has_no_effect() {
    let world = World::new();
    let past = past(&world).await;
    let before: Vec<_> = past.iter().map(|event| world.stage(event)).collect();
    for relay in ["wss://other.example", "wss://grasp.example.com.evil", ""] {
        let request = vanish(&alice(), relay).sign();
        world.send(&request).await.is_stored();
        let after: Vec<_> = past.iter().map(|event| world.stage(event)).collect();
        assert_eq!(after, before, "{relay}");
    }
    assert!(world.exists(&alice()));
    world.send(&list(&alice(), 1)).await.is_stored();
}

/// DEL-8, DEL-10
#[tokio::test]
async fn a_relay_that_respects_no_requests_lets_nobody_vanish() {
    let world = World::with(|policy| policy.requests.respected = false);
    let past = past_of_a_list(&world).await;
    let request = vanish(&alice(), HERE).sign();
    world.send(&request).await.is_stored();
    assert!(world.serves(&request) && world.serves(&past));
    world.send(&list(&alice(), 1)).await.is_stored();
}

async fn past_of_a_list(world: &World) -> Event {
    let past = list(&alice(), 0);
    world.send(&past).await.is_stored();
    past
}

/// DEL-8: only the past is gone.
#[tokio::test]
async fn what_is_made_later_is_taken() {
    let world = World::new();
    world.serving(&alice()).await;
    let request = vanish(&alice(), HERE).sign();
    world.send(&request).await.is_stored();
    let at = request.created_at.as_secs();
    let again = |second| announcing(&alice()).at(at + second).sign();
    world.send(&again(0)).await.is_vanished();
    world.send(&again(1)).await.waits();
    let state = alice()
        .state(REPO, [("refs/heads/main", &commit(0).await.oid)])
        .at(at + 1)
        .sign();
    world.send(&state).await.waits();
    let refs = [("refs/heads/main", commit(0).await)];
    world.push(&alice(), &refs).await.accepted();
    assert!(world.serves(&again(1)) && world.serves(&state));
}

/// DEL-8: NIP-62 knows no way back, and a newer request takes the place of the older.
#[tokio::test]
async fn a_vanish_cannot_be_undone() {
    let world = World::new();
    let past = past_of_a_list(&world).await;
    let request = vanish(&alice(), HERE).sign();
    world.send(&request).await.is_stored();
    let undoing = alice().deletion(&request).sign();
    world.send(&undoing).await.is_stored();
    assert!(world.serves(&request));
    world.send(&past).await.is_vanished();
    let newer = vanish(&alice(), HERE).sign();
    world.send(&newer).await.is_stored();
    assert_eq!((world.stage(&request), world.stage(&undoing)), (None, None));
    for event in [&past, &request, &undoing] {
        world.send(event).await.is_vanished();
    }
}

/// DEL-8, DEL-9: out of sight it gates for ever, and its use shows it again.
#[tokio::test]
async fn a_vanish_is_shown_by_its_clock_and_gates_without_end() {
    let world = World::new();
    let past = past_of_a_list(&world).await;
    let request = vanish(&alice(), HERE).sign();
    world.send(&request).await.is_stored();
    assert_eq!(world.left(&request), Some(270 * DAY));
    world.pass(270 * DAY).await;
    assert_eq!(world.stage(&request), Some(Stage::Held));
    assert_eq!(world.left(&request), None);
    world.pass(5_000 * DAY).await;
    assert_eq!(world.stage(&request), Some(Stage::Held));
    world.sync(&past).await.is_vanished();
    assert!(world.serves(&request));
    assert_eq!(world.left(&request), Some(270 * DAY));
}

/// DEL-8, DEL-5: what others hung on a repository is held, and so is its git data.
#[tokio::test]
async fn git_data_that_others_named_is_archived() {
    let world = World::new();
    world.serving(&alice()).await;
    let theirs = Person::named("carol")
        .issue(&alice().coordinate(REPO))
        .sign();
    world.send(&theirs).await.is_stored();
    let request = vanish(&alice(), HERE).sign();
    world.send(&request).await.is_stored();
    assert_eq!(world.stage(&theirs), Some(Stage::Held));
    assert!(!world.exists(&alice()));
    assert_eq!(world.archived(&alice()).len(), 1);
}

/// DEL-8, DEL-2: another maintainer's repository that showed their state waits again, its git data is archived,
/// and with a state of its own owner all of it is back.
#[tokio::test]
async fn git_data_of_another_maintainer_is_archived_whoever_named_it() {
    let world = World::new();
    let bob = Person::named("bob");
    world.serving_together(&alice(), &bob).await;
    world.send(&vanish(&alice(), HERE).sign()).await.is_stored();
    assert!(world.refs(&bob).expect("it waits").is_empty());
    assert_eq!(world.archived(&bob).len(), 1);
    assert!(world.archived(&alice()).is_empty());
    let state = main_at(&bob, commit(0).await);
    world.send(&state).await.waits();
    let refs = [("refs/heads/main", commit(0).await)];
    world.push(&bob, &refs).await.accepted();
    assert!(world.serves(&state));
    assert!(world.archived(&bob).is_empty());
}

/// DEL-8, PR-4: what was pushed ahead of its event has no author but whose `/prs/` repository it is in.
#[tokio::test]
async fn what_waits_for_an_event_of_theirs_goes_too() {
    let world = World::new();
    let carol = Person::named("carol");
    let upload = format!("refs/nostr/{}", "5".repeat(64));
    for submitter in [&alice(), &carol] {
        let pushed = world.push_to_prs(submitter, &upload, commit(1).await).await;
        pushed.accepted();
    }
    let request = vanish(&alice(), HERE).sign();
    world.send(&request).await.is_stored();
    assert_eq!((world.prs(&alice()), world.prs(&carol)), (None, Some(1)));
    assert_eq!(world.left(&request), Some(270 * DAY), "it was of use");
}

/// DEL-8, DEL-5: an earlier deletion left it in the archive.
#[tokio::test]
async fn git_data_that_was_archived_before_goes_at_once() {
    let world = World::new();
    let (announcement, _) = world.serving(&alice()).await;
    let deletion = alice()
        .draft(kind::DELETION)
        .tag(["a".to_owned(), alice().coordinate(REPO)])
        .sign();
    world.send(&deletion).await.is_stored();
    assert_eq!(world.stage(&announcement), Some(Stage::Held));
    assert_eq!(world.archived(&alice()).len(), 1);
    world.send(&vanish(&alice(), HERE).sign()).await.is_stored();
    assert_eq!(world.stage(&announcement), None);
    assert!(world.archived(&alice()).is_empty());
}

/// DEL-8, DEL-6: what others hung on it would come back with it.
#[tokio::test]
async fn git_data_that_others_may_miss_stays_in_the_archive() {
    let world = World::new();
    world.serving(&alice()).await;
    let carol = Person::named("carol");
    let theirs = carol.issue(&alice().coordinate(REPO)).sign();
    world.send(&theirs).await.is_stored();
    for _ in 0..2 {
        world.send(&vanish(&alice(), HERE).sign()).await.is_stored();
        assert_eq!(world.stage(&theirs), Some(Stage::Held));
        assert_eq!(world.archived(&alice()).len(), 1);
    }
    // Its author does not want it back either.
    world
        .send(&carol.deletion(&theirs).sign())
        .await
        .is_stored();
    world.send(&vanish(&alice(), HERE).sign()).await.is_stored();
    assert!(world.archived(&alice()).is_empty());
}

/// EV-1, DEL-8: of the relay owner too.
#[tokio::test]
async fn the_relay_owner_can_vanish() {
    let world = World::new();
    let owner = Person::named("the relay owner");
    let note = owner.draft(1).at(1_700_000_000).sign();
    world.send(&note).await.is_stored();
    world.send(&vanish(&owner, HERE).sign()).await.is_stored();
    assert_eq!(world.stage(&note), None);
    world.send(&note).await.is_vanished();
}

/// DEL-8, DEL-5, DEL-6: with the last announcement a state of another maintainer goes as well, and it is held: it is
/// not of the author who vanishes.
#[tokio::test]
async fn a_state_of_another_maintainer_is_held_and_comes_back() {
    let world = World::new();
    let bob = Person::named("bob");
    let theirs = listing(&bob, &[&alice()]).sign();
    world.send(&listing(&alice(), &[&bob]).sign()).await.waits();
    world.send(&theirs).await.waits();
    let state = main_at(&bob, commit(1).await);
    world.send(&state).await.waits();
    let refs = [("refs/heads/main", commit(1).await)];
    world.push(&bob, &refs).await.accepted();
    world.send(&bob.deletion(&theirs).sign()).await.is_stored();
    assert!(world.serves(&state), "what depends on it stays");
    world.send(&vanish(&alice(), HERE).sign()).await.is_stored();
    assert_eq!(world.stage(&state), Some(Stage::Held));
    let again = announcing(&bob).at(world.now().as_secs() + 1).sign();
    world.send(&again).await.is_stored();
    assert!(world.serves(&state));
    assert_eq!(world.refs(&bob), Some(main_only(commit(1).await)));
}

/// DEL-8, PR-2: a contributor takes along nothing of those who they asked to pull.
#[tokio::test]
async fn a_state_without_an_announcement_outlives_who_asked_for_a_pull() {
    let world = World::new();
    let bob = Person::named("bob");
    let (announcement, state) = world.serving(&bob).await;
    let request = proposing(&alice(), &bob, commit(0).await);
    world.send(&request).await.is_stored();
    let deletion = bob.deletion(&announcement).sign();
    world.send(&deletion).await.is_stored();
    assert!(world.serves(&state));
    world.send(&vanish(&alice(), HERE).sign()).await.is_stored();
    assert_eq!(world.stage(&request), None);
    assert!(world.serves(&state));
}
