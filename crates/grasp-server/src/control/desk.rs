//! Takes questions and has them answered.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use grasp_core::name::{Identifier, IdentifierError};
use grasp_store::{CommitError, StoreError};
use tokio::sync::{Semaphore, mpsc};
use tracing::error;

use super::check::Telling;
use super::text::tell;
use super::{Command, Reply, Request, Unanswered, explain, status};
use crate::metrics::Monitoring;
use crate::service::{CheckError, ExplainError, Service};

/// Where operators' questions are answered: beside the routes of a running server, or in a command that opened
/// the data of one that does not run.
pub struct Desk {
    pub(super) monitoring: Arc<Monitoring>,
    pub(super) place: Place,
    /// The addresses it listens on; empty while nothing does.
    pub(super) listening: OnceLock<Listening>,
    /// Held by who reads whole repositories: one at a time, so that clones have the disk.
    pub(super) checking: Semaphore,
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
    #[error(transparent)]
    Explain(#[from] ExplainError),
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error("other servers are followed only while a server runs, and none runs here")]
    NotFollowing,
    #[error("another check is running; one at a time")]
    Checking,
    #[error("{text:?} is no identifier")]
    NoIdentifier {
        text: String,
        #[source]
        source: IdentifierError,
    },
    #[error("{0:?} names no repository: <npub>/<identifier>, or its clone URL")]
    NoRepository(String),
}

impl Failure {
    fn reason(&self) -> Unanswered {
        match self {
            Self::Store(_) | Self::Commit(_) | Self::Explain(_) | Self::Check(_) => {
                Unanswered::Fault
            }
            Self::Misnamed(_) | Self::NoRepository(_) | Self::NoIdentifier { .. } => {
                Unanswered::Misunderstood
            }
            Self::NotFound(_) | Self::NotFollowing => Unanswered::NotFound,
            Self::Refused(_) => Unanswered::NotAllowed,
            Self::Checking => Unanswered::Busy,
        }
    }
}

impl Desk {
    pub(crate) fn new(monitoring: Arc<Monitoring>, place: Place) -> Self {
        Self {
            monitoring,
            place,
            listening: OnceLock::new(),
            checking: Semaphore::new(1),
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
            Command::SyncStatus => self.sync_status(json, &replies).await,
            Command::HoldingList => self.holding_list(json, &replies).await,
            Command::HoldingRestore(scope) => self.holding_restore(&scope, &replies).await,
            Command::HoldingEject(scope) => self.holding_eject(&scope, json, &replies).await,
            Command::Explain { repository } => self.explain(&repository, json, &replies).await,
            Command::IntegrityCheck { identifier, repair } => {
                let out = Telling {
                    replies: &replies,
                    json,
                };
                match identifier.map(|text| parse_identifier(&text)).transpose() {
                    Ok(identifier) => self.integrity_check(identifier, repair, &out).await,
                    Err(failure) => Err(failure),
                }
            }
            Command::CleanupEmptyRepos {
                execute,
                purge_orphans,
            } => {
                let out = Telling {
                    replies: &replies,
                    json,
                };
                self.cleanup_empty(execute, purge_orphans, &out).await
            }
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

    async fn explain(
        &self,
        repository: &str,
        json: bool,
        replies: &mpsc::Sender<Reply>,
    ) -> Result<u64, Failure> {
        let repo = explain::repository(repository)
            .ok_or_else(|| Failure::NoRepository(repository.to_owned()))?;
        let explained = self.service().explain(&repo).await?;
        let hunted = match self.monitoring.hunting.get() {
            Some(hunting) => explain::hunted(&explained, &hunting.report().await),
            None => None,
        };
        let reply = if json {
            Reply::Value(explain::value(&explained, hunted.as_ref()))
        } else {
            let now = self.service().clock.now();
            Reply::Text(explain::text(&explained, hunted.as_ref(), now))
        };
        tell(replies, reply).await;
        Ok(0)
    }
}

fn parse_identifier(text: &str) -> Result<Identifier, Failure> {
    text.parse().map_err(|source| Failure::NoIdentifier {
        text: text.to_owned(),
        source,
    })
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
