//! What operators ask, of a server that runs and of the data of one that does not (CLI-1, CLI-5).

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use grasp_testkit::{Maintainer, Server, TempDir, Value, eventually};
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
    assert_eq!(status["events"]["served"]["events"], 2, "{status}");
    assert!(status["purgatory"]["next_expiry"].is_u64(), "{status}");
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
