//! Why the process ends, and with which code.

use std::process::ExitCode;

/// `EX_CONFIG` of sysexits(3): a service manager should not try again before somebody changed something.
const CONFIGURATION: u8 = 78;

/// An error and the exit code that goes with it.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl Failure {
    /// The operator has to change the configuration or the data folders (CLI-4).
    pub(crate) fn configuration(error: impl Into<anyhow::Error>) -> Self {
        Self {
            code: CONFIGURATION,
            error: error.into(),
        }
    }

    /// Anything else.
    pub(crate) fn other(error: impl Into<anyhow::Error>) -> Self {
        Self {
            code: 1,
            error: error.into(),
        }
    }

    /// Tells the operator, in one sentence with its causes.
    pub(crate) fn report(self) -> ExitCode {
        eprintln!("ngit-grasp: {:#}", self.error);
        ExitCode::from(self.code)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::other(error)
    }
}
