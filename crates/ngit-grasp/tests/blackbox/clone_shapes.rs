//! Whole, shallow and partial clones, single objects (GIT-1, GIT-2, G1-17).

use grasp_testkit::{GitHome, Maintainer, Server};

/// A served repository with a history of five commits.
async fn five_commits(server: &Server) -> Maintainer {
    let alice = Maintainer::announcing("project", server).await;
    for n in 0..5 {
        alice.commit(&format!("{n}")).await;
    }
    let tip = alice.work.rev("HEAD").await;
    alice.publish_state([("refs/heads/main", tip)]).await;
    alice.push().await.accepted();
    alice
}

/// G1-17, CL-3, cases 14
#[tokio::test]
async fn partial_clones_work_in_every_protocol() {
    let server = Server::spawn().await;
    let alice = five_commits(&server).await;
    for protocol in ["protocol.version=0", "protocol.version=2"] {
        for options in [
            &["--filter=blob:none"][..],
            &["--filter=tree:0"],
            &["--filter=blob:none", "--depth=1"],
            &["--filter=tree:0", "--depth=1"],
        ] {
            let home = GitHome::new();
            let url = alice.url();
            let mut args = vec!["-c", protocol, "clone", "--no-checkout"];
            args.extend(options);
            args.extend([url.as_str(), "clone"]);
            let output = home.try_run(home.path(), &args).await;
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{args:?}: {said}");
            assert!(
                !said.contains("filter"),
                "no 'filtering not recognized': {said}"
            );
            let clone = home.path().join("clone");
            let list = ["rev-list", "--objects", "--missing=print", "HEAD"];
            let missing = home.run(&clone, list).await;
            assert!(
                missing.lines().any(|line| line.starts_with('?')),
                "{args:?}: it is partial"
            );
            let text = home
                .run(&clone, ["-c", protocol, "cat-file", "-p", "HEAD:4.txt"])
                .await;
            assert_eq!(text, "4", "a blob arrives on demand");
        }
    }
}

/// Cases 15
#[tokio::test]
async fn a_shallow_clone_is_deepened_step_by_step() {
    let server = Server::spawn().await;
    let alice = five_commits(&server).await;
    for protocol in ["0", "1", "2"] {
        let option = format!("protocol.version={protocol}");
        let clone = GitHome::new()
            .clone_with(&alice.url(), "clone", &["-c", &option, "--depth=1"])
            .await;
        assert_eq!(clone.count("HEAD").await, 1, "{protocol}");
        clone.git(["fetch", "-q", "--deepen=2"]).await;
        assert_eq!(clone.count("HEAD").await, 3, "{protocol}");
        clone.git(["fetch", "-q", "--unshallow"]).await;
        assert_eq!(clone.count("HEAD").await, 5, "{protocol}");
    }
}

/// G1-17, GIT-2, cases 16 and 17
#[tokio::test]
async fn any_object_that_is_here_may_be_asked_for() {
    let server = Server::spawn().await;
    let alice = five_commits(&server).await;
    let upload = format!("refs/nostr/{}", "d4".repeat(32));
    let change = alice.commit("a change").await;
    alice
        .push_refs(&[&format!("{change}:{upload}")])
        .await
        .accepted();
    let reachable = alice.work.rev("main~3").await;
    let blob = alice.work.rev("main~1:2.txt").await;
    for protocol in ["protocol.version=0", "protocol.version=2"] {
        let other = GitHome::new().init("other").await;
        for oid in [&reachable, &change, &blob] {
            other
                .git(["-c", protocol, "fetch", "-q", &alice.url(), oid])
                .await;
            assert_eq!(other.rev("FETCH_HEAD").await, *oid, "{protocol}");
        }
        other
            .git(["-c", protocol, "fetch", "-q", &alice.url(), &upload])
            .await;
        assert_eq!(other.rev("FETCH_HEAD").await, change);
    }
}

/// GIT-6, cases 8
#[tokio::test]
async fn an_object_that_is_not_here_is_named_by_git() {
    let server = Server::spawn().await;
    let alice = five_commits(&server).await;
    let absent = "9".repeat(40);
    for protocol in ["protocol.version=0", "protocol.version=2"] {
        let args = ["-c", protocol, "fetch", &alice.url(), &absent].map(str::to_owned);
        let output = alice.work.try_git(args).await;
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&absent), "{said}");
        assert!(!said.contains("500"), "{said}");
    }
}

/// GIT-1: each protocol clones and fetches the same.
#[tokio::test]
async fn every_protocol_version_clones_and_fetches() {
    let server = Server::spawn().await;
    let alice = five_commits(&server).await;
    alice.work.git(["tag", "-a", "v1", "-m", "one"]).await;
    let (main, tag) = (alice.work.rev("main").await, alice.work.rev("v1").await);
    alice
        .publish_state([("refs/heads/main", &main), ("refs/tags/v1", &tag)])
        .await;
    alice.push().await.accepted();
    let mut clones = Vec::new();
    for protocol in ["0", "1", "2"] {
        let option = format!("protocol.version={protocol}");
        let clone = GitHome::new()
            .clone_with(&alice.url(), "clone", &["-c", &option])
            .await;
        assert_eq!(clone.rev("HEAD").await, main);
        assert_eq!(clone.rev("v1").await, tag, "tags follow");
        clones.push((clone, option));
    }
    let tip = alice.commit("more").await;
    alice
        .publish_state([("refs/heads/main", &tip), ("refs/tags/v1", &tag)])
        .await;
    alice.push().await.accepted();
    for (clone, option) in clones {
        clone.git(["-c", &option, "pull", "-q", "--ff-only"]).await;
        assert_eq!(clone.rev("HEAD").await, tip);
    }
}

/// The usual options of `git clone`.
#[tokio::test]
async fn single_branches_mirrors_and_bare_clones_work() {
    let server = Server::spawn().await;
    let alice = five_commits(&server).await;
    let main = alice.work.rev("main").await;
    let older = alice.work.rev("main~2").await;
    alice.work.git(["branch", "stable", &older]).await;
    alice
        .publish_state([("refs/heads/main", &main), ("refs/heads/stable", &older)])
        .await;
    alice.push().await.accepted();
    let home = GitHome::new();
    let single = home
        .clone_with(&alice.url(), "single", &["--single-branch", "-b", "stable"])
        .await;
    assert_eq!(single.rev("HEAD").await, older);
    assert_eq!(single.git(["branch", "-r"]).await, "origin/stable");
    let mirror = home.clone_with(&alice.url(), "mirror", &["--mirror"]).await;
    assert_eq!(
        mirror.git(["for-each-ref", "--format=%(refname)"]).await,
        "refs/heads/main\nrefs/heads/stable"
    );
    let since = home
        .clone_with(&alice.url(), "since", &["--shallow-exclude=stable"])
        .await;
    assert_eq!(since.count("HEAD").await, 2);
    // A slash at the end is tolerated.
    home.clone_of(&(alice.url() + "/"), "slash").await;
}

/// Cases 12: a client that goes away takes its processes along.
#[tokio::test]
async fn clones_that_are_broken_off_leave_no_process() {
    let server = Server::spawn().await;
    let alice = five_commits(&server).await;
    let before = grasp_testkit::process::open_files(server.pid());
    let want = format!(
        "0011command=fetch0001{}{}0000",
        String::from_utf8(grasp_testkit::pkt(format!(
            "want {}\n",
            alice.work.rev("main").await
        )))
        .expect("ascii"),
        "0009done\n"
    );
    let length = want.len().to_string();
    for n in 0..50 {
        let mut http = server.http().await;
        let headers = [
            ("Git-Protocol", "version=2"),
            ("Content-Length", length.as_str()),
        ];
        http.send_head("POST", &(alice.path() + "/git-upload-pack"), &headers)
            .await;
        // Some go before the request is complete, some while it is answered.
        http.send(&want.as_bytes()[..want.len() - n % 2 * 9]).await;
    }
    grasp_testkit::eventually("no child process and no open file is left", async || {
        grasp_testkit::process::tree(server.pid()).len() == 1
            && grasp_testkit::process::open_files(server.pid()) <= before + 4
    })
    .await;
}
