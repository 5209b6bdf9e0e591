//! Pull requests: event first, git first, and what must not bind (PR-*, PUSH-4).

use grasp_testkit::maintainer::PURGATORY;
use grasp_testkit::{Event, GitHome, Maintainer, Person, Server, json};

/// A contributor with a clone and one commit of their own.
struct Contributor {
    person: Person,
    work: grasp_testkit::WorkTree,
    tip: String,
}

impl Contributor {
    async fn of(repository: &Maintainer) -> Self {
        let work = GitHome::new().clone_of(&repository.url(), "fork").await;
        let tip = work.commit("a change").await;
        Self {
            person: Person::named("carol"),
            work,
            tip,
        }
    }

    fn proposal(&self, repository: &Maintainer) -> Event {
        self.person
            .pull_request(&repository.coordinate(), &self.tip)
            .sign()
    }
}

fn reference(event: &Event) -> String {
    format!("refs/nostr/{}", event.id.to_hex())
}

/// PR-3, AFTER-5
#[tokio::test]
async fn an_event_that_comes_first_waits_for_its_commit() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Contributor::of(&alice).await;
    let pr = carol.proposal(&alice);
    assert_eq!(server.publish(&pr).await.accepted(), PURGATORY);
    assert!(!server.serves(&pr).await);
    let mut watcher = server.relay().await;
    watcher.subscribe("live", &[json!({"kinds": [1618]})]).await;
    watcher.stored("live").await;

    let target = format!("HEAD:{}", reference(&pr));
    carol
        .work
        .push_to(&alice.url(), &[&target])
        .await
        .accepted();
    assert!(server.serves(&pr).await);
    assert_eq!(watcher.live("live").await.id, pr.id);
    assert_eq!(alice.remote_refs().await[&reference(&pr)], carol.tip);
}

/// PR-4, CL-2, cases 37: what clients really do.
#[tokio::test]
async fn a_commit_that_comes_first_waits_for_its_event() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Contributor::of(&alice).await;
    let pr = carol.proposal(&alice);
    let target = format!("HEAD:{}", reference(&pr));
    carol
        .work
        .push_to(&alice.url(), &[&target])
        .await
        .accepted();
    assert_eq!(alice.remote_refs().await[&reference(&pr)], carol.tip);
    assert_eq!(server.publish(&pr).await.accepted(), "");
    assert!(server.serves(&pr).await);
    let fetched = GitHome::new().init("other").await;
    fetched
        .git(["fetch", "-q", &alice.url(), &reference(&pr)])
        .await;
    assert_eq!(fetched.rev("FETCH_HEAD").await, carol.tip);
}

/// PR-3: what is here already needs no push.
#[tokio::test]
async fn a_proposal_of_a_commit_that_is_here_is_served_at_once() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let first = alice.work.rev("HEAD").await;
    let pr = Person::named("carol")
        .pull_request(&alice.coordinate(), &first)
        .sign();
    assert_eq!(server.publish(&pr).await.accepted(), "");
    assert_eq!(alice.remote_refs().await[&reference(&pr)], first);
}

/// PUSH-4, G1-15, cases 31
#[tokio::test]
async fn a_known_event_takes_only_its_own_commit() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Contributor::of(&alice).await;
    let pr = carol.proposal(&alice);
    server.publish(&pr).await.accepted();
    let other = carol.work.commit("another").await;
    let name = reference(&pr);
    let said = carol
        .work
        .push_to(&alice.url(), &[&format!("{other}:{name}")])
        .await
        .refused();
    assert!(
        said.contains(&carol.tip[..8]) && said.contains(&other[..8]),
        "{said}"
    );
    assert!(!alice.remote_refs().await.contains_key(&name));
    let right = format!("{}:{name}", carol.tip);
    carol.work.push_to(&alice.url(), &[&right]).await.accepted();
    // Served now; still only this commit, and never deleted.
    carol
        .work
        .push_to(&alice.url(), &[&format!("+{other}:{name}")])
        .await
        .refused();
    carol
        .work
        .push_to(&alice.url(), &[&format!(":{name}")])
        .await
        .refused();
    carol.work.push_to(&alice.url(), &[&right]).await.accepted();
    assert_eq!(alice.remote_refs().await[&name], carol.tip);
}

/// PR-4, cases 31: git first, with a commit that the event does not name.
#[tokio::test]
async fn an_upload_that_its_event_contradicts_is_removed() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Contributor::of(&alice).await;
    let pr = carol.proposal(&alice);
    let name = reference(&pr);
    let other = carol.work.commit("another").await;
    carol
        .work
        .push_to(&alice.url(), &[&format!("{other}:{name}")])
        .await
        .accepted();
    server.publish(&pr).await;
    grasp_testkit::eventually("the wrong ref goes", async || {
        alice.remote_refs().await.get(&name) != Some(&other)
    })
    .await;
    carol
        .work
        .push_to(&alice.url(), &[&format!("{other}:{name}")])
        .await
        .refused();
}

/// PUSH-4: the first upload binds the id to its commit.
#[tokio::test]
async fn an_upload_is_neither_replaced_nor_deleted_by_a_push() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Contributor::of(&alice).await;
    let name = format!("refs/nostr/{}", "b2".repeat(32));
    let first = format!("{}:{name}", carol.tip);
    carol.work.push_to(&alice.url(), &[&first]).await.accepted();
    let other = carol.work.commit("another").await;
    carol
        .work
        .push_to(&alice.url(), &[&format!("+{other}:{name}")])
        .await
        .refused();
    carol
        .work
        .push_to(&alice.url(), &[&format!(":{name}")])
        .await
        .refused();
    carol.work.push_to(&alice.url(), &[&first]).await.accepted();
    assert_eq!(alice.remote_refs().await[&name], carol.tip);
}

/// G1-14, cases 27
#[tokio::test]
async fn an_upload_needs_no_state() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    alice.commit("first").await;
    let name = format!("refs/nostr/{}", "c3".repeat(32));
    alice.push_refs(&[&format!("main:{name}")]).await.accepted();
    assert!(alice.remote_refs().await.contains_key(&name));
}

/// PUSH-4: only proposals have such refs.
#[tokio::test]
async fn an_event_of_another_kind_takes_no_commit() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let issue = Person::named("carol").issue(&alice.coordinate()).sign();
    server.publish(&issue).await.accepted();
    alice
        .push_refs(&[&format!("main:{}", reference(&issue))])
        .await
        .refused();
}

/// PUSH-4: a refusal of one such ref hits it alone.
#[tokio::test]
async fn a_refused_proposal_ref_does_not_stop_the_branch_beside_it() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Contributor::of(&alice).await;
    let pr = carol.proposal(&alice);
    server.publish(&pr).await.accepted();
    let tip = alice.commit("second").await;
    alice.publish_state([("refs/heads/main", &tip)]).await;
    let said = alice
        .push_refs(&["main", &format!("main:{}", reference(&pr))])
        .await
        .refused();
    assert!(said.contains("refs/nostr/"), "{said}");
    assert_eq!(alice.remote_refs().await["refs/heads/main"], tip);
}

/// PR-1
#[tokio::test]
async fn a_proposal_needs_a_served_repository_and_a_commit() {
    let server = Server::spawn().await;
    let carol = Person::named("carol");
    let commit = "1".repeat(40);
    let waiting = Maintainer::announcing("waiting", &server).await;
    let pr = carol.pull_request(&waiting.coordinate(), &commit).sign();
    let said = server.publish(&pr).await.refused();
    assert!(
        said.contains("must reference an accepted repository"),
        "{said}"
    );

    let served = Maintainer::serving("served", &server).await;
    let pr = carol
        .pull_request(&served.coordinate(), &commit)
        .without("c")
        .sign();
    let said = server.publish(&pr).await.refused();
    assert_eq!(
        said,
        format!("invalid: PR event {} has no 'c' tag", pr.id.to_hex())
    );
}

/// PR-6: a blob is no change to merge.
#[tokio::test]
async fn the_tip_of_a_proposal_is_a_commit() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let blob = alice.work.rev("HEAD:first.txt").await;
    let pr = Person::named("carol")
        .pull_request(&alice.coordinate(), &blob)
        .sign();
    server.publish(&pr).await;
    assert!(!server.serves(&pr).await);
    alice
        .push_refs(&[&format!("{blob}:{}", reference(&pr))])
        .await
        .refused();
    assert!(!alice.remote_refs().await.contains_key(&reference(&pr)));
}

/// PR-5
#[tokio::test]
async fn an_update_has_a_ref_of_its_own() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Contributor::of(&alice).await;
    let pr = carol.proposal(&alice);
    let push = |event: Event, tip: String| {
        let url = alice.url();
        let work = carol.work.clone();
        async move {
            work.push_to(&url, &[&format!("{tip}:{}", reference(&event))])
                .await
        }
    };
    push(pr.clone(), carol.tip.clone()).await.accepted();
    server.publish(&pr).await.accepted();
    let better = carol.work.commit("better").await;
    let update = carol
        .person
        .pull_request_update(&alice.coordinate(), &pr, &better)
        .sign();
    push(update.clone(), better.clone()).await.accepted();
    assert_eq!(server.publish(&update).await.accepted(), "");
    let refs = alice.remote_refs().await;
    assert_eq!(refs[&reference(&pr)], carol.tip);
    assert_eq!(refs[&reference(&update)], better);
}

/// PR-2, AFTER-5: in every target.
#[tokio::test]
async fn a_proposal_is_shown_by_every_co_maintainer() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let bob = Maintainer::named("bob", "project", &server).await;
    for (who, other) in [(&alice, &bob), (&bob, &alice)] {
        let announcement = who
            .person
            .announcement("project", &server)
            .tag(["maintainers", &other.person.hex()])
            .sign();
        who.publish(&announcement).await.accepted();
    }
    alice.advance("first").await;
    let carol = Contributor::of(&alice).await;
    let pr = carol.proposal(&alice);
    server.publish(&pr).await.accepted();
    let target = format!("HEAD:{}", reference(&pr));
    carol.work.push_to(&bob.url(), &[&target]).await.accepted();
    for repository in [&alice, &bob] {
        assert_eq!(repository.remote_refs().await[&reference(&pr)], carol.tip);
    }
}

/// §22: one table of kinds; replies hang on a proposal only once it is served (REL-4).
#[tokio::test]
async fn a_reply_to_a_waiting_proposal_is_refused_until_it_is_served() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Contributor::of(&alice).await;
    let pr = carol.proposal(&alice);
    server.publish(&pr).await.accepted();
    let reply = Person::named("dave").comment(&pr).sign();
    let said = server.publish(&reply).await.refused();
    assert!(said.contains("must reference an accepted"), "{said}");
    let target = format!("HEAD:{}", reference(&pr));
    carol
        .work
        .push_to(&alice.url(), &[&target])
        .await
        .accepted();
    server.publish(&reply).await.accepted();
    assert!(server.serves(&reply).await);
}
