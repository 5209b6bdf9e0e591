//! Where things lie below the git folder (CLI-3).

use std::path::{Path, PathBuf};

use grasp_core::name::{Identifier, RepoAddress, npub};

/// What left with its scope and can come back (DEL-5).
pub(super) const ARCHIVE: &str = ".archive";
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
    owners(root, repo).join(repo.identifier().directory())
}

/// Where the copies of one repository lie in the archive, and how their names begin; the Unix seconds
/// follow. `.archive/<npub>/<identifier>-<seconds>`, and `.archive/<npub>/<identifier>~/<seconds>` for an
/// identifier that leaves no room beside it. No identifier with a dash and digits after it ends in `~`.
pub(super) fn archive(root: &Path, repo: &RepoAddress) -> (PathBuf, String) {
    let above = owners(&root.join(ARCHIVE), repo);
    let identifier = repo.identifier().as_str();
    if identifier.len() + DASH_AND_SECONDS <= COMPONENT_MAX {
        (above, format!("{identifier}-"))
    } else {
        (above.join(format!("{identifier}~")), String::new())
    }
}

/// Reads [`archive`] back: the identifier and the seconds of an entry in an owner's archive folder, or its
/// identifier alone if its copies lie inside.
pub(super) fn archived(name: &str) -> Option<(Identifier, Option<u64>)> {
    if let Some(identifier) = name.strip_suffix('~') {
        return Some((identifier.parse().ok()?, None));
    }
    let (identifier, seconds) = name.rsplit_once('-')?;
    Some((identifier.parse().ok()?, Some(seconds.parse().ok()?)))
}

const COMPONENT_MAX: usize = 255;
/// A dash, and the longest number of seconds.
const DASH_AND_SECONDS: usize = 1 + 20;

fn owners(root: &Path, repo: &RepoAddress) -> PathBuf {
    let owner = &repo.coordinate().owner;
    match repo {
        RepoAddress::Announced(_) => root.join(npub(owner)),
        RepoAddress::Proposals(_) => root.join("prs").join(owner.to_hex()),
    }
}
