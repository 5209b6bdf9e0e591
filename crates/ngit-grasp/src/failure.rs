//! Why the process ends, and with which code.

use std::process::ExitCode;

/// `EX_CONFIG` of sysexits(3): a service manager should not try again before somebody changed something.
const CONFIGURATION: u8 = 78;
/// `EX_NOPERM`: somebody else may.
const NOT_ALLOWED: u8 = 77;
/// `EX_TEMPFAIL`: later, perhaps.
const TRY_AGAIN: u8 = 75;
/// `EX_NOINPUT`: there is nothing that could be looked at.
const NO_DATA: u8 = 66;

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

    /// Who runs the command may not.
    pub(crate) fn not_allowed(error: impl Into<anyhow::Error>) -> Self {
        Self {
            code: NOT_ALLOWED,
            error: error.into(),
        }
    }

    /// The same command may succeed a little later.
    pub(crate) fn try_again(error: impl Into<anyhow::Error>) -> Self {
        Self {
            code: TRY_AGAIN,
            error: error.into(),
        }
    }

    /// Neither a server nor its data.
    pub(crate) fn no_data(error: impl Into<anyhow::Error>) -> Self {
        Self {
            code: NO_DATA,
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
