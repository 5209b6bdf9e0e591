//! Bad input changes nothing: no name reaches the file system, no malformed thing leaves a trace.

use grasp_testkit::disk::{contents, entries};
use grasp_testkit::wire::{Report, USUAL, ZERO, push_request};
use grasp_testkit::{Maintainer, Person, Server, json};

/// NAME-3, cases 84
#[tokio::test]
async fn an_identifier_that_is_no_file_name_is_refused_with_a_reason() {
    let server = Server::spawn().await;
    let before = entries(&server.git_dir());
    let long = "x".repeat(300);
    for identifier in [
        "", ".", "..", "a/b", "../x", "a\\b", "a\0b", "a\nb", "/etc", "\u{7f}", &long,
    ] {
        let alice = Person::named("alice");
        let announcement = alice
            .draft(30617)
            .tag(["d", identifier])
            .tag(["clone", &server.clone_url(&alice.npub(), identifier)])
            .tag(["relays", &server.ws])
            .sign();
        let said = server.publish(&announcement).await.refused();
        assert!(said.starts_with("invalid:"), "{identifier:?}: {said}");
    }
    assert_eq!(entries(&server.git_dir()), before);
}

/// NAME-1, cases 86: path tricks never reach the file system.
#[tokio::test]
async fn path_tricks_are_not_found_and_create_nothing() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    std::fs::write(server.dir().join("secret"), "secret").expect("writable");
    let npub = alice.person.npub();
    let before = contents(&server.git_dir());
    let long = "x".repeat(5_000);
    let upper = npub.to_uppercase();
    let mut checksum = npub.clone();
    let last = checksum.pop().expect("not empty");
    checksum.push(if last == 'q' { 'p' } else { 'q' });
    let hex = alice.person.hex();
    let owners = [
        "..",
        ".",
        "%2e%2e",
        "npub1",
        "npub1..",
        &hex,
        &upper,
        &checksum,
        ".grasp",
        "prs",
        "%00",
        "%ff",
        &long,
        "nprofile1qqsrhuxx8l9ex335q7he0f09aej04zpazpl0ne2cgukyawd24mayt8gpp4mhxue69uhhytnc9e3k7mgpz4mhxue69uhkg6nzv9ejuumpv34kytnrdaksjlyr9p",
    ];
    let names = [
        "..",
        "..%2fproject",
        "%2e%2e%2fsecret",
        "a%2fb",
        "%2e%2e",
        ".%2e",
        "%00",
        "project%00",
        "%ff%fe",
        "%c0%ae%c0%ae",
        "project%0a",
        "..%5cproject",
        "%zz",
        "%",
        &long,
        "",
        ".",
    ];
    let mut targets = Vec::new();
    for owner in owners {
        targets.push(format!("/{owner}/project.git"));
    }
    for name in names {
        targets.push(format!("/{npub}/{name}.git"));
    }
    targets.extend([
        format!("/{npub}/project.git/../../secret"),
        format!("/{npub}/project.git/..%2f..%2fsecret"),
        format!("/{npub}/project.git/config"),
        format!("/{npub}/project.git/HEAD"),
        format!("/{npub}/project.git/objects/info/packs"),
        format!("/{npub}/../{npub}/project.git"),
        format!("//{npub}/project.git"),
        "/../../../etc/passwd".to_owned(),
        "/%2e%2e/%2e%2e/etc/passwd".to_owned(),
        "/secret".to_owned(),
        "/.grasp/format".to_owned(),
    ]);
    for target in targets {
        for suffix in [
            "",
            "/info/refs?service=git-upload-pack",
            "/info/refs?service=git-receive-pack",
        ] {
            let target = format!("{target}{suffix}");
            let answer = server.request("GET", &target, &[]).await;
            let short = &target[..target.len().min(120)];
            assert!(
                matches!(answer.status, 400 | 404 | 414 | 431),
                "{short}: {}",
                answer.status
            );
            assert!(!answer.text().contains("secret\n"), "{short}");
        }
        let post = server
            .http()
            .await
            .post(&format!("{target}/git-receive-pack"), &[], b"0000")
            .await;
        assert!(
            matches!(post.status, 400 | 404 | 405 | 414 | 431),
            "{}",
            post.status
        );
    }
    assert_eq!(contents(&server.git_dir()), before);
    assert_eq!(alice.remote_branches_and_tags().await.len(), 1);
}

/// Bytes that are no HTTP, or HTTP of another mind.
#[tokio::test]
async fn raw_bytes_of_any_kind_do_not_harm() {
    let server = Server::spawn().await;
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(70_000));
    for bytes in [
        &b"\x00\x01\x02\x03"[..],
        b"GET\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        long.as_bytes(),
    ] {
        let mut http = server.http().await;
        let _ = http.try_send(bytes).await;
        drop(http);
    }
    assert_eq!(server.request("GET", "/healthz", &[]).await.status, 200);
}

/// Issue, "Bad input": a refused event changes nothing on disk.
#[tokio::test]
async fn refused_events_leave_no_trace() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let carol = Person::named("carol");
    let git = contents(&server.git_dir());
    let mut relay = server.relay().await;
    let count = relay.count(json!({})).await;
    let events = [
        carol.draft(30617).tag(["d", "x"]).sign(),
        carol.draft(30617).sign(),
        carol.draft(30618).tag(["d", "project"]).sign(),
        carol.draft(30618).sign(),
        carol.draft(1618).tag(["a", &alice.coordinate()]).sign(),
        carol
            .draft(1618)
            .tag(["a", "30617:zz:project"])
            .tag(["c", &"1".repeat(40)])
            .sign(),
        carol.draft(1621).tag(["a", "nonsense"]).sign(),
        carol.draft(1).content("spam").sign(),
        carol.draft(4).tag(["p", &alice.person.hex()]).sign(),
        alice.state([
            ("refs/heads/main", "1".repeat(40)),
            ("refs/heads/main", "2".repeat(40)),
        ]),
    ];
    for event in &events {
        let said = relay.publish(event).await.refused();
        let prefix = said.split(':').next().unwrap_or_default();
        assert!(
            ["invalid", "restricted", "blocked"].contains(&prefix),
            "{said}"
        );
    }
    assert_eq!(relay.count(json!({})).await, count);
    assert_eq!(contents(&server.git_dir()), git);
}

/// GIT-11: what harms a reader is refused; blemishes of age are not.
#[tokio::test]
async fn objects_that_harm_a_reader_are_refused() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let blob = alice.work.write_object("blob", b"x").await;
    let raw: Vec<u8> = (0..20)
        .map(|at| u8::from_str_radix(&blob[at * 2..at * 2 + 2], 16).expect("hex"))
        .collect();
    let entry = |mode: &str, name: &[u8]| [mode.as_bytes(), b" ", name, b"\0", &raw].concat();
    let plain = entry("100644", b"a");
    let harmful: Vec<(&str, Vec<u8>)> = vec![
        (".git", entry("100644", b".git")),
        (".GIT", entry("100644", b".GIT")),
        ("git~1", entry("40000", b"git~1")),
        (".", entry("100644", b".")),
        ("..", entry("100644", b"..")),
        ("a slash", entry("100644", b"a/b")),
        ("no name", entry("100644", b"")),
        ("twice", [plain.clone(), plain.clone()].concat()),
        ("a null oid", [b"100644 a\0".as_slice(), &[0; 20]].concat()),
        ("cut short", plain[..plain.len() - 1].to_vec()),
        ("symlinked .gitmodules", entry("120000", b".gitmodules")),
    ];
    let commit_of = |tree: String, head: &'static str| {
        let work = alice.work.clone();
        async move {
            let text = format!("tree {tree}\n{head}\nmessage\n");
            work.write_object("commit", text.as_bytes()).await
        }
    };
    let usual = "author t <t@example.invalid> 0 +0000\ncommitter t <t@example.invalid> 0 +0000\n";
    let push = async |commit: &str, tree: &str| {
        alice.publish_state([("refs/heads/main", commit)]).await;
        let pack = alice.work.pack_of(&[commit, tree, &blob]).await;
        let body = push_request(&[(ZERO, commit, "refs/heads/main")], USUAL, &pack);
        let target = alice.path() + "/git-receive-pack";
        Report::of(&server.http().await.post(&target, &[], &body).await)
    };
    for (what, content) in harmful {
        let tree = alice.work.write_object("tree", &content).await;
        let commit = commit_of(tree.clone(), usual).await;
        let report = push(&commit, &tree).await;
        assert!(!report.is_ok(), "{what}: {report:?}");
        assert!(alice.remote_refs().await.is_empty(), "{what}");
    }
    let tree = alice.work.write_object("tree", &plain).await;
    let unparsable = commit_of(tree.clone(), "").await;
    assert!(
        !push(&unparsable, &tree).await.is_ok(),
        "a commit that does not parse"
    );

    let aged = alice
        .work
        .write_object("tree", &entry("100664", b"old"))
        .await;
    let dates = "author t <> 0 +9999\ncommitter t <t@example.invalid> 99999999999 -0001\n";
    let commit = commit_of(aged.clone(), dates).await;
    let report = push(&commit, &aged).await;
    assert!(report.is_ok(), "blemishes of age: {report:?}");
}

/// GIT-9, cases 76 and 81: the bound is named, and the space comes back.
#[tokio::test]
async fn a_pack_beyond_a_bound_is_refused_with_its_name() {
    let cases = [
        ("NGIT_GIT_PACK_MAX_BYTES", 2_000_u64, "pack_bytes"),
        ("NGIT_GIT_PACK_MAX_OBJECTS", 2, "pack_objects"),
        (
            "NGIT_GIT_PACK_MAX_OBJECT_BYTES",
            50_000,
            "pack_object_bytes",
        ),
        (
            "NGIT_GIT_PACK_MAX_INFLATED_BYTES",
            60_000,
            "pack_inflated_bytes",
        ),
    ];
    for (setting, limit, series) in cases {
        let server = Server::configured().env(setting, limit).spawn().await;
        let alice = Maintainer::announcing("project", &server).await;
        // Compressible for the inflated bounds, not so for the size of the pack.
        let content: Vec<u8> = if setting.ends_with("MAX_BYTES") {
            alice
                .work
                .pack(&[&alice.commit("seed").await])
                .await
                .repeat(50)
        } else {
            vec![b'0'; 100_000]
        };
        let mut scrambled = content;
        if setting.ends_with("MAX_BYTES") {
            let mut state = 1_u32;
            for byte in &mut scrambled {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte ^= state.to_le_bytes()[3];
            }
        }
        let tip = alice.work.commit_file("big", &scrambled).await;
        alice.publish_state([("refs/heads/main", &tip)]).await;
        let said = alice.push().await.refused();
        assert!(said.contains(&limit.to_string()), "{setting}: {said}");
        assert_eq!(server.refusals(series).await, 1, "{setting}");
        assert!(alice.remote_refs().await.is_empty(), "{setting}");
        let quarantine = server.git_dir().join(".grasp/quarantine");
        grasp_testkit::eventually("the space comes back", async || {
            std::fs::read_dir(&quarantine).map_or(0, Iterator::count) == 0
        })
        .await;
    }
}

/// Commands per push are bounded too (§16).
#[tokio::test]
async fn a_push_of_too_many_commands_is_refused() {
    let server = Server::configured()
        .env("NGIT_GIT_MAX_COMMANDS", 10)
        .spawn()
        .await;
    let alice = Maintainer::announcing("project", &server).await;
    let tip = alice.commit("first").await;
    let names: Vec<_> = (0..11).map(|n| format!("refs/heads/b{n}")).collect();
    alice
        .publish_state(names.iter().map(|name| (name, &tip)))
        .await;
    let commands: Vec<_> = names
        .iter()
        .map(|name| (ZERO, tip.as_str(), name.as_str()))
        .collect();
    let body = push_request(&commands, USUAL, &alice.work.pack(&[&tip]).await);
    let target = alice.path() + "/git-receive-pack";
    let answer = server.http().await.post(&target, &[], &body).await;
    let report = Report::of(&answer);
    assert!(
        report.fatal.contains("a push has at most 10 commands"),
        "{report:?}"
    );
    assert_eq!(server.refusals("push_commands").await, 1);
    assert!(alice.remote_refs().await.is_empty());
}

/// Cases 79: whoever sends nonsense does not write our log.
#[tokio::test]
async fn invalid_events_fill_no_log() {
    let server = Server::configured()
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 100_000)
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    let before = server.log().len();
    let content = "x".repeat(60_000);
    let issue = Person::named("carol")
        .issue(&alice.coordinate())
        .content(&content)
        .sign();
    let mut forged: grasp_testkit::Value = issue.as_json().parse().expect("an event is JSON");
    let mut relay = server.relay().await;
    for n in 0..300 {
        forged["created_at"] = json!(n);
        relay.send_json(&json!(["EVENT", forged])).await;
        let said = relay.answer_to(&issue.id.to_hex()).await.refused();
        assert_eq!(said, "invalid: invalid event ID");
    }
    let log = server.log();
    let written = &log[before..];
    assert!(written.len() < 300 * 100, "{} bytes", written.len());
    assert!(written.lines().all(|line| line.len() < 1_000), "{written}");
}

/// Cases 79: who wants to know why events are refused reads short lines with ids, at a bounded rate.
#[tokio::test]
async fn refusals_are_told_at_debug_in_short_lines_and_few() {
    let server = Server::configured()
        .env("NGIT_RELAY_EVENTS_PER_MINUTE", 100_000)
        .env("NGIT_LOG_LEVEL", "debug")
        .spawn()
        .await;
    let draft = |n: u32| {
        let orphan = Person::named("carol")
            .draft(1)
            .content(&"x".repeat(60_000))
            .sign();
        let mut json: grasp_testkit::Value = orphan.as_json().parse().expect("an event is JSON");
        json["id"] = json!(format!("{n:064x}"));
        json
    };
    let begun = std::time::Instant::now();
    let mut relay = server.relay().await;
    for n in 0..300 {
        relay.send_json(&json!(["EVENT", draft(n)])).await;
    }
    for n in 0..300 {
        relay.answer_to(&format!("{n:064x}")).await.refused();
    }
    let seconds = begun.elapsed().as_secs() + 1;
    let log = server.log();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("an event is refused"))
        .collect();
    assert!(
        lines.len() as u64 <= 10 * (seconds + 1),
        "{} lines",
        lines.len()
    );
    let first = lines.first().expect("a line");
    // Events are looked at together, so any of them may be told of first.
    let (id, words) = ("event=000000", "invalid: invalid event ID");
    assert!(first.contains(id) && first.contains(words), "{first}");
    assert!(lines.iter().all(|line| line.len() < 500));
}
