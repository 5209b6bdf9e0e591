//! The space that packs take before anyone has judged them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How much lies in quarantine, and how much may.
#[derive(Debug)]
pub(crate) struct Quarantine {
    root: PathBuf,
    percent: u8,
    bytes: AtomicU64,
}

impl Quarantine {
    pub(crate) fn new(root: &Path, percent: u8) -> Self {
        Self {
            root: root.to_owned(),
            percent: percent.min(100),
            bytes: AtomicU64::new(0),
        }
    }

    /// What all packs may take together: a share of the space that would be free without them.
    pub(crate) fn limit(&self) -> std::io::Result<u64> {
        let space = rustix::fs::statvfs(&self.root)?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let free = free.saturating_add(self.bytes.load(Ordering::Relaxed));
        Ok(free / 100 * u64::from(self.percent))
    }

    /// Takes `bytes` if all together stay within `limit`.
    pub(crate) fn take(&self, bytes: u64, limit: u64) -> bool {
        let taken = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let fits = taken <= limit;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
