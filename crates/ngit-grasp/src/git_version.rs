//! The server needs git for clones, and says so before it takes anybody's data (case 102).

use std::process::Command;

/// The oldest git that takes `safe.directory` from its command line, without which a restored backup or a
/// container volume of another user's could not be served (case 101).
const OLDEST: (u32, u32) = (2, 38);

/// Why the git on this machine does not do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    /// Not there, or not to be run.
    #[error("git cannot be run; install it (Debian: apt install git) or put it on PATH")]
    Missing(#[source] std::io::Error),
    /// It says something else than its version.
    #[error("git does not tell its version, but: {0}")]
    Strange(String),
    /// Below [`OLDEST`].
    #[error("git is version {0}; at least {oldest} is needed", oldest = format_args!("{}.{}", OLDEST.0, OLDEST.1))]
    TooOld(String),
}

/// Refuses a machine without a usable git.
pub(crate) fn check() -> Result<(), GitError> {
    let output = Command::new("git")
        .arg("version")
        .output()
        .map_err(GitError::Missing)?;
    judge(&String::from_utf8_lossy(&output.stdout))
}

fn judge(said: &str) -> Result<(), GitError> {
    let strange = || GitError::Strange(said.trim().chars().take(80).collect());
    let version = said
        .split_whitespace()
        .nth(2)
        .filter(|_| said.starts_with("git version "))
        .ok_or_else(strange)?;
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OLDEST => Ok(()),
        (Some(Ok(_)), Some(Ok(_))) => Err(GitError::TooOld(version.to_owned())),
        _ => Err(strange()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case 102
    #[test]
    fn a_git_that_is_too_old_or_no_git_at_all_is_refused() {
        assert!(judge("git version 2.47.3\n").is_ok());
        assert!(judge("git version 2.38.0.windows.1").is_ok());
        assert!(judge("git version 2.39.5 (Apple Git-154)").is_ok());
        assert!(judge("git version 3.0.rc1").is_ok());
        assert!(
            matches!(judge("git version 2.30.2"), Err(GitError::TooOld(version)) if version == "2.30.2")
        );
        for strange in ["", "busybox", "git version", "git version x.y"] {
            assert!(
                matches!(judge(strange), Err(GitError::Strange(_))),
                "{strange}"
            );
        }
    }
}
