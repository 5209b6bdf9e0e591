//! The refs of a repository: read as a whole, written as a whole.
//!
//! All refs live in `packed-refs` (GIT-12). One file is renamed into place, so readers and a crash see
//! the old or the new set and never a mix, `a` may become `a/b`, and a thousand refs cost what one
//! costs. Nobody takes git's `*.lock` files: the data folder has one writer, and a stale lock must never
//! block. Loose refs are what someone else's git left; they shadow packed ones, so they are read, and
//! removed with the next write.

mod loose;
mod packed;
mod snapshot;
mod write;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use grasp_core::oid::Oid;
use grasp_core::refname::RefName;

use crate::error::{Attempt, Error};
use crate::objects::Objects;

pub use snapshot::{RefSnapshot, RefValue};
pub(crate) use write::{rewrite, write};

/// The branch of a new repository's HEAD (REF-4).
#[expect(clippy::missing_panics_doc, reason = "the name is legal")]
pub fn default_head() -> RefName {
    "refs/heads/main"
        .parse()
        .expect("a legal ref name, see the tests of RefName")
}

/// Reads what is on the disk: packed refs, shadowed by loose ones.
pub(crate) fn read(
    home: &Path,
    objects: impl FnOnce() -> Result<Objects, Error>,
) -> Result<RefSnapshot, Error> {
    let head = read_head(home)?;
    let packed = packed::read(home)?;
    let loose = loose::read(home)?;
    let mut refs = packed.refs;
    let mut unpeeled = packed.unpeeled;
    for (name, oid) in loose {
        refs.insert(name.clone(), RefValue { oid, peeled: None });
        unpeeled.insert(name);
    }
    if !unpeeled.is_empty() {
        let objects = objects()?;
        for name in unpeeled {
            if let Some(value) = refs.get_mut(&name) {
                value.peeled = objects.peel_tag(&value.oid);
            }
        }
    }
    Ok(RefSnapshot {
        refs,
        head,
        generation: 0,
    })
}

/// Refs as they lie on the disk, and how well.
#[derive(Debug)]
pub struct OnDisk {
    /// Where they are.
    pub refs: BTreeMap<RefName, Oid>,
    /// What HEAD names.
    pub head: RefName,
    /// HEAD is not written as git writes it.
    pub head_damaged: bool,
    /// Lines of `packed-refs` that are none.
    pub foreign_lines: usize,
    /// Refs in files of their own.
    pub loose: usize,
}

impl OnDisk {
    /// Whether they are written as they should be, whatever they are.
    pub fn are_sound(&self) -> bool {
        !self.head_damaged && self.foreign_lines == 0 && self.loose == 0
    }
}

/// Looks at the files without anything that is remembered, and without objects.
pub(crate) fn inspect(home: &Path) -> Result<OnDisk, Error> {
    let head = read_head(home)?;
    let written = fs::read(home.join("HEAD")).unwrap_or_default();
    let packed = packed::read(home)?;
    let loose = loose::read(home)?;
    let values = packed.refs.into_iter();
    let mut refs: BTreeMap<RefName, Oid> = values.map(|(name, value)| (name, value.oid)).collect();
    let count = loose.len();
    refs.extend(loose);
    Ok(OnDisk {
        refs,
        head_damaged: written != format!("ref: {head}\n").as_bytes(),
        head,
        foreign_lines: packed.foreign_lines,
        loose: count,
    })
}

/// The branch HEAD names. A detached or broken HEAD, which only others can leave, reads as the default:
/// the next write repairs it.
fn read_head(home: &Path) -> Result<RefName, Error> {
    let path = home.join("HEAD");
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.attempt("read", &path)?,
    };
    let named = std::str::from_utf8(&text)
        .ok()
        .and_then(|text| text.strip_prefix("ref:")?.trim().parse().ok());
    Ok(named.unwrap_or_else(default_head))
}

#[cfg(test)]
mod tests;
