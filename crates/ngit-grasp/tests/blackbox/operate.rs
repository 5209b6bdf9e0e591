//! What operators ask, of a server that runs and of the data of one that does not (CLI-1, CLI-5).

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use grasp_testkit::{Maintainer, Person, Server, TempDir, Value, eventually, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Says one line on the control socket and reads the answer to its end.
async fn say(server: &Server, line: &[u8]) -> Vec<Value> {
    let path = server.relay_dir().join("control.sock");
    let mut stream = UnixStream::connect(path).await.expect("it listens");
    stream.write_all(line).await.expect("it reads");
    stream.shutdown().await.expect("half closed");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    answer
        .lines()
        .map(|line| line.parse().expect("JSON"))
        .collect()
}

/// CLI-5
#[tokio::test]
async fn status_tells_of_a_running_server() {
    let server = Server::spawn().await;
    Maintainer::serving("project", &server).await;
    Maintainer::named_announcing("bob", "other", &server).await;
    let text = server.operate(&["status"]).await.fine();
    for part in [
        "running for",
        &server.authority,
        &server.ws,
        &server.git_dir().display().to_string(),
        &server.relay_dir().display().to_string(),
        "disk floor",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let status = server.operate(&["status", "--json"]).await.value();
    assert_eq!(status["running"]["listens_on"], server.authority.as_str());
    assert_eq!(status["repositories"]["served"], 1, "{status}");
    assert_eq!(status["repositories"]["waiting"], 1, "{status}");
    assert_eq!(status["purgatory"]["announcements"], 1, "{status}");
    assert_eq!(
        status["events"]["served"]["events"], 4,
        "two of the relay's owner: {status}"
    );
    assert!(status["purgatory"]["next_expiry"].is_u64(), "{status}");
}

/// CLI-1: the operator is asked why a push was refused, and finds who counts, what wins and what is missing.
#[tokio::test]
async fn explain_says_why_a_repository_is_as_it_is() {
    let mut server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let missing = "1".repeat(40);
    let state = alice
        .publish_state([("refs/heads/main", missing.clone())])
        .await;
    alice.commit("unsigned").await;
    let printed = alice.push().await.refused();
    let npub = alice.person.npub();
    let repository = format!("{npub}/project");
    let text = server.operate(&["explain", &repository]).await.fine();
    for part in [
        &repository,
        "maintainer: the list of maintainers begins here",
        "hosted here",
        "WINS",
        "WAITING, expires in",
        &format!("missing {missing}"),
        "a push that brings them makes it win",
        "refused since the start",
        "push of refs/heads/main",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let args = ["explain", "--json", &alice.url()];
    let running = server.operate(&args).await.value();
    let reason = running["refusals"][0]["reason"].as_str().expect("a reason");
    assert!(printed.contains(reason), "{printed}: {reason}");
    assert_eq!(running["states"][0]["event"], state.id.to_hex());
    assert_eq!(running["states"][0]["missing"], json!([missing]));
    assert_eq!(running["condition"], "decided");
    server.terminate().await;
    let mut offline = server.operate(&args).await.value();
    assert_eq!(offline["refusals"], json!([]), "kept in memory only");
    offline["refusals"] = running["refusals"].clone();
    assert_eq!(offline, running, "both ways tell the same");
}

/// CLI-1
#[tokio::test]
async fn explain_of_nonsense_says_how_to_name_a_repository() {
    let server = Server::spawn().await;
    let said = server.operate(&["explain", "nonsense"]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("<npub>/<identifier>"), "{said:?}");
    let nobody = Person::named("nobody").npub();
    let never = format!("{nobody}/never");
    let text = server.operate(&["explain", &never]).await.fine();
    assert!(text.contains("no event here asks for one"), "{text}");
}

/// CLI-1, REF-8: damage on the disk is found by a server that runs and by one that does not, and mended.
#[tokio::test]
async fn an_integrity_check_finds_damage_and_repairs_it() {
    let mut server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    Maintainer::named_serving("bob", "other", &server).await;
    let text = server.operate(&["integrity-check"]).await.fine();
    assert!(text.contains("2 repositories"), "{text}");
    assert!(text.contains("0 findings"), "{text}");
    let home = server.repository(&alice.person.npub(), "project");
    std::fs::write(home.join("packed-refs"), "rubbish").expect("writable");
    let check = ["integrity-check", "--identifier", "project"];
    let said = server.operate(&check).await;
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.out.contains("packed-refs is damaged"), "{said:?}");
    assert!(!said.out.contains("other"), "{said:?}");
    let text = server.operate(&[&check[..], &["--repair"]].concat()).await;
    assert!(text.fine().contains("project: repaired"));
    server.operate(&check).await.fine();
    // The pack goes, with the server down.
    server.terminate().await;
    for entry in std::fs::read_dir(home.join("objects/pack")).expect("readable") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("ours");
    }
    let json = [&check[..], &["--json"]].concat();
    let said = server.operate(&json).await;
    assert_eq!(said.code, Some(3), "{said:?}");
    let finding: Value = said
        .out
        .lines()
        .next()
        .expect("a line")
        .parse()
        .expect("JSON");
    assert_eq!(finding["finding"], "object_missing");
    let said = server.operate(&[&check[..], &["--repair"]].concat()).await;
    assert_eq!(said.code, Some(3), "what is gone stays gone: {said:?}");
    let packs = home.join("objects/pack").display().to_string();
    assert!(said.out.contains(&packs), "it says what to do: {said:?}");
    server.start_again().await;
    assert!(alice.remote_branches_and_tags().await.is_empty());
    alice.push().await.accepted();
    server.operate(&check).await.fine();
}

/// CLI-1, REF-6: what no event asks for is listed, and goes only when told.
#[tokio::test]
async fn folders_that_no_event_asks_for_are_listed_and_cleaned_up() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let npub = alice.person.npub();
    let (empty, full) = (
        server.repository(&npub, "empty"),
        server.repository(&npub, "full"),
    );
    let home = server.repository(&npub, "project");
    copy(&home, &full);
    std::fs::create_dir_all(empty.join("objects")).expect("made");
    std::fs::write(empty.join("HEAD"), "ref: refs/heads/main\n").expect("writable");
    let stray = server.git_dir().join("backup");
    std::fs::create_dir(&stray).expect("made");
    let said = server.operate(&["integrity-check"]).await;
    assert_eq!(said.code, Some(3));
    for part in [
        "/empty: an empty folder",
        "/full: a folder",
        "backup: no repository",
    ] {
        assert!(said.out.contains(part), "{part}: {said:?}");
    }
    server.operate(&["integrity-check", "--repair"]).await;
    let text = server.operate(&["cleanup-empty-repos"]).await.fine();
    assert!(text.contains("/empty: empty, to be removed"), "{text}");
    assert!(text.contains("/full: with objects, kept"), "{text}");
    assert!(
        empty.exists() && full.exists() && stray.exists(),
        "a dry run"
    );
    let execute = ["cleanup-empty-repos", "--execute"];
    server.operate(&execute).await.fine();
    assert!(!empty.exists() && full.exists(), "objects are kept");
    let purge = [&execute[..], &["--purge-orphans"]].concat();
    server.operate(&purge).await.fine();
    assert!(!full.exists() && home.exists() && stray.exists());
    let text = server.operate(&["cleanup-empty-repos"]).await.fine();
    assert!(text.starts_with("0 folders"), "{text}");
}

fn copy(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp")
        .arg("-r")
        .args([from, to])
        .status();
    assert!(status.expect("cp runs").success());
}

/// CLI-1: only of a server that does not run. What is wrong with rows is shown by the store's own tests.
#[tokio::test]
async fn the_events_of_a_stopped_server_are_verified() {
    let mut server = Server::spawn().await;
    Maintainer::serving("project", &server).await;
    let check = ["event-integrity-check"];
    let said = server.operate(&check).await;
    assert_eq!(said.code, Some(75), "in use: {said:?}");
    server.terminate().await;
    let value = server.operate(&check).await.value();
    assert_eq!(value, json!({"summary": {"events": 4, "findings": 0}}));
    let execute = [&check[..], &["--execute"]].concat();
    assert_eq!(server.operate(&execute).await.value(), value);
    let empty = TempDir::new().expect("a folder");
    let elsewhere = empty.path().to_str().expect("text");
    let nowhere = [&check[..], &["--relay-data-path", elsewhere]].concat();
    let said = server.operate(&nowhere).await;
    assert_eq!(said.code, Some(66), "{said:?}");
    assert_eq!(std::fs::read_dir(empty.path()).expect("there").count(), 0);
}

/// CLI-5
#[tokio::test]
async fn without_a_server_the_data_itself_is_asked() {
    let mut server = Server::spawn().await;
    Maintainer::serving("project", &server).await;
    server.terminate().await;
    let text = server.operate(&["status"]).await.fine();
    assert!(text.contains("no server runs"), "{text}");
    let status = server.operate(&["status", "--json"]).await.value();
    assert_eq!(status["running"], Value::Null);
    assert_eq!(status["repositories"]["served"], 1, "{status}");
    assert_eq!(status["repositories"]["degraded"], Value::Null, "unknown");
}

/// CLI-5: nobody but the server's user may ask, and its end takes the socket along.
#[tokio::test]
async fn the_control_socket_is_the_servers_own() {
    let mut server = Server::spawn().await;
    let path = server.relay_dir().join("control.sock");
    let mode = std::fs::metadata(&path).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    server.terminate().await;
    assert!(!path.exists());
}

/// CLI-5
#[tokio::test]
async fn the_socket_of_a_killed_server_is_in_nobodys_way() {
    let mut server = Server::spawn().await;
    Maintainer::serving("project", &server).await;
    let path = server.relay_dir().join("control.sock");
    server.kill9().await;
    assert!(path.exists(), "nobody could remove it");
    let text = server.operate(&["status"]).await.fine();
    assert!(text.contains("no server runs"), "{text}");
    server.start_again().await;
    let text = server.operate(&["status"]).await.fine();
    assert!(text.contains("running for"), "{text}");
}

/// CLI-5
#[tokio::test]
async fn a_relay_folder_with_a_long_path_has_a_socket_too() {
    let folder = TempDir::new().expect("a temporary directory");
    let long = folder.path().join("l".repeat(120)).join("relay");
    let server = Server::configured()
        .env("NGIT_RELAY_DATA_PATH", long.display())
        .spawn()
        .await;
    let text = server.operate(&["status"]).await.fine();
    assert!(text.contains("running for"), "{text}");
    assert!(long.join("control.sock").exists());
}

/// CLI-5: lines are bounded, those who ask are bounded, and each is named in the log.
#[tokio::test]
async fn the_control_socket_survives_whatever_is_said_on_it() {
    let server = Server::spawn().await;
    for line in [
        &b"nonsense\n"[..],
        b"{}\n",
        b"{\"command\":\"explode\"}\n",
        b"\n",
        b"",
        "x".repeat(70_000).as_bytes(),
    ] {
        let answer = say(&server, line).await;
        assert_eq!(answer.len(), 1, "{answer:?}");
        assert_eq!(answer[0]["failed"]["reason"], "misunderstood");
    }
    let path = server.relay_dir().join("control.sock");
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(UnixStream::connect(&path).await.expect("it listens"));
    }
    let answer = say(&server, b"{\"command\":\"status\"}\n").await;
    assert_eq!(answer[0]["failed"]["reason"], "busy", "{answer:?}");
    drop(silent);
    eventually("those who left make room", async || {
        let answer = say(&server, b"{\"command\":\"status\",\"json\":true}\n").await;
        answer
            .last()
            .is_some_and(|last| last["done"]["findings"] == 0)
    })
    .await;
    let asked = "an operator asks";
    assert!(server.log().contains(asked), "{}", server.log());
    assert!(server.log().contains("uid="), "{}", server.log());
}

/// CLI-4: a command creates nothing where nothing is.
#[tokio::test]
async fn without_data_a_command_says_so_and_makes_none() {
    let dir = TempDir::new().expect("a temporary directory");
    let said = Server::configured().run(dir.path(), &["status"]).await;
    assert_eq!(said.code, Some(66), "{said:?}");
    assert!(said.err.contains("--relay-data-path"), "{said:?}");
    assert_eq!(entries(dir.path()), ["server.log"]);
}

/// CLI-4
#[tokio::test]
async fn a_command_refuses_somebody_elses_data() {
    for (place, file) in [("relay", "data.mdb"), ("git", "purgatory-state.json")] {
        let dir = TempDir::new().expect("a temporary directory");
        let path = dir.path().join(place).join(file);
        std::fs::create_dir_all(path.parent().expect("below")).expect("writable");
        std::fs::write(&path, "somebody else's").expect("writable");
        let said = Server::configured().run(dir.path(), &["status"]).await;
        assert_eq!(said.code, Some(78), "{said:?}");
        assert_eq!(entries(path.parent().expect("below")), [file]);
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("readable");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.expect("readable").file_name();
        name.to_string_lossy().into_owned()
    };
    entries.map(name).collect()
}
