//! What the operator hosts: lists of repositories and authors (ANN-1, N11-3, N11-4).

use grasp_testkit::{Maintainer, Person, Server, Value};

async fn document(server: &Server) -> Value {
    let accept = [("accept", "application/nostr+json")];
    let response = server.request("GET", "/", &accept).await;
    response.text().parse().expect("NIP-11 is JSON")
}

/// ANN-1, G1-3, N11-3, N11-4: a whitelist is told, in the answer and in NIP-11.
#[tokio::test]
async fn a_whitelist_hosts_what_it_names_and_says_so() {
    let alice = Person::named("alice");
    let server = Server::configured()
        .env("NGIT_REPOSITORY_WHITELIST", alice.npub())
        .spawn()
        .await;
    Maintainer::named_serving("alice", "project", &server).await;
    let theirs = Person::named("bob").announcement("project", &server).sign();
    let said = server.publish(&theirs).await.refused();
    assert_eq!(
        said,
        "restricted: only whitelisted repositories are hosted here"
    );
    let document = document(&server).await;
    for field in ["curation", "repo_acceptance_criteria"] {
        let text = document[field].as_str().expect("a sentence");
        assert!(text.contains("whitelisted"), "{field}: {text}");
    }
}

/// ANN-1, N11-3: a blacklist refuses and is nobody's business.
#[tokio::test]
async fn a_blacklist_refuses_and_is_not_published() {
    let bob = Person::named("bob");
    let carol = Person::named("carol");
    let server = Server::configured()
        .env(
            "NGIT_REPOSITORY_BLACKLIST",
            format!("{}/project", bob.npub()),
        )
        .env("NGIT_EVENT_BLACKLIST", carol.npub())
        .spawn()
        .await;
    let alice = Maintainer::serving("project", &server).await;
    let theirs = bob.announcement("project", &server).sign();
    let said = server.publish(&theirs).await.refused();
    assert_eq!(said, "invalid: this repository is blacklisted");
    let issue = carol.issue(&alice.coordinate()).sign();
    let said = server.publish(&issue).await.refused();
    assert_eq!(said, "blocked: this author is blacklisted");
    let document = document(&server).await;
    assert!(document.get("curation").is_none(), "{document}");
    assert!(!document.to_string().contains(&bob.npub()));
}
