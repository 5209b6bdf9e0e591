//! What a clean restart keeps (cases 88 and 93).

use grasp_testkit::maintainer::PURGATORY;
use grasp_testkit::{Maintainer, Person, Server, eventually, json};

/// CLI-2, PUR-11, cases 88
#[tokio::test]
async fn what_is_served_and_what_waits_are_there_again() {
    let mut server = Server::spawn().await;
    let served = Maintainer::serving("served", &server).await;
    let issue = Person::named("carol").issue(&served.coordinate()).sign();
    server.publish(&issue).await.accepted();
    let upload = format!("refs/nostr/{}", "e5".repeat(32));
    served
        .push_refs(&[&format!("main:{upload}")])
        .await
        .accepted();
    let waiting = Maintainer::announcing("waiting", &server).await;
    let tip = waiting.commit("first").await;
    let state = waiting.state([("refs/heads/main", &tip)]);
    assert_eq!(server.publish(&state).await.accepted(), PURGATORY);
    let refs = served.remote_refs().await;
    let events = server.query(json!({})).await;

    assert!(server.terminate().await.success(), "exit 0");
    server.start_again().await;

    assert_eq!(served.remote_refs().await, refs);
    assert_eq!(server.query(json!({})).await, events);
    assert!(!server.serves(&state).await);
    assert_eq!(
        server.publish(&state).await.accepted(),
        "duplicate: in purgatory"
    );
    waiting.push().await.accepted();
    assert!(server.serves(&state).await);
    let (tip, _) = served.advance("second").await;
    assert_eq!(served.remote_refs().await["refs/heads/main"], tip);
}

/// REF-2, REF-6: what was done to the disk while no server ran is put right by the next one, unasked.
#[tokio::test]
async fn a_repository_that_was_damaged_meanwhile_is_put_right() {
    let mut server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let refs = alice.remote_refs().await;
    let home = server.repository(&alice.person.npub(), "project");
    for damaged in ["packed-refs", "HEAD"] {
        assert!(server.terminate().await.success());
        std::fs::write(home.join(damaged), "").expect("writable");
        server.start_again().await;
        eventually("the refs are back", async || {
            alice.remote_refs().await == refs
        })
        .await;
    }
    server.operate(&["integrity-check"]).await.fine();
}

/// Cases 93, scaled to a test.
#[tokio::test]
async fn many_repositories_are_all_known_after_a_restart() {
    let mut server = Server::configured()
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 100_000)
        .env("NGIT_PURGATORY_AUTHOR_ANNOUNCEMENTS", 1_000)
        .spawn()
        .await;
    let alice = Maintainer::new("first", &server).await;
    let tip = alice.commit("first").await;
    let pack = alice.work.pack(&[&tip]).await;
    let command = [(grasp_testkit::wire::ZERO, tip.as_str(), "refs/heads/main")];
    let body = grasp_testkit::wire::push_request(&command, grasp_testkit::wire::USUAL, &pack);
    let mut relay = server.relay().await;
    let mut http = server.http().await;
    let paths: Vec<_> = (0..100).map(|n| format!("project-{n}")).collect();
    for identifier in &paths {
        let announcement = alice.person.announcement(identifier, &server).sign();
        relay.publish(&announcement).await.accepted();
        let state = alice
            .person
            .state(identifier, [("refs/heads/main", &tip)])
            .sign();
        relay.publish(&state).await.accepted();
        let target = format!("/{}/{identifier}.git/git-receive-pack", alice.person.npub());
        let report = grasp_testkit::wire::Report::of(&http.post(&target, &[], &body).await);
        assert!(report.is_ok(), "{report:?}");
    }
    server.restart().await;
    let mut relay = server.relay().await;
    assert_eq!(relay.count(json!({"kinds": [30617]})).await, 100);
    let mut http = server.http().await;
    for identifier in &paths {
        let repository = format!("/{}/{identifier}.git", alice.person.npub());
        let target = grasp_testkit::wire::info_refs(&repository, "git-upload-pack");
        let (refs, _) = grasp_testkit::wire::advertised(&http.request("GET", &target, &[]).await);
        assert_eq!(refs["refs/heads/main"], tip);
        assert_eq!(http.request("GET", &repository, &[]).await.status, 200);
    }
}

/// `NGIT_DATABASE_BACKEND`: the same store, in a directory that goes.
#[tokio::test]
async fn the_memory_backend_forgets() {
    let mut server = Server::configured()
        .env("NGIT_DATABASE_BACKEND", "memory")
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    assert_eq!(alice.remote_branches_and_tags().await.len(), 1);
    server.restart().await;
    // The relay's owner introduces itself at every start.
    let repositories = json!({"kinds": [30617, 30618]});
    assert_eq!(server.relay().await.count(repositories).await, 0);
    assert_eq!(server.request("GET", &alice.path(), &[]).await.status, 404);
}

/// CLI-2: running pushes get a moment to end.
#[tokio::test]
async fn a_running_push_is_finished_before_the_stop() {
    let mut server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let tip = alice.commit("first").await;
    alice.publish_state([("refs/heads/main", &tip)]).await;
    let pack = alice.work.pack(&[&tip]).await;
    let command = [(grasp_testkit::wire::ZERO, tip.as_str(), "refs/heads/main")];
    let body = grasp_testkit::wire::push_request(&command, grasp_testkit::wire::USUAL, &pack);
    let mut http = server.http().await;
    let length = body.len().to_string();
    let target = alice.path() + "/git-receive-pack";
    http.send_head("POST", &target, &[("Content-Length", &length)])
        .await;
    http.send(&body[..body.len() - 1]).await;
    // The server is reading this body once it has said something about it, or a later request is answered.
    assert_eq!(server.request("GET", "/healthz", &[]).await.status, 200);
    server.signal(grasp_testkit::server::Signal::TERM);
    http.send(&body[body.len() - 1..]).await;
    let report = grasp_testkit::wire::Report::of(&http.response("POST").await);
    assert!(report.is_ok(), "{report:?}");
    assert!(
        server
            .wait_end(std::time::Duration::from_secs(15))
            .await
            .success()
    );
    server.start_again().await;
    assert_eq!(alice.remote_refs().await["refs/heads/main"], tip);
}

/// CLI-2: whoever is about to let go of the data is waited for.
#[tokio::test]
async fn a_start_waits_for_what_still_holds_the_data() {
    let mut server = Server::spawn().await;
    server.kill9().await;
    let lock =
        std::fs::File::open(server.relay_dir().join("ngit-grasp/lock")).expect("it is there");
    lock.lock().expect("the server is gone");
    let log = server.dir().join("server.log");
    let let_go = async {
        grasp_testkit::eventually("it waits", async || {
            std::fs::read_to_string(&log).is_ok_and(|said| said.contains("waiting some seconds"))
        })
        .await;
        drop(lock);
    };
    tokio::join!(server.start_again(), let_go);
}
