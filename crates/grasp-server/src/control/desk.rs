//! Takes questions and has them answered.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use grasp_store::{CommitError, StoreError};
use tokio::sync::mpsc;
use tracing::error;

use super::text::tell;
use super::{Command, Reply, Request, Unanswered, status};
use crate::metrics::Monitoring;
use crate::service::Service;

/// Where operators' questions are answered: beside the routes of a running server, or in a command that opened
/// the data of one that does not run.
pub struct Desk {
    pub(super) monitoring: Arc<Monitoring>,
    pub(super) place: Place,
    /// The addresses it listens on; empty while nothing does.
    pub(super) listening: OnceLock<Listening>,
}

/// What a server was opened with, as far as operators ask for it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) git_root: PathBuf,
    pub(crate) relay_root: PathBuf,
    pub(crate) disk_floor: u64,
    /// Pushes that may run at once.
    pub(crate) pushes_max: usize,
}

/// Where a running server is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listening {
    pub(crate) public: Option<SocketAddr>,
    pub(crate) monitoring: Option<SocketAddr>,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the event store cannot be read")]
    Store(#[from] StoreError),
    #[error("the event store cannot be changed")]
    Commit(#[from] CommitError),
    #[error("{0}")]
    Misnamed(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Refused(String),
}

impl Failure {
    fn reason(&self) -> Unanswered {
        match self {
            Self::Store(_) | Self::Commit(_) => Unanswered::Fault,
            Self::Misnamed(_) => Unanswered::Misunderstood,
            Self::NotFound(_) => Unanswered::NotFound,
            Self::Refused(_) => Unanswered::NotAllowed,
        }
    }
}

impl Desk {
    pub(crate) fn new(monitoring: Arc<Monitoring>, place: Place) -> Self {
        Self {
            monitoring,
            place,
            listening: OnceLock::new(),
        }
    }

    pub(super) fn service(&self) -> &Service {
        &self.monitoring.service
    }

    /// The server runs, and is reached there.
    pub(crate) fn opened(&self, listening: Listening) {
        // A server runs once.
        let _ = self.listening.set(listening);
    }

    /// Answers one question; the last reply is [`Reply::Done`] or [`Reply::Failed`]. Stops early if nobody
    /// takes the replies any more.
    pub async fn answer(&self, request: Request, replies: mpsc::Sender<Reply>) {
        let json = request.json;
        let answered = match request.command {
            Command::Status => self.status(json, &replies).await,
            Command::HoldingList => self.holding_list(json, &replies).await,
            Command::HoldingRestore(scope) => self.holding_restore(&scope, &replies).await,
            Command::HoldingEject(scope) => self.holding_eject(&scope, json, &replies).await,
        };
        let last = match answered {
            Ok(findings) => Reply::Done { findings },
            Err(failure) => {
                if failure.reason() == Unanswered::Fault {
                    error!(
                        error = &failure as &dyn std::error::Error,
                        "a question of an operator has no answer"
                    );
                }
                Reply::Failed {
                    reason: failure.reason(),
                    message: sentence(&failure),
                }
            }
        };
        tell(&replies, last).await;
    }

    async fn status(&self, json: bool, replies: &mpsc::Sender<Reply>) -> Result<u64, Failure> {
        let status = status::Status::of(self).await?;
        let reply = if json {
            Reply::Value(status.value())
        } else {
            Reply::Text(status.text())
        };
        tell(replies, reply).await;
        Ok(0)
    }
}

/// An error with its causes.
fn sentence(failure: &dyn std::error::Error) -> String {
    let mut text = failure.to_string();
    let mut cause = failure.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
