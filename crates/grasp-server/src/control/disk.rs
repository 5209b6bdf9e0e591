//! How much room a folder's disk has.

use std::path::Path;

use serde::Serialize;

/// A disk, in bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Disk {
    /// What the server may still write.
    pub(super) free: u64,
    /// All of it.
    pub(super) size: u64,
}

impl Disk {
    /// The disk that `folder` lies on; `None` if it cannot be asked.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let disk = rustix::fs::statvfs(folder).ok()?;
        Some(Self {
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
            size: disk.f_blocks.saturating_mul(disk.f_frsize),
        })
    }
}
