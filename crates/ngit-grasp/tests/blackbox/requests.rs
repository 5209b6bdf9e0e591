//! How long requests to delete are kept, as far as a client sees it (DEL-9, DEL-10, §16).

use grasp_testkit::{Event, Person, Server, eventually};

const DELETED: &str = "invalid: this event is deleted";
const SERVED: &str = "NGIT_DELETION_REQUEST_RETENTION_UNUSED_SERVED_SECS";
const GATING: &str = "NGIT_DELETION_REQUEST_RETENTION_UNUSED_UNSERVED_GATING_ADDITIONAL_SECS";

/// An event that is taken from anybody, another one for each second.
fn list(author: &Person, second: u64) -> Event {
    author.draft(10317).at(1_700_000_000 + second).sign()
}

/// DEL-9
#[tokio::test]
async fn a_request_goes_out_of_sight_and_stays_in_force() {
    let mut server = Server::configured()
        .env("NGIT_TEST", 1)
        .env(SERVED, 1)
        .spawn()
        .await;
    let carol = Person::named("carol");
    let event = list(&carol, 0);
    let request = carol.deletion(&event).sign();
    server.publish(&request).await.accepted();
    eventually("it is not served any more", async || {
        !server.serves(&request).await
    })
    .await;
    server.restart().await;
    let again = server.publish(&request).await;
    let said = again.accepted();
    assert!(said.starts_with("duplicate: "), "{said}");
    assert!(!server.serves(&request).await, "sent again is no use");
    assert_eq!(server.publish(&event).await.refused(), DELETED);
    assert!(server.serves(&request).await, "keeping out is one");
    server.kill9().await;
    server.start_again().await;
    assert!(server.serves(&request).await);
    assert_eq!(server.publish(&event).await.refused(), DELETED);
}

/// DEL-9
#[tokio::test]
async fn a_request_ends_with_what_it_keeps_out() {
    let server = Server::configured()
        .env("NGIT_TEST", 1)
        .env(SERVED, 1)
        .env(GATING, 1)
        .spawn()
        .await;
    let carol = Person::named("carol");
    let event = list(&carol, 0);
    let request = carol.deletion(&event).sign();
    server.publish(&request).await.accepted();
    eventually("it is forgotten, so taken as new", async || {
        server.publish(&request).await.accepted().is_empty()
    })
    .await;
    assert!(server.serves(&request).await);
}

/// §16, BND-1
#[tokio::test]
async fn an_author_has_so_many_requests_of_no_use() {
    let server = Server::configured()
        .env("NGIT_DELETIONS_PER_AUTHOR", 2)
        .spawn()
        .await;
    let carol = Person::named("carol");
    for second in 0..2 {
        let request = carol.deletion(&list(&carol, second)).sign();
        server.publish(&request).await.accepted();
    }
    let event = list(&carol, 2);
    let request = carol.deletion(&event).sign();
    let said = server.publish(&request).await.refused();
    assert!(
        said.starts_with("rate-limited: ") && said.contains(" 2 "),
        "{said}"
    );
    server.publish(&event).await.accepted();
    server.publish(&request).await.accepted();
    assert!(!server.serves(&event).await);
}

/// DEL-10, N11-1
#[tokio::test]
async fn a_server_that_respects_no_requests_says_so() {
    let nips = async |server: &Server| {
        let accept = [("accept", "application/nostr+json")];
        let answer = server.request("GET", "/", &accept).await;
        let document: grasp_testkit::Value =
            serde_json::from_slice(&answer.body).expect("a document");
        document["supported_nips"]
            .as_array()
            .expect("a list")
            .clone()
    };
    let mut server = Server::spawn().await;
    let carol = Person::named("carol");
    let event = list(&carol, 0);
    let listed = nips(&server).await;
    assert!(listed.contains(&9.into()) && listed.contains(&62.into()));
    server.terminate().await;
    server
        .start_again_with("NGIT_DELETION_REQUEST_DISRESPECTOR", Some("true"))
        .await;
    let listed = nips(&server).await;
    assert!(!listed.contains(&9.into()) && !listed.contains(&62.into()));
    let request = carol.deletion(&event).sign();
    server.publish(&event).await.accepted();
    server.publish(&request).await.accepted();
    assert!(server.serves(&event).await && server.serves(&request).await);
}
