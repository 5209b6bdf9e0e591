//! Starting, stopping, and starts that must fail.

use std::os::unix::fs::PermissionsExt as _;

use grasp_testkit::server::Signal;
use grasp_testkit::{Maintainer, Server, TempDir};

/// Issue: without configuration it says where it listens, where its data is and what to try next.
#[tokio::test]
async fn without_configuration_it_says_where_it_is_and_what_to_try() {
    let mut server = Server::configured()
        .without_env("NGIT_DOMAIN")
        .without_env("NGIT_GIT_DATA_PATH")
        .without_env("NGIT_RELAY_DATA_PATH")
        .without_env("NGIT_TEST")
        .spawn()
        .await;
    let log = server.log();
    assert!(log.contains(&server.http), "where it listens: {log}");
    assert!(log.contains("data"), "where its data is: {log}");
    assert!(log.contains("NGIT_DOMAIN"), "one warning: {log}");
    assert_eq!(log.matches("NGIT_DOMAIN").count(), 1, "one line: {log}");
    assert!(
        log.contains("git") && log.lines().count() >= 3,
        "what to try next: {log}"
    );
    assert!(server.dir().join("data/git").is_dir());
    assert!(server.dir().join("data/relay").is_dir());
    // The domain is the bind address.
    Maintainer::serving("project", &server).await;
    server.signal(Signal::INT);
    let status = server.wait_end(std::time::Duration::from_secs(10)).await;
    assert_eq!(status.code(), Some(0), "Ctrl-C stops cleanly");
}

/// CLI-1
#[tokio::test]
async fn serve_is_the_default_and_flags_beat_variables() {
    let server = Server::configured()
        .env("NGIT_RELAY_NAME", "by variable")
        .arg("--relay-name")
        .arg("by flag")
        .spawn()
        .await;
    let nip11 = server
        .request("GET", "/", &[("Accept", "application/nostr+json")])
        .await;
    assert!(nip11.text().contains("by flag"), "{}", nip11.text());
}

/// CLI-2
#[tokio::test]
async fn a_data_directory_has_one_writer() {
    let server = Server::spawn().await;
    let dir = TempDir::new().expect("a temporary directory");
    let (status, log) = Server::configured()
        .env("NGIT_GIT_DATA_PATH", server.git_dir().display())
        .env("NGIT_RELAY_DATA_PATH", server.relay_dir().display())
        .run_to_end(dir.path())
        .await;
    assert!(!status.success());
    assert!(
        log.contains("in use") || log.contains("lock") || log.contains("another"),
        "{log}"
    );
    assert_eq!(server.request("GET", "/healthz", &[]).await.status, 200);
}

/// CLI-4
#[tokio::test]
async fn a_foreign_data_directory_is_refused_and_not_touched() {
    for (place, file) in [
        ("relay", "data.mdb"),
        ("git", "purgatory-state.json"),
        ("git", ".grasp/families"),
    ] {
        let dir = TempDir::new().expect("a temporary directory");
        let path = dir.path().join(place).join(file);
        std::fs::create_dir_all(path.parent().expect("below")).expect("writable");
        std::fs::write(&path, "somebody else's").expect("writable");
        let of = |place: &str| grasp_testkit::disk::contents(&dir.path().join(place));
        let before = of(place);
        let (status, log) = Server::configured().run_to_end(dir.path()).await;
        assert_eq!(status.code(), Some(78), "{file}: {log}");
        assert!(
            log.contains(&dir.path().join(place).display().to_string()),
            "{file}: {log}"
        );
        assert_eq!(of(place), before, "{file}");
    }
}

/// §19: every mistake at once, by the variable's name.
#[tokio::test]
async fn all_mistakes_of_the_configuration_are_named_at_once() {
    let dir = TempDir::new().expect("a temporary directory");
    let (status, log) = Server::configured()
        .env("NGIT_BASE_PATH", "no-slash")
        .env("NGIT_MAINTAINER_RULE", "nobody")
        .env("NGIT_DOMAIN", "a/b")
        .run_to_end(dir.path())
        .await;
    assert!(!status.success());
    for name in ["NGIT_BASE_PATH", "NGIT_MAINTAINER_RULE", "NGIT_DOMAIN"] {
        assert!(log.contains(name), "{name}: {log}");
    }
}

/// CONF-1
#[tokio::test]
async fn an_unknown_variable_is_a_warning() {
    let server = Server::configured()
        .env("NGIT_NO_SUCH_THING", "1")
        .env("NGIT_SYNC_STARTUP_DELAY_SECS", "0")
        .spawn()
        .await;
    assert!(
        server.log().contains("NGIT_NO_SUCH_THING"),
        "{}",
        server.log()
    );
}

/// Cases 102
#[tokio::test]
async fn without_git_it_does_not_start_and_says_so() {
    let dir = TempDir::new().expect("a temporary directory");
    let (status, log) = Server::configured()
        .env("PATH", "/nowhere")
        .run_to_end(dir.path())
        .await;
    assert!(!status.success());
    assert!(log.contains("git"), "{log}");
}

/// IDN-1, cases 99
#[tokio::test]
async fn the_relay_owners_key_is_kept_from_others() {
    let mut server = Server::spawn().await;
    let path = server.dir().join(".relay-owner.nsec");
    let mode = || {
        std::fs::metadata(&path)
            .expect("it is made")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(), 0o600);
    let secret = std::fs::read_to_string(&path).expect("readable");
    assert!(!server.log().contains(secret.trim()), "never logged");
    let owner = async |server: &Server| {
        let nip11 = server
            .request("GET", "/", &[("Accept", "application/nostr+json")])
            .await;
        let nip11: grasp_testkit::Value = nip11.text().parse().expect("JSON");
        nip11["pubkey"].clone()
    };
    let before = owner(&server).await;
    let names = server.request("GET", "/.well-known/nostr.json", &[]).await;
    assert!(
        names.text().contains(before.as_str().expect("hex")),
        "{}",
        names.text()
    );
    server.terminate().await;
    std::fs::write(&path, format!("{}\n\n", secret.trim())).expect("writable");
    server.start_again().await;
    assert_eq!(
        owner(&server).await,
        before,
        "a newline at the end is ignored"
    );
}

/// IDN-1
#[tokio::test]
async fn an_invalid_key_stops_the_start() {
    let dir = TempDir::new().expect("a temporary directory");
    let (status, log) = Server::configured()
        .env("NGIT_RELAY_OWNER_NSEC", "nsec1nonsense")
        .run_to_end(dir.path())
        .await;
    assert!(!status.success());
    assert!(log.contains("NGIT_RELAY_OWNER_NSEC"), "{log}");
    assert!(
        !log.contains("nsec1nonsense"),
        "secrets are not repeated: {log}"
    );
}

/// BND-2, EV-6, cases 92: below the disk floor writes are refused and nothing of them stays; reads go on.
#[tokio::test]
async fn below_the_disk_floor_writes_are_refused_and_reads_go_on() {
    let mut server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let tip = alice.commit("second").await;
    alice.publish_state([("refs/heads/main", &tip)]).await;
    let before = alice.remote_refs().await;
    server.terminate().await;
    server
        .start_again_with("NGIT_DISK_FLOOR_BYTES", Some("1000000000000000"))
        .await;
    let state = alice.state([("refs/heads/main", &tip)]);
    let said = server.publish(&state).await.refused();
    assert_eq!(said, "error: disk space is below the floor");
    let said = alice.push().await.refused();
    assert!(said.contains("disk space is below the floor"), "{said}");
    assert_eq!(server.refusals("disk_floor").await, 2);
    assert_eq!(alice.remote_refs().await, before);
    assert_eq!(server.request("GET", "/readyz", &[]).await.status, 503);
    assert_eq!(server.request("GET", "/healthz", &[]).await.status, 200);
    server.terminate().await;
    server.start_again_with("NGIT_DISK_FLOOR_BYTES", None).await;
    let said = server.publish(&state).await.accepted();
    assert!(said.starts_with("purgatory:"), "it was not kept: {said}");
    alice.push().await.accepted();
    assert_eq!(server.request("GET", "/readyz", &[]).await.status, 200);
}

/// §4: no huge file is reserved on disk up front.
#[tokio::test]
async fn the_store_reserves_address_space_only() {
    let server = Server::spawn().await;
    let cost = grasp_testkit::Footprint::of(&server.relay_dir());
    assert!(cost.bytes < 1 << 20, "{cost:?}");
}
