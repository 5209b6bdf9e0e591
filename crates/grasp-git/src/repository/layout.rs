//! Where things lie below the git folder (CLI-3).

use std::path::{Path, PathBuf};

use grasp_core::name::{RepoAddress, npub};

pub(super) const FORMAT: &str = "format";
pub(super) const QUARANTINE: &str = "quarantine";
pub(super) const TRASH: &str = "trash";
pub(super) const CACHE: &str = "cache";

/// The folder for everything that is no repository.
pub(super) fn ours(root: &Path) -> PathBuf {
    root.join(".grasp")
}

/// `<npub>/<identifier>.git`, or `prs/<hex>/<identifier>.git`.
pub(super) fn path(root: &Path, repo: &RepoAddress) -> PathBuf {
    let owner = &repo.coordinate().owner;
    let above = match repo {
        RepoAddress::Announced(_) => root.join(npub(owner)),
        RepoAddress::Proposals(_) => root.join("prs").join(owner.to_hex()),
    };
    above.join(repo.identifier().directory())
}
