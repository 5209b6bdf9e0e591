//! Git's smart HTTP protocol: what travels in the bodies of its four requests.
//!
//! Knows nothing of routes, headers or who may push; turns a repository's [`RefSnapshot`] into
//! advertisements, requests into answers, and the outcome of a push into what the client's git prints.
//! Refs are listed in process and packs come from one `git upload-pack` per `fetch`, both behind
//! [`UploadRepo`], where a cache of answers has its place later. Nothing is held whole but what a
//! bound keeps small.
//!
//! [`RefSnapshot`]: crate::refs::RefSnapshot

mod advertise;
mod git_version;
mod ls_refs;
pub mod receive_pack;
mod upload_pack;
mod v2;

use std::fmt;

use bytes::Bytes;

use crate::pktline;

pub use advertise::{advertise, advertise_some};
pub use git_version::{GIT_MIN, GitVersion, GitVersionError, require_git};
pub use upload_pack::{Answer, Fetches, UploadConfig, UploadRepo, WireError, upload_pack};

/// What we call ourselves to git clients.
pub const AGENT: &str = concat!("ngit-grasp/", env!("CARGO_PKG_VERSION"));

/// The body that tells a client's git why it gets no answer, for a request that is not even looked at
/// (GIT-13). Sent with status 200: git prints nothing of other answers.
pub fn error_body(message: &str) -> Bytes {
    let mut out = Vec::new();
    pktline::error(&mut out, message);
    out.into()
}

/// The two services of smart HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// Clones and fetches.
    UploadPack,
    /// Pushes.
    ReceivePack,
}

impl Service {
    /// The service of a `?service=` value; `None` for any other.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "git-upload-pack" => Some(Self::UploadPack),
            "git-receive-pack" => Some(Self::ReceivePack),
            _ => None,
        }
    }

    /// Its name in URLs and content types.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }

    /// The content type of its advertisement.
    pub const fn advertisement_type(self) -> &'static str {
        match self {
            Self::UploadPack => "application/x-git-upload-pack-advertisement",
            Self::ReceivePack => "application/x-git-receive-pack-advertisement",
        }
    }

    /// The content type of its answers.
    pub const fn result_type(self) -> &'static str {
        match self {
            Self::UploadPack => "application/x-git-upload-pack-result",
            Self::ReceivePack => "application/x-git-receive-pack-result",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The version of the wire protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// The original, spoken unless the client asks for more.
    V0,
    /// The original behind a line that says so.
    V1,
    /// Commands and capabilities; refs only on demand.
    V2,
}

impl ProtocolVersion {
    /// The version that a `Git-Protocol` header asks for: the highest it names that we know. No
    /// header, and anything we do not know, means the original (cases 3).
    pub fn from_header(value: Option<&[u8]>) -> Self {
        value
            .unwrap_or_default()
            .split(|byte| *byte == b':')
            .filter_map(|part| match part {
                b"version=1" => Some(Self::V1),
                b"version=2" => Some(Self::V2),
                _ => None,
            })
            .max()
            .unwrap_or(Self::V0)
    }

    /// The value of `GIT_PROTOCOL` that makes git speak this version.
    const fn variable(self) -> Option<&'static str> {
        match self {
            Self::V0 => None,
            Self::V1 => Some("version=1"),
            Self::V2 => Some("version=2"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GIT-13
    #[test]
    fn a_request_that_must_wait_is_told_so() {
        assert_eq!(
            error_body("repository is being brought in line, try again"),
            b"0036ERR repository is being brought in line, try again"[..]
        );
    }

    /// cases 3
    #[test]
    fn an_unknown_version_is_the_original() {
        let version = |header: &str| ProtocolVersion::from_header(Some(header.as_bytes()));
        assert_eq!(ProtocolVersion::from_header(None), ProtocolVersion::V0);
        assert_eq!(version(""), ProtocolVersion::V0);
        assert_eq!(version("version=0"), ProtocolVersion::V0);
        assert_eq!(version("version=9:x=y"), ProtocolVersion::V0);
        assert_eq!(version("version=22"), ProtocolVersion::V0);
        assert_eq!(version("version=1"), ProtocolVersion::V1);
        assert_eq!(version("x=y:version=2"), ProtocolVersion::V2);
        assert_eq!(version("version=2:version=1"), ProtocolVersion::V2);
        assert_eq!(
            ProtocolVersion::from_header(Some(b"\xff:version=2")),
            ProtocolVersion::V2
        );
    }
}
