//! Hosts that refuse, break off, or send something else.

use std::time::Duration;

use grasp_sync::fetch::FetchError;
use grasp_sync::hunt::{Broken, FetchOutcome};
use grasp_testkit::{Behaviour, GitHost};

use crate::support::{fetch, held, make_whole};

/// What fetching from a host that behaves so says of it.
async fn outcome(behaviour: Behaviour) -> FetchOutcome {
    let (host, _work, tip) = held().await;
    host.behave(behaviour);
    let error = fetch(&host.url("project"), [tip])
        .await
        .expect_err("a failure");
    error.outcome()
}

/// HUNT-7
#[tokio::test]
async fn a_host_that_is_asked_too_much_says_for_how_long() {
    for (header, seconds) in [(Some("7"), Some(7)), (None, None)] {
        let limited = outcome(Behaviour::too_many_requests(header)).await;
        let retry_after = seconds.map(Duration::from_secs);
        assert_eq!(limited, FetchOutcome::RateLimited { retry_after });
    }
}

/// HUNT-11: what passes is told from what is refused.
#[tokio::test]
async fn a_refusal_is_told_from_a_fault_of_the_server() {
    for status in [401, 403, 404, 410] {
        let refused = outcome(Behaviour::status(status)).await;
        assert_eq!(refused, FetchOutcome::Refused { status });
    }
    for status in [408, 500, 502, 503] {
        let down = outcome(Behaviour::status(status)).await;
        assert_eq!(down, FetchOutcome::Unavailable, "{status}");
    }
}

/// NET-3: case 68.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (elsewhere, _, _) = held().await;
    let redirect = Behaviour::redirect(&elsewhere.url("project"));
    assert_eq!(
        outcome(redirect).await,
        FetchOutcome::Refused { status: 302 }
    );
    assert_eq!(elsewhere.requests(), 0);
}

/// HUNT-11: what is no git at one address is not held against the host; what is no HTTP is.
#[tokio::test]
async fn what_is_no_git_is_told_from_what_is_no_web_server() {
    let no_git = FetchOutcome::Refused { status: 200 };
    assert_eq!(outcome(Behaviour::Dumb).await, no_git);
    assert_eq!(outcome(Behaviour::WrongType).await, no_git);
    let page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(outcome(Behaviour::Raw(page.to_vec())).await, no_git);
    let garbage = outcome(Behaviour::Raw(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec())).await;
    assert_eq!(garbage, FetchOutcome::Broken(Broken::Protocol));
}

/// HUNT-11: a host that is away is not a broken one.
#[tokio::test]
async fn a_host_that_is_away_or_breaks_off_is_tried_again() {
    let url = GitHost::dead_url("project").await;
    let error = fetch(&url, [crate::support::nobodys(1)])
        .await
        .expect_err("nobody is there");
    assert_eq!(error.outcome(), FetchOutcome::Unavailable);
    for most in [0, 5, 60, 100] {
        let broken = outcome(Behaviour::BreaksAfter(most)).await;
        assert_eq!(broken, FetchOutcome::Unavailable, "after {most} bytes");
    }
}

/// What nobody asked for is not unpacked.
#[tokio::test]
async fn an_answer_that_is_compressed_is_refused() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\
                  Content-Type: application/x-git-upload-pack-result\r\nContent-Length: 2\r\n\r\nhi";
    let refused = outcome(Behaviour::Raw(answer.into())).await;
    assert_eq!(refused, FetchOutcome::Refused { status: 200 });
}

/// HUNT-12: what is wrong inside of a pack is for whoever takes it in; it comes through as it was sent.
#[tokio::test]
async fn a_corrupt_pack_comes_as_it_is() {
    let (host, _work, tip) = held().await;
    let good = fetch(&host.url("project"), [tip]).await.unwrap();
    assert!(make_whole(&good.packs, tip).await);
    host.behave(Behaviour::CorruptPack);
    let bad = fetch(&host.url("project"), [tip]).await.unwrap();
    assert_eq!(bad.packs[0].len(), good.packs[0].len());
    assert_ne!(bad.packs, good.packs);
}

/// HUNT-9: a host's last words are its reason.
#[tokio::test]
async fn a_host_that_gives_up_is_quoted() {
    let (host, _work, tip) = held().await;
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n\
                  Connection: close\r\n\r\n000dpackfile\n0015\x03the disk is full";
    host.behave(Behaviour::Raw(answer.into()));
    let error = fetch(&host.url("project"), [tip])
        .await
        .expect_err("no pack");
    assert!(
        matches!(&error, FetchError::Remote(words) if words == "the disk is full"),
        "{error:?}"
    );
}
