//! Why nothing came, and what that says of the host.

use std::io;
use std::time::Duration;

use grasp_git::IngestError;
use grasp_git::pktline::ReadError;

use crate::dial::ConnectError;
use crate::hunt::{Broken, FetchOutcome};

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There was none in time.
    #[error("the host did not take the connection within {} s", .0.as_secs())]
    ConnectTimedOut(Duration),
    /// HTTP 429.
    #[error("the host is asked too much")]
    RateLimited {
        /// What it wants us to wait.
        retry_after: Option<Duration>,
    },
    /// Another status that is no success.
    #[error("the host answers with status {0}")]
    Status(u16),
    /// It wants to send us elsewhere (NET-3).
    #[error("the host redirects (status {0}), which is not followed")]
    Redirected(u16),
    /// Something listens there that is no web server.
    #[error("the host does not speak HTTP")]
    NotHttp,
    /// It answers, and it is no smart git that answers: the dumb protocol, or something else altogether.
    #[error("the host does not speak smart git: {0}")]
    NotGit(&'static str),
    /// It says more than anybody needs to (HUNT-9).
    #[error("the host sends more than {limit} bytes of {what}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much would be taken.
        limit: u64,
    },
    /// The git there gave up.
    #[error("the host says: {0}")]
    Remote(String),
    /// The connection broke off.
    #[error("the connection broke off")]
    Broke(#[source] io::Error),
    /// Our side failed.
    #[error("there is no place for what is fetched")]
    Ours(#[source] Box<IngestError>),
}

/// So much of what a host says is kept.
const WORDS_MAX: usize = 300;

impl FetchError {
    /// What a host said, fit for a log.
    pub(super) fn remote(words: &[u8]) -> Self {
        let words = &words[..words.len().min(WORDS_MAX)];
        let words = String::from_utf8_lossy(words).replace(char::is_control, " ");
        Self::Remote(words.trim().to_owned())
    }

    /// What it says of the host (HUNT-11). What is wrong with one address (a redirect, no git there) is not held against
    /// its host: else a made-up URL would silence a forge for everybody.
    pub fn outcome(&self) -> FetchOutcome {
        match self {
            Self::Connect(ConnectError::Forbidden(_)) => FetchOutcome::Forbidden,
            Self::Connect(ConnectError::NoSuchName(_)) => FetchOutcome::Broken(Broken::Dns),
            Self::Connect(ConnectError::Certificate(_) | ConnectError::Tls(_)) => {
                FetchOutcome::Broken(Broken::Tls)
            }
            Self::NotHttp => FetchOutcome::Broken(Broken::Protocol),
            Self::RateLimited { retry_after } => FetchOutcome::RateLimited {
                retry_after: *retry_after,
            },
            Self::Status(408 | 425 | 500..=599)
            | Self::Connect(ConnectError::Resolver(_) | ConnectError::Unreachable(_))
            | Self::ConnectTimedOut(_)
            | Self::Remote(_)
            | Self::Broke(_) => FetchOutcome::Unavailable,
            Self::Status(status) | Self::Redirected(status) => {
                FetchOutcome::Refused { status: *status }
            }
            Self::NotGit(_) => FetchOutcome::Refused { status: 200 },
            Self::TooMuch { .. } => FetchOutcome::Harmful {
                reason: self.to_string(),
            },
            Self::Ours(error) => FetchOutcome::Ours {
                reason: error.to_string(),
            },
        }
    }

    /// Why a pack could not be read to its end: what [`PackStream`](super::PackStream) failed with.
    pub fn of(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => error,
            Err(error) => Self::Broke(error),
        }
    }
}

impl From<hyper::Error> for FetchError {
    fn from(error: hyper::Error) -> Self {
        if error.is_parse() {
            Self::NotHttp
        } else {
            Self::Broke(io::Error::other(error))
        }
    }
}

impl From<ReadError> for FetchError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => Self::of(error),
            ReadError::Decode(_) | ReadError::TooLong { .. } => {
                Self::NotGit("its answer is not made of packets")
            }
        }
    }
}

impl From<FetchError> for io::Error {
    fn from(error: FetchError) -> Self {
        Self::other(error)
    }
}
