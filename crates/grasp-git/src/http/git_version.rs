//! Which git is installed.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Stdio;

use crate::child;

/// The oldest git whose `upload-pack` and `multi-pack-index` do all that is asked of them here.
pub const GIT_MIN: GitVersion = GitVersion {
    major: 2,
    minor: 34,
};

/// The version of a git program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitVersion {
    /// The 2 of 2.47.3.
    pub major: u32,
    /// The 47 of 2.47.3.
    pub minor: u32,
}

/// Why the installed git cannot be used (cases 102).
#[derive(Debug, thiserror::Error)]
pub enum GitVersionError {
    /// There is no `git` in `PATH`, or it cannot be run.
    #[error(
        "git {GIT_MIN} or newer is needed, but `git` cannot be run; install it or correct PATH"
    )]
    Missing(#[source] io::Error),
    /// It runs, and says something else than its version.
    #[error("`git version` answered {0:?}, which names no version")]
    Unreadable(String),
    /// It is too old.
    #[error("git {GIT_MIN} or newer is needed, but the one in PATH is {0}")]
    TooOld(GitVersion),
}

impl GitVersion {
    /// Reads the answer of `git version`, also with the additions that distributors make.
    fn parse(answer: &str) -> Option<Self> {
        let mut parts = answer
            .trim()
            .strip_prefix("git version ")?
            .split(|c: char| !c.is_ascii_digit());
        Some(Self {
            major: parts.next()?.parse().ok()?,
            minor: parts.next()?.parse().ok()?,
        })
    }
}

impl fmt::Display for GitVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

/// The version of the `git` in `PATH`, if it is one that can be used. Blocks for a few milliseconds;
/// meant for the start.
pub fn require_git() -> Result<GitVersion, GitVersionError> {
    let output = child::git(Path::new("/"), &[])
        .arg("version")
        .stdout(Stdio::piped())
        .output()
        .map_err(GitVersionError::Missing)?;
    let answer = String::from_utf8_lossy(&output.stdout);
    match GitVersion::parse(&answer) {
        None => Err(GitVersionError::Unreadable(answer.trim().to_owned())),
        Some(version) if version < GIT_MIN => Err(GitVersionError::TooOld(version)),
        Some(version) => Ok(version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_with_what_distributors_add() {
        let parse = |answer| GitVersion::parse(answer).map(|version| version.to_string());
        assert_eq!(parse("git version 2.47.3\n").as_deref(), Some("2.47"));
        assert_eq!(
            parse("git version 2.39.5 (Apple Git-154)").as_deref(),
            Some("2.39")
        );
        assert_eq!(parse("git version 3.0-rc1").as_deref(), Some("3.0"));
        assert_eq!(parse("hub version 2"), None);
        assert_eq!(parse("git version unknown"), None);
    }

    /// cases 102
    #[test]
    fn the_installed_git_is_new_enough() {
        assert!(require_git().expect("a usable git") >= GIT_MIN);
    }
}
