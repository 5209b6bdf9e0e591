//! A crash while a scope leaves or comes back: what was acknowledged is so, and the rest can be asked again.

use grasp_testkit::relay::try_publish;
use grasp_testkit::{Event, Maintainer, Person, Server, json};

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

/// Steps that a request to vanish passes: it is kept and a plan with it, what its author made goes by one step,
/// what hung on that by another.
const VANISHING: &[&str] = &[
    "commit.before",
    "commit.after",
    "event.committed",
    "removal.planned",
    "commit.before@2",
    "commit.after@2",
    "commit.before@3",
    "commit.after@3",
    "removal.step",
    "reconcile.begun",
    "repository.archived",
    "reconcile.done",
    "removal.planned@2",
    "commit.before@4",
    "commit.after@4",
    "removal.step@2",
];

/// Two who maintain a project together, and what hangs on it.
struct Together {
    alice: Maintainer,
    bob: Maintainer,
    /// What Alice made.
    past: Vec<Event>,
    /// What hangs on her repository alone.
    hanging: Event,
    /// What others made and Alice has no part in.
    others: Vec<Event>,
}

impl Together {
    async fn serving(server: &Server) -> Self {
        let alice = Maintainer::new("project", server).await;
        let bob = Maintainer::named("bob", "project", server).await;
        let listing = |who: &Person, other: &Person| {
            let tag = ["maintainers".to_owned(), other.hex()];
            who.announcement("project", server).tag(tag).sign()
        };
        let announcement = listing(&alice.person, &bob.person);
        let theirs = listing(&bob.person, &alice.person);
        for event in [&announcement, &theirs] {
            server.publish(event).await.accepted();
        }
        let (_, first) = alice.advance("first").await;
        bob.work.git(["pull", "-q", &alice.url(), "main"]).await;
        let second = bob.commit("second").await;
        let state = bob.publish_state([("refs/heads/main", &second)]).await;
        bob.push().await.accepted();
        let unpushed = alice.commit("third").await;
        let waiting = alice.publish_state([("refs/heads/main", &unpushed)]).await;
        let carol = Person::named("carol");
        let hanging = carol.issue(&alice.coordinate()).sign();
        let issue = carol.issue(&bob.coordinate()).sign();
        for event in [&hanging, &issue] {
            server.publish(event).await.accepted();
        }
        Self {
            alice,
            bob,
            past: vec![announcement, first, waiting],
            hanging,
            others: vec![theirs, state, issue],
        }
    }

    /// The request is all that is left of Alice.
    async fn without_alice(&self, server: &Server, request: &Event, step: &str) {
        let authored = json!({"authors": [self.alice.person.hex()]});
        let bare = server.repository(&self.alice.person.npub(), "project");
        grasp_testkit::eventually("what she made goes", async || {
            server.query(authored.clone()).await == [request.clone()]
                && !server.serves(&self.hanging).await
                && !bare.exists()
        })
        .await;
        for event in &self.past {
            let said = server.publish(event).await.refused();
            assert!(said.contains("vanish"), "{step}: {said}");
        }
    }

    async fn with_bob(&self, server: &Server, step: &str) {
        for event in &self.others {
            assert!(server.serves(event).await, "{step}: kind {}", event.kind);
        }
        let shown = served_state_that_refs_agree_with(server, &self.bob).await;
        assert_eq!(shown.as_ref(), Some(&self.others[1]), "{step}");
        let bare = server.repository(&self.bob.person.npub(), "project");
        let home = self.bob.work.home();
        home.run(&bare, ["fsck", "--strict", "--full"]).await;
    }
}

/// Design §13, DEL-8
#[tokio::test]
async fn a_crash_at_any_step_of_vanishing_is_made_good() {
    let mut never = Vec::new();
    for step in VANISHING {
        let mut server = Server::spawn().await;
        let project = Together::serving(&server).await;
        let request = project.alice.person.draft(62).tag(["relay", "ALL_RELAYS"]);
        let request = request.sign();
        server.terminate().await;
        let armed = server
            .try_start_again_with("NGIT_FAILPOINT", Some(step))
            .await;
        assert!(armed, "{step}: a start passes none of these");
        if is_accepted(&project.alice, &request).await {
            // Every step comes before the answer.
            never.push(*step);
        }
        server.kill9().await;
        server.start_again_with("NGIT_FAILPOINT", None).await;

        let committed = server.serves(&request).await;
        assert_eq!(committed, *step != "commit.before", "{step}");
        if committed {
            project.without_alice(&server, &request, step).await;
        }
        project.with_bob(&server, step).await;
        server.publish(&request).await.accepted();
        project.without_alice(&server, &request, step).await;
        project.with_bob(&server, step).await;
    }
    assert!(never.is_empty(), "never passed: {never:?}");
}
