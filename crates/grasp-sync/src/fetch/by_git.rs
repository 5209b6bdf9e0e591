//! Asking by git itself, where a host speaks only the old protocol.

use std::collections::BTreeSet;
use std::io;

use grasp_core::clone_url::CloneUrl;
use grasp_core::oid::Oid;
use grasp_git::scratch::{self, Bounds, Errand, ScratchError};
use grasp_git::{Lease, Repositories};

use super::http::Site;
use super::v2::{Said, named};
use super::{FetchError, PackStream};

/// Where git may work, and how much it may bring.
#[derive(Debug, Clone)]
pub struct Scratch {
    /// Whose quarantine it works in.
    pub repositories: Repositories,
    /// How much, and how long.
    pub bounds: Bounds,
}

impl Scratch {
    /// Has git ask for `wants`. Of what the lenders have nothing is sent.
    pub(super) async fn ask(
        &self,
        site: &Site<'_>,
        source: &CloneUrl,
        wants: &BTreeSet<Oid>,
        lenders: &[Lease],
    ) -> Result<Said, FetchError> {
        let errand = Errand {
            url: source.as_str(),
            pin: site.pin(),
            wants: wants.iter().copied().collect(),
            lenders,
        };
        let came = |bytes| site.progress().add(bytes);
        match scratch::fetch(&self.repositories, &errand, &self.bounds, came).await {
            Ok(Some(pack)) => Ok(Said::Pack(PackStream::of_git(pack))),
            Ok(None) => Ok(Said::Nothing),
            Err(ScratchError::Git(words)) => Ok(match named(words.as_bytes(), wants) {
                Some(oid) => Said::Lacks(oid),
                None => Said::Otherwise(FetchError::remote(words.as_bytes())),
            }),
            Err(ScratchError::TooLarge(limit)) => Err(FetchError::TooMuch {
                what: "a pack",
                limit,
            }),
            Err(ScratchError::TooMuch(limit)) => Err(FetchError::TooMuch {
                what: "words beside a pack",
                limit,
            }),
            Err(ScratchError::Silent(_)) => Err(FetchError::Broke(io::ErrorKind::TimedOut.into())),
            Err(ScratchError::Store(error)) => Err(FetchError::Ours(error)),
        }
    }
}
