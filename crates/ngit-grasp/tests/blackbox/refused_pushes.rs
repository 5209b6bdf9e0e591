//! What the person at the terminal is told when no signed state covers a push.

use grasp_testkit::wire::{Report, USUAL, ZERO, push_request};
use grasp_testkit::{Maintainer, Person, Server};

/// The `remote:` and `[remote rejected]` lines: what a person sees of the server's words.
fn servers_words(stderr: &str) -> String {
    stderr
        .lines()
        .filter(|line| line.starts_with("remote:") || line.contains("rejected]"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// PUSH-10, cases 7 and 26
#[tokio::test]
async fn without_a_state_git_prints_that_one_is_needed() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    alice.commit("first").await;
    let said = servers_words(&alice.push().await.refused());
    assert!(said.contains("refs/heads/main"), "which ref: {said}");
    assert!(said.contains("30618"), "what to do next: {said}");
    assert!(alice.remote_refs().await.is_empty());
}

/// PUSH-10: which ref, what the signed state says, what to do next.
#[tokio::test]
async fn a_mismatch_names_the_ref_and_both_commits() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let signed = alice.commit("signed").await;
    alice.publish_state([("refs/heads/main", &signed)]).await;
    let unsigned = alice.commit("unsigned").await;
    let said = servers_words(&alice.push().await.refused());
    for word in ["refs/heads/main", &signed[..8], &unsigned[..8]] {
        assert!(said.contains(word), "{word} in {said}");
    }
    assert!(alice.remote_refs().await.is_empty());
    // The state still waits: its own commit is welcome.
    alice
        .push_refs(&[&format!("{signed}:refs/heads/main")])
        .await
        .accepted();
}

/// PUSH-10: refs that the state declares and the push does not bring.
#[tokio::test]
async fn a_push_that_brings_too_little_is_told_what_is_missing() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    alice.work.git(["branch", "develop"]).await;
    alice
        .publish_state([("refs/heads/main", &first), ("refs/heads/develop", &first)])
        .await;
    let said = servers_words(&alice.push_refs(&["main"]).await.refused());
    assert!(said.contains("refs/heads/develop"), "{said}");
    alice.push_refs(&["main", "develop"]).await.accepted();
}

/// PUSH-8, AFTER-1, cases 28
#[tokio::test]
async fn a_ref_the_state_does_not_declare_is_refused_by_name_alone() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    alice.work.git(["tag", "v1"]).await;
    let state = alice.publish_state([("refs/heads/main", &first)]).await;
    let said = alice.push_refs(&["main", "v1"]).await.refused();
    assert!(servers_words(&said).contains("v1"), "{said}");
    let refs = alice.remote_branches_and_tags().await;
    assert_eq!(refs.keys().collect::<Vec<_>>(), ["refs/heads/main"]);
    assert!(server.serves(&state).await, "what was accepted is released");
}

/// PUSH-8, AFTER-1
#[tokio::test]
async fn under_atomic_one_refusal_refuses_all() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    alice.work.git(["tag", "v1"]).await;
    let state = alice.publish_state([("refs/heads/main", &first)]).await;
    alice.push_refs(&["--atomic", "main", "v1"]).await.refused();
    assert!(alice.remote_refs().await.is_empty());
    assert!(!server.serves(&state).await);
    alice.push_refs(&["--atomic", "main"]).await.accepted();
}

/// PUSH-5, PUSH-4
#[tokio::test]
async fn refs_outside_branches_and_tags_are_refused() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let before = alice.remote_refs().await;
    let upper = format!("refs/nostr/{}", "A1".repeat(32));
    let long = format!("refs/nostr/{}", "a1".repeat(33));
    let below = format!("refs/nostr/{}/x", "a1".repeat(32));
    for name in [
        "refs/notes/commits",
        "refs/pull/1/head",
        "refs/nostr/nonsense",
        &upper,
        &long,
        &below,
    ] {
        let said = alice.push_refs(&[&format!("main:{name}")]).await.refused();
        assert!(servers_words(&said).contains("rejected"), "{name}: {said}");
    }
    assert_eq!(alice.remote_refs().await, before);
}

/// PUSH-9: a branch is not deleted without a state that says so.
#[tokio::test]
async fn deleting_what_the_state_declares_is_refused() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let before = alice.remote_refs().await;
    let said = alice.push_refs(&[":refs/heads/main"]).await.refused();
    assert!(servers_words(&said).contains("refs/heads/main"), "{said}");
    assert_eq!(alice.remote_refs().await, before);
}

/// PUSH-3
#[tokio::test]
async fn deleting_an_absent_ref_is_no_offence() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let body = push_request(&[(&"1".repeat(40), ZERO, "refs/heads/absent")], USUAL, b"");
    let target = alice.path() + "/git-receive-pack";
    let answer = server.http().await.post(&target, &[], &body).await;
    assert!(Report::of(&answer).is_ok(), "{:?}", Report::of(&answer));
}

/// PUSH-9, PUSH-14: an old state is no licence to roll a branch back.
#[tokio::test]
async fn a_state_that_lost_authorises_nothing() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let bob = Maintainer::named("bob", "project", &server).await;
    let invite = |who: &Person, other: &Person| {
        who.announcement("project", &server)
            .tag(["maintainers", &other.hex()])
            .sign()
    };
    alice
        .publish(&invite(&alice.person, &bob.person))
        .await
        .accepted();
    bob.publish(&invite(&bob.person, &alice.person))
        .await
        .accepted();
    let first = alice.commit("first").await;
    let older = bob
        .person
        .state("project", [("refs/heads/main", &first)])
        .sign();
    let (second, newer) = alice.advance("second").await;

    assert!(server.serves(&newer).await);
    server.publish(&older).await.accepted();
    let said = alice
        .push_refs(&[&format!("+{first}:refs/heads/main")])
        .await
        .refused();
    assert!(
        said.contains(&second[..8]) || said.contains("newer"),
        "names the winner: {said}"
    );
    assert_eq!(alice.remote_refs().await["refs/heads/main"], second);
}

/// GIT-5: HTTP 200, the text on band 3 beside a report per ref.
#[tokio::test]
async fn a_refusal_is_an_answer_of_git_not_of_http() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    let pack = alice.work.pack(&[&first]).await;
    let target = alice.path() + "/git-receive-pack";
    let command = [(ZERO, first.as_str(), "refs/heads/main")];

    let body = push_request(&command, USUAL, &pack);
    let answer = server.http().await.post(&target, &[], &body).await;
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type");
    assert_eq!(kind, "application/x-git-receive-pack-result");
    let report = Report::of(&answer);
    assert!(!report.is_ok());
    assert!(
        report.refs.contains_key("refs/heads/main")
            || report.fatal.contains("authorisation failed"),
        "{report:?}"
    );

    // No sideband, no report: a plain ERR.
    let body = push_request(&command, "agent=test", &pack);
    let answer = server.http().await.post(&target, &[], &body).await;
    assert_eq!(answer.status, 200);
    let report = Report::plain(&answer);
    assert!(
        report.fatal.starts_with("ERR authorisation failed: "),
        "{report:?}"
    );
}

/// PUSH-6
#[tokio::test]
async fn a_repository_nobody_announced_is_not_found() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("nothing", &server).await;
    alice.commit("first").await;
    let said = alice.push().await.refused();
    assert!(said.contains("not found"), "{said}");
    assert!(!server.git_dir().join(alice.person.npub()).exists());
}

/// PUSH-17, cases 18
#[tokio::test]
async fn a_sha256_repository_is_told_which_hash_is_spoken() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let home = alice.work.home();
    home.run(
        home.path(),
        ["init", "-q", "--object-format=sha256", "sha256"],
    )
    .await;
    let dir = home.path().join("sha256");
    home.run(&dir, ["commit", "-q", "--allow-empty", "-m", "x"])
        .await;
    let output = home.try_run(&dir, ["push", &alice.url(), "main"]).await;
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
    assert!(
        said.contains("sha256")
            || said.contains("sha1")
            || said.contains("object format")
            || said.contains("hash algorithm"),
        "{said}"
    );
}

/// PUSH-17
#[tokio::test]
async fn a_push_from_a_shallow_clone_needs_what_it_leaves_out() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    alice.advance("second").await;
    // To a repository that has the history: complete after unpacking.
    let home = alice.work.home();
    let shallow = home
        .clone_with(&alice.url(), "shallow", &["--depth=1"])
        .await;
    let third = shallow.commit("third").await;
    alice.publish_state([("refs/heads/main", &third)]).await;
    shallow.push_to(&alice.url(), &["main"]).await.accepted();
    assert_eq!(alice.remote_refs().await["refs/heads/main"], third);

    // To one that has not: refused, and nothing is shown.
    let other = Maintainer::named_announcing("bob", "other", &server).await;
    other.publish_state([("refs/heads/main", &third)]).await;
    shallow.push_to(&other.url(), &["main"]).await.refused();
    assert!(other.remote_refs().await.is_empty());
}

/// PUSH-1: push certificates are neither advertised nor taken.
#[tokio::test]
async fn a_signed_push_is_refused_by_git_itself() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    alice.commit("second").await;
    let said = alice.push_refs(&["--signed=true", "main"]).await.refused();
    assert!(
        said.contains("push certificate") || said.contains("--signed"),
        "{said}"
    );
}
