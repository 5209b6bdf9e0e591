//! The routing table (§12) and what every answer carries.

use grasp_testkit::wire::info_refs;
use grasp_testkit::{HttpResponse, Maintainer, Person, Server, Value, json};

/// G1-19, HTTP-1, HTTP-5
#[track_caller]
fn carries_cors(what: &str, answer: &HttpResponse) {
    assert_eq!(answer.header("access-control-allow-origin"), "*", "{what}");
    let methods = answer.header("access-control-allow-methods");
    assert!(
        methods.contains("GET") && methods.contains("POST"),
        "{what}: {methods}"
    );
    let headers = answer.header("access-control-allow-headers").to_lowercase();
    for wanted in ["content-type", "authorization", "git-protocol"] {
        assert!(headers.contains(wanted), "{what}: {headers}");
    }
    assert_eq!(
        answer.header("access-control-expose-headers"),
        "WWW-Authenticate",
        "{what}"
    );
    assert_eq!(answer.header("server"), "ngit-grasp", "{what}");
}

/// §12, G1-19
#[tokio::test]
async fn every_route_answers_as_the_table_says_and_carries_cors() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let repo = alice.path();
    let npub = alice.person.npub();
    let nothing = format!("/{npub}/nothing.git");
    let (upload, receive) = ("git-upload-pack", "git-receive-pack");
    let html = "text/html; charset=utf-8";
    let cases: Vec<(&str, String, u16, &str)> = vec![
        ("GET", "/".into(), 200, html),
        ("GET", repo.clone(), 200, html),
        ("GET", format!("{repo}/"), 200, html),
        ("GET", nothing.clone(), 404, html),
        (
            "GET",
            info_refs(&repo, upload),
            200,
            "application/x-git-upload-pack-advertisement",
        ),
        (
            "GET",
            info_refs(&repo, receive),
            200,
            "application/x-git-receive-pack-advertisement",
        ),
        ("GET", info_refs(&nothing, upload), 404, ""),
        ("GET", info_refs(&repo, "git-nonsense"), 404, ""),
        ("GET", format!("{repo}/info/refs"), 404, ""),
        ("POST", format!("{repo}/info/refs"), 404, ""),
        ("GET", format!("{repo}/git-upload-pack"), 404, ""),
        ("PUT", format!("{repo}/git-upload-pack"), 404, ""),
        ("GET", format!("{repo}/HEAD"), 404, ""),
        ("GET", format!("{repo}/objects/info/packs"), 404, ""),
        ("GET", "/healthz".into(), 200, ""),
        ("GET", "/readyz".into(), 200, ""),
        ("GET", "/icon.png".into(), 200, "image/png"),
        ("GET", "/nothing".into(), 404, html),
        (
            "GET",
            "/.well-known/nostr.json".into(),
            200,
            "application/json; charset=utf-8",
        ),
        ("GET", format!("/prs/{npub}/x.git"), 404, ""),
        (
            "GET",
            info_refs(&format!("/prs/{npub}/x.git"), upload),
            404,
            "",
        ),
    ];
    let mut http = server.http().await;
    for (method, target, status, kind) in cases {
        let what = format!("{method} {target}");
        let answer = http
            .request(method, &target, &[("Content-Length", "0")])
            .await;
        assert_eq!(answer.status, status, "{what}");
        if !kind.is_empty() {
            assert_eq!(answer.header("content-type"), kind, "{what}");
        }
        carries_cors(&what, &answer);
    }
}

/// G1-20, cases 95
#[tokio::test]
async fn options_on_any_path_is_204() {
    let server = Server::spawn().await;
    let alice = Maintainer::announcing("project", &server).await;
    let mut http = server.http().await;
    for target in [
        "/".to_owned(),
        "/nothing/at/all".to_owned(),
        alice.path(),
        alice.path() + "/git-upload-pack",
    ] {
        let headers = [
            ("Origin", "https://client.example"),
            ("Access-Control-Request-Method", "POST"),
            (
                "Access-Control-Request-Headers",
                "content-type,git-protocol",
            ),
        ];
        let answer = http.request("OPTIONS", &target, &headers).await;
        assert_eq!(answer.status, 204, "{target}");
        assert_eq!(answer.header("access-control-max-age"), "86400");
        carries_cors(&target, &answer);
    }
}

/// HTTP-2, cases 5
#[tokio::test]
async fn head_mirrors_get_without_a_body() {
    let server = Server::spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    let mut http = server.http().await;
    let targets = [
        "/".to_owned(),
        alice.path(),
        info_refs(&alice.path(), "git-upload-pack"),
        info_refs(
            &format!("/{}/nothing.git", alice.person.npub()),
            "git-upload-pack",
        ),
        "/nothing".to_owned(),
        "/healthz".to_owned(),
        "/icon.png".to_owned(),
    ];
    for target in targets {
        let get = http.request("GET", &target, &[]).await;
        let head = http.request("HEAD", &target, &[]).await;
        assert_eq!(
            (head.status, head.header("content-type")),
            (get.status, get.header("content-type")),
            "{target}"
        );
        assert_eq!(
            head.header("content-length"),
            get.header("content-length"),
            "{target}"
        );
    }
}

/// G1-7, G1-8, G1-9, G1-10, N11-1, N11-2, cases 96
#[tokio::test]
async fn the_relay_document_tells_the_truth() {
    let server = Server::spawn().await;
    for accept in [
        "application/nostr+json",
        "Application/Nostr+JSON",
        "text/html;q=0.5, application/nostr+json;q=0.9, */*;q=0.1",
    ] {
        let answer = server.request("GET", "/", &[("Accept", accept)]).await;
        assert_eq!(answer.status, 200, "{accept}");
        assert_eq!(
            answer.header("content-type"),
            "application/nostr+json",
            "{accept}"
        );
        carries_cors(accept, &answer);
        let document: Value = answer.text().parse().expect("JSON");
        assert_eq!(
            document["name"],
            format!("{} grasp relay", server.authority)
        );
        for text in [
            "description",
            "pubkey",
            "icon",
            "software",
            "version",
            "repo_acceptance_criteria",
        ] {
            assert!(
                document[text].as_str().is_some_and(|text| !text.is_empty()),
                "{text} in {document}"
            );
        }
        assert!(document.get("curation").is_none(), "not curated");
        assert_eq!(document["supported_grasps"][0], "GRASP-01");
        let nips = document["supported_nips"].as_array().expect("a list");
        for nip in [1, 11, 34, 40, 45] {
            assert!(nips.contains(&json!(nip)), "{nip} in {nips:?}");
        }
        assert!(nips.is_sorted_by_key(Value::as_u64));
        let limitation = &document["limitation"];
        assert_eq!(limitation["max_message_length"], 5_242_880);
        assert_eq!(limitation["max_subid_length"], 250);
        assert_eq!(limitation["restricted_writes"], true);
        assert_eq!(limitation["max_subscriptions"], 500);
        assert_eq!(limitation["max_limit"], 500);
        assert_eq!(limitation["default_limit"], 500);
        assert_eq!(limitation["max_filters"], 20);
        assert_eq!(limitation["created_at_upper_limit"], 900);
    }
}

/// G1-18, HTTP-5
#[tokio::test]
async fn pages_help_people_and_are_safe() {
    let server = Server::spawn().await;
    let alice = Maintainer::new("<b>&\"'x", &server).await;
    let name = "<script>alert(1)</script>";
    let announcement = alice
        .person
        .announcement(&alice.identifier, &server)
        .without("name")
        .tag(["name", name])
        .tag(["description", name])
        .tag(["web", "javascript:alert(1)"])
        .sign();
    alice.publish(&announcement).await.accepted();
    alice.advance("first").await;
    let page = server.request("GET", &alice.path(), &[]).await;
    assert_eq!(page.status, 200);
    let text = page.text();
    assert!(
        text.contains(&format!("git clone nostr://{}", alice.person.npub())),
        "{text}"
    );
    assert!(
        text.contains(&alice.url().replace('\'', "&#39;")) || text.contains(".git"),
        "{text}"
    );
    assert!(text.contains("gitworkshop.dev"), "{text}");
    assert!(!text.contains(name) && !text.contains("<b>"), "escaped");
    assert!(!text.contains("href=\"javascript:"), "{text}");
    let landing = server.request("GET", "/", &[]).await;
    for page in [&page, &landing] {
        let policy = page.header("content-security-policy");
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        let text = page.text();
        assert!(text.contains("viewport"), "readable on a phone");
        assert!(
            text.contains("prefers-color-scheme") || text.contains("color-scheme"),
            "light and dark"
        );
    }
}

/// HTTP-5, cases 85
#[tokio::test]
async fn what_a_404_page_echoes_is_escaped() {
    let server = Server::spawn().await;
    for target in [
        "/%3Cscript%3Ealert(1)%3C/script%3E",
        "/x?%3Cscript%3Ealert(1)%3C/script%3E",
        "/npub1%3Cscript%3E/x%3Cscript%3E.git",
    ] {
        let answer = server.request("GET", target, &[]).await;
        assert_eq!(answer.status, 404, "{target}");
        assert!(
            !answer.text().contains("<script>"),
            "{target}: {}",
            answer.text()
        );
        carries_cors(target, &answer);
    }
    // No URL, and browsers would write it as above.
    let mut http = server.http().await;
    for target in ["/<script>alert(1)</script>", "/`<\u{1}>`?x=<b>"] {
        let raw = http.request("GET", target, &[]).await;
        assert_eq!(raw.status, 404, "{target}");
        assert!(!raw.text().contains("<script>") && !raw.text().contains("<b>"));
        carries_cors(target, &raw);
    }
    // It is not acted upon, whatever it would be if it were corrected, and the connection goes on.
    let alice = Maintainer::serving("<project>", &server).await;
    let repository = alice.path();
    assert_eq!(http.request("GET", &repository, &[]).await.status, 200);
    let raw = repository.replace("%3C", "<").replace("%3E", ">");
    assert_eq!(http.request("GET", &raw, &[]).await.status, 404);
    assert_eq!(http.request("GET", "/healthz", &[]).await.status, 200);
}

/// G1-1, HTTP-1, cases 75: the handshake carries them too, and any path of the relay is `/` alone. Frames that
/// inflate are not offered.
#[tokio::test]
async fn the_websocket_handshake_is_at_the_root_alone() {
    let server = Server::spawn().await;
    let headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Extensions", "permessage-deflate"),
    ];
    let answer = server.request("GET", "/", &headers).await;
    assert_eq!(answer.status, 101);
    assert_eq!(
        answer.header("sec-websocket-accept"),
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
    assert_eq!(answer.header("sec-websocket-extensions"), "");
    carries_cors("101", &answer);
    assert_eq!(
        server.request("GET", "/nothing", &headers).await.status,
        404
    );
}

/// NAME-6, cases 87
#[tokio::test]
async fn below_a_base_path_everything_works_and_beside_it_nothing() {
    let server = Server::configured()
        .env("NGIT_BASE_PATH", "/services/grasp")
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    assert!(alice.path().starts_with("/services/grasp/npub1"));
    let nip11 = [("Accept", "application/nostr+json")];
    let mut http = server.http().await;
    for target in [
        "/services/grasp",
        "/services/grasp/",
        "/services/grasp/healthz",
    ] {
        assert_eq!(
            http.request("GET", target, &[]).await.status,
            200,
            "{target}"
        );
    }
    let answer = http.request("GET", "/services/grasp/", &nip11).await;
    assert_eq!(answer.header("content-type"), "application/nostr+json");
    let beside = alice.path().replace("/services/grasp", "");
    for target in [
        "/",
        "/services",
        "/services/graspx",
        "/healthz",
        &beside,
        &info_refs(&beside, "git-upload-pack"),
    ] {
        let answer = http.request("GET", target, &nip11).await;
        assert_eq!(answer.status, 404, "{target}");
        carries_cors(target, &answer);
    }
    assert_eq!(http.request("OPTIONS", "/", &[]).await.status, 204);
    // An announcement without the path does not list this service.
    let without = Person::named("bob")
        .draft(30617)
        .tag(["d", "x"])
        .tag([
            "clone",
            &format!(
                "http://{}/{}/x.git",
                server.authority,
                Person::named("bob").npub()
            ),
        ])
        .tag(["relays", &format!("ws://{}", server.authority)])
        .sign();
    server.publish(&without).await.refused();
}

/// HTTP-7: a head that does not end is not waited for; one that is too large is refused.
#[tokio::test]
async fn an_oversized_head_is_refused() {
    let server = Server::spawn().await;
    let large = "x".repeat(20_000);
    let answer = server.request("GET", "/", &[("X-Large", &large)]).await;
    assert_eq!(answer.status, 431);
    carries_cors("431", &answer);
    assert_eq!(server.refusals("request_head_bytes").await, 1);
}

/// G1-19: also where no request can be made of what came.
#[tokio::test]
async fn a_head_that_is_no_request_is_refused_with_cors() {
    let server = Server::spawn().await;
    let many = "X: y\r\n".repeat(200);
    for (head, status) in [
        ("GET\u{1} / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/7.5\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nno header\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nX\u{0}: y\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{many}\r\n"), 431),
    ] {
        let mut http = server.http().await;
        // After an answer of ours too.
        assert_eq!(http.request("GET", "/healthz", &[]).await.status, 200);
        http.send(head.as_bytes()).await;
        let answer = http.response("GET").await;
        assert_eq!(answer.status, status, "{head:?}");
        carries_cors(&head, &answer);
    }
}

/// G6-6, G6-1: on, it is said and an empty repository answers; off, neither.
#[tokio::test]
async fn contributors_repositories_are_there_only_where_they_are_on() {
    for on in [true, false] {
        let server = Server::configured()
            .env("NGIT_GRASP06_ENABLE", on)
            .spawn()
            .await;
        let nip11 = [("Accept", "application/nostr+json")];
        let document: Value = server
            .request("GET", "/", &nip11)
            .await
            .text()
            .parse()
            .expect("JSON");
        let said = document["supported_grasps"].as_array().expect("a list");
        assert_eq!(said.contains(&json!("GRASP-06")), on, "{said:?}");
        let path = format!("/prs/{}/project.git", Person::named("carol").npub());
        let target = info_refs(&path, "git-upload-pack");
        let answer = server.request("GET", &target, &[]).await;
        assert_eq!(answer.status, if on { 200 } else { 404 });
    }
}
