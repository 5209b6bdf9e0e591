//! What is listed is what git's own server lists.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use grasp_core::oid::Oid;
use grasp_git::http::{
    AGENT, Fetches, ProtocolVersion, Service, UploadConfig, UploadRepo, advertise, advertise_some,
    upload_pack,
};
use grasp_git::pktline::{self, Packet, Packets};
use proptest::prelude::*;

use crate::repository::{Repository, git};

/// What stock git answers: `input` through `git <service> --stateless-rpc`.
fn stock(path: &Path, service: Service, version: &str, advertise: bool, input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("git");
    command
        .args([
            "-c",
            "uploadpack.allowFilter=true",
            "-c",
            "uploadpack.allowAnySHA1InWant=true",
            "-c",
            "receive.advertisePushOptions=true",
        ])
        .args([&service.name()[4..], "--stateless-rpc"])
        .args(advertise.then_some("--advertise-refs"))
        .arg(path)
        .env("GIT_PROTOCOL", version)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("git starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input).expect("git reads");
    drop(stdin);
    child.wait_with_output().expect("git ends").stdout
}

/// One packet, with capabilities as a set: their order means nothing.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Special(String),
    Text(String, BTreeSet<String>),
}

fn lines(bytes: &[u8]) -> Vec<Line> {
    Packets::new(bytes)
        .map(|packet| match packet.expect("framed") {
            Packet::Data(data) => {
                let text = String::from_utf8_lossy(data);
                let (text, list) = text.split_once('\0').unwrap_or((&text, ""));
                let text = anonymous(text);
                Line::Text(text, list.split_whitespace().map(anonymous).collect())
            }
            special => Line::Special(format!("{special:?}")),
        })
        .collect()
}

/// The agent is the one thing in which we differ from git.
fn anonymous(word: &str) -> String {
    match word.trim_end().strip_prefix("agent=") {
        Some(_) => format!("agent={AGENT}"),
        None => word.to_owned(),
    }
}

/// GIT-1, GIT-2, GIT-4
#[test]
fn upload_pack_lists_what_git_lists() {
    for repository in [Repository::empty(), Repository::with_history(2)] {
        for (version, name) in [
            (ProtocolVersion::V0, ""),
            (ProtocolVersion::V1, "version=1"),
            (ProtocolVersion::V2, "version=2"),
        ] {
            let ours = advertise(Service::UploadPack, version, &repository.snapshot(), &[]);
            let ours = ours
                .strip_prefix(b"001e# service=git-upload-pack\n0000")
                .expect("the service line");
            let theirs = stock(&repository.path(), Service::UploadPack, name, true, b"");
            assert_eq!(lines(ours), lines(&theirs), "{version:?}");
        }
    }
}

/// GIT-3, GIT-4b: as git, and `HEAD` in front.
#[test]
fn receive_pack_lists_what_git_lists() {
    let repository = Repository::with_history(2);
    for (version, name) in [
        (ProtocolVersion::V0, ""),
        (ProtocolVersion::V1, "version=1"),
        (ProtocolVersion::V2, "version=2"),
    ] {
        let mut snapshot = repository.snapshot();
        snapshot.head = "refs/heads/absent".parse().expect("valid");
        let ours = advertise(Service::ReceivePack, version, &snapshot, &[]);
        let ours = ours
            .strip_prefix(b"001f# service=git-receive-pack\n0000")
            .expect("the service line");
        let theirs = stock(&repository.path(), Service::ReceivePack, name, true, b"");
        assert_eq!(lines(ours), lines(&theirs), "{version:?}");
    }
    let ours = advertise(
        Service::ReceivePack,
        ProtocolVersion::V0,
        &repository.snapshot(),
        &[],
    );
    let head = format!("{} HEAD\0", repository.rev("main"));
    assert!(ours[35 + 4..].starts_with(head.as_bytes()));
}

/// GIT-4a, GIT-4b
#[test]
fn a_push_sees_tips_of_relatives_and_only_listed_refs() {
    let repository = Repository::with_history(1);
    let have: Oid = repository.rev("v1").parse().expect("an oid");
    let list = |snapshot: &grasp_git::refs::RefSnapshot| {
        let listing = advertise_some(
            Service::ReceivePack,
            ProtocolVersion::V0,
            snapshot,
            &[have],
            |name| !name.as_str().starts_with("refs/nostr/"),
        );
        String::from_utf8_lossy(&listing).into_owned()
    };
    let listing = list(&repository.snapshot());
    assert!(listing.contains(&format!("{have} .have\n")));
    assert!(!listing.contains("refs/nostr/"));
    let listing = list(&Repository::empty().snapshot());
    assert!(listing.contains(&format!("{have} .have\0report-status ")));
    assert!(!listing.contains("capabilities^{}"));
}

async fn ls_refs(repository: &Repository, request: &[u8]) -> Vec<u8> {
    let repo = UploadRepo {
        path: repository.path(),
        refs: Arc::new(repository.snapshot()),
        lease: (),
    };
    let config = UploadConfig::new(Fetches::new(0, 0));
    let body = std::io::Cursor::new(request.to_vec());
    upload_pack(repo, ProtocolVersion::V2, body, &config)
        .await
        .expect("an answer")
        .into_whole()
        .expect("without a child")
        .to_vec()
}

fn request(head: &[&str], arguments: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in head {
        pktline::line(&mut out, line);
    }
    pktline::delimiter(&mut out);
    for line in arguments {
        pktline::line(&mut out, line);
    }
    pktline::flush(&mut out);
    out
}

#[tokio::test]
async fn ls_refs_of_an_empty_repository_names_the_branch_to_come() {
    let repository = Repository::empty();
    let arguments = ["peel", "symrefs", "unborn", "ref-prefix HEAD"].map(str::to_owned);
    let request = request(&["command=ls-refs", "object-format=sha1"], &arguments);
    let ours = ls_refs(&repository, &request).await;
    assert_eq!(ours, b"002eunborn HEAD symref-target:refs/heads/main\n0000");
    let theirs = stock(
        &repository.path(),
        Service::UploadPack,
        "version=2",
        false,
        &request,
    );
    assert_eq!(ours, theirs);
}

/// GIT-6: what git dies of without a word is said in an `ERR` packet.
#[tokio::test]
async fn what_was_not_offered_is_refused_in_words() {
    let repository = Repository::empty();
    for (head, arguments, words) in [
        (&["command=object-info"][..], &[][..], "invalid command"),
        (&["agent=x"], &[], "no command requested"),
        (&["command=fetch", "command=fetch"], &[], "twice"),
        (
            &["command=ls-refs", "session-id=x"],
            &[],
            "unknown capability",
        ),
        (
            &["command=ls-refs", "object-format=sha256"],
            &[],
            "mismatched object format",
        ),
        (&["command=ls-refs"], &["want-peace"], "unexpected line"),
    ] {
        let arguments: Vec<_> = arguments
            .iter()
            .map(|&line: &&str| line.to_owned())
            .collect();
        let answer = ls_refs(&repository, &request(head, &arguments)).await;
        let Ok((Packet::Data(text), b"")) = pktline::decode(&answer) else {
            panic!("no single packet: {}", answer.escape_ascii());
        };
        let text = String::from_utf8_lossy(text);
        assert!(text.starts_with("ERR upload-pack: "), "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[tokio::test]
async fn an_empty_request_gets_an_empty_answer() {
    let repository = Repository::empty();
    assert!(ls_refs(&repository, b"0000").await.is_empty());
    assert!(ls_refs(&repository, b"").await.is_empty());
    let cut = ls_refs(&repository, b"0014command=ls-refs\n").await;
    assert!(String::from_utf8_lossy(&cut).contains("ERR "));
}

/// More prefixes than narrow anything down list everything, as in git.
#[tokio::test]
async fn too_many_prefixes_list_everything() {
    let repository = Repository::with_history(1);
    let arguments = vec!["ref-prefix x".to_owned(); 65_537];
    let request = request(&["command=ls-refs"], &arguments);
    let answer = ls_refs(&repository, &request).await;
    assert_eq!(Packets::new(&answer).count(), 5);
}

fn argument() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("peel".to_owned()),
        Just("symrefs".to_owned()),
        Just("unborn".to_owned()),
        prop::sample::select(vec![
            "",
            "HEAD",
            "H",
            "refs/",
            "refs/heads/",
            "refs/heads/main",
            "refs/heads/mainx",
            "refs/tags/",
            "refs/nostr/a",
            "refs/n",
            "x",
        ])
        .prop_map(|prefix| format!("ref-prefix {prefix}")),
    ]
}

/// Any request of valid arguments is answered byte for byte as git answers it.
#[test]
fn ls_refs_answers_as_git_does() {
    let repository = Repository::with_history(2);
    let tip = repository.rev("main");
    for name in [
        "refs/heads/a",
        "refs/heads/mai",
        "refs/heads/main-2",
        "refs/tags/light",
    ] {
        git(&repository.path(), &["update-ref", name, &tip]);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&prop::collection::vec(argument(), 0..7), |arguments| {
            let request = request(&["command=ls-refs", "agent=x"], &arguments);
            let ours = runtime.block_on(ls_refs(&repository, &request));
            let theirs = stock(
                &repository.path(),
                Service::UploadPack,
                "version=2",
                false,
                &request,
            );
            prop_assert_eq!(
                ours.escape_ascii().to_string(),
                theirs.escape_ascii().to_string()
            );
            Ok(())
        })
        .expect("equal answers");
}
