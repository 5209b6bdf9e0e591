//! What real git prints of the answers to a push (GIT-5, GIT-7, cases 6, 7).

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use crate::repository::{Repository, git, try_git};
use crate::server::{Pushes, Server};

/// A folder with a commit on `main`.
fn work() -> TempDir {
    let dir = TempDir::new().expect("a folder");
    git(dir.path(), &["init", "-q", "-b", "main"]);
    git(
        dir.path(),
        &["commit", "-q", "--allow-empty", "-m", "first"],
    );
    dir
}

async fn push(directory: &Path, url: &str, args: &[&str]) -> (bool, String) {
    let directory = directory.to_owned();
    let args: Vec<_> = [&["push"], args, &[url, "main"]]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
    tokio::task::spawn_blocking(move || {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let output = try_git(&directory, &args);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), printed)
    })
    .await
    .expect("git runs")
}

/// GIT-5, cases 7
#[tokio::test(flavor = "multi_thread")]
async fn git_prints_which_ref_was_refused_and_what_to_do() {
    let repository = Arc::new(Repository::empty());
    let server = Server::of(&repository).await;
    let work = work();
    let (success, printed) = push(work.path(), &server.url(), &[]).await;
    assert!(!success);
    for words in [
        "remote: authorisation failed: No state events in purgatory",
        "remote: Publish a state that declares what you push.",
        "! [remote rejected] main -> main (no signed state declares it)",
    ] {
        assert!(printed.contains(words), "{printed}");
    }
}

/// GIT-7, cases 6
#[tokio::test(flavor = "multi_thread")]
async fn git_takes_progress_keepalives_and_the_report() {
    let repository = Arc::new(Repository::empty());
    let server = Server::with(&repository, Pushes::Accepted).await;
    let work = work();
    let (success, printed) = push(
        work.path(),
        &server.url(),
        &["--progress", "-o", "secret-scanning.skip", "--atomic"],
    )
    .await;
    assert!(success, "{printed}");
    assert!(
        printed.contains("remote: GRASP is finalizing the push"),
        "{printed}"
    );
    assert!(printed.contains("[new branch]"), "{printed}");

    let (success, printed) = push(work.path(), &server.url(), &["--quiet"]).await;
    assert!(success, "{printed}");
    assert!(!printed.contains("GRASP"), "{printed}");
}

/// cases 2: a pack that is too long for the client's buffer comes in chunks, behind an empty request.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_in_chunks_is_answered() {
    let repository = Arc::new(Repository::empty());
    let server = Server::with(&repository, Pushes::Accepted).await;
    let noisy = Repository::with_noise(300_000);
    let (success, printed) = push(&noisy.path(), &server.url(), &[]).await;
    assert!(success, "{printed}");
    git(&noisy.path(), &["config", "http.postBuffer", "65536"]);
    let (success, printed) = push(&noisy.path(), &server.url(), &[]).await;
    assert!(success, "{printed}");
}

/// PUSH-17, cases 18
#[tokio::test(flavor = "multi_thread")]
async fn a_sha256_repository_is_refused_in_words() {
    let repository = Arc::new(Repository::empty());
    let server = Server::of(&repository).await;
    let dir = TempDir::new().expect("a folder");
    git(
        dir.path(),
        &["init", "-q", "-b", "main", "--object-format=sha256"],
    );
    git(
        dir.path(),
        &["commit", "-q", "--allow-empty", "-m", "first"],
    );
    let (success, printed) = push(dir.path(), &server.url(), &[]).await;
    assert!(!success);
    assert!(printed.contains("hash"), "{printed}");
}
