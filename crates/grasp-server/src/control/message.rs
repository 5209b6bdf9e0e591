//! The lines on the control socket: one request, then replies until the last.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A question, as one line: `{"command":"status","json":true}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// What is asked.
    #[serde(flatten)]
    pub command: Command,
    /// Whether the answer is for a program: values instead of text.
    #[serde(default)]
    pub json: bool,
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    /// How the server is.
    Status,
    /// Which other servers are followed, and how that goes.
    SyncStatus,
    /// What left and can still come back (DEL-5).
    HoldingList,
    /// Brings back what is held of a repository (DEL-6).
    HoldingRestore(Scope),
    /// Removes for good what is held of a repository.
    HoldingEject(Scope),
    /// Why a repository looks as it does.
    Explain {
        /// `<npub>/<identifier>`, or its clone URL.
        repository: String,
    },
    /// Whether repositories are whole, object by object.
    IntegrityCheck {
        /// Only those of this identifier.
        #[serde(default)]
        identifier: Option<String>,
        /// Mends what can be mended.
        #[serde(default)]
        repair: bool,
    },
    /// Which folders no event asks for.
    CleanupEmptyRepos {
        /// Removes them.
        #[serde(default)]
        execute: bool,
        /// Also those that hold objects.
        #[serde(default)]
        purge_orphans: bool,
    },
}

/// A repository, as an operator names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// npub or hex.
    pub owner: String,
    /// The `d` tag.
    pub identifier: String,
}

impl Command {
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::SyncStatus => "sync status",
            Self::HoldingList => "holding list",
            Self::HoldingRestore(_) => "holding restore",
            Self::HoldingEject(_) => "holding-eject",
            Self::Explain { .. } => "explain",
            Self::IntegrityCheck { .. } => "integrity-check",
            Self::CleanupEmptyRepos { .. } => "cleanup-empty-repos",
        }
    }
}

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Lines for a person.
    Text(String),
    /// A value for a program.
    Value(Value),
    /// The last line of an answer.
    Done {
        /// How much was found that should not be.
        findings: u64,
    },
    /// The last line where there is no answer.
    Failed {
        /// Of which sort.
        reason: Unanswered,
        /// For a person.
        message: String,
    },
}

/// Why a question has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unanswered {
    /// It is no question that this server understands.
    Misunderstood,
    /// Who asks may not.
    NotAllowed,
    /// What it is about is not here.
    NotFound,
    /// Too many ask at once.
    Busy,
    /// A fault of the server.
    Fault,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-5
    #[test]
    fn a_request_is_a_line_that_a_person_can_type() {
        let request: Request = serde_json::from_str(r#"{"command":"status"}"#).expect("valid");
        assert_eq!(
            request,
            Request {
                command: Command::Status,
                json: false
            }
        );
        let explain = r#"{"command":"explain","repository":"a/b","json":true}"#;
        let explain: Request = serde_json::from_str(explain).expect("valid");
        assert_eq!(explain.command.name(), "explain");
        let line = serde_json::to_string(&request).expect("writes");
        assert_eq!(line, r#"{"command":"status","json":false}"#);
        assert!(serde_json::from_str::<Request>(r#"{"command":"explode"}"#).is_err());
    }

    #[test]
    fn replies_name_what_they_are() {
        let last = serde_json::to_string(&Reply::Done { findings: 2 }).expect("writes");
        assert_eq!(last, r#"{"done":{"findings":2}}"#);
        let failed = Reply::Failed {
            reason: Unanswered::NotFound,
            message: "no".to_owned(),
        };
        let failed = serde_json::to_string(&failed).expect("writes");
        assert_eq!(
            failed,
            r#"{"failed":{"reason":"not-found","message":"no"}}"#
        );
    }
}
