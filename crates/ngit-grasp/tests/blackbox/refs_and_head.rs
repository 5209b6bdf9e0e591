//! Refs and HEAD follow the signed state (REF-*, KIND-2).

use grasp_testkit::{GitHome, Maintainer, Server, json};

/// KIND-2, PUSH-11, cases 19
#[tokio::test]
async fn peeled_entries_of_a_state_are_no_refs() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    alice.work.git(["tag", "-a", "v1", "-m", "one"]).await;
    let tag = alice.work.rev("v1").await;
    let state = alice
        .publish_state([
            ("refs/heads/main", &first),
            ("refs/tags/v1", &tag),
            ("refs/tags/v1^{}", &first),
        ])
        .await;
    alice.push().await.accepted();
    assert_eq!(alice.remote_refs().await["refs/tags/v1"], tag);
    assert!(server.serves(&state).await);
}

/// PUSH-11, cases 24
#[tokio::test]
async fn a_tag_object_is_no_commit_and_the_refusal_shows_both() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    alice.work.git(["tag", "-a", "v1", "-m", "one"]).await;
    let tag = alice.work.rev("v1").await;
    alice
        .publish_state([("refs/heads/main", &first), ("refs/tags/v1", &first)])
        .await;
    let said = alice.push().await.refused();
    assert!(
        said.contains(&tag[..8]) && said.contains(&first[..8]),
        "{said}"
    );
}

/// REF-4, cases 20
#[tokio::test]
async fn head_is_the_branch_the_state_declares() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    alice.work.git(["branch", "-m", "trunk"]).await;
    for head in ["ref: refs/heads/trunk", "refs/heads/trunk"] {
        let state = alice
            .person
            .state("project", [("refs/heads/trunk", &first)])
            .without("HEAD")
            .tag(["HEAD", head])
            .sign();
        alice.publish(&state).await.accepted();
        alice.push().await.accepted();
        let clone = GitHome::new().clone_of(&alice.url(), "clone").await;
        assert_eq!(
            clone.git(["branch", "--show-current"]).await,
            "trunk",
            "{head}"
        );
    }
}

/// REF-4, cases 21
#[tokio::test]
async fn head_never_dangles_beside_real_branches() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    let cases: [(&[&str], &str); 4] = [
        (&["main", "a"], "refs/heads/main"),
        (&["master", "a"], "refs/heads/master"),
        (&["main", "master"], "refs/heads/main"),
        (&["b", "a", "c"], "refs/heads/a"),
    ];
    alice.publish_state([("refs/heads/main", &first)]).await;
    alice.push().await.accepted();
    for (branches, head) in cases {
        let refs = branches
            .iter()
            .map(|name| (format!("refs/heads/{name}"), &first));
        let state = alice
            .person
            .state("project", refs)
            .without("HEAD")
            .tag(["HEAD", "ref: refs/heads/gone"])
            .sign();
        assert_eq!(alice.publish(&state).await.accepted(), "");
        let home = GitHome::new();
        assert_eq!(home.remote_head(&alice.url()).await.as_deref(), Some(head));
        let clone = home.clone_of(&alice.url(), "clone").await;
        assert!(
            clone.path().join("first.txt").exists(),
            "it has a working tree"
        );
    }
}

/// REF-2, cases 22
#[tokio::test]
async fn what_a_newer_state_does_not_list_disappears() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    alice.work.git(["branch", "old"]).await;
    alice.work.git(["tag", "v0"]).await;
    let all = ["refs/heads/main", "refs/heads/old", "refs/tags/v0"];
    alice.publish_state(all.map(|name| (name, &first))).await;
    alice.push().await.accepted();
    let upload = format!("refs/nostr/{}", "a1".repeat(32));
    alice
        .push_refs(&[&format!("main:{upload}")])
        .await
        .accepted();
    alice.publish_state([("refs/heads/main", &first)]).await;
    let refs = alice.remote_refs().await;
    assert_eq!(
        refs.keys().collect::<Vec<_>>(),
        ["HEAD", "refs/heads/main", &upload]
    );
}

/// KIND-6, REF-2
#[tokio::test]
async fn a_state_without_refs_empties_the_repository() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let none: [(&str, &str); 0] = [];
    let state = alice.publish_state(none).await;
    assert!(server.serves(&state).await);
    assert!(alice.remote_refs().await.is_empty());
    GitHome::new().clone_of(&alice.url(), "empty").await;
}

/// KIND-6: no evidence of git data.
#[tokio::test]
async fn a_state_without_refs_releases_no_announcement() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let none: [(&str, &str); 0] = [];
    alice.publish(&alice.state(none)).await.accepted();
    let filter = json!({"kinds": [30617], "authors": [alice.person.hex()]});
    assert!(server.query(filter).await.is_empty());
}

/// REF-1, cases 25: a state is promoted as a whole.
#[tokio::test]
async fn refs_stay_until_all_of_a_newer_state_is_here() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let served = alice.remote_branches_and_tags().await;
    let first = alice.work.rev("HEAD").await;
    alice.work.git(["checkout", "-q", "-b", "next"]).await;
    let next = alice.commit("next").await;
    let state = alice
        .publish_state([("refs/heads/main", &first), ("refs/heads/next", &next)])
        .await;
    assert!(!server.serves(&state).await);
    assert_eq!(alice.remote_branches_and_tags().await, served);
    alice.push().await.accepted();
    assert!(server.serves(&state).await);
    assert_eq!(
        alice.remote_branches_and_tags().await["refs/heads/next"],
        next
    );
}

/// KIND-5, PUSH-14: the same author's older state, even if it comes later.
#[tokio::test]
async fn an_older_state_of_the_same_author_is_superseded() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    let older = alice.state([("refs/heads/main", &first)]);
    alice.advance("second").await;
    let refs = alice.remote_branches_and_tags().await;
    let said = alice.publish(&older).await.accepted();
    assert_eq!(said, "duplicate: superseded by a newer event");
    assert_eq!(alice.remote_branches_and_tags().await, refs);
}

/// GIT-12: `a` becomes `a/b` in one step.
#[tokio::test]
async fn a_branch_may_become_a_folder_of_branches() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let first = alice.work.rev("HEAD").await;
    for name in ["refs/heads/a", "refs/heads/a/b", "refs/heads/a"] {
        let state = alice
            .publish_state([("refs/heads/main", &first), (name, &first)])
            .await;
        assert!(server.serves(&state).await);
        let names = alice.remote_branches_and_tags().await;
        assert_eq!(names.keys().collect::<Vec<_>>(), [name, "refs/heads/main"]);
    }
}

/// KIND-3
#[tokio::test]
async fn a_state_that_contradicts_itself_is_refused() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let first = alice.work.rev("HEAD").await;
    let other = "1".repeat(40);
    let cases: [&[(&str, &str)]; 6] = [
        &[("refs/heads/main", &first), ("refs/heads/main", &other)],
        &[("refs/heads/a", &first), ("refs/heads/a/b", &first)],
        &[("refs/heads/../x", &first)],
        &[("refs/heads/a b", &first)],
        &[("refs/heads/x.lock", &first)],
        &[("refs/heads/", &first)],
    ];
    let before = alice.remote_refs().await;
    for refs in cases {
        let said = alice
            .publish(&alice.state(refs.iter().copied()))
            .await
            .refused();
        assert!(said.starts_with("invalid:"), "{refs:?}: {said}");
    }
    assert_eq!(alice.remote_refs().await, before);
}

/// KIND-3: audit tools sign such states.
#[tokio::test]
async fn a_state_with_a_nonsense_oid_may_wait_but_never_applies() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let before = alice.remote_refs().await;
    let long = "a".repeat(64);
    for nonsense in ["abc123", grasp_testkit::wire::ZERO, &long] {
        let state = alice.publish_state([("refs/heads/main", nonsense)]).await;
        assert!(!server.serves(&state).await, "{nonsense}");
    }
    assert_eq!(alice.remote_refs().await, before);
}

/// KIND-2: a symbolic branch makes no ref and takes no part in matching.
#[tokio::test]
async fn a_symbolic_branch_makes_no_ref() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    alice
        .publish_state([
            ("refs/heads/main", first.as_str()),
            ("refs/heads/alias", "ref: refs/heads/main"),
        ])
        .await;
    alice.push().await.accepted();
    let refs = alice.remote_branches_and_tags().await;
    assert_eq!(refs.keys().collect::<Vec<_>>(), ["refs/heads/main"]);
}

/// GIT-12: plain git on the disk lists everything, and finds nothing wrong.
#[tokio::test]
async fn plain_git_reads_the_repository_on_disk() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let bare = server.repository(&alice.person.npub(), "project");
    let home = alice.work.home();
    let listed = home
        .run(&bare, ["for-each-ref", "--format=%(refname)"])
        .await;
    assert_eq!(listed, "refs/heads/main");
    home.run(&bare, ["fsck", "--strict"]).await;
}
