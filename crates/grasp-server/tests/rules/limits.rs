//! What events and pushes may cost: each bound refuses in words that name it, and is counted (§16, BND-1).

use grasp_core::policy::Policy;
use grasp_server::Settings;
use grasp_testkit::{Event, Person};

use crate::history;
use crate::world::{World, announcing, endpoint, proposing};

/// Sends events that a bound lets pass, and one that it does not.
async fn refused(world: &World, passing: &[Event], beyond: &Event, limit: &str, words: &str) {
    for event in passing {
        let answer = world.send(event).await;
        assert!(answer.accepted, "{limit}: {answer:?}");
    }
    assert_eq!(world.refusals(limit).await, 0, "{limit}");
    let answer = world.send(beyond).await;
    assert!(
        !answer.accepted && answer.message.contains(words),
        "{limit}: {answer:?}"
    );
    assert_eq!(world.refusals(limit).await, 1, "{limit}");
    assert_eq!(world.stage(beyond), None, "{limit}: nothing of it is kept");
}

fn announcements<const N: usize>() -> [Event; N] {
    std::array::from_fn(|n| announcing(&Person::named(&format!("author {n}"))).sign())
}

/// PUR-13
#[tokio::test]
async fn what_waits_is_bounded_in_number_and_in_bytes() {
    let full = |adjust: fn(&mut Policy)| World::with(adjust);
    let [first, second, third] = &announcements();
    let world = full(|policy| policy.purgatory.events = 2);
    let words = "rate-limited: slow down, purgatory holds as many events as it may";
    let passing = [first.clone(), second.clone()];
    refused(&world, &passing, third, "purgatory_events", words).await;
    let world = full(|policy| policy.purgatory.bytes = 1);
    let words = "rate-limited: slow down, purgatory holds as many bytes as it may";
    refused(&world, &passing[..1], second, "purgatory_bytes", words).await;
}

/// PUR-13
#[tokio::test]
async fn what_waits_of_one_author_is_bounded() {
    let world = World::with(|policy| {
        policy.purgatory.author_announcements = 2;
        policy.purgatory.author_events = 1;
    });
    let (alice, carol) = (Person::named("alice"), Person::named("carol"));
    world.serving(&alice).await;
    let names = ["a", "b", "c"];
    let [a, b, c] = names.map(|name| carol.announcement(name, &endpoint()).sign());
    let limit = "purgatory_author_announcements";
    let words = "rate-limited: slow down, too many announcements of this author";
    refused(&world, &[a, b], &c, limit, words).await;
    let first = proposing(&carol, &alice, history::commit(1).await);
    let second = proposing(&carol, &alice, history::commit(2).await);
    let limit = "purgatory_author_events";
    let words = "rate-limited: slow down, too many states and pull requests of this author";
    refused(&world, &[first], &second, limit, words).await;
    world.send(&announcements::<1>()[0]).await.waits();
}

/// REL-6
#[tokio::test]
async fn indirect_replies_of_a_conversation_are_bounded_in_number_and_in_bytes() {
    let [alice, carol, dave, erin] = ["alice", "carol", "dave", "erin"].map(Person::named);
    for (adjust, passing) in [
        ((|policy| policy.related.events = 1) as fn(&mut Policy), 1),
        (|policy| policy.related.bytes = 10, 0),
    ] {
        let world = World::with(adjust);
        world.serving(&alice).await;
        let issue = carol.issue(&alice.coordinate(crate::world::REPO)).sign();
        let comment = dave.comment(&issue).sign();
        let reply = |text: &str| {
            let draft = erin.draft(1).tag(["e", &comment.id.to_hex()]);
            draft.content(text).sign()
        };
        let sent = [issue.clone(), comment.clone(), reply("first")];
        let words = "restricted: the conversation ";
        refused(
            &world,
            &sent[..2 + passing],
            &reply("more"),
            "related",
            words,
        )
        .await;
    }
}

/// DEL-1, KIND-7
#[tokio::test]
async fn a_deletion_has_so_many_targets_and_a_date_is_so_far_ahead() {
    let world = World::new();
    let alice = Person::named("alice");
    let deletion = |targets: u32| {
        let ids = (0..targets).map(|n| format!("{n:064x}"));
        let draft = alice.draft(5);
        ids.fold(draft, |draft, id| draft.tag(["e", &id])).sign()
    };
    let words = "invalid: too many deletion targets";
    let most = [deletion(2048)];
    refused(&world, &most, &deletion(2049), "deletion_targets", words).await;
    let list = |ahead: u64| alice.draft(10317).at(world.now().as_secs() + ahead).sign();
    let words = "invalid: created_at is more than 900 seconds ahead";
    refused(&world, &[list(900)], &list(901), "created_at_ahead", words).await;
}

/// Pushes uploads without an event until one is refused.
async fn upload_refused(world: &World, passing: u8, limit: &str, words: &str) {
    let alice = Person::named("alice");
    world.serving(&alice).await;
    let commit = history::commit(1).await;
    let name = |n: u8| format!("refs/nostr/{}", format!("{n:02x}").repeat(32));
    for n in 0..passing {
        world.push(&alice, &[(&name(n), commit)]).await.accepted();
    }
    assert_eq!(world.refusals(limit).await, 0, "{limit}");
    let beyond = name(passing);
    let said = world.push(&alice, &[(&beyond, commit)]).await.refused();
    assert!(said.contains(words), "{limit}: {said}");
    assert_eq!(world.refusals(limit).await, 1, "{limit}");
    let refs = world.refs(&alice).expect("a repository");
    assert!(!refs.contains_key(&beyond), "{limit}");
}

/// §16, PUSH-4
#[tokio::test]
async fn uploads_without_an_event_are_bounded_one_by_one_and_together() {
    let world = |adjust: fn(&mut Settings)| World::adjusted(adjust);
    let each = world(|it| it.policy.uploads.bytes = 100);
    let words = "an upload without its event is larger than the limit of 100 bytes";
    upload_refused(&each, 0, "upload_bytes", words).await;
    let here = world(|it| it.policy.uploads.per_repository = 2);
    let words = "2 uploads wait here for their events";
    upload_refused(&here, 2, "uploads_per_repository", words).await;
    let all = world(|it| it.policy.uploads.disk_percent = 0);
    let words = "uploads without an event take 0 % of the disk";
    upload_refused(&all, 0, "uploads_disk", words).await;
    let mut client = world(|it| it.address.uploads_per_hour = 1);
    client.peer = ([1, 2, 3, 4], 1).into();
    let words = "this address sends more than 1 uploads without an event in an hour";
    upload_refused(&client, 1, "address_uploads", words).await;
}

/// §16, GIT-9
#[tokio::test]
async fn packs_being_received_take_only_a_part_of_the_disk() {
    let world = World::adjusted(|settings| settings.git.quarantine_percent = 0);
    let alice = Person::named("alice");
    world.send(&announcing(&alice).sign()).await.waits();
    let first = history::commit(0).await;
    world
        .send(&crate::world::main_at(&alice, first))
        .await
        .waits();
    let pushed = world.push(&alice, &[("refs/heads/main", first)]).await;
    let said = pushed.refused();
    assert!(
        said.contains("limit of 0 bytes together, try again later"),
        "{said}"
    );
    assert_eq!(world.refusals("quarantine").await, 1);
}
