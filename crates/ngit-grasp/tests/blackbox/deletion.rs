//! NIP-09 and NIP-62 as far as a client sees them (DEL-*).

use grasp_testkit::{Maintainer, Person, Server, json};

/// DEL-1, cases 51 and 52
#[tokio::test]
async fn an_author_deletes_their_own_and_it_does_not_come_back() {
    let mut server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Person::named("carol");
    let issue = carol.issue(&alice.coordinate()).sign();
    server.publish(&issue).await.accepted();

    let strangers = Person::named("dave").deletion(&issue).sign();
    let said = server.publish(&strangers).await.refused();
    assert_eq!(
        said,
        "invalid: cannot delete event authored by another pubkey"
    );
    assert!(server.serves(&issue).await);

    let deletion = carol.deletion(&issue).sign();
    server.publish(&deletion).await.accepted();
    assert!(!server.serves(&issue).await);
    assert!(server.serves(&deletion).await);
    assert_eq!(
        server.publish(&issue).await.refused(),
        "invalid: this event is deleted"
    );
    server.restart().await;
    assert_eq!(
        server.publish(&issue).await.refused(),
        "invalid: this event is deleted"
    );
}

/// DEL-1: an unknown id is gated in advance, for its author alone.
#[tokio::test]
async fn a_deletion_that_comes_first_gates_its_event() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Person::named("carol");
    let issue = carol.issue(&alice.coordinate()).sign();
    server
        .publish(&Person::named("dave").deletion(&issue).sign())
        .await
        .accepted();
    let another = carol.issue(&alice.coordinate()).sign();
    server
        .publish(&carol.deletion(&another).sign())
        .await
        .accepted();
    server.publish(&issue).await.accepted();
    server.publish(&another).await.refused();
}

/// DEL-1, cases 54
#[tokio::test]
async fn a_deletion_that_names_nothing_of_its_author_removes_nothing() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let before = server
        .relay()
        .await
        .count(json!({"kinds": [30617, 30618]}))
        .await;
    let carol = Person::named("carol");
    for tags in [
        vec![],
        vec![vec!["a".to_owned(), alice.coordinate()]],
        vec![vec!["e".to_owned(), String::new()]],
        vec![vec!["e".to_owned(), "nonsense".to_owned()]],
        vec![vec!["a".to_owned(), String::new()]],
    ] {
        let draft = carol.draft(5);
        let draft = tags.iter().fold(draft, grasp_testkit::Draft::tag);
        server.publish(&draft.sign()).await;
    }
    let after = server
        .relay()
        .await
        .count(json!({"kinds": [30617, 30618]}))
        .await;
    assert_eq!(before, after);
    assert_eq!(alice.remote_branches_and_tags().await.len(), 1);
}

/// DEL-2: the author's previous state wins again, and refs follow.
#[tokio::test]
async fn deleting_the_winning_state_brings_back_the_one_before() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let (first, before) = alice.advance("first").await;
    let (_, winner) = alice.advance("second").await;
    alice
        .publish(&alice.person.deletion(&winner).sign())
        .await
        .accepted();
    grasp_testkit::eventually("the state before is served and applied", async || {
        server.serves(&before).await && alice.remote_refs().await["refs/heads/main"] == first
    })
    .await;
    assert!(!server.serves(&winner).await);
}

/// DEL-4, PUR-10: the coordinate itself goes with its states and its repository, and nothing else does.
#[tokio::test]
async fn deleting_a_served_announcement_by_its_address_takes_state_and_repository() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let other = Maintainer::serving("other", &server).await;
    let deletion = alice.person.draft(5).tag(["a", &alice.coordinate()]).sign();
    alice.publish(&deletion).await.accepted();
    let of_project = json!({"kinds": [30617, 30618], "#d": ["project"]});
    grasp_testkit::eventually("announcement and state go", async || {
        server.query(of_project.clone()).await.is_empty()
    })
    .await;
    let bare = server.repository(&alice.person.npub(), "project");
    grasp_testkit::eventually("the repository goes", async || !bare.exists()).await;
    assert_eq!(other.remote_branches_and_tags().await.len(), 1);
}

/// DEL-4: issue, patch, pull request and comments go with the repository; what another one supports stays.
#[tokio::test]
async fn deleting_a_repository_takes_its_conversation_and_nobody_elses() {
    let mut server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let other = Maintainer::serving("other", &server).await;
    let carol = Person::named("carol");
    let tip = alice.work.rev("HEAD").await;
    let issue = carol.issue(&alice.coordinate()).sign();
    let patch = carol.draft(1617).tag(["a", &alice.coordinate()]).sign();
    let proposal = carol.pull_request(&alice.coordinate(), &tip).sign();
    let comments = [&issue, &patch, &proposal].map(|event| carol.comment(event).sign());
    let answer = carol.comment(&comments[0]).sign();
    let shared = carol
        .issue(&alice.coordinate())
        .tag(["a", &other.coordinate()])
        .sign();
    let about_shared = carol.comment(&shared).sign();
    let gone: Vec<_> = [issue, patch, proposal]
        .into_iter()
        .chain(comments)
        .chain([answer])
        .collect();
    let kept = [shared, about_shared];
    for event in gone.iter().chain(&kept) {
        server.publish(event).await.accepted();
        assert!(server.serves(event).await);
    }
    let deletion = alice.person.draft(5).tag(["a", &alice.coordinate()]).sign();
    alice.publish(&deletion).await.accepted();
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
        }
        for event in &gone {
            assert!(!server.serves(event).await, "kind {}", event.kind);
        }
        for event in &kept {
            assert!(server.serves(event).await, "kind {}", event.kind);
        }
    }
    let late = carol.comment(&gone[0]).sign();
    server.publish(&late).await.refused();
    assert_eq!(other.remote_branches_and_tags().await.len(), 1);
}

/// EV-4, cases 53
#[tokio::test]
async fn an_expired_event_is_refused_and_a_stored_one_vanishes_at_its_time() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    let issue = |until: u64| {
        Person::named("carol")
            .issue(&alice.coordinate())
            .tag(["expiration", &until.to_string()])
            .sign()
    };
    let said = server.publish(&issue(now - 3_600)).await.refused();
    assert_eq!(said, "blocked: event is expired");
    let tomorrow = issue(now + 86_400);
    server.publish(&tomorrow).await.accepted();
    let soon = issue(now + 3);
    server.publish(&soon).await.accepted();
    assert!(server.serves(&soon).await);
    grasp_testkit::eventually("it vanishes", async || !server.serves(&soon).await).await;
    assert!(server.serves(&tomorrow).await);
}

/// DEL-8, case 55
#[tokio::test]
async fn an_author_vanishes_and_nothing_of_theirs_comes_back() {
    let mut server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let list = alice.person.draft(10317).sign();
    server.publish(&list).await.accepted();
    let everything = json!({"authors": [alice.person.hex()]});
    let past = server.query(everything.clone()).await;
    assert_eq!(past.len(), 3);
    let elsewhere = alice
        .person
        .draft(62)
        .tag(["relay", "wss://elsewhere.example"])
        .sign();
    server.publish(&elsewhere).await.accepted();
    assert_eq!(server.query(everything.clone()).await.len(), 4);
    assert_eq!(alice.remote_branches_and_tags().await.len(), 1);

    let url = server.endpoint().ws.clone();
    let request = alice.person.draft(62).tag(["relay", &url]).sign();
    server.publish(&request).await.accepted();
    let bare = server.repository(&alice.person.npub(), "project");
    grasp_testkit::eventually("only the request is left", async || {
        let left = server.query(everything.clone()).await;
        left.len() == 1 && left[0].id == request.id && !bare.exists()
    })
    .await;
    for _ in 0..2 {
        for event in &past {
            assert_eq!(
                server.publish(event).await.refused(),
                "invalid: this pubkey has requested to vanish"
            );
        }
        server.restart().await;
    }
    assert!(server.serves(&request).await);
}
