//! What lies in a repository's folder besides its objects.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::refname::RefName;

use crate::error::{Attempt as _, Error};
use crate::objects::Pack;
use crate::refs::{self, OnDisk};
use crate::repository::Repositories;

/// Files at the top of a repository that only a git or a server leaves that was cut off.
pub(super) const LEFTOVERS: [&str; 6] = [
    "HEAD.lock",
    "HEAD.new",
    "config.lock",
    "packed-refs.lock",
    "packed-refs.new",
    "shallow.lock",
];

/// A repository as it lies on the disk, whatever is remembered of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Its refs.
    pub refs: BTreeMap<RefName, Oid>,
    /// What HEAD names.
    pub head: RefName,
    /// `HEAD` does not name a branch in the way git writes it.
    pub head_damaged: bool,
    /// Lines of `packed-refs` that git could not read.
    pub refs_damaged: usize,
    /// Refs in files of their own, which no server writes (GIT-12).
    pub loose_refs: usize,
    /// It would read objects from elsewhere.
    pub alternates: bool,
    /// Packs whose index or data cannot be opened, by their name without ending.
    pub unreadable_packs: Vec<String>,
    /// Files that somebody left, relative to the repository.
    pub leftovers: Vec<String>,
    /// No objects at all.
    pub is_empty: bool,
}

impl Repositories {
    /// Reads the refs of a repository as they lie on the disk, past what is remembered and without keeping them;
    /// `None` if it is not there.
    pub fn refs_on_disk(&self, repo: &RepoAddress) -> Result<Option<OnDisk>, Error> {
        let home = self.path(repo);
        match fs::metadata(&home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => {
                found.attempt("look at", &home)?;
                refs::inspect(&home).map(Some)
            }
        }
    }

    /// Looks at the folder of a repository; `None` if it is not there.
    pub fn inspect(&self, repo: &RepoAddress) -> Result<Option<Inspection>, Error> {
        let home = self.path(repo);
        match fs::metadata(&home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found.attempt("look at", &home)?,
        };
        let on_disk = refs::inspect(&home)?;
        let packs = packs(&home)?;
        let has_packs = packs.iter().any(|(_, readable)| *readable);
        Ok(Some(Inspection {
            refs: on_disk.refs,
            head: on_disk.head,
            head_damaged: on_disk.head_damaged,
            refs_damaged: on_disk.foreign_lines,
            loose_refs: on_disk.loose,
            alternates: home.join("objects/info/alternates").exists(),
            leftovers: leftovers(&home)?,
            is_empty: !has_packs && !has_loose_objects(&home)?,
            unreadable_packs: packs
                .into_iter()
                .filter(|(_, readable)| !readable)
                .map(|(name, _)| name)
                .collect(),
        }))
    }
}

impl Inspection {
    /// Whether its refs are written as they should be, whatever they are.
    pub fn refs_are_sound(&self) -> bool {
        !self.head_damaged && self.refs_damaged == 0 && self.loose_refs == 0
    }
}

/// The packs by name, and whether they can be opened.
fn packs(home: &Path) -> Result<Vec<(String, bool)>, Error> {
    let mut names = std::collections::BTreeSet::new();
    for path in entries(&home.join("objects/pack"))? {
        let ending = path.extension().and_then(|ending| ending.to_str());
        if matches!(ending, Some("pack" | "idx"))
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
            && name.starts_with("pack-")
        {
            names.insert(name.to_owned());
        }
    }
    let folder = home.join("objects/pack");
    let readable = |name: &String| Pack::open(&folder.join(format!("{name}.idx"))).is_ok();
    Ok(names
        .into_iter()
        .map(|name| {
            let readable = readable(&name);
            (name, readable)
        })
        .collect())
}

fn leftovers(home: &Path) -> Result<Vec<String>, Error> {
    let top = LEFTOVERS.iter().filter(|name| home.join(name).exists());
    let mut found: Vec<String> = top.map(|name| (*name).to_owned()).collect();
    for folder in ["objects", "objects/pack"] {
        for path in entries(&home.join(folder))? {
            let name = path.file_name().map(|name| name.to_string_lossy());
            let name = name.unwrap_or_default();
            if name.starts_with("tmp_") || name.starts_with(".tmp-") {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    Ok(found)
}

fn has_loose_objects(home: &Path) -> Result<bool, Error> {
    for path in entries(&home.join("objects"))? {
        let name = path.file_name().map(|name| name.to_string_lossy());
        let is_fan = name.is_some_and(|name| name.len() == 2 && name != "..");
        if is_fan && !entries(&path)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is in a folder; nothing in one that is not there.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Vec::new()),
        entries => entries.attempt("read", folder)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.attempt("read", folder)?.path());
    }
    paths.sort();
    Ok(paths)
}
