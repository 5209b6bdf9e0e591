//! Ref files below `refs/`, which only somebody else's git leaves in our repositories.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use grasp_core::oid::Oid;
use grasp_core::refname::RefName;

use crate::error::{Attempt, Error};

/// Deeper folders than a legal ref name can make are not looked into.
const DEPTH_MAX: usize = 512;

/// The loose refs of a repository. Symbolic refs and files that are none are passed over.
pub(super) fn read(home: &Path) -> Result<BTreeMap<RefName, Oid>, Error> {
    let mut found = BTreeMap::new();
    visit(&home.join("refs"), "refs", DEPTH_MAX, &mut |path, name| {
        let content = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read.attempt("read", path)?,
        };
        let oid = content.get(..40).and_then(|hex| Oid::from_hex(hex).ok());
        if let (Some(oid), Ok(name)) = (oid, name.parse::<RefName>()) {
            found.insert(name, oid);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Removes everything below `refs/`: after a write all refs are packed, and a loose one of the same name
/// would shadow the new value.
pub(super) fn clear(home: &Path) -> Result<(), Error> {
    let refs = home.join("refs");
    let entries = match fs::read_dir(&refs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return fs::create_dir(&refs).attempt("create", &refs);
        }
        entries => entries.attempt("read", &refs)?,
    };
    for entry in entries {
        let entry = entry.attempt("read", &refs)?;
        let path = entry.path();
        let is_folder = entry.file_type().attempt("read", &path)?.is_dir();
        let removed = if is_folder {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.attempt("remove", &path)?;
    }
    Ok(())
}

fn visit(
    folder: &Path,
    name: &str,
    depth: usize,
    file: &mut impl FnMut(&PathBuf, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.attempt("read", folder)?,
    };
    for entry in entries {
        let entry = entry.attempt("read", folder)?;
        let path = entry.path();
        let Ok(part) = entry.file_name().into_string() else {
            continue;
        };
        let name = format!("{name}/{part}");
        let kind = entry.file_type().attempt("read", &path)?;
        if kind.is_dir() && depth > 0 {
            visit(&path, &name, depth - 1, file)?;
        } else if kind.is_file() {
            file(&path, &name)?;
        }
    }
    Ok(())
}
