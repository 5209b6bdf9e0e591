//! Relays behind TLS: whose certificate is good, and whose is not.

use grasp_sync::dial::{Outcome, RootCertStore};
use grasp_sync::relay_url::RelayUrl;

use crate::home::{Following, MemoryHome, Running};
use crate::peer::Peer;
use crate::tls::{Proxy, trusted};

async fn proxy_before(peer: &Peer) -> Proxy {
    Proxy::before(&peer.url.as_str().replace("ws://", "")).await
}

fn url(proxy: &Proxy, host: &str) -> RelayUrl {
    format!("wss://{host}:{}", proxy.port).parse().unwrap()
}

fn follow(relay: &RelayUrl, roots: RootCertStore) -> Running {
    let following = Following::new().bootstrap(relay);
    Following { roots, ..following }.start(MemoryHome::new())
}

/// NET-2: what was resolved is dialled, and the certificate is checked against the name.
#[tokio::test]
async fn a_relay_with_a_good_certificate_is_followed() {
    let mut peer = Peer::plain().await;
    let proxy = proxy_before(&peer).await;
    let _running = follow(&url(&proxy, "localhost"), trusted());
    assert!(peer.visitor().await.asked().await.is_live());
}

/// SYNC-46
#[tokio::test]
async fn a_certificate_of_a_stranger_or_for_another_name_is_not_good() {
    let mut peer = Peer::plain().await;
    let proxy = proxy_before(&peer).await;
    let running = follow(&url(&proxy, "localhost"), RootCertStore::empty());
    running.home.eventually_dialled(Outcome::Certificate).await;
    let running = follow(&url(&proxy, "127.0.0.1"), trusted());
    running.home.eventually_dialled(Outcome::Certificate).await;
    assert!(peer.is_unvisited());
}

/// What we trust in production are the authorities that browsers trust.
#[test]
fn the_authorities_of_the_web_are_built_in() {
    assert!(grasp_sync::dial::web_roots().len() > 100);
}
