//! A stream of bytes to a pinned host.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::ConnectError;
use crate::outbound::{Pinned, Refusal};

/// At most so many addresses of a host are tried.
const TRIED_MAX: usize = 8;
/// An address gets so much of a head start before the next is tried beside it (RFC 8305).
const HEAD_START: Duration = Duration::from_millis(250);

/// Bytes both ways.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A stream with or without TLS.
pub(crate) type Stream = Box<dyn Bytes>;

/// Makes streams.
pub(super) struct Connector {
    tls: TlsConnector,
}

impl Connector {
    pub(super) fn new(roots: RootCertStore) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has what both versions need")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            tls: TlsConnector::from(Arc::new(config)),
        }
    }

    pub(super) async fn connect(&self, to: &Pinned) -> Result<Stream, ConnectError> {
        let tcp = connect_to_any(to.addresses()).await;
        let tcp = tcp.map_err(ConnectError::Unreachable)?;
        // What we say is short and waited for; a stream that does not take the option works all the same.
        let _ = tcp.set_nodelay(true);
        let destination = to.destination();
        if !destination.is_encrypted() {
            return Ok(Box::new(tcp));
        }
        let name = ServerName::try_from(destination.host().to_owned());
        let name = name.map_err(|_| ConnectError::Forbidden(Refusal::Malformed))?;
        let tls = self.tls.connect(name, tcp).await.map_err(tls_failed)?;
        Ok(Box::new(tls))
    }
}

/// The first that answers. All are tried, in turn or side by side, so that one dead address does not hide a good one.
async fn connect_to_any(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut waiting = addresses.iter().take(TRIED_MAX);
    let mut tries = FuturesUnordered::new();
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    tries.extend(waiting.next().map(TcpStream::connect));
    while !tries.is_empty() {
        tokio::select! {
            Some(answer) = tries.next() => match answer {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    failure = error;
                    tries.extend(waiting.next().map(TcpStream::connect));
                }
            },
            () = tokio::time::sleep(HEAD_START), if waiting.len() > 0 => {
                tries.extend(waiting.next().map(TcpStream::connect));
            }
        }
    }
    Err(failure)
}

fn tls_failed(error: io::Error) -> ConnectError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(cause @ rustls::Error::InvalidCertificate(_)) => {
            ConnectError::Certificate(cause.clone())
        }
        Some(cause) => ConnectError::Tls(cause.clone()),
        None => ConnectError::Unreachable(error),
    }
}
