//! Whom we go to, and what we make of what they are.

use grasp_sync::dial::Outcome;
use grasp_sync::home::Tally;
use grasp_sync::outbound::OutboundPolicy;
use grasp_sync::relay_url::RelayUrl;
use grasp_testkit::{Person, eventually, json};

use crate::home::{Following, MemoryHome, Running};
use crate::peer::{About, Door, Peer, http_answer};

pub(crate) fn announcement(by: &str, relays: &[&RelayUrl]) -> grasp_sync::engine::Notice {
    let owner = Person::named(by).key();
    grasp_sync::engine::Notice::Repository {
        coordinate: grasp_core::name::Coordinate::new(owner, "project".parse().unwrap()),
        relays: relays.iter().map(|relay| (*relay).clone()).collect(),
        level: grasp_sync::engine::SyncLevel::Full,
    }
}

fn follow(relay: &RelayUrl) -> Running {
    Following::new().bootstrap(relay).start(MemoryHome::new())
}

/// NET-2: an address that is not of the public internet is not dialled, whatever an announcement says. NET-3: the
/// operator's own relay is.
#[tokio::test]
async fn only_the_operators_choice_may_be_inside() {
    let (mut bootstrap, mut listed) = (Peer::plain().await, Peer::plain().await);
    let mut following = Following::new().bootstrap(&bootstrap.url);
    following.dial.policy = OutboundPolicy::default();
    let running = following.start(MemoryHome::new());
    running
        .handle
        .notice(announcement("alice", &[&listed.url]))
        .await;
    running.home.eventually_dialled(Outcome::Forbidden).await;
    bootstrap.visitor().await;
    assert!(listed.is_unvisited());
}

/// NET-2: a name is resolved and what it resolves to is judged.
#[tokio::test]
async fn a_name_of_an_inner_address_is_not_dialled() {
    let mut inner = Peer::plain().await;
    let by_name: RelayUrl = inner
        .url
        .as_str()
        .replace("127.0.0.1", "localhost")
        .parse()
        .unwrap();
    let running = follow(&by_name);
    inner.visitor().await;
    drop(running);
    let mut following = Following::new();
    following.dial.policy = OutboundPolicy::default();
    let running = following.start(MemoryHome::new());
    running
        .handle
        .notice(announcement("alice", &[&by_name]))
        .await;
    running.home.eventually_dialled(Outcome::Forbidden).await;
    assert!(inner.is_unvisited());
}

/// NET-3
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let mut elsewhere = Peer::plain().await;
    let target = elsewhere.url.as_str().replace("ws://", "http://");
    let redirect =
        format!("HTTP/1.1 302 Found\r\nLocation: {target}/\r\nContent-Length: 0\r\n\r\n");
    let peer = Peer::with(About::Raw(redirect.clone()), Door::Raw(redirect)).await;
    let running = follow(&peer.url);
    running.home.eventually_dialled(Outcome::Protocol).await;
    assert!(elsewhere.is_unvisited());
}

/// SYNC-46: a relay that restarts behind a proxy is asked again soon.
#[tokio::test]
async fn a_relay_that_is_away_for_a_moment_is_not_a_broken_one() {
    let away = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n".to_owned();
    let peer = Peer::with(About::Silence, Door::Raw(away)).await;
    let running = follow(&peer.url);
    eventually("it is dialled again and again", async || {
        running.home.counted(Tally::Dialled(Outcome::Unreachable)) > 2
    })
    .await;
}

/// SYNC-46
#[tokio::test]
async fn what_speaks_no_tls_is_broken() {
    let peer = Peer::plain().await;
    let encrypted = peer
        .url
        .as_str()
        .replace("ws://", "wss://")
        .parse()
        .unwrap();
    let running = follow(&encrypted);
    running.home.eventually_dialled(Outcome::Protocol).await;
}

/// SYNC-9: whatever it is called, a relay with our owner's key is us.
#[tokio::test]
async fn a_relay_with_our_owners_key_is_ourselves() {
    let owner = Person::named("operator");
    let about = About::Document(json!({"pubkey": owner.hex()}));
    let peer = Peer::with(about, Door::Open).await;
    let following = Following::new().bootstrap(&peer.url);
    let running = following.owner(owner.key()).start(MemoryHome::new());
    running.home.eventually_dialled(Outcome::Ourselves).await;
}

/// NET-3: what a relay says of itself is asked for, and not waited for without end.
#[tokio::test]
async fn a_relay_that_says_nothing_of_itself_is_followed() {
    let mut peer = Peer::with(About::Silence, Door::Open).await;
    let _running = follow(&peer.url);
    assert!(peer.visitor().await.asked().await.is_live());
}

/// NET-3: not more of it than 256 KiB.
#[tokio::test]
async fn a_relay_that_says_too_much_of_itself_is_not_listened_to() {
    let owner = Person::named("operator");
    let padding = "x".repeat(300 * 1_024);
    let document = json!({"name": padding, "pubkey": owner.hex()}).to_string();
    let mut peer = Peer::with(About::Raw(http_answer(&document)), Door::Open).await;
    let following = Following::new().bootstrap(&peer.url);
    let running = following.owner(owner.key()).start(MemoryHome::new());
    peer.visitor().await.asked().await;
    assert_eq!(running.home.counted(Tally::Dialled(Outcome::Ourselves)), 0);
}
