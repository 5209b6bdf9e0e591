//! Indexes a pack by a `git index-pack` child while it comes in.
//!
//! The child keeps the memory and the time of large packs out of this process: its caches are small, its
//! CPU time is limited, and it dies with us. It is only asked for an index; what may stand in an object
//! is judged by our own list.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use super::limits::{IngestError, NO_SPACE, PackLimits};
use super::quarantine::{Folder, borrowing_repository};
use super::scanner::Scanned;
use super::small::doubled;
use crate::child::{BlockingChild, git};
use crate::error::{Attempt, Error};
use crate::objects::Pack;
use crate::repository::Lease;

/// GIT-9: a minute, and two seconds for each MiB.
const CPU_SECONDS: u64 = 60;
const CPU_SECONDS_PER_MIB: u64 = 2;

/// How long to sleep between two looks at a child that works.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What of a child's complaint is kept.
const COMPLAINT_MAX: u64 = 2048;

/// How git says that the sum at the end of a pack is another.
const WRONG_SUM: &str = "pack is corrupted (SHA1 mismatch)";

const OPTIONS: [&str; 5] = [
    // It is linked and synced only if it is accepted.
    "core.fsync=none",
    "core.deltaBaseCacheLimit=16m",
    "core.bigFileThreshold=16m",
    "pack.indexVersion=2",
    "pack.threads=1",
];

/// A child that reads a pack.
#[derive(Debug)]
pub(super) struct Large {
    child: BlockingChild,
    stdin: Option<ChildStdin>,
    folder: PathBuf,
    cpu_seconds: u64,
}

impl Large {
    /// Starts a child whose repository is `folder`. It sees the objects of `lease` and of `extra`, as bases.
    pub(super) fn start(
        folder: &Folder,
        lease: &Lease,
        extra: &[Lease],
        limits: &PackLimits,
    ) -> Result<Self, IngestError> {
        let path = folder.path().join("index.git");
        borrowing_repository(&path, std::iter::once(lease).chain(extra))?;
        let complaint = path.join("complaint");
        let answer = path.join("answer");
        let create = |path: &Path| File::create(path).attempt("create", path);
        let mut command = git(&path, &OPTIONS);
        command
            .env("GIT_DIR", ".")
            .args(["index-pack", "--stdin", "--fix-thin", "--threads=1"])
            .arg(format!("--max-input-size={}", limits.bytes))
            .stdin(Stdio::piped())
            .stdout(Stdio::from(create(&answer)?))
            .stderr(Stdio::from(create(&complaint)?));
        let mut child = BlockingChild::spawn(command).attempt("start git for", &path)?;
        let stdin = child.stdin();
        let mut large = Self {
            child,
            stdin,
            folder: path,
            cpu_seconds: 0,
        };
        large.limit_cpu(limits.bytes);
        Ok(large)
    }

    /// Hands the child the next bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), IngestError> {
        let fed = match &mut self.stdin {
            Some(stdin) => stdin.write_all(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        match fed {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                let status = self.child.wait().attempt("wait for git in", &self.folder)?;
                Err(self.complaint(status))
            }
            Err(error) => Err(error)
                .attempt("write into", &self.folder)
                .map_err(IngestError::Store),
        }
    }

    /// Waits for the index of the pack.
    pub(super) fn finish(
        mut self,
        scanned: Scanned,
        cancel: &AtomicBool,
    ) -> Result<PathBuf, IngestError> {
        self.limit_cpu(scanned.bytes);
        self.stdin = None;
        let status = self.wait(cancel)?;
        if !status.success() {
            return Err(self.complaint(status));
        }
        let answer = self.folder.join("answer");
        let text = fs::read_to_string(&answer).attempt("read", &answer)?;
        let sum = text.trim_end().rsplit('\t').next().unwrap_or_default();
        let index = self.folder.join(format!("objects/pack/pack-{sum}.idx"));
        match doubled(&Pack::open(&index)?) {
            Some(oid) => Err(IngestError::Twice(oid)),
            None => Ok(index),
        }
    }

    fn wait(&mut self, cancel: &AtomicBool) -> Result<ExitStatus, IngestError> {
        loop {
            let ended = self
                .child
                .try_wait()
                .attempt("wait for git in", &self.folder)?;
            if let Some(status) = ended {
                return Ok(status);
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(IngestError::Interrupted);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Why the child, which has ended, did not make an index.
    fn complaint(&self, status: ExitStatus) -> IngestError {
        if status.signal() == Some(Signal::XCPU.as_raw()) {
            return IngestError::TooSlow {
                limit: self.cpu_seconds,
            };
        }
        let mut text = Vec::new();
        let read = File::open(self.folder.join("complaint"))
            .and_then(|file| file.take(COMPLAINT_MAX).read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find(|line| !line.trim().is_empty());
        match line {
            _ if status.signal().is_some() || read.is_err() => IngestError::Store(Error::Io {
                action: "index a pack in",
                path: self.folder.clone(),
                source: io::Error::other(format!("git ended with {status}")),
            }),
            Some(_) if text.contains(NO_SPACE) => IngestError::no_space(&self.folder),
            Some(line) if line.contains(WRONG_SUM) => IngestError::Checksum,
            Some(line) => IngestError::Malformed(line.trim_start_matches("fatal: ").to_owned()),
            None => IngestError::Malformed("git cannot index it".to_owned()),
        }
    }

    fn limit_cpu(&mut self, pack_bytes: u64) {
        let seconds = CPU_SECONDS + CPU_SECONDS_PER_MIB * (pack_bytes >> 20);
        self.cpu_seconds = seconds;
        let limit = Rlimit {
            current: Some(seconds),
            maximum: None,
        };
        let child = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Err(error) = prlimit(child, Resource::Cpu, limit) {
            tracing::debug!(%error, "the CPU time of git cannot be limited");
        }
    }
}
