//! Makes the refs of a repository exactly a given set.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use grasp_core::failpoint;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::refname::RefName;

use super::{RefSnapshot, RefValue, loose, packed};
use crate::durable::{sync_folder, write_file};
use crate::error::{Attempt, Error};
use crate::objects::Objects;

/// Writes `refs` and `head` where they differ from `old`, the snapshot of what is there. Refs go first: in
/// between HEAD may name a branch that is gone, which every reader takes for an unborn one.
///
/// The caller holds the repository's lock. A ref to an object that is not there is refused before
/// anything is written.
pub(crate) fn write(
    repo: &RepoAddress,
    home: &Path,
    old: &RefSnapshot,
    refs: &BTreeMap<RefName, Oid>,
    head: RefName,
    objects: impl FnOnce() -> Result<Objects, Error>,
) -> Result<RefSnapshot, Error> {
    let refs = resolve(repo, old, refs, objects)?;
    let mut changed = false;
    if refs != old.refs || !loose::read(home)?.is_empty() {
        replace(home, packed::FILE, packed::render(&refs).as_bytes())?;
        changed = true;
    }
    failpoint::pass("refs.renamed");
    loose::clear(home)?;
    let pointer = format!("ref: {head}\n");
    if !fs::read(home.join("HEAD")).is_ok_and(|there| there == pointer.as_bytes()) {
        replace(home, "HEAD", pointer.as_bytes())?;
        changed = true;
    }
    failpoint::pass("refs.head");
    if changed {
        sync_folder(home).attempt("sync", home)?;
    }
    Ok(RefSnapshot {
        refs,
        head,
        generation: 0,
    })
}

/// Writes what `shown` shows once more, whatever lies there.
pub(crate) fn rewrite(home: &Path, shown: &RefSnapshot) -> Result<(), Error> {
    replace(home, packed::FILE, packed::render(&shown.refs).as_bytes())?;
    loose::clear(home)?;
    replace(home, "HEAD", format!("ref: {}\n", shown.head).as_bytes())?;
    sync_folder(home).attempt("sync", home)
}

/// Adds what each name peels to. What `old` knows is not looked up again.
fn resolve(
    repo: &RepoAddress,
    old: &RefSnapshot,
    refs: &BTreeMap<RefName, Oid>,
    objects: impl FnOnce() -> Result<Objects, Error>,
) -> Result<BTreeMap<RefName, RefValue>, Error> {
    let known: BTreeMap<Oid, RefValue> =
        old.refs.values().map(|value| (value.oid, *value)).collect();
    let is_known = |oid: &Oid| known.contains_key(oid);
    let objects = if refs.values().all(is_known) {
        None
    } else {
        Some(objects()?)
    };
    let look_up = |oid: Oid| match &objects {
        Some(objects) if objects.contains(&oid) => Ok(RefValue {
            oid,
            peeled: objects.peel_tag(&oid),
        }),
        _ => Err(Error::MissingObject {
            repo: repo.clone(),
            oid,
        }),
    };
    refs.iter()
        .map(|(name, oid)| {
            let value = known.get(oid).copied().map_or_else(|| look_up(*oid), Ok)?;
            Ok((name.clone(), value))
        })
        .collect()
}

/// Puts `content` in the place of `<home>/<name>` in one step.
fn replace(home: &Path, name: &str, content: &[u8]) -> Result<(), Error> {
    let fresh = home.join(format!("{name}.new"));
    let target = home.join(name);
    write_file(&fresh, content).attempt("write", &fresh)?;
    failpoint::pass("refs.written");
    fs::rename(&fresh, &target).attempt("replace", &target)
}
