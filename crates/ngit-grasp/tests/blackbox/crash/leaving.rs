//! A crash while a scope leaves or comes back: what was acknowledged is so, and the rest can be asked again.

use grasp_testkit::relay::try_publish;
use grasp_testkit::{Event, Maintainer, Server};

use super::served_state_that_refs_agree_with;

/// Steps that a deletion by address, or the announcement after it, passes.
const STEPS: &[&str] = &[
    "commit.before",
    "commit.before@2",
    "commit.after",
    "commit.after@2",
    "event.committed",
    "event.committed@2",
    "reconcile.begun",
    "repository.archived",
    "repository.restored",
    "reconcile.done",
    "reconcile.done@2",
];

async fn is_accepted(alice: &Maintainer, event: &Event) -> bool {
    let answer = try_publish(&alice.server.ws, event).await;
    answer.is_some_and(|answer| answer.accepted)
}

/// Relay and git agree that there is nothing.
async fn is_gone(server: &Server, alice: &Maintainer, announcement: &Event) {
    assert!(!server.serves(announcement).await, "deleted");
    let target = grasp_testkit::wire::info_refs(&alice.path(), "git-upload-pack");
    grasp_testkit::eventually("the repository leaves", async || {
        server.request("GET", &target, &[]).await.status == 404
    })
    .await;
}

/// Design §13, DEL-4, DEL-5, DEL-6
#[tokio::test]
async fn a_crash_at_any_step_of_leaving_and_coming_back_is_made_good() {
    let mut never = Vec::new();
    for step in STEPS {
        let mut server = Server::spawn().await;
        let alice = Maintainer::new("project", &server).await;
        let announcement = alice.announce().await;
        let tip = alice.commit("first").await;
        let state = alice.publish_state([("refs/heads/main", &tip)]).await;
        alice.push().await.accepted();
        let address = alice.person.coordinate(&alice.identifier);
        let request = alice.person.draft(5).tag(["a", &address]).sign();
        let again = alice.person.announcement(&alice.identifier, &server);
        let again = again.sign();

        server.terminate().await;
        let (mut deleted, mut back) = (false, false);
        if server
            .try_start_again_with("NGIT_FAILPOINT", Some(step))
            .await
        {
            deleted = is_accepted(&alice, &request).await;
            back = is_accepted(&alice, &again).await;
            // Every step comes before the answer that depends on it.
            if deleted && back {
                never.push(*step);
            }
            server.kill9().await;
        }
        server.start_again_with("NGIT_FAILPOINT", None).await;

        if deleted && !server.serves(&again).await {
            assert!(!back, "{step}: it was said to be back");
            is_gone(&server, &alice, &announcement).await;
        }
        server.publish(&request).await.accepted();
        assert!(!server.serves(&announcement).await, "{step}");
        server.publish(&again).await.accepted();
        assert!(server.serves(&again).await, "{step}");
        let shown = served_state_that_refs_agree_with(&server, &alice).await;
        assert_eq!(shown.as_ref(), Some(&state), "{step}");
        let bare = server.repository(&alice.person.npub(), &alice.identifier);
        let home = alice.work.home();
        home.run(&bare, ["fsck", "--strict", "--full"]).await;
    }
    assert!(never.is_empty(), "never passed: {never:?}");
}
