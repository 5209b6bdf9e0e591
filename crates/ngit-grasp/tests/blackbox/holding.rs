//! What is deleted can come back: by its owner, by the operator, and not for ever (DEL-5, DEL-6, CLI-1).

use grasp_testkit::{Event, Maintainer, Person, Server, eventually, json};

/// Everything at the address of a repository.
fn deletion_of(alice: &Maintainer) -> Event {
    let draft = alice.person.draft(5);
    draft.tag(["a", &alice.coordinate()]).sign()
}

async fn is_gone(alice: &Maintainer, server: &Server) {
    let bare = server.repository(&alice.person.npub(), "project");
    eventually("the repository goes", async || !bare.exists()).await;
    let advertisement = format!("{}/info/refs?service=git-upload-pack", alice.path());
    let response = server.request("GET", &advertisement, &[]).await;
    assert_eq!(response.status, 404);
}

/// DEL-6, ANN-2: through a stop and a `kill -9`, the same refs can be cloned at once.
#[tokio::test]
async fn a_deleted_repository_is_back_when_it_is_announced_again() {
    let mut server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let refs = alice.remote_refs().await;
    server.publish(&deletion_of(&alice)).await.accepted();
    is_gone(&alice, &server).await;
    server.restart().await;
    server.kill9().await;
    server.start_again().await;
    is_gone(&alice, &server).await;

    alice.announce().await;
    assert_eq!(alice.remote_refs().await, refs);
    let served = json!({"kinds": [30617, 30618], "#d": ["project"]});
    assert_eq!(server.query(served.clone()).await.len(), 2);
    server.kill9().await;
    server.start_again().await;
    assert_eq!(alice.remote_refs().await, refs);
    assert_eq!(server.query(served).await.len(), 2);
    // It goes on as if it had never been away.
    let (tip, _) = alice.advance("second").await;
    assert_eq!(alice.remote_refs().await["refs/heads/main"], tip);
}

/// DEL-5
#[tokio::test]
async fn after_its_retention_a_deleted_repository_is_gone_for_good() {
    let server = Server::configured()
        .env("NGIT_HOLDING_RETENTION_SECS", "1")
        .env("NGIT_HOLDING_CLEANUP_INTERVAL_SECS", "1")
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    server.publish(&deletion_of(&alice)).await.accepted();
    is_gone(&alice, &server).await;
    let archive = server.git_dir().join(".archive").join(alice.person.npub());
    eventually("the archive goes", async || !archive.exists()).await;
    alice.announce().await;
    assert!(alice.remote_refs().await.is_empty());
}

/// CLI-1, CLI-5: of a server that runs, and of the data of one that does not.
#[tokio::test]
async fn an_operator_lists_restores_and_ejects_what_is_held() {
    let mut server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let bob = Maintainer::named_serving("bob", "project", &server).await;
    // Bob moves elsewhere, which asks for no deletion.
    let elsewhere = bob
        .person
        .announcement("project", &server)
        .without("relays");
    server
        .publish(&elsewhere.tag(["relays", "wss://elsewhere.example"]).sign())
        .await
        .refused();
    server.publish(&deletion_of(&alice)).await.accepted();
    is_gone(&bob, &server).await;
    is_gone(&alice, &server).await;
    let list = server.operate(&["holding", "list"]).await.fine();
    for owner in [&alice.person, &bob.person] {
        assert!(list.contains(&owner.npub()), "{list}");
    }
    let named = |person: &Person| {
        let owner = person.npub();
        ["--owner", &owner, "--identifier", "project"].map(str::to_owned)
    };
    let with = |words: &[&str], person| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        words.chain(named(person)).collect()
    };
    let restore = with(&["holding", "restore"], &bob.person);
    let restore: Vec<&str> = restore.iter().map(String::as_str).collect();
    let said = server.operate(&restore).await.fine();
    assert!(said.contains("is back"), "{said}");
    assert_eq!(bob.remote_refs().await.len(), 2, "HEAD and main");

    server.terminate().await;
    let refused = with(&["holding", "restore"], &alice.person);
    let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
    let said = server.operate(&refused).await;
    assert!(
        said.code != Some(0) && said.err.contains("request"),
        "{said:?}"
    );
    let eject = with(&["holding-eject"], &alice.person);
    let eject: Vec<&str> = eject.iter().map(String::as_str).collect();
    let said = server.operate(&eject).await.fine();
    assert!(said.contains("gone for good"), "{said}");
    let said = server.operate(&["holding", "list"]).await.fine();
    assert!(said.contains("nothing is held"), "{said}");
}

/// Design §13, DEL-5, DEL-6: whatever step of leaving or coming back the power fails at, the next start goes on
/// from there, and nothing of the repository or its conversation is lost.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_crash_at_any_step_of_leaving_and_coming_back_loses_nothing() {
    const STEPS: &[&str] = &[
        "event.committed",
        "event.committed@2",
        "reconcile.begun",
        "reconcile.begun@2",
        "repository.archived",
        "repository.restored",
        "reconcile.done",
        "reconcile.done@2",
        "removal.planned",
        "removal.step",
        "return.step",
    ];
    for step in STEPS {
        let mut server = Server::spawn().await;
        let alice = Maintainer::serving("project", &server).await;
        let issue = Person::named("carol").issue(&alice.coordinate()).sign();
        server.publish(&issue).await.accepted();
        let refs = alice.remote_refs().await;
        let deletion = deletion_of(&alice);
        let again = alice.person.announcement("project", &server).sign();
        server.terminate().await;
        let armed = ("NGIT_FAILPOINT", Some(*step));
        if server.try_start_again_with(armed.0, armed.1).await {
            for event in [&deletion, &again] {
                let answer = grasp_testkit::relay::try_publish(&server.ws, event).await;
                if answer.is_none() {
                    break;
                }
            }
        }
        eventually("it dies", async || server.has_ended()).await;
        server.start_again_with("NGIT_FAILPOINT", None).await;
        for event in [&deletion, &again] {
            server.publish(event).await.accepted();
        }
        eventually(step, async || {
            server.serves(&again).await && server.serves(&issue).await
        })
        .await;
        assert_eq!(alice.remote_refs().await, refs, "{step}");
    }
}
