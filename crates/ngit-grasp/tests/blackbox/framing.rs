//! The bytes git clients really send, and some they should not (HTTP-3, GIT-10).

use grasp_testkit::wire::{Report, USUAL, ZERO, advertised, info_refs, push_request};
use grasp_testkit::{GitHome, HttpConnection, Maintainer, Server, gzip};

const RESULT: &str = "application/x-git-receive-pack-result";

/// A repository that waits for a push of `main`, and the request that brings it.
struct Ready {
    server: Server,
    alice: Maintainer,
    tip: String,
    body: Vec<u8>,
    target: String,
}

impl Ready {
    async fn with_file(content: &[u8]) -> Self {
        let server = Server::spawn().await;
        let alice = Maintainer::announcing("project", &server).await;
        let tip = alice.work.commit_file("file", content).await;
        alice.publish_state([("refs/heads/main", &tip)]).await;
        let pack = alice.work.pack(&[&tip]).await;
        let command = [(ZERO, tip.as_str(), "refs/heads/main")];
        Self {
            body: push_request(&command, USUAL, &pack),
            target: alice.path() + "/git-receive-pack",
            server,
            alice,
            tip,
        }
    }

    async fn is_pushed(&self) {
        assert_eq!(self.alice.remote_refs().await["refs/heads/main"], self.tip);
    }
}

/// Text that does not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut noise = Vec::with_capacity(bytes + 8);
    while noise.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    noise.truncate(bytes);
    noise
}

/// HTTP-3, cases 2
#[tokio::test]
async fn a_chunked_push_is_streamed() {
    let ready = Ready::with_file(&noise(5 << 20)).await;
    let mut http = ready.server.http().await;
    http.send_head("POST", &ready.target, &[("Transfer-Encoding", "chunked")])
        .await;
    for chunk in ready.body.chunks(65_000) {
        http.send_chunk(chunk).await;
    }
    http.send_chunk(b"").await;
    let answer = http.response("POST").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, RESULT)
    );
    assert!(Report::of(&answer).is_ok());
    ready.is_pushed().await;
}

/// HTTP-3: chunks of one byte are chunks.
#[tokio::test]
async fn the_size_of_chunks_does_not_matter() {
    let ready = Ready::with_file(b"small").await;
    let mut http = ready.server.http().await;
    http.send_head("POST", &ready.target, &[("Transfer-Encoding", "chunked")])
        .await;
    for chunk in ready.body.chunks(1) {
        http.send_chunk(chunk).await;
    }
    http.send_chunk(b"").await;
    assert!(Report::of(&http.response("POST").await).is_ok());
    ready.is_pushed().await;
}

/// HTTP-3, cases 1
#[tokio::test]
async fn a_compressed_push_is_inflated() {
    for encoding in ["gzip", "x-gzip"] {
        let ready = Ready::with_file(b"small").await;
        let body = gzip(&ready.body);
        let headers = [("Content-Encoding", encoding)];
        let answer = ready
            .server
            .http()
            .await
            .post(&ready.target, &headers, &body)
            .await;
        assert!(Report::of(&answer).is_ok(), "{encoding}");
        ready.is_pushed().await;
    }
}

/// HTTP-3: gzip and chunked at once.
#[tokio::test]
async fn a_compressed_chunked_push_is_both() {
    let ready = Ready::with_file(b"small").await;
    let mut http = ready.server.http().await;
    let headers = [
        ("Transfer-Encoding", "chunked"),
        ("Content-Encoding", "gzip"),
    ];
    http.send_head("POST", &ready.target, &headers).await;
    for chunk in gzip(&ready.body).chunks(50) {
        http.send_chunk(chunk).await;
    }
    http.send_chunk(b"").await;
    assert!(Report::of(&http.response("POST").await).is_ok());
    ready.is_pushed().await;
}

/// Cases 1: git compresses a want list of many tags by itself.
#[tokio::test]
async fn a_clone_of_400_tags_works() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    alice.commit("first").await;
    let mut refs = vec![("refs/heads/main".to_owned(), alice.work.rev("HEAD").await)];
    let mut script = Vec::new();
    for n in 0..400 {
        script.extend(format!("commit refs/tags/t{n}\nmark :{}\ncommitter t <t@example.invalid> {n} +0000\ndata 1\nx\n", n + 1).into_bytes());
    }
    alice
        .work
        .home()
        .run_with_input(alice.work.path(), ["fast-import", "--quiet"], &script)
        .await;
    for line in alice
        .work
        .git([
            "for-each-ref",
            "--format=%(refname) %(objectname)",
            "refs/tags",
        ])
        .await
        .lines()
    {
        let (name, oid) = line.split_once(' ').expect("name and id");
        refs.push((name.to_owned(), oid.to_owned()));
    }
    alice.publish_state(refs).await;
    alice.push().await.accepted();
    for protocol in ["protocol.version=0", "protocol.version=2"] {
        let clone = GitHome::new()
            .clone_with(&alice.url(), "clone", &["-c", protocol])
            .await;
        assert_eq!(clone.git(["tag"]).await.lines().count(), 400, "{protocol}");
    }
}

/// HTTP-3, cases 4
#[tokio::test]
async fn a_client_that_waits_for_100_continue_is_answered_at_once() {
    let ready = Ready::with_file(b"small").await;
    let length = ready.body.len().to_string();
    let headers = [
        ("Expect", "100-continue"),
        ("Content-Length", length.as_str()),
    ];
    let mut http = ready.server.http().await;
    http.send_head("POST", &ready.target, &headers).await;
    // Not one byte of the body is sent: waiting for it would never end.
    let first = http.response_head().await;
    assert!(
        first.status == 100 || first.status == 200,
        "{}",
        first.status
    );
    http.send(&ready.body).await;
    let answer = if first.status == 100 {
        http.response("POST").await
    } else {
        http.response_body("POST", first).await
    };
    assert!(Report::of(&answer).is_ok());
    ready.is_pushed().await;
}

/// Keep-alive: many requests, pushes among them, on one connection.
#[tokio::test]
async fn one_connection_carries_many_requests() {
    let ready = Ready::with_file(b"small").await;
    let mut http = ready.server.http().await;
    for service in ["git-upload-pack", "git-receive-pack"] {
        let target = info_refs(&ready.alice.path(), service);
        assert_eq!(http.request("GET", &target, &[]).await.status, 200);
    }
    assert!(Report::of(&http.post(&ready.target, &[], &ready.body).await).is_ok());
    let target = info_refs(&ready.alice.path(), "git-upload-pack");
    let (refs, _) = advertised(&http.request("GET", &target, &[]).await);
    assert_eq!(refs["refs/heads/main"], ready.tip);
    assert_eq!(http.request("GET", "/nothing", &[]).await.status, 404);
    assert_eq!(http.request("GET", "/healthz", &[]).await.status, 200);
}

/// GIT-10: the refused body is read to its end, so the connection can be used again.
#[tokio::test]
async fn after_a_refusal_the_connection_goes_on() {
    let ready = Ready::with_file(&noise(3 << 20)).await;
    let other = "2".repeat(40);
    let wrong = push_request(
        &[(ZERO, &other, "refs/heads/main")],
        USUAL,
        &ready.body[ready.body.len() - (3 << 20)..],
    );
    let mut http = ready.server.http().await;
    let answer = http.post(&ready.target, &[], &wrong).await;
    assert_eq!(answer.status, 200);
    assert!(!Report::of(&answer).is_ok());
    assert!(Report::of(&http.post(&ready.target, &[], &ready.body).await).is_ok());
    ready.is_pushed().await;
}

/// HTTP-6: git probes so before it sends a chunked push.
#[tokio::test]
async fn a_body_of_one_flush_is_answered_empty() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let mut http = server.http().await;
    for service in ["git-receive-pack", "git-upload-pack"] {
        let target = format!("{}/{service}", alice.path());
        let answer = http.post(&target, &[], b"0000").await;
        assert_eq!(answer.status, 200, "{service}");
        assert!(answer.body.is_empty(), "{service}: {:?}", answer.text());
    }
}

/// GIT-3, cases 6
#[tokio::test]
async fn push_options_are_taken_and_ignored() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let tip = alice.commit("second").await;
    alice.publish_state([("refs/heads/main", &tip)]).await;
    let options = ["-o", "secret-scanning.skip", "-o", "title=x y", "main"];
    alice.push_refs(&options).await.accepted();
    assert_eq!(alice.remote_refs().await["refs/heads/main"], tip);
}

/// Cases 11: nothing moves, nothing stays, a second try works.
#[tokio::test]
async fn a_connection_cut_in_mid_push_leaves_nothing() {
    let ready = Ready::with_file(&noise(1 << 20)).await;
    let quarantine = ready.server.git_dir().join(".grasp/quarantine");
    let count = || std::fs::read_dir(&quarantine).map_or(0, Iterator::count);
    let bare = ready
        .server
        .repository(&ready.alice.person.npub(), "project");
    let packs = || std::fs::read_dir(bare.join("objects/pack")).map_or(0, Iterator::count);
    let length = ready.body.len().to_string();
    for part in [20, 200, ready.body.len() / 2, ready.body.len() - 1] {
        let mut http = ready.server.http().await;
        http.send_head("POST", &ready.target, &[("Content-Length", &length)])
            .await;
        http.send(&ready.body[..part]).await;
        drop(http);
    }
    grasp_testkit::eventually("the quarantine is empty", async || count() == 0).await;
    assert_eq!(packs(), 0);
    assert!(ready.alice.remote_refs().await.is_empty());
    let answer = ready
        .server
        .http()
        .await
        .post(&ready.target, &[], &ready.body)
        .await;
    assert!(Report::of(&answer).is_ok());
    ready.is_pushed().await;
    grasp_testkit::eventually("the quarantine is empty", async || count() == 0).await;
}

/// Cases 11: a pack that ends too early or is damaged is refused by the report.
#[tokio::test]
async fn a_damaged_pack_is_refused_and_moves_nothing() {
    let ready = Ready::with_file(b"small").await;
    let start = ready
        .body
        .windows(4)
        .position(|w| w == b"PACK")
        .expect("a pack");
    let mut flipped = ready.body.clone();
    let middle = start + (flipped.len() - start) / 2;
    flipped[middle] ^= 0xFF;
    let mut trailer = ready.body.clone();
    *trailer.last_mut().expect("not empty") ^= 1;
    let mut count = ready.body.clone();
    count[start + 11] += 1;
    let mut version = ready.body.clone();
    version[start + 7] = 9;
    let cut = ready.body[..ready.body.len() - 5].to_vec();
    let none = ready.body[..start].to_vec();
    for (what, body) in [
        ("a flipped byte", flipped),
        ("a wrong trailer", trailer),
        ("a wrong count", count),
        ("an unknown version", version),
        ("a pack cut short", cut),
        ("no pack", none),
    ] {
        let answer = ready
            .server
            .http()
            .await
            .post(&ready.target, &[], &body)
            .await;
        assert_eq!(answer.status, 200, "{what}");
        let report = Report::of(&answer);
        assert!(!report.is_ok(), "{what}: {report:?}");
        assert!(ready.alice.remote_refs().await.is_empty(), "{what}");
    }
    let answer = ready
        .server
        .http()
        .await
        .post(&ready.target, &[], &ready.body)
        .await;
    assert!(Report::of(&answer).is_ok(), "{:?}", Report::of(&answer));
}

/// PUSH-1: what is no command list is answered by git's or HTTP's error, and the server lives.
#[tokio::test]
async fn malformed_requests_are_answered() {
    let ready = Ready::with_file(b"small").await;
    let bodies: [(&str, Vec<u8>); 7] = [
        ("no hex length", b"zzzz".to_vec()),
        ("a length too small", b"0003".to_vec()),
        ("a length beyond the end", b"fff0abc".to_vec()),
        ("no command", grasp_testkit::pkt("hello")),
        (
            "short ids",
            [grasp_testkit::pkt("12 34 refs/heads/x\0"), b"0000".to_vec()].concat(),
        ),
        (
            "a ref with NUL",
            [
                grasp_testkit::pkt(format!("{ZERO} {} a\0b\0c", ready.tip)),
                b"0000".to_vec(),
            ]
            .concat(),
        ),
        (
            "a nameless ref",
            [
                grasp_testkit::pkt(format!("{ZERO} {} \0{USUAL}", ready.tip)),
                b"0000".to_vec(),
            ]
            .concat(),
        ),
    ];
    for (what, body) in bodies {
        let answer = ready
            .server
            .http()
            .await
            .post(&ready.target, &[], &body)
            .await;
        assert!(
            answer.status == 200 || answer.status == 400,
            "{what}: {}",
            answer.status
        );
        assert!(
            !Report::of(&answer).is_ok() || answer.body.is_empty(),
            "{what}"
        );
    }
    // What is no pkt-line at all in an upload-pack request.
    let target = ready.alice.path() + "/git-upload-pack";
    for body in [&b"zzzz"[..], b"0003", b"0011command=nothing\n"] {
        let answer = ready
            .server
            .http()
            .await
            .post(&target, &[("Git-Protocol", "version=2")], body)
            .await;
        assert!(
            answer.status == 200 || answer.status == 400,
            "{}",
            answer.status
        );
    }
    assert!(ready.alice.remote_refs().await.is_empty());
    assert!(
        HttpConnection::connect(&ready.server.authority)
            .await
            .request("GET", "/", &[])
            .await
            .status
            == 200
    );
}

/// HTTP-3: the inflated size has a limit.
#[tokio::test]
async fn a_gzip_bomb_is_refused() {
    let server = Server::configured()
        .env("NGIT_GIT_REQUEST_MAX_BYTES", 1 << 20)
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    let have = grasp_testkit::pkt(format!("have {}\n", "1".repeat(40)));
    let start = [grasp_testkit::pkt("command=fetch"), b"0001".to_vec()].concat();
    let bomb = gzip(&[start, have.repeat((64 << 20) / have.len())].concat());
    assert!(bomb.len() < 1 << 20, "small on the wire");
    let target = alice.path() + "/git-upload-pack";
    let headers = [("Content-Encoding", "gzip"), ("Git-Protocol", "version=2")];
    let mut http = server.http().await;
    // It may hang up on such a client.
    if let Ok(answer) = http.try_request("POST", &target, &headers, &bomb).await {
        let refused = answer.status == 413 || answer.status == 400;
        assert!(
            refused || answer.text().contains("ERR"),
            "{}",
            answer.status
        );
    }
    let memory = grasp_testkit::process::private_memory(server.pid());
    assert!(memory < 60 << 20, "{memory} bytes");
    assert_eq!(server.request("GET", "/healthz", &[]).await.status, 200);
}

/// Cases 3
#[tokio::test]
async fn each_protocol_version_is_answered_in_kind() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let target = info_refs(&alice.path(), "git-upload-pack");
    let ask = async |version: &str| {
        let headers = [("Git-Protocol", version)];
        let headers = if version.is_empty() {
            &[][..]
        } else {
            &headers[..]
        };
        let answer = server.request("GET", &target, headers).await;
        assert_eq!(answer.status, 200, "{version}");
        let kind = answer.header("content-type");
        assert_eq!(kind, "application/x-git-upload-pack-advertisement");
        assert_eq!(answer.header("cache-control"), "no-cache");
        answer.text()
    };
    let v0 = ask("").await;
    assert!(
        v0.starts_with("001e# service=git-upload-pack\n0000"),
        "{v0}"
    );
    for capability in [
        "symref=HEAD:refs/heads/main",
        "allow-tip-sha1-in-want",
        "allow-reachable-sha1-in-want",
        "filter",
        "multi_ack_detailed",
        "side-band-64k",
        "shallow",
        "deepen-since",
        "deepen-not",
        "ofs-delta",
        "no-progress",
        "object-format=sha1",
    ] {
        assert!(v0.contains(capability), "{capability} in {v0}");
    }
    assert_eq!(ask("version=9:x=y").await, v0);
    assert_eq!(ask("nonsense").await, v0);
    assert!(ask("version=1").await.contains("version 1"));
    let v2 = ask("version=2").await;
    for capability in [
        "version 2",
        "ls-refs=unborn",
        "fetch=shallow wait-for-done filter",
        "server-option",
        "object-format=sha1",
    ] {
        assert!(v2.contains(capability), "{capability} in {v2}");
    }
    assert!(!v2.contains("refs/heads/main"));
}

/// GIT-3
#[tokio::test]
async fn receive_pack_advertises_what_it_does() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let target = info_refs(&alice.path(), "git-receive-pack");
    // There is no version 2 of pushing: version 0 answers.
    for headers in [&[][..], &[("Git-Protocol", "version=2")][..]] {
        let answer = server.request("GET", &target, headers).await;
        let (refs, capabilities) = advertised(&answer);
        for wanted in [
            "report-status",
            "report-status-v2",
            "delete-refs",
            "side-band-64k",
            "quiet",
            "atomic",
            "ofs-delta",
            "object-format=sha1",
            "push-options",
        ] {
            assert!(
                capabilities.iter().any(|c| c == wanted),
                "{wanted} in {capabilities:?}"
            );
        }
        assert!(
            !capabilities.iter().any(|c| c.starts_with("push-cert")),
            "PUSH-1"
        );
        assert!(refs.contains_key("refs/heads/main"));
    }
}
