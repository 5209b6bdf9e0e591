//! Clones and fetches by real git, in every version of the protocol (cases 1, 3, 8, 14-17, 20, 21).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::repository::{Repository, git, try_git};
use crate::server::Server;

const VERSIONS: [&str; 3] = [
    "protocol.version=0",
    "protocol.version=1",
    "protocol.version=2",
];

/// A client's folder, and git commands in it that talk one version.
struct Client {
    dir: TempDir,
    version: &'static str,
    url: String,
}

/// What git did: whether it worked, and what it printed for the user.
#[derive(Debug)]
struct Printed {
    success: bool,
    text: String,
}

impl Client {
    fn new(server: &Server, version: &'static str) -> Self {
        Self {
            dir: TempDir::new().expect("a folder"),
            version,
            url: server.url(),
        }
    }

    fn clone_path(&self) -> PathBuf {
        self.dir.path().join("clone")
    }

    async fn run(&self, directory: &Path, args: &[&str]) -> Printed {
        let directory = directory.to_owned();
        let args: Vec<_> = ["-c", self.version]
            .into_iter()
            .chain(args.iter().copied())
            .map(str::to_owned)
            .collect();
        tokio::task::spawn_blocking(move || {
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            let output = try_git(&directory, &args);
            Printed {
                success: output.status.success(),
                text: String::from_utf8_lossy(&output.stderr).into_owned()
                    + &String::from_utf8_lossy(&output.stdout),
            }
        })
        .await
        .expect("git runs")
    }

    async fn clone(&self, options: &[&str]) -> String {
        let mut args = vec!["clone"];
        args.extend(options);
        args.extend([self.url.as_str(), "clone"]);
        let printed = self.run(self.dir.path(), &args).await;
        assert!(printed.success, "{}: {}", self.version, printed.text);
        printed.text
    }

    /// In the clone; must work.
    async fn git(&self, args: &[&str]) -> String {
        let printed = self.run(&self.clone_path(), args).await;
        assert!(
            printed.success,
            "{} {args:?}: {}",
            self.version, printed.text
        );
        printed.text.trim().to_owned()
    }

    async fn commits(&self) -> String {
        self.git(&["rev-list", "--count", "HEAD"]).await
    }
}

async fn serving(repository: Repository) -> (Arc<Repository>, Server) {
    let repository = Arc::new(repository);
    let server = Server::of(&repository).await;
    (repository, server)
}

/// cases 3, 20
#[tokio::test(flavor = "multi_thread")]
async fn a_clone_is_whole_and_on_the_declared_branch() {
    let (repository, server) = serving(Repository::with_history(3)).await;
    git(&repository.path(), &["branch", "trunk", "main~1"]);
    git(
        &repository.path(),
        &["symbolic-ref", "HEAD", "refs/heads/trunk"],
    );
    for version in VERSIONS {
        let client = Client::new(&server, version);
        client.clone(&[]).await;
        assert_eq!(client.git(&["branch", "--show-current"]).await, "trunk");
        assert_eq!(client.git(&["rev-parse", "v1"]).await, repository.rev("v1"));
        assert_eq!(client.commits().await, "2");
        client.git(&["fsck", "--full", "--strict"]).await;
    }
}

/// cases 21
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_repository_can_be_cloned() {
    let (_repository, server) = serving(Repository::empty()).await;
    for version in VERSIONS {
        let client = Client::new(&server, version);
        let printed = client.clone(&[]).await;
        assert!(printed.contains("empty repository"), "{printed}");
    }
}

/// cases 15
#[tokio::test(flavor = "multi_thread")]
async fn a_shallow_clone_deepens_step_by_step() {
    let (_repository, server) = serving(Repository::with_history(6)).await;
    for version in VERSIONS {
        let client = Client::new(&server, version);
        client.clone(&["--depth=1"]).await;
        assert_eq!(client.commits().await, "1");
        client.git(&["fetch", "--deepen=2"]).await;
        assert_eq!(client.commits().await, "3");
        client.git(&["fetch", "--unshallow"]).await;
        assert_eq!(client.commits().await, "6");
        client.git(&["fsck", "--full", "--strict"]).await;
    }
}

/// GIT-2
#[tokio::test(flavor = "multi_thread")]
async fn history_can_be_cut_at_a_time_or_a_tag() {
    let (_repository, server) = serving(Repository::with_tags(5)).await;
    for version in VERSIONS {
        let client = Client::new(&server, version);
        client.clone(&["--shallow-exclude=t1"]).await;
        assert_eq!(client.commits().await, "3");
        let client = Client::new(&server, version);
        client.clone(&["--shallow-since=2000-01-01"]).await;
        assert_eq!(client.commits().await, "5");
    }
}

/// cases 14
#[tokio::test(flavor = "multi_thread")]
async fn partial_clones_fetch_the_rest_on_demand() {
    let (repository, server) = serving(Repository::with_history(3)).await;
    for version in VERSIONS {
        for options in [
            &["--filter=blob:none"][..],
            &["--filter=tree:0"],
            &["--filter=blob:none", "--depth=1"],
            &["--filter=tree:0", "--depth=1"],
        ] {
            let client = Client::new(&server, version);
            let mut options = options.to_vec();
            options.push("--no-checkout");
            let printed = client.clone(&options).await;
            assert!(!printed.contains("filtering not recognized"), "{printed}");
            let missing = client
                .git(&["rev-list", "--objects", "--missing=print", "HEAD"])
                .await;
            assert!(missing.contains('?'), "{version} {options:?}: {missing}");
            client.git(&["checkout", "main"]).await;
            assert!(client.clone_path().join("file-2").exists());
        }
    }
    drop(repository);
}

/// cases 16, 17
#[tokio::test(flavor = "multi_thread")]
async fn any_object_that_is_there_can_be_fetched() {
    let (repository, server) = serving(Repository::with_history(3)).await;
    let proposal = format!("refs/nostr/{}", "a".repeat(64));
    let proposal = repository.rev(&proposal);
    let blob = repository.rev("main:file-0");
    let reachable = repository.rev("main~1");
    for version in VERSIONS {
        let client = Client::new(&server, version);
        client.clone(&["--filter=blob:none", "--no-checkout"]).await;
        for oid in [&reachable, &proposal, &blob] {
            client.git(&["fetch", "origin", oid]).await;
            client.git(&["cat-file", "-e", oid]).await;
        }
    }
}

/// GIT-6, cases 8
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_object_is_named_in_the_error() {
    let (_repository, server) = serving(Repository::with_history(1)).await;
    let unknown = "9".repeat(40);
    for version in VERSIONS {
        let client = Client::new(&server, version);
        client.clone(&[]).await;
        let printed = client
            .run(&client.clone_path(), &["fetch", "origin", &unknown])
            .await;
        assert!(!printed.success);
        assert!(printed.text.contains("remote error"), "{}", printed.text);
        assert!(printed.text.contains(&unknown), "{}", printed.text);
    }
}

/// cases 1: the client compresses its list of wants.
#[tokio::test(flavor = "multi_thread")]
async fn a_repository_with_400_tags_can_be_cloned() {
    let (_repository, server) = serving(Repository::with_tags(400)).await;
    for version in VERSIONS {
        let client = Client::new(&server, version);
        client.clone(&[]).await;
        assert_eq!(client.git(&["tag"]).await.lines().count(), 400);
    }
}

/// HTTP-3, HTTP-6: a request too long for the client's buffer comes in chunks, behind an empty one.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_chunks_is_answered() {
    let (repository, server) = serving(Repository::with_tags(2_000)).await;
    for version in VERSIONS {
        let client = Client::new(&server, version);
        client
            .clone(&["-c", "http.postBuffer=65536", "--no-tags", "--depth=1"])
            .await;
        client
            .git(&[
                "-c",
                "http.postBuffer=65536",
                "fetch",
                "--depth=2000",
                "origin",
                "refs/tags/*:refs/tags/*",
            ])
            .await;
        assert_eq!(client.git(&["tag"]).await.lines().count(), 2_000);
    }
    drop(repository);
}

/// A second fetch negotiates over several requests and gets only what is new.
#[tokio::test(flavor = "multi_thread")]
async fn an_increment_is_negotiated() {
    let (repository, server) = serving(Repository::with_tags(300)).await;
    for version in VERSIONS {
        let client = Client::new(&server, version);
        client.clone(&["--no-tags"]).await;
        for number in 0..40 {
            client
                .git(&[
                    "-c",
                    "user.name=B",
                    "-c",
                    "user.email=b@c",
                    "commit",
                    "-q",
                    "--allow-empty",
                    "-m",
                    &number.to_string(),
                ])
                .await;
        }
        let work = client.dir.path().join("work");
        let bare = repository.path();
        git(
            client.dir.path(),
            &["clone", "-q", &bare.to_string_lossy(), "work"],
        );
        git(&work, &["commit", "-q", "--allow-empty", "-m", version]);
        git(&work, &["push", "-q", "origin", "main"]);
        client.git(&["fetch", "--no-tags", "origin"]).await;
        assert_eq!(
            client.git(&["rev-parse", "origin/main"]).await,
            repository.rev("main")
        );
    }
}
