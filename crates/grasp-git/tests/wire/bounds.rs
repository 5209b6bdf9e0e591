//! A fetch costs what it may cost, and ends with its client (GIT-6, REF-7, cases 12).

use std::io::{self, Cursor};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use grasp_git::http::{
    Answer, Fetches, ProtocolVersion, UploadConfig, UploadRepo, WireError, upload_pack,
};
use grasp_git::pktline;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;
use tokio_util::io::StreamReader;

use crate::repository::Repository;

const SOON: Duration = Duration::from_secs(20);

fn config() -> UploadConfig {
    UploadConfig::new(Fetches::new(2, 2))
}

/// Every child ends by itself, soon.
async fn ended(config: &UploadConfig) {
    timeout(SOON, config.fetches.close(Duration::MAX))
        .await
        .expect("the children end");
    assert_eq!(config.fetches.running(), 0);
}

fn fetch_of(oid: &str) -> Vec<u8> {
    let mut out = Vec::new();
    pktline::line(&mut out, "command=fetch");
    pktline::delimiter(&mut out);
    pktline::line(&mut out, format_args!("want {oid}"));
    pktline::line(&mut out, "done");
    pktline::flush(&mut out);
    out
}

async fn ask(
    path: PathBuf,
    lease: impl Send + 'static,
    body: impl AsyncRead + Send + Unpin + 'static,
    config: &UploadConfig,
) -> Result<Answer, WireError> {
    let repo = UploadRepo {
        path,
        refs: Arc::new(grasp_git::refs::RefSnapshot::unborn(
            "refs/heads/main".parse().expect("valid"),
        )),
        lease,
    };
    upload_pack(repo, ProtocolVersion::V2, body, config).await
}

async fn text(answer: Answer) -> String {
    let parts: Vec<_> = answer.map(|part| part.expect("no error")).collect().await;
    String::from_utf8_lossy(&parts.concat()).into_owned()
}

/// REF-7, cases 12
#[tokio::test]
async fn a_client_that_leaves_takes_the_child_with_it() {
    let repository = Arc::new(Repository::with_noise(4_000_000));
    let config = config();
    let request = Cursor::new(fetch_of(&repository.rev("main")));
    let lease = Arc::clone(&repository);
    let mut answer = ask(repository.path(), lease, request, &config)
        .await
        .expect("an answer");
    answer.next().await.expect("output").expect("no error");
    assert_eq!(config.fetches.running(), 1);
    assert_eq!(Arc::strong_count(&repository), 2);
    drop(answer);
    ended(&config).await;
    assert_eq!(Arc::strong_count(&repository), 1, "the lease is let go");
}

/// cases 88
#[tokio::test]
async fn a_shutdown_ends_what_has_had_its_time() {
    let repository = Repository::with_noise(4_000_000);
    let config = config();
    let request = Cursor::new(fetch_of(&repository.rev("main")));
    let answer = ask(repository.path(), (), request, &config)
        .await
        .expect("an answer");
    timeout(SOON, config.fetches.close(Duration::from_millis(20)))
        .await
        .expect("the child is ended");
    let parts: Vec<_> = answer.collect().await;
    assert!(parts.last().is_some_and(Result::is_err));
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_given_up() {
    let repository = Repository::with_noise(4_000_000);
    let mut config = config();
    config.stall_max = Duration::from_millis(50);
    let request = Cursor::new(fetch_of(&repository.rev("main")));
    let answer = ask(repository.path(), (), request, &config)
        .await
        .expect("an answer");
    ended(&config).await;
    let parts: Vec<_> = answer.collect().await;
    assert!(parts.len() < 10, "most of the pack was never read");
    assert!(
        parts.last().is_some_and(Result::is_err),
        "what was cut off does not look complete"
    );
}

/// HTTP-4
#[tokio::test]
async fn a_request_that_breaks_off_ends_the_child() {
    let repository = Repository::with_history(1);
    let config = config();
    let mut head = fetch_of(&repository.rev("main"));
    head.truncate(head.len() - 8);
    let body = StreamReader::new(stream::iter([
        Ok(Bytes::from(head)),
        Err(io::Error::from(io::ErrorKind::ConnectionReset)),
    ]));
    let answer = ask(repository.path(), (), body, &config)
        .await
        .expect("an answer");
    let parts: Vec<_> = answer.collect().await;
    assert!(parts.last().is_some_and(Result::is_err), "{parts:?}");
    ended(&config).await;
}

#[tokio::test]
async fn a_request_above_the_bound_is_refused_by_name() {
    let repository = Repository::with_history(1);
    let mut config = config();
    config.request_max = 10_000;
    let oid = repository.rev("main");
    let mut head = fetch_of(&oid);
    head.truncate(head.len() - 4);
    let haves = format!("0032have {}\n", "1".repeat(40)).repeat(1_000);
    let body = Cursor::new(head).chain(Cursor::new(haves));
    let answer = ask(repository.path(), (), body, &config)
        .await
        .expect("an answer");
    let text = text(answer).await;
    assert!(
        text.contains("ERR upload-pack: request is larger than the limit of 10000 bytes"),
        "{text}"
    );
}

/// GIT-6
#[tokio::test]
async fn a_child_that_dies_without_a_word_is_spoken_for() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let request = Cursor::new(fetch_of(&"1".repeat(40)));
    let answer = ask(folder.path().to_owned(), (), request, &config())
        .await
        .expect("an answer");
    let text = text(answer).await;
    assert!(text.contains("ERR upload-pack: "), "{text}");
    assert!(text.contains("not appear to be a git repository"), "{text}");
}

#[tokio::test]
async fn a_full_queue_is_said_and_listing_needs_no_place_in_it() {
    let config = UploadConfig::new(Fetches::new(0, 0));
    let request = Cursor::new(fetch_of(&"1".repeat(40)));
    let answer = ask(PathBuf::from("/"), (), request, &config)
        .await
        .expect("an answer");
    assert!(text(answer).await.contains("busy"));
    let request = Cursor::new(b"0014command=ls-refs\n0000");
    let answer = ask(PathBuf::from("/"), (), request, &config)
        .await
        .expect("an answer");
    assert_eq!(text(answer).await, "0000");
}
