//! The checks on the way in: their order (EV-1), who may bring which kind (EV-2), what ends by itself (EV-4),
//! and how long an answer waits (EV-7).

use std::sync::mpsc;
use std::time::Duration;

use grasp_core::event::kind;
use grasp_core::lifecycle::Stage;
use grasp_testkit::{Draft, Event, Person, Value, json};

use crate::history;
use crate::world::{REPO, World, address, announcing, listing};

const STRANGER: &str = "restricted: the author must participate in an accepted repository thread";

/// The same event with another value in one of its fields.
fn with(event: &Event, field: &str, value: Value) -> Event {
    let mut json: Value = event.as_json().parse().expect("an event is JSON");
    json[field] = value;
    Event::from_json(json.to_string()).expect("the shape of an event")
}

/// Its id fits, its signature does not.
fn unsigned(draft: Draft<'_>) -> Event {
    with(&draft.sign(), "sig", json!("0".repeat(128)))
}

#[track_caller]
fn says(answer: &crate::world::Answer, words: &str) {
    assert!(!answer.accepted, "{answer:?}");
    assert!(answer.message.contains(words), "{words}: {answer:?}");
}

/// EV-1: each event fails the check that answers and every check after it.
#[tokio::test]
async fn the_first_check_that_fails_answers() {
    let world = World::new();
    let carol = Person::named("carol");
    let draft = |kind| carol.draft(kind);
    let protected = || draft(1).tag(["-"]).sign().as_json();
    let expired = || draft(6).content(&protected()).tag(["expiration", "1"]);
    let forged = with(&expired().sign(), "created_at", json!(1));
    says(&world.send(&forged).await, "invalid: invalid event ID");
    says(
        &world.send(&unsigned(expired())).await,
        "blocked: event is expired",
    );
    let repost = draft(16).content(&protected()).tag(["-"]);
    says(
        &world.send(&unsigned(repost)).await,
        "blocked: repost of a protected event",
    );
    let wrap = draft(1059).tag(["-"]);
    says(
        &world.send(&unsigned(wrap)).await,
        "blocked: GiftWrap must contain exactly one recipient public key",
    );
    // From here on an announcement without a name, that its author has protected and deleted.
    let nameless = || draft(kind::ANNOUNCEMENT).tag(["-"]);
    says(
        &world.send(&unsigned(nameless())).await,
        "invalid: invalid event signature",
    );
    let nameless = nameless().sign();
    world.send(&carol.deletion(&nameless).sign()).await;
    says(&world.send(&nameless).await, "auth-required: you must auth");
    let open = draft(kind::ANNOUNCEMENT).sign();
    world.send(&carol.deletion(&open).sign()).await;
    says(&world.send(&open).await, "invalid: this event is deleted");
    let malformed = world.send(&draft(kind::ANNOUNCEMENT).sign()).await;
    says(&malformed, "invalid: ");
    assert!(!malformed.message.contains("deleted"));
    assert_eq!(
        world.query(&all()).len(),
        2,
        "the requests and nothing else"
    );
}

/// NIP-42: an answer to a challenge is nobody else's business.
#[tokio::test]
async fn a_proof_of_identity_is_not_passed_on() {
    let world = World::new();
    let alice = Person::named("alice");
    world.serving(&alice).await;
    let proof = alice
        .draft(kind::AUTH)
        .tag(["a", &alice.coordinate(REPO)])
        .sign();
    says(&world.send(&proof).await, "invalid: kind 22242");
}

/// EV-2
#[tokio::test]
async fn profiles_and_relay_lists_are_for_those_who_take_part() {
    let world = World::new();
    let [alice, bob, carol, dave] = ["alice", "bob", "carol", "dave"].map(Person::named);
    let lists = |who: &Person| {
        [kind::PROFILE, kind::RELAY_LIST].map(|kind| who.draft(kind).content("{}").sign())
    };
    let refused = async |who: &Person| {
        for event in lists(who) {
            says(&world.send(&event).await, STRANGER);
        }
    };
    let taken = async |who: &Person| {
        for event in lists(who) {
            world.send(&event).await.is_stored();
            assert!(world.serves(&event));
        }
    };
    world.send(&announcing(&alice).sign()).await.waits();
    refused(&alice).await; // it waits: nothing is accepted yet
    world.serving(&alice).await;
    taken(&alice).await;
    refused(&bob).await;
    let announcement = listing(&alice, &[&bob]).sign();
    assert!(world.send(&announcement).await.accepted);
    taken(&bob).await; // listed as a maintainer
    refused(&carol).await;
    let issue = carol.issue(&alice.coordinate(REPO)).sign();
    world.send(&issue).await.is_stored();
    taken(&carol).await; // author of a root
    refused(&dave).await;
    world.send(&dave.comment(&issue).sign()).await.is_stored();
    taken(&dave).await; // author of a descendant
}

/// EV-2, NIP-01
#[tokio::test]
async fn a_newer_profile_takes_the_place_of_the_older() {
    let world = World::new();
    let alice = Person::named("alice");
    world.serving(&alice).await;
    let profile = |name: &str| alice.draft(kind::PROFILE).content(name).sign();
    let (older, newer) = (profile("older"), profile("newer"));
    world.send(&newer).await.is_stored();
    world.send(&older).await.is_duplicate();
    assert!(world.serves(&newer) && !world.serves(&older));
    let newest = profile("newest");
    world.send(&newest).await.is_stored();
    assert!(world.serves(&newest) && !world.serves(&newer));
}

/// EV-2: lists of GRASP servers are everybody's, and the relay owner's events are the relay's own.
#[tokio::test]
async fn grasp_lists_and_the_relay_owner_need_no_repository() {
    let world = World::new();
    let zoe = Person::named("zoe");
    let list = zoe.draft(kind::GRASP_LIST).sign();
    world.send(&list).await.is_stored();
    let owner = Person::named("the relay owner");
    for kind in [kind::PROFILE, kind::RELAY_LIST, kind::GRASP_LIST, 1, 30023] {
        let event = owner.draft(kind).content("{}").sign();
        world.send(&event).await.is_stored();
        assert!(world.serves(&event), "{kind}");
        if kind != kind::GRASP_LIST {
            world
                .send(&zoe.draft(kind).content("{}").sign())
                .await
                .is_refused();
        }
    }
}

/// EV-4: gone from every answer at its time, and from the disk with the next sweep.
#[tokio::test]
async fn what_expires_vanishes_at_its_time_and_is_purged() {
    let world = World::new();
    let alice = Person::named("alice");
    world.serving(&alice).await;
    let end = (world.now().as_secs() + 60).to_string();
    let issue = Person::named("carol")
        .issue(&alice.coordinate(REPO))
        .tag(["expiration", &end])
        .sign();
    world.send(&issue).await.is_stored();
    world.clock().advance(59);
    assert!(world.serves(&issue));
    world.clock().advance(1);
    assert!(!world.serves(&issue));
    assert_eq!(world.stage(&issue), Some(Stage::Served), "not yet swept");
    world.sweep().await;
    assert_eq!(world.stage(&issue), None);
    says(&world.send(&issue).await, "blocked: event is expired");
}

/// EV-7: the answer waits for refs, but not for ever; what it could not wait for comes by itself.
#[tokio::test]
async fn an_answer_does_not_wait_for_ever_for_its_refs() {
    let world = World::adjusted(|settings| settings.timers.apply = Duration::from_millis(100));
    let alice = Person::named("alice");
    world.serving(&alice).await;
    let first = history::commit(0).await;
    let names = ["refs/heads/main", "refs/heads/second"];
    let state = alice
        .state(REPO, names.map(|name| (name, &first.oid)))
        .sign();

    let (free, until_free) = mpsc::channel::<()>();
    let (held, until_held) = mpsc::channel();
    let repositories = world.service().repositories().clone();
    let repository = address(&alice);
    let holder = std::thread::spawn(move || {
        let lock = repositories.lock(&repository);
        held.send(()).expect("the test waits");
        let _ = until_free.recv();
        drop(lock);
    });
    until_held.recv().expect("it is held");
    let answer = world.send(&state).await;
    assert_eq!(
        (answer.accepted, answer.message.as_str()),
        (false, "error: stored, being applied")
    );
    drop(free);
    holder.join().expect("no panic");
    grasp_testkit::eventually("the refs are in line", async || {
        let refs = world.refs(&alice).unwrap_or_default();
        names.iter().all(|name| refs.contains_key(*name))
    })
    .await;
    assert!(world.serves(&state));
    world.send(&state).await.is_duplicate();
}

fn all() -> grasp_core::filter::Filter {
    grasp_core::filter::Filter::parse(&json!({})).expect("a filter")
}
