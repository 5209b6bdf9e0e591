//! Why a dial failed, and what that means for the next one.

use std::io;

use tokio_tungstenite::tungstenite;

use crate::engine::DialFailure;
use crate::outbound::Refusal;

/// Why there is no stream to a host.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// NET-1, NET-2
    #[error("this host is not dialled")]
    Forbidden(#[source] Refusal),
    /// The name does not exist, or has no address.
    #[error("the name of the host does not resolve")]
    NoSuchName(#[source] Option<io::Error>),
    /// The resolver has no answer at the moment.
    #[error("the name of the host does not resolve at the moment")]
    Resolver(#[source] io::Error),
    /// No address took the connection, or it broke at once.
    #[error("the host cannot be reached")]
    Unreachable(#[source] io::Error),
    /// Its certificate is not good for its name.
    #[error("the host's certificate is not valid")]
    Certificate(#[source] rustls::Error),
    /// What it speaks is no TLS.
    #[error("the host does not speak TLS")]
    Tls(#[source] rustls::Error),
}

/// Why there is no connection to a relay.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// There is not even a stream.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// What it speaks is no WebSocket.
    #[error("the relay does not speak WebSocket")]
    Handshake(#[source] Box<tungstenite::Error>),
    /// It is there, and answers the handshake with something else. A redirect is such an answer (NET-3).
    #[error("the relay answers with status {0}")]
    Status(u16),
    /// SYNC-9
    #[error("the relay is this server")]
    Ourselves,
}

/// How a dial ended, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The connection stands.
    Connected,
    /// Nobody answers, or not now.
    Unreachable,
    /// The name does not exist.
    Name,
    /// The certificate is not valid.
    Certificate,
    /// It speaks something else.
    Protocol,
    /// We may not go there.
    Forbidden,
    /// It is us.
    Ourselves,
    /// It took longer than a dial may take.
    TimedOut,
}

impl Outcome {
    /// All of them, for metrics.
    pub const ALL: [Self; 8] = [
        Self::Connected,
        Self::Unreachable,
        Self::Name,
        Self::Certificate,
        Self::Protocol,
        Self::Forbidden,
        Self::Ourselves,
        Self::TimedOut,
    ];

    /// Its name as a label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Unreachable => "unreachable",
            Self::Name => "dns_lookup_failed",
            Self::Certificate => "tls_certificate_invalid",
            Self::Protocol => "protocol_error",
            Self::Forbidden => "forbidden",
            Self::Ourselves => "ourselves",
            Self::TimedOut => "timed_out",
        }
    }
}

impl ConnectError {
    /// How it is counted.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Forbidden(_) => Outcome::Forbidden,
            Self::NoSuchName(_) => Outcome::Name,
            Self::Resolver(_) | Self::Unreachable(_) => Outcome::Unreachable,
            Self::Certificate(_) => Outcome::Certificate,
            Self::Tls(_) => Outcome::Protocol,
        }
    }
}

impl DialError {
    /// How it is counted.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Connect(error) => error.outcome(),
            Self::Status(status) if is_passing(*status) => Outcome::Unreachable,
            Self::Handshake(_) | Self::Status(_) => Outcome::Protocol,
            Self::Ourselves => Outcome::Ourselves,
        }
    }

    /// What it tells the engine (SYNC-46): whether it is likely to pass.
    pub fn failure(&self) -> DialFailure {
        match self.outcome() {
            Outcome::Forbidden => DialFailure::Forbidden,
            Outcome::Ourselves => DialFailure::Ourselves,
            Outcome::Name | Outcome::Certificate | Outcome::Protocol => DialFailure::Broken,
            Outcome::Connected | Outcome::Unreachable | Outcome::TimedOut => {
                DialFailure::Unreachable
            }
        }
    }
}

impl From<Refusal> for ConnectError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoAddress(_) => Self::NoSuchName(None),
            _ => Self::Forbidden(refusal),
        }
    }
}

/// A proxy whose relay restarts, or a relay that is asked too much, is no broken relay.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SYNC-46: names, certificates and protocols do not heal by themselves; a restart does.
    #[test]
    fn what_may_pass_is_told_from_what_is_broken() {
        let io = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let certificate = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        for (error, outcome, failure) in [
            (
                ConnectError::Unreachable(io()).into(),
                Outcome::Unreachable,
                DialFailure::Unreachable,
            ),
            (
                ConnectError::Resolver(io()).into(),
                Outcome::Unreachable,
                DialFailure::Unreachable,
            ),
            (
                DialError::Status(502),
                Outcome::Unreachable,
                DialFailure::Unreachable,
            ),
            (
                DialError::Status(429),
                Outcome::Unreachable,
                DialFailure::Unreachable,
            ),
            (
                DialError::Status(301),
                Outcome::Protocol,
                DialFailure::Broken,
            ),
            (
                DialError::Status(200),
                Outcome::Protocol,
                DialFailure::Broken,
            ),
            (
                ConnectError::Certificate(certificate).into(),
                Outcome::Certificate,
                DialFailure::Broken,
            ),
            (
                ConnectError::from(Refusal::NoAddress("a.example.com".to_owned())).into(),
                Outcome::Name,
                DialFailure::Broken,
            ),
            (
                ConnectError::from(Refusal::LocalName("localhost".to_owned())).into(),
                Outcome::Forbidden,
                DialFailure::Forbidden,
            ),
            (
                DialError::Ourselves,
                Outcome::Ourselves,
                DialFailure::Ourselves,
            ),
        ] {
            assert_eq!(
                (error.outcome(), error.failure()),
                (outcome, failure),
                "{error}"
            );
        }
    }
}
