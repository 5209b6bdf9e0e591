//! Relays behind TLS: whose certificate is good, and whose is not.

use std::sync::Arc;

use grasp_sync::dial::{Outcome, RootCertStore};
use grasp_sync::relay_url::RelayUrl;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use crate::home::{Following, MemoryHome, Running};
use crate::peer::Peer;

/// Puts TLS before a relay, as a reverse proxy does; for as long as it lives.
struct Proxy {
    port: u16,
    serving: AbortHandle,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Proxy {
    async fn before(peer: &Peer) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (acceptor, behind) = (acceptor(), peer.url.as_str().replace("ws://", ""));
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                tokio::spawn(async move {
                    let mut outside = acceptor.accept(stream).await.ok()?;
                    let mut inside = TcpStream::connect(behind).await.ok()?;
                    copy_bidirectional(&mut outside, &mut inside).await.ok()
                });
            }
        });
        let serving = serving.abort_handle();
        Self { port, serving }
    }

    fn url(&self, host: &str) -> RelayUrl {
        format!("wss://{host}:{}", self.port).parse().unwrap()
    }
}

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_slice(include_bytes!("tls/localhost.der"));
    let key = PrivatePkcs8KeyDer::from(&include_bytes!("tls/localhost.key.der")[..]);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn follow(relay: &RelayUrl, roots: RootCertStore) -> Running {
    let following = Following::new().bootstrap(relay);
    Following { roots, ..following }.start(MemoryHome::new())
}

fn trusted() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_slice(include_bytes!("tls/authority.der"));
    roots.add(authority).unwrap();
    roots
}

/// NET-2: what was resolved is dialled, and the certificate is checked against the name.
#[tokio::test]
async fn a_relay_with_a_good_certificate_is_followed() {
    let mut peer = Peer::plain().await;
    let proxy = Proxy::before(&peer).await;
    let _running = follow(&proxy.url("localhost"), trusted());
    assert!(peer.visitor().await.asked().await.is_live());
}

/// SYNC-46
#[tokio::test]
async fn a_certificate_of_a_stranger_or_for_another_name_is_not_good() {
    let mut peer = Peer::plain().await;
    let proxy = Proxy::before(&peer).await;
    let running = follow(&proxy.url("localhost"), RootCertStore::empty());
    running.home.eventually_dialled(Outcome::Certificate).await;
    let running = follow(&proxy.url("127.0.0.1"), trusted());
    running.home.eventually_dialled(Outcome::Certificate).await;
    assert!(peer.is_unvisited());
}

/// What we trust in production are the authorities that browsers trust.
#[test]
fn the_authorities_of_the_web_are_built_in() {
    assert!(grasp_sync::dial::web_roots().len() > 100);
}
