//! Announce, sign, push, clone: the main job with plain git and any Nostr client.

use grasp_testkit::maintainer::PURGATORY;
use grasp_testkit::{GitHome, Maintainer, Server, json};

/// ANN-2, G1-6, cases 33
#[tokio::test]
async fn an_announcement_is_unseen_until_its_first_signed_push() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("project", &server).await;
    let announcement = alice.person.announcement("project", &server).sign();
    let filter = json!({"kinds": [30617], "authors": [alice.person.hex()]});
    let mut watcher = server.relay().await;
    watcher
        .subscribe("live", std::slice::from_ref(&filter))
        .await;
    assert!(watcher.stored("live").await.is_empty());

    let answer = alice.publish(&announcement).await.accepted();
    assert_eq!(answer, PURGATORY);
    assert!(server.query(filter.clone()).await.is_empty());
    assert_eq!(server.relay().await.count(filter.clone()).await, 0);
    assert!(
        watcher.drain().await.is_empty(),
        "nothing is broadcast early"
    );

    let first = alice.commit("first").await;
    let state = alice.publish_state([("refs/heads/main", first)]).await;
    assert!(!server.serves(&state).await);
    alice.push().await.accepted();

    assert_eq!(
        server.query(filter).await,
        std::slice::from_ref(&announcement)
    );
    assert_eq!(watcher.live("live").await, announcement);
    assert!(server.serves(&state).await);
}

/// G1-11, ANN-2, CL-1, cases 21
#[tokio::test]
async fn an_announced_repository_is_cloned_empty_at_once() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let home = GitHome::new();
    for protocol in ["0", "1", "2"] {
        let option = format!("protocol.version={protocol}");
        let clone = home
            .clone_with(&alice.url(), protocol, &["-c", &option])
            .await;
        assert_eq!(clone.git(["symbolic-ref", "HEAD"]).await, "refs/heads/main");
        assert!(alice.remote_refs().await.is_empty());
    }
}

/// PUR-12, G1-12, G1-13, cases 10 and 36
#[tokio::test]
async fn relay_and_git_show_a_push_the_moment_git_reports_it() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    let state = alice.state([("refs/heads/main", &first)]);
    assert_eq!(alice.publish(&state).await.accepted(), PURGATORY);
    alice.push().await.accepted();
    assert!(server.serves(&state).await, "served when git has ended");
    assert_eq!(alice.remote_refs().await["refs/heads/main"], first);
}

/// The first sentence with plain git: more commits, tags, a branch deleted, a forced push.
#[tokio::test]
async fn a_project_lives_with_plain_git() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let second = alice.commit("second").await;
    alice.publish_state([("refs/heads/main", &second)]).await;
    alice.push().await.accepted();
    let clone = GitHome::new().clone_of(&alice.url(), "clone").await;
    assert_eq!(clone.rev("HEAD").await, second);
    assert!(clone.path().join("second.txt").exists());

    // A branch, a light and an annotated tag.
    alice.work.git(["branch", "feature/x"]).await;
    alice.work.git(["tag", "light"]).await;
    alice.work.git(["tag", "-a", "v1", "-m", "one"]).await;
    let tag = alice.work.rev("v1").await;
    let refs = [
        ("refs/heads/main", &second),
        ("refs/heads/feature/x", &second),
        ("refs/tags/light", &second),
        ("refs/tags/v1", &tag),
    ];
    alice.publish_state(refs).await;
    alice.push().await.accepted();
    let listed = alice.remote_refs().await;
    for (name, oid) in refs {
        assert_eq!(&listed[name], oid, "{name}");
    }
    assert_eq!(listed["refs/tags/v1^{}"], second);

    // The branch and a tag go.
    alice.work.git(["branch", "-D", "feature/x"]).await;
    alice
        .publish_state([("refs/heads/main", &second), ("refs/tags/v1", &tag)])
        .await;
    alice
        .push_refs(&[":refs/heads/feature/x", ":refs/tags/light"])
        .await
        .accepted();
    let listed = alice.remote_branches_and_tags().await;
    assert_eq!(
        listed.keys().collect::<Vec<_>>(),
        ["refs/heads/main", "refs/tags/v1"]
    );

    // History is rewritten.
    alice
        .work
        .git(["commit", "-q", "--amend", "-m", "again"])
        .await;
    let rewritten = alice.work.rev("HEAD").await;
    alice
        .publish_state([("refs/heads/main", &rewritten), ("refs/tags/v1", &tag)])
        .await;
    assert!(
        !alice.push_refs(&["main"]).await.ok,
        "git itself wants force"
    );
    alice.push_refs(&["+main"]).await.accepted();
    assert_eq!(alice.remote_refs().await["refs/heads/main"], rewritten);
}

/// G1-13, ST-3: what is complete already needs no push.
#[tokio::test]
async fn a_state_of_objects_that_are_here_is_applied_at_once() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let first = alice.work.rev("HEAD").await;
    let state = alice.state([("refs/heads/main", &first), ("refs/heads/develop", &first)]);
    assert_eq!(alice.publish(&state).await.accepted(), "");
    assert!(server.serves(&state).await);
    assert_eq!(alice.remote_refs().await["refs/heads/develop"], first);
}

/// PUSH-7, cases 30: nothing to prove, nothing to install.
#[tokio::test]
async fn a_push_that_changes_nothing_succeeds() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let packs = || {
        std::fs::read_dir(
            server
                .repository(&alice.person.npub(), "project")
                .join("objects/pack"),
        )
        .expect("it has packs")
        .count()
    };
    let before = packs();
    alice.push().await.accepted();
    // git says "up to date" by itself; this one really goes to the server.
    let first = alice.work.rev("HEAD").await;
    let body = grasp_testkit::wire::push_request(
        &[(&first, &first, "refs/heads/main")],
        grasp_testkit::wire::USUAL,
        &alice.work.pack(&[&first]).await,
    );
    let answer = server
        .http()
        .await
        .post(&(alice.path() + "/git-receive-pack"), &[], &body)
        .await;
    let report = grasp_testkit::wire::Report::of(&answer);
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(
        packs(),
        before,
        "PUSH-18: nothing walked, nothing installed"
    );
}

/// NAME-2, cases 83
#[tokio::test]
async fn an_identifier_may_be_any_text_that_is_a_file_name() {
    let server = Server::spawn().await;
    for identifier in [
        "my 🚀 repo",
        "x.git",
        "-rf",
        "a#b?c+d",
        ".github",
        "prs",
        "Ä",
    ] {
        let alice = Maintainer::serving(identifier, &server).await;
        let clone = GitHome::new().clone_of(&alice.url(), "clone").await;
        assert_eq!(
            clone.rev("HEAD").await,
            alice.work.rev("HEAD").await,
            "{identifier}"
        );
        let served = server
            .query(json!({"kinds": [30617], "#d": [identifier]}))
            .await;
        assert_eq!(served.len(), 1, "{identifier}");
        let page = server.request("GET", &alice.path(), &[]).await;
        assert_eq!(page.status, 200, "{identifier}");
    }
}

/// PUSH-16, PUSH-11
#[tokio::test]
async fn branches_below_pr_are_ordinary() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let first = alice.work.rev("HEAD").await;
    alice.work.git(["branch", "pr/one"]).await;
    alice
        .publish_state([("refs/heads/main", &first), ("refs/heads/pr/one", &first)])
        .await;
    alice.push().await.accepted();
    assert_eq!(alice.remote_refs().await["refs/heads/pr/one"], first);
}

/// PUSH-18: a push installs exactly what its accepted tips need.
#[tokio::test]
async fn what_no_signed_tip_needs_is_not_kept() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let first = alice.commit("first").await;
    let stowaway = alice.work.write_object("blob", b"a stowaway").await;
    alice.publish_state([("refs/heads/main", &first)]).await;
    let tree = alice.work.rev("HEAD^{tree}").await;
    let blob = alice.work.rev("HEAD:first.txt").await;
    let pack = alice.work.pack_of(&[&first, &tree, &blob, &stowaway]).await;
    let body = grasp_testkit::wire::push_request(
        &[(grasp_testkit::wire::ZERO, &first, "refs/heads/main")],
        grasp_testkit::wire::USUAL,
        &pack,
    );
    let answer = server
        .http()
        .await
        .post(&(alice.path() + "/git-receive-pack"), &[], &body)
        .await;
    assert!(grasp_testkit::wire::Report::of(&answer).is_ok());

    let bare = server.repository(&alice.person.npub(), "project");
    let home = alice.work.home();
    let kept = |oid: String| async move {
        home.try_run(&bare, ["cat-file", "-e", &oid])
            .await
            .status
            .success()
    };
    assert!(kept.clone()(first).await);
    assert!(!kept(stowaway).await);
}
