//! What one client address, and all together, may ask of git (NAME-8, §16): on real sockets, behind a proxy.

use grasp_testkit::wire::{Report, USUAL, ZERO, info_refs, push_request};
use grasp_testkit::{HttpConnection, HttpResponse, Maintainer, Server, gzip, pkt};
use tokio::task::JoinSet;

const FROM: (&str, &str) = ("X-Forwarded-For", "1.2.3.4");
const FROM_ELSEWHERE: (&str, &str) = ("X-Forwarded-For", "1.2.3.5");

/// A server that believes its neighbour, with some settings, and a repository.
async fn behind_a_proxy(settings: &[(&str, u64)]) -> (Server, Maintainer) {
    let proxied = Server::configured().env("NGIT_TRUSTED_PROXY_CIDRS", "127.0.0.0/8");
    let configured = settings
        .iter()
        .fold(proxied, |server, (name, value)| server.env(name, value));
    let server = configured.spawn().await;
    let alice = Maintainer::serving("project", &server).await;
    (server, alice)
}

/// A request whose body the server waits for: it has its place until the body ends.
struct Held {
    http: HttpConnection,
    begun: HttpResponse,
}

impl Held {
    async fn at(server: &Server, target: &str) -> Self {
        let mut http = server.http().await;
        let headers = [
            FROM,
            ("Transfer-Encoding", "chunked"),
            ("Expect", "100-continue"),
        ];
        http.send_head("POST", target, &headers).await;
        // Either of them comes once there is a place.
        let begun = http.response_head().await;
        assert!(matches!(begun.status, 100 | 200), "{}", begun.status);
        Self { http, begun }
    }

    async fn end(mut self) {
        self.http.send_chunk(b"").await;
        if self.begun.status == 200 {
            self.http.response_body("POST", self.begun).await;
        } else {
            self.http.response("POST").await;
        }
    }
}

/// Two requests at once where there is room for one to wait. The one that is refused, and the task that waits.
async fn two_more(server: &Server, target: &str, body: &[u8]) -> (String, JoinSet<HttpResponse>) {
    let mut both = JoinSet::new();
    for _ in 0..2 {
        let (mut http, target, body) = (server.http().await, target.to_owned(), body.to_vec());
        both.spawn(async move { http.post(&target, &[FROM], &body).await });
    }
    let first = both.join_next().await.expect("two").expect("no panic");
    assert_eq!(first.status, 200, "git would hide the words of another");
    (first.text(), both)
}

/// NAME-8
#[tokio::test]
async fn git_requests_of_one_address_are_rated() {
    let (server, alice) = behind_a_proxy(&[("NGIT_ADDRESS_GIT_PER_MINUTE", 3)]).await;
    let target = info_refs(&alice.path(), "git-upload-pack");
    for _ in 0..3 {
        assert_eq!(server.request("GET", &target, &[FROM]).await.status, 200);
    }
    let refused = server.request("GET", &target, &[FROM]).await;
    assert_eq!(refused.status, 429);
    let words = "this address sends more than 3 git requests in a minute";
    assert!(refused.text().contains(words), "{}", refused.text());
    assert_eq!(server.refusals("address_git").await, 1);
    let elsewhere = server.request("GET", &target, &[FROM_ELSEWHERE]).await;
    assert_eq!(elsewhere.status, 200);
}

/// NAME-8
#[tokio::test]
async fn git_requests_of_one_address_wait_in_a_short_line() {
    let settings = [
        ("NGIT_ADDRESS_GIT_RUNNING", 1),
        ("NGIT_ADDRESS_GIT_QUEUED", 1),
    ];
    let (server, alice) = behind_a_proxy(&settings).await;
    let target = alice.path() + "/git-upload-pack";
    let running = Held::at(&server, &target).await;
    let (said, mut waiting) = two_more(&server, &target, b"0000").await;
    let words = "ERR this address has 1 git requests waiting, the most it may have";
    assert!(said.contains(words), "{said}");
    assert_eq!(server.refusals("address_git_queued").await, 1);
    let mut elsewhere = server.http().await;
    let other = elsewhere.post(&target, &[FROM_ELSEWHERE], b"0000").await;
    assert!(!other.text().contains("ERR"), "{}", other.text());
    running.end().await;
    let waited = waiting.join_next().await.expect("one").expect("no panic");
    assert!(!waited.text().contains("ERR"), "{}", waited.text());
}

/// NAME-8
#[tokio::test]
async fn pushes_of_one_address_are_bounded() {
    let (server, alice) = behind_a_proxy(&[("NGIT_ADDRESS_PUSHES", 1)]).await;
    let target = alice.path() + "/git-receive-pack";
    let running = Held::at(&server, &target).await;
    let mut http = server.http().await;
    let refused = http.post(&target, &[FROM], b"0000").await;
    let words = "ERR this address has 1 pushes running, the most it may have";
    assert!(refused.text().contains(words), "{}", refused.text());
    assert_eq!(server.refusals("address_pushes").await, 1);
    running.end().await;
    let tip = alice.commit("second").await;
    alice.publish_state([("refs/heads/main", &tip)]).await;
    let pack = alice.work.pack(&[&tip]).await;
    let body = push_request(&[(ZERO, &tip, "refs/heads/main")], USUAL, &pack);
    let answer = server.http().await.post(&target, &[FROM], &body).await;
    assert!(Report::of(&answer).is_ok(), "the place is free again");
}

/// §16
#[tokio::test]
async fn pushes_of_all_wait_for_their_turn() {
    let (server, alice) = behind_a_proxy(&[("NGIT_GIT_PUSHES", 1)]).await;
    let target = alice.path() + "/git-receive-pack";
    let tip = alice.commit("second").await;
    alice.publish_state([("refs/heads/main", &tip)]).await;
    let pack = alice.work.pack(&[&tip]).await;
    let body = push_request(&[(ZERO, &tip, "refs/heads/main")], USUAL, &pack);
    let running = Held::at(&server, &target).await;
    let mut http = server.http().await;
    let waiting = tokio::spawn(async move { http.post(&target, &[FROM], &body).await });
    // Other requests go on meanwhile.
    let info = info_refs(&alice.path(), "git-receive-pack");
    assert_eq!(server.request("GET", &info, &[FROM]).await.status, 200);
    assert!(!waiting.is_finished());
    running.end().await;
    let answer = waiting.await.expect("no panic");
    assert!(Report::of(&answer).is_ok());
}

/// §16
#[tokio::test]
async fn fetches_of_all_wait_in_a_line_that_ends() {
    let settings = [("NGIT_GIT_FETCHES", 1), ("NGIT_GIT_FETCHES_QUEUED", 1)];
    let (server, alice) = behind_a_proxy(&settings).await;
    let target = alice.path() + "/git-upload-pack";
    let running = Held::at(&server, &target).await;
    let tip = alice.work.rev("HEAD").await;
    let want = pkt(format!("want {tip}\n"));
    let fetch = [want, b"0000".to_vec(), pkt("done\n")].concat();
    let (said, mut waiting) = two_more(&server, &target, &fetch).await;
    assert!(
        said.contains("ERR upload-pack: the server is busy, try again later"),
        "{said}"
    );
    assert_eq!(server.refusals("fetches_queued").await, 1);
    running.end().await;
    let waited = waiting.join_next().await.expect("one").expect("no panic");
    assert!(
        waited.body.windows(4).any(|word| word == b"PACK"),
        "{}",
        waited.text()
    );
}

/// §16, HTTP-3
#[tokio::test]
async fn a_fetch_request_that_inflates_beyond_its_bound_is_refused_by_name() {
    let settings = [("NGIT_GIT_REQUEST_MAX_BYTES", 100_000)];
    let (server, alice) = behind_a_proxy(&settings).await;
    let tip = alice.work.rev("HEAD").await;
    let have = pkt(format!("have {}\n", "1".repeat(40)));
    let want = pkt(format!("want {tip}\n"));
    let request = [want, b"0000".to_vec(), have.repeat(4_000)].concat();
    let target = alice.path() + "/git-upload-pack";
    let headers = [("Content-Encoding", "gzip")];
    let answer = server
        .http()
        .await
        .post(&target, &headers, &gzip(&request))
        .await;
    let words = "ERR upload-pack: request is larger than the limit of 100000 bytes";
    assert!(answer.text().contains(words), "{}", answer.text());
    assert_eq!(server.refusals("request_bytes").await, 1);
}
