//! Hosts that never end, and hosts that never begin.

use grasp_sync::fetch::{FetchError, PackStream, Progress};
use grasp_sync::hunt::FetchOutcome;
use grasp_testkit::process::private_memory;
use grasp_testkit::{Behaviour, eventually};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tokio::io::AsyncReadExt as _;

use crate::support::{fetch, fetcher, held, nobodys, request};

/// HUNT-9: a list of refs without end is given up.
#[tokio::test]
async fn a_list_of_refs_has_an_end() {
    let (host, _work, _tip) = held().await;
    host.behave(Behaviour::EndlessRefs);
    let error = fetch(&host.url("project"), [nobodys(1)])
        .await
        .expect_err("no end");
    assert!(
        matches!(error.outcome(), FetchOutcome::Harmful { .. }),
        "{error}"
    );
    eventually("the connection is closed", async || host.running() == 0).await;
}

/// HUNT-9: words beside a pack are dropped, and have an end.
#[tokio::test]
async fn progress_text_has_an_end() {
    let (host, _work, tip) = held().await;
    host.behave(Behaviour::EndlessProgress);
    let error = fetch(&host.url("project"), [tip])
        .await
        .expect_err("no end");
    assert!(matches!(error, FetchError::TooMuch { .. }), "{error}");
}

/// HUNT-9: a pack is handed on as it comes: nobody holds it, and whoever has had enough hangs up.
#[tokio::test]
async fn a_pack_without_end_takes_no_memory() {
    const ENOUGH: u64 = 100 << 20;
    let (host, _work, tip) = held().await;
    host.behave(Behaviour::EndlessPack);
    let fetcher = fetcher();
    let progress = Progress::new();
    let wanted = request(&host.url("project"), [tip]);
    let mut fetching = fetcher.fetch(wanted, progress.clone()).await.unwrap();
    let mut pack: PackStream = fetching.next().await.unwrap().expect("a pack");
    let before = private_memory(std::process::id());
    let mut room = vec![0; 64 * 1_024];
    while progress.bytes() < ENOUGH {
        assert_ne!(pack.read(&mut room).await.unwrap(), 0);
    }
    // Other tests run in this process, too.
    let grown = private_memory(std::process::id()).saturating_sub(before);
    assert!(grown < ENOUGH / 2, "{grown} bytes");
    drop(pack);
    eventually("the connection is closed", async || host.running() == 0).await;
}

/// HUNT-9: nothing is left of a fetch that is given up, whatever it waited for.
#[tokio::test]
async fn a_fetch_that_is_given_up_hangs_up() {
    let (host, _work, tip) = held().await;
    for behaviour in [Behaviour::Silent, Behaviour::StallsAfter(5)] {
        host.behave(behaviour);
        let url = host.url("project");
        let fetching = tokio::spawn(async move { fetch(&url, [tip]).await });
        eventually("the host is asked", async || host.running() == 1).await;
        fetching.abort();
        // It notices when it has something to say.
        eventually("nobody waits there", async || {
            host.behave(Behaviour::Faithful);
            host.running() == 0
        })
        .await;
    }
}

/// HUNT-9: no answer of a host makes anything panic, wait for ever, or grow.
#[tokio::test]
async fn no_answer_is_too_strange() {
    let (host, _work, tip) = held().await;
    let mut runner = TestRunner::deterministic();
    let url = host.url("project");
    let before = private_memory(std::process::id());
    for _ in 0..300 {
        let answer = answers().new_tree(&mut runner).unwrap().current();
        host.behave(Behaviour::Raw(answer.clone()));
        let fetched = fetch(&url, [tip, nobodys(1)]);
        let fetched = tokio::time::timeout(grasp_testkit::DEADLINE * 3, fetched).await;
        let fetched = fetched.unwrap_or_else(|_| panic!("no end: {}", answer.escape_ascii()));
        assert!(fetched.is_err() || fetched.is_ok_and(|came| came.packs.len() < 3));
    }
    let grown = private_memory(std::process::id()).saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes");
}

/// Answers that are nearly right in one way or another.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    let status = prop_oneof![
        Just("200 OK"),
        Just("200 OK"),
        Just("429 X"),
        Just("500 X"),
        Just("999 X")
    ];
    let kind = prop_oneof![
        Just("application/x-git-upload-pack-result"),
        Just("application/x-git-upload-pack-advertisement"),
        Just("text/html"),
    ];
    let framing = prop_oneof![
        Just("Connection: close"),
        Just("Content-Length: 30"),
        Just("Content-Length: 99999999999"),
        Just("Transfer-Encoding: chunked"),
    ];
    let body = proptest::collection::vec(packet(), 0..6);
    (status, kind, framing, body, any::<bool>()).prop_map(
        |(status, kind, framing, body, is_http)| {
            let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{framing}\r\n\r\n");
            let body = body.concat();
            let chunk = format!("{:x}\r\n", body.len());
            match framing {
                _ if !is_http => body,
                "Transfer-Encoding: chunked" => [head.as_bytes(), chunk.as_bytes(), &body].concat(),
                _ => [head.into_bytes(), body].concat(),
            }
        },
    )
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    let known = |text: &'static [u8]| Just(text.to_vec());
    prop_oneof![
        known(b"000dpackfile\n"),
        known(b"0000"),
        known(b"0001"),
        known(b"0002"),
        known(b"0004"),
        known(b"001e# service=git-upload-pack\n"),
        known(b"000eversion 2\n"),
        known(b"000eversion 1\n"),
        known(b"0034ERR upload-pack: not our ref \x01\x01"),
        known(b"0009\x01PACK"),
        known(b"0006\x02x"),
        known(b"0006\x03x"),
        known(b"fff0"),
        known(b"ffff"),
        proptest::collection::vec(any::<u8>(), 0..60),
        proptest::collection::vec(any::<u8>(), 0..60).prop_map(grasp_testkit::pkt),
    ]
}
