//! TLS before a server of a test, as a reverse proxy puts it there.

use std::sync::Arc;

use grasp_sync::dial::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// Puts TLS before a server, for as long as it lives. Its certificate is good for `localhost`.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    serving: AbortHandle,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Proxy {
    /// Before what listens at `authority`.
    pub(crate) async fn before(authority: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (acceptor, behind) = (acceptor(), authority.to_owned());
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

/// Whoever trusts these trusts the proxy's certificate.
pub(crate) fn trusted() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_slice(include_bytes!("tls/authority.der"));
    roots.add(authority).unwrap();
    roots
}
