//! Things that happen at the same time.

use std::sync::Arc;

use grasp_testkit::{GitHome, Maintainer, Person, Server, json};
use tokio::task::JoinSet;

/// Two pushes for two states at once: both may succeed in turn, but refs end as the newest state says.
#[tokio::test]
async fn of_two_racing_clients_the_newer_state_wins() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    for round in 0..5 {
        let base = alice.work.rev("HEAD").await;
        let one = alice.commit(&format!("one {round}")).await;
        alice.work.git(["reset", "-q", "--hard", &base]).await;
        let two = alice.commit(&format!("two {round}")).await;
        let older = alice.publish_state([("refs/heads/main", &one)]).await;
        let newer = alice.publish_state([("refs/heads/main", &two)]).await;
        let (first, second) = (
            format!("+{one}:refs/heads/main"),
            format!("+{two}:refs/heads/main"),
        );
        let (first, second) = ([first.as_str()], [second.as_str()]);
        let (a, b) = tokio::join!(alice.push_refs(&first), alice.push_refs(&second));
        b.accepted();
        // The older one is refused if it came second, with the winner's name; never applied after.
        if !a.ok {
            assert!(
                a.stderr.contains("newer") || a.stderr.contains(&two[..8]),
                "{}",
                a.stderr
            );
        }
        assert_eq!(alice.remote_refs().await["refs/heads/main"], two);
        assert!(server.serves(&newer).await);
        assert!(
            !server.serves(&older).await,
            "one version of a state is served"
        );
    }
}

/// PUSH-13: the decision is taken again in the commit.
#[tokio::test]
async fn a_push_racing_a_newer_state_never_leaves_relay_and_git_apart() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    for round in 0..8 {
        let base = alice.work.rev("HEAD").await;
        let tip = alice.commit(&format!("tip {round}")).await;
        alice.publish_state([("refs/heads/main", &tip)]).await;
        // A newer state of what is here already: applied at once, whenever it comes.
        let newer = alice.state([("refs/heads/main", &base)]);
        let (pushed, answer) = tokio::join!(alice.push_refs(&["main"]), alice.publish(&newer));
        answer.accepted();
        let served = alice.remote_refs().await["refs/heads/main"].clone();
        assert_eq!(
            served, base,
            "the newest state wins; the push said: {}",
            pushed.stderr
        );
        assert!(server.serves(&newer).await);
        alice.publish_state([("refs/heads/main", &tip)]).await;
        alice.push_refs(&["main"]).await.accepted();
    }
}

/// DEL-1, PUR-10
#[tokio::test]
async fn a_deletion_racing_a_push_wins_or_loses_as_a_whole() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    for round in 0..8 {
        let before = alice.remote_refs().await["refs/heads/main"].clone();
        let tip = alice.commit(&format!("tip {round}")).await;
        let state = alice.publish_state([("refs/heads/main", &tip)]).await;
        let deletion = alice.person.deletion(&state).sign();
        let (pushed, answer) = tokio::join!(alice.push_refs(&["main"]), alice.publish(&deletion));
        answer.accepted();
        // Deleted in the end, either way; and refs are those of what is served then.
        grasp_testkit::eventually("refs follow the served state", async || {
            !server.serves(&state).await
                && alice.remote_refs().await.get("refs/heads/main") == Some(&before)
        })
        .await;
        if pushed.ok {
            // It was served for a moment; the rollback is what the deletion asks for (DEL-2).
        }
        alice.work.git(["reset", "-q", "--hard", &before]).await;
    }
}

/// EV-5, cases 90
#[tokio::test]
async fn twenty_connections_with_one_announcement_make_one_repository() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let announcement = alice.person.announcement("project", &server).sign();
    let mut senders = JoinSet::new();
    for _ in 0..20 {
        let (url, event) = (server.ws.clone(), announcement.clone());
        senders.spawn(async move { grasp_testkit::relay::publish(&url, &event).await });
    }
    let answers = senders.join_all().await;
    assert!(answers.iter().all(|answer| answer.accepted), "{answers:?}");
    let first = answers
        .iter()
        .filter(|a| a.message.starts_with("purgatory:"))
        .count();
    assert_eq!(first, 1, "{answers:?}");
    let bob = Maintainer::named_announcing("bob", "project", &server).await;
    for who in [&alice, &bob] {
        who.advance("first").await;
        let bare = server.repository(&who.person.npub(), "project");
        who.work.home().run(&bare, ["fsck", "--strict"]).await;
    }
}

/// EV-5, cases 47
#[tokio::test]
async fn the_same_event_on_many_connections_is_broadcast_once() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let issue = Person::named("carol").issue(&alice.coordinate()).sign();
    let mut watcher = server.relay().await;
    watcher.subscribe("live", &[json!({"kinds": [1621]})]).await;
    watcher.stored("live").await;
    let mut senders = JoinSet::new();
    for _ in 0..10 {
        let (url, event) = (server.ws.clone(), issue.clone());
        senders.spawn(async move { grasp_testkit::relay::publish(&url, &event).await });
    }
    let answers = senders.join_all().await;
    assert!(answers.iter().all(|answer| answer.accepted), "{answers:?}");
    assert_eq!(
        answers.iter().filter(|a| a.message.is_empty()).count(),
        1,
        "{answers:?}"
    );
    assert!(
        answers
            .iter()
            .filter(|a| a.message.starts_with("duplicate:"))
            .count()
            == 9,
        "{answers:?}"
    );
    assert_eq!(watcher.live("live").await.id, issue.id);
    assert!(watcher.drain().await.is_empty(), "once");
}

/// KIND-5, cases 42
#[tokio::test]
async fn of_fifty_versions_at_once_exactly_the_newest_is_served() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let first = alice.work.rev("HEAD").await;
    let versions: Vec<_> = (0..50)
        .map(|n| {
            alice.state([
                ("refs/heads/main".to_owned(), &first),
                (format!("refs/heads/v{n}"), &first),
            ])
        })
        .collect();
    let newest = versions.last().expect("fifty").clone();
    let versions = Arc::new(versions);
    let mut senders = JoinSet::new();
    for lane in 0..10 {
        let (url, versions) = (server.ws.clone(), versions.clone());
        senders.spawn(async move {
            let mut relay = grasp_testkit::RelayClient::connect(&url).await;
            // Each lane in another order; one answer for each.
            for n in (0..5).rev() {
                let event = &versions[(n * 10 + lane) % 50];
                assert!(relay.publish(event).await.accepted);
            }
            assert!(relay.drain().await.is_empty(), "a single OK each");
        });
    }
    senders.join_all().await;
    let filter = json!({"kinds": [30618], "#d": ["project"]});
    assert_eq!(server.query(filter).await, [newest]);
    let refs = alice.remote_branches_and_tags().await;
    assert_eq!(
        refs.keys().collect::<Vec<_>>(),
        ["refs/heads/main", "refs/heads/v49"]
    );
}

/// Cases 103
#[tokio::test]
async fn a_push_works_the_moment_both_answers_are_in_a_hundred_times() {
    let server = Server::configured()
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 100_000)
        .env("NGIT_PURGATORY_AUTHOR_ANNOUNCEMENTS", 1_000)
        .spawn()
        .await;
    let server = Arc::new(server);
    let work = GitHome::new().init("work").await;
    let tip = work.commit("first").await;
    let mut lanes = JoinSet::new();
    for lane in 0..4 {
        let (endpoint, work, tip) = (server.endpoint().clone(), work.clone(), tip.clone());
        lanes.spawn(async move {
            let alice = Person::named("alice");
            let mut relay = grasp_testkit::RelayClient::connect(&endpoint.ws).await;
            for n in 0..25 {
                let identifier = format!("project-{lane}-{n}");
                let announcement = alice.announcement(&identifier, &endpoint).sign();
                let state = alice.state(&identifier, [("refs/heads/main", &tip)]).sign();
                relay.publish(&announcement).await.accepted();
                relay.publish(&state).await.accepted();
                let url = endpoint.clone_url(&alice.npub(), &identifier);
                work.push_to(&url, &["main"]).await.accepted();
            }
        });
    }
    lanes.join_all().await;
    let mut relay = server.relay().await;
    assert_eq!(relay.count(json!({"kinds": [30617]})).await, 100);
    assert_eq!(relay.count(json!({"kinds": [30618]})).await, 100);
}

/// A client need not wait for one answer to send what builds on it: twenty projects in one breath.
#[tokio::test]
async fn what_one_connection_sends_is_decided_in_that_order() {
    let server = Server::spawn().await;
    let mut relay = server.relay().await;
    let mut sent = Vec::new();
    for number in 0..20 {
        let alice = Maintainer::new(&format!("project-{number}"), &server).await;
        let first = alice.commit("first").await;
        sent.push(
            alice
                .person
                .announcement(&format!("project-{number}"), &server)
                .sign(),
        );
        sent.push(alice.state([("refs/heads/main", &first)]));
    }
    for event in &sent {
        relay.send_event(event).await;
    }
    for event in &sent {
        relay.answer_to(&event.id.to_hex()).await.accepted();
    }
}

/// EV-7: both in flight at once on one connection; answers in their own time, then it works.
#[tokio::test]
async fn announcement_and_state_sent_without_waiting_are_both_taken() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let first = alice.commit("first").await;
    let announcement = alice.person.announcement("project", &server).sign();
    let state = alice.state([("refs/heads/main", &first)]);
    let mut relay = server.relay().await;
    relay.send_event(&announcement).await;
    relay.send_event(&state).await;
    relay.answer_to(&announcement.id.to_hex()).await.accepted();
    relay.answer_to(&state.id.to_hex()).await.accepted();
    alice.push().await.accepted();
}
