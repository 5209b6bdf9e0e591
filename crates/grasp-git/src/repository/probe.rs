//! Whether the file system tells names apart as git and we do (NAME-4).

use std::fs;
use std::io;
use std::path::Path;

/// How a file system changes names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folding {
    /// `A` and `a` are one file.
    Case,
    /// Composed and decomposed letters are one file, or come back changed.
    Normalisation,
}

const PLAIN: &str = "probe-\u{e9}";
const UPPER: &str = "PROBE-\u{e9}";
const DECOMPOSED: &str = "probe-e\u{301}";

/// Writes a file with a telling name into `folder` and looks under which other names it is found.
pub(super) fn folding(folder: &Path) -> io::Result<Option<Folding>> {
    let file = folder.join(PLAIN);
    fs::write(&file, b"")?;
    let kept = fs::read_dir(folder)?
        .filter_map(Result::ok)
        .any(|entry| entry.file_name() == PLAIN);
    let found = if folder.join(UPPER).exists() {
        Some(Folding::Case)
    } else if !kept || folder.join(DECOMPOSED).exists() {
        Some(Folding::Normalisation)
    } else {
        None
    };
    fs::remove_file(&file)?;
    Ok(found)
}
