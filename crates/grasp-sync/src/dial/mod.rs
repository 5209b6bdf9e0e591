//! Going to a relay: from its name to a WebSocket that stands, and what it says of itself.
//!
//! The name is judged, resolved once, and every address judged; only those are dialled, for the WebSocket and for the
//! question about NIP-11 alike (NET-1 … NET-3). Redirects are not followed, and nothing is read from the environment,
//! so no proxy comes between. *Invariant:* no socket is opened but to an address of a
//! [`Pinned`].

mod connect;
mod error;
mod handshake;
mod own;
mod probe;
mod resolve;

use std::borrow::Cow;
use std::fmt;

use grasp_core::PublicKey;
pub use rustls::RootCertStore;
use tokio_tungstenite::WebSocketStream;

use crate::engine::PeerInfo;
use crate::outbound::{OutboundPolicy, Pinned, Purpose};
use crate::relay_url::RelayUrl;

use connect::Connector;
pub(crate) use connect::Stream;
pub use error::{ConnectError, DialError, Outcome};
pub use handshake::MESSAGE_BYTES_MAX;
pub use probe::{BYTES_MAX as PROBE_BYTES_MAX, TIME_MAX as PROBE_TIME_MAX};
use resolve::Resolver;

/// A relay connection before anything was said on it.
pub(crate) type Socket = WebSocketStream<Stream>;

/// Who dials, and where it may go.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whom we may dial.
    pub policy: OutboundPolicy,
    /// The key of this relay's owner: a relay that names it in its NIP-11 is us (SYNC-9).
    pub owner: Option<PublicKey>,
    /// What we call ourselves, as in `User-Agent`.
    pub user_agent: String,
}

/// The certificate authorities that browsers trust.
pub fn web_roots() -> RootCertStore {
    RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    }
}

/// Dials relays.
pub struct Dialler {
    settings: Settings,
    resolver: Resolver,
    connector: Connector,
}

impl Dialler {
    /// A dialler that trusts certificates below `roots`.
    pub fn new(settings: Settings, roots: RootCertStore) -> Self {
        Self {
            settings,
            resolver: Resolver::new(),
            connector: Connector::new(roots),
        }
    }

    /// Dials `relay`, and asks it meanwhile what it is. Has no time limit of its own: whoever waits decides for how
    /// long. `is_exempt` is for the operator's own choice (NET-3).
    pub(crate) async fn dial(
        &self,
        relay: &RelayUrl,
        is_exempt: bool,
    ) -> Result<(Socket, PeerInfo), DialError> {
        let policy = self.policy_for(is_exempt);
        let pinned = self.pin(relay.as_str(), Purpose::Relay, &policy).await?;
        let user_agent = &self.settings.user_agent;
        let socket = async {
            let stream = self.connector.connect(&pinned).await?;
            handshake::shake_hands(stream, relay, user_agent).await
        };
        let about = async {
            let about = probe::probe(&self.connector, &pinned, relay, user_agent);
            Ok(about.await)
        };
        let (socket, about) = tokio::try_join!(socket, about)?;
        if about.pubkey.is_some() && about.pubkey == self.settings.owner {
            return Err(DialError::Ourselves);
        }
        Ok((socket, about.info))
    }

    /// The operator's own choice may lie anywhere.
    fn policy_for(&self, is_exempt: bool) -> Cow<'_, OutboundPolicy> {
        if is_exempt {
            Cow::Owned(OutboundPolicy {
                allow_non_global: true,
                ..OutboundPolicy::default()
            })
        } else {
            Cow::Borrowed(&self.settings.policy)
        }
    }

    /// Judges where a URL of git data leads, and resolves it once (NET-1, NET-2).
    pub(crate) async fn pin_http(&self, url: &str) -> Result<Pinned, ConnectError> {
        self.pin(url, Purpose::Http, &self.settings.policy).await
    }

    /// A stream to where a URL leads.
    pub(crate) async fn connect(&self, to: &Pinned) -> Result<Stream, ConnectError> {
        self.connector.connect(to).await
    }

    /// What we call ourselves.
    pub(crate) fn user_agent(&self) -> &str {
        &self.settings.user_agent
    }

    async fn pin(
        &self,
        url: &str,
        purpose: Purpose,
        policy: &OutboundPolicy,
    ) -> Result<Pinned, ConnectError> {
        let destination = policy.admit(url, purpose)?;
        let resolved = match destination.literal() {
            Some(address) => vec![address],
            None => self.resolver.resolve(&destination).await?,
        };
        let pinned = policy.pin(destination, &resolved)?;
        if !policy.allow_non_global {
            own::refuse(&pinned).await?;
        }
        Ok(pinned)
    }
}

impl fmt::Debug for Dialler {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Dialler")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
