//! What lies on disk: for footprints, and to show that nothing changed.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Less room in memory than that is left alone: whoever fills it is killed by the kernel.
const MEMORY_MIN: u64 = 1 << 30;

/// A folder for a while: in memory if the machine has room there, since nobody asks of it to survive the machine.
pub fn scratch(prefix: &str) -> TempDir {
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |of| of.f_bavail.saturating_mul(of.f_frsize));
    let in_memory = (room >= MEMORY_MIN).then(|| TempDir::with_prefix_in(prefix, memory).ok());
    in_memory
        .flatten()
        .unwrap_or_else(|| TempDir::with_prefix(prefix).expect("a temporary folder"))
}

/// What a directory costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Footprint {
    /// Files and folders in it, itself included.
    pub entries: u64,
    /// Bytes of disk, as `du` counts them: hard links once.
    pub bytes: u64,
}

impl Footprint {
    /// Measures a directory with all below it.
    pub fn of(dir: &Path) -> Self {
        let mut seen = std::collections::BTreeSet::new();
        let mut footprint = Self::default();
        for path in entries(dir) {
            let Ok(meta) = std::fs::symlink_metadata(&path) else {
                continue;
            };
            footprint.entries += 1;
            if seen.insert((meta.dev(), meta.ino())) {
                footprint.bytes += meta.blocks() * 512;
            }
        }
        footprint
    }
}

/// All paths at and below `dir`, in order.
pub fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    let mut at = 0;
    while at < found.len() {
        let path = found[at].clone();
        at += 1;
        let is_dir = std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
        if is_dir && let Ok(below) = std::fs::read_dir(&path) {
            found.extend(below.filter_map(|entry| Some(entry.ok()?.path())));
        }
    }
    found.sort();
    found
}

/// The content of every file and the name of every folder below `dir`: equal before and after
/// whatever must change nothing.
pub fn contents(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    entries(dir)
        .into_iter()
        .map(|path| {
            let content = std::fs::read(&path).ok();
            (path.strip_prefix(dir).unwrap_or(&path).to_owned(), content)
        })
        .collect()
}
