//! How a push ends, and in which words it is told.

use bytes::Bytes;
use grasp_core::push::{self, Command, PushPlan, Verdict};
use grasp_git::IngestError;
use grasp_git::http::receive_pack::Responder;
use grasp_store::{CommitError, StoreError};

/// Why a push ended without a commit.
#[derive(Debug, thiserror::Error)]
pub(super) enum PushError {
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// Nothing but uploads without an event, and too large for that (§16).
    #[error(
        "an upload without its event is larger than the limit of {limit} bytes; publish the event first"
    )]
    UploadTooLarge { limit: u64 },
    #[error(transparent)]
    Git(#[from] grasp_git::Error),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PushError {
    /// What the pusher is told. Our own faults are logged in full and named in general.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Ingest(error) if !self.is_ours() => error.to_string(),
            Self::UploadTooLarge { .. } => self.to_string(),
            Self::Commit(CommitError::DiskFull) => {
                "error: disk space is below the floor".to_owned()
            }
            _ => "the server could not store the push, try again".to_owned(),
        }
    }

    pub(super) fn is_ours(&self) -> bool {
        match self {
            Self::Ingest(error) => error.is_ours(),
            Self::UploadTooLarge { .. } => false,
            Self::Git(_) | Self::Commit(_) | Self::Store(_) => true,
        }
    }
}

/// How a push ended.
pub(super) enum Outcome {
    /// Committed, as far as the plan accepts it.
    Done(PushPlan),
    /// Nothing of it is accepted, or no longer.
    Refused(PushPlan),
    /// Refused, and the client knows already.
    Told,
}

/// The last words of an answer.
pub(super) fn ending(
    responder: &Responder,
    commands: &[Command],
    outcome: &Result<Outcome, PushError>,
) -> Bytes {
    let names = commands.iter().map(|command| command.name.as_str());
    match outcome {
        Ok(Outcome::Told) => Bytes::new(),
        Ok(Outcome::Done(plan)) => {
            let verdicts = plan.verdicts.iter().map(|verdict| match verdict {
                Verdict::Accept { .. } => Ok(()),
                Verdict::Refuse(reason) => Err(reason.as_str()),
            });
            responder.report(Ok(()), names.zip(verdicts))
        }
        Ok(Outcome::Refused(plan)) => {
            let refusal = push::refusal(plan, commands);
            let reasons = plan.verdicts.iter().map(|verdict| match verdict {
                Verdict::Refuse(reason) => reason.as_str(),
                Verdict::Accept { .. } => refusal.summary.as_str(),
            });
            responder.refuse(&refusal, names.zip(reasons))
        }
        Err(failure) => {
            let words = failure.words();
            let failed = names.map(|name| (name, Err(words.as_str())));
            responder.report(Err(&words), failed)
        }
    }
}
