//! Whether there is room (BND-2). Asked of the file system, not of failed writes: LMDB turns a full
//! disk into EIO.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// An answer is good for so many milliseconds.
const FRESH_MILLIS: u64 = 1000;

/// Watches the free space of one folder's file system.
#[derive(Debug)]
pub(crate) struct DiskFloor {
    folder: PathBuf,
    floor: u64,
    started: Instant,
    /// Milliseconds after `started` until which `below` counts.
    good_until: AtomicU64,
    below: AtomicBool,
}

impl DiskFloor {
    pub(crate) fn new(folder: &Path, floor: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            floor,
            started: Instant::now(),
            good_until: AtomicU64::new(0),
            below: AtomicBool::new(false),
        }
    }

    /// Whether less than the floor is left.
    pub(crate) fn is_below(&self) -> bool {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if now >= self.good_until.load(Ordering::Relaxed) {
            self.good_until
                .store(now.saturating_add(FRESH_MILLIS), Ordering::Relaxed);
            self.below.store(self.measure(), Ordering::Relaxed);
        }
        self.below.load(Ordering::Relaxed)
    }

    /// A file system that cannot be asked is taken to have room: writes will tell.
    fn measure(&self) -> bool {
        rustix::fs::statvfs(&self.folder).is_ok_and(|free| {
            let block = if free.f_frsize == 0 {
                free.f_bsize
            } else {
                free.f_frsize
            };
            free.f_bavail.saturating_mul(block) < self.floor
        })
    }
}
