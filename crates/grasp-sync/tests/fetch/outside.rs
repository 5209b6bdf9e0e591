//! Where we go, and where not.

use grasp_git::scratch::Bounds;
use grasp_sync::fetch::Progress;
use grasp_sync::hunt::{Broken, FetchOutcome};
use grasp_sync::outbound::OutboundPolicy;
use grasp_testkit::{Behaviour, GitHost, json};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::support::{
    Place, fetch, fetch_with, fetcher, held, make_whole, nobodys, request, settings,
};
use crate::tls::{Proxy, trusted};

/// NET-1, NET-2: an address that is not of the public internet is not dialled, however it is written.
#[tokio::test]
async fn inner_addresses_are_not_asked() {
    let (host, _work, tip) = held().await;
    let mut settings = settings();
    settings.policy = OutboundPolicy::default();
    let fetcher = Place::new(settings, Bounds::default());
    for inside in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "2130706433",
        "[::ffff:127.0.0.1]",
    ] {
        let wanted = request(&host.url_at(inside, "project"), [tip]);
        let refused = fetcher.fetch(wanted.clone(), Progress::new()).await;
        let outcome = refused.expect_err("not dialled").outcome();
        assert_eq!(outcome, FetchOutcome::Forbidden, "{inside}");
        assert!(!fetcher.probe_host(&wanted.source).await);
    }
    assert_eq!(host.requests(), 0);
}

/// NET-4
#[tokio::test]
async fn a_closed_network_may_be_asked_by_name() {
    let (host, _work, tip) = held().await;
    let came = fetch(&host.url_at("localhost", "project"), [tip])
        .await
        .unwrap();
    assert_eq!((came.packs.len(), host.requests()), (1, 1));
    let asked = &host.asked()[0];
    assert!(asked.header("host").starts_with("localhost:"));
}

/// HUNT-11: what speaks no TLS where TLS is promised is broken.
#[tokio::test]
async fn what_speaks_no_tls_is_broken() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/project.git", listener.local_addr().unwrap());
    let answering = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        stream
    };
    let (fetched, _stream) = tokio::join!(fetch(&url, [nobodys(1)]), answering);
    let outcome = fetched.expect_err("no TLS").outcome();
    assert_eq!(outcome, FetchOutcome::Broken(Broken::Tls));
}

/// NET-2, HUNT-11: the certificate is checked against the name; one that is not good is a fault of the host.
#[tokio::test]
async fn a_host_behind_tls_is_known_by_its_certificate() {
    let (host, _work, tip) = held().await;
    let proxy = Proxy::before(&host.authority).await;
    let place = Place::trusting(trusted(), settings(), Bounds::default());
    let by_name = format!("https://localhost:{}/project.git", proxy.port);
    let came = fetch_with(&place, request(&by_name, [tip]), &Progress::new())
        .await
        .unwrap();
    assert!(make_whole(&came.packs, tip).await);
    let by_address = by_name.replace("localhost", "127.0.0.1");
    let other_name = fetch_with(&place, request(&by_address, [tip]), &Progress::new()).await;
    let strangers = fetch(&by_name, [tip]).await;
    for refused in [other_name, strangers] {
        let outcome = refused.expect_err("not trusted").outcome();
        assert_eq!(outcome, FetchOutcome::Broken(Broken::Tls));
    }
    assert_eq!(host.requests(), 1);
}

/// HUNT-14: what a host says of itself decides how much it is asked.
#[tokio::test]
async fn a_grasp_server_is_known_by_what_it_says_of_itself() {
    let host = GitHost::start().await;
    let at = host.url("npub1whoever/project").parse().unwrap();
    let document = json!({"supported_grasps": ["GRASP-01", "GRASP-02"]}).to_string();
    let answer = |status: &str| {
        let length = document.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
        Behaviour::Raw((head + &document).into())
    };
    host.behave(answer("200 OK"));
    assert!(fetcher().probe_host(&at).await);
    let asked = &host.asked()[0];
    assert_eq!(
        (asked.target.as_str(), asked.header("accept")),
        ("/", "application/nostr+json")
    );
    host.behave(answer("404 Not Found"));
    assert!(!fetcher().probe_host(&at).await);
    host.behave(Behaviour::Faithful);
    assert!(!fetcher().probe_host(&at).await);
    // NET-3: no longer than three seconds.
    host.behave(Behaviour::Silent);
    assert!(!fetcher().probe_host(&at).await);
}

/// HUNT-11
#[tokio::test]
async fn a_name_that_is_none_is_broken() {
    let error = fetch("http://no-such-host.invalid/x.git", [nobodys(1)]).await;
    let outcome = error.expect_err("no such name").outcome();
    // A machine without a resolver says "not now" instead.
    let away = FetchOutcome::Unavailable;
    assert!(
        outcome == FetchOutcome::Broken(Broken::Dns) || outcome == away,
        "{outcome:?}"
    );
}
