//! Watches a child that fetches: what it prints, what it writes, and that it moves (HUNT-9).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, interval, timeout};

use super::{Bounds, ScratchError};
use crate::child::GroupChild;
use crate::error::Attempt as _;
use crate::ingest::Folder;

/// What may be printed that is no complaint.
const STDOUT_MAX: u64 = 1 << 20;
/// What may be printed of progress and complaints.
const STDERR_MAX: u64 = 4 << 20;
/// Of complaints the end is kept.
const WORDS_KEPT: usize = 2_048;
/// So much of what is printed is read at once.
const READ_BYTES: usize = 4_096;
/// How often the pack is measured.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A child with all that it is bounded by.
pub(super) struct Watched<'a> {
    pub(super) child: GroupChild,
    /// Where its packs grow.
    pub(super) packs: PathBuf,
    /// Which counts what is written.
    pub(super) folder: &'a mut Folder,
    pub(super) bounds: &'a Bounds,
    pub(super) came: &'a (dyn Fn(u64) + Sync),
}

/// No file that the child writes, or that its own children write, grows beyond what a pack may be.
pub(super) fn limit_files(child: &GroupChild, pack_bytes: u64) {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let limit = Rlimit {
        current: Some(pack_bytes),
        maximum: Some(pack_bytes),
    };
    if let Err(error) = prlimit(id.and_then(Pid::from_raw), Resource::Fsize, limit) {
        tracing::debug!(%error, "the files of git cannot be limited");
    }
}

/// Waits until the child has fetched.
pub(super) async fn watch(mut watched: Watched<'_>) -> Result<(), ScratchError> {
    let (out, err) = (watched.child.stdout(), watched.child.stderr());
    let mut printed = Printed::default();
    let mut size = 0;
    let (Some(mut out), Some(mut err)) = (out, err) else {
        return Err(ScratchError::Git("it has no output".to_owned()));
    };
    let (mut out_open, mut err_open) = (true, true);
    let mut look = interval(LOOK_EVERY);
    let mut moved = Moved::now();
    // Not on the stack: each future that waits for this would be as large.
    let (mut room, mut words) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
    let status = loop {
        tokio::select! {
            read = out.read(&mut room), if out_open => {
                let count = read.unwrap_or(0);
                out_open = count > 0;
                printed.out(count)?;
                moved.note(count > 0);
            }
            read = err.read(&mut words), if err_open => {
                let count = read.unwrap_or(0);
                err_open = count > 0;
                printed.err(&words[..count])?;
                moved.note(count > 0);
            }
            ended = watched.child.wait(), if !out_open && !err_open => {
                break ended.attempt("wait for git in", &watched.packs)?;
            }
            _ = look.tick() => {
                let grown = watched.measure(&mut size)?;
                moved.note(grown > 0);
                if moved.is_silent(watched.bounds) {
                    return Err(watched.end().await);
                }
            }
        }
    };
    watched.measure(&mut size)?;
    if status.success() {
        return Ok(());
    }
    // The file stops where it may not grow: git itself only says that its helper died.
    if size >= watched.bounds.pack_bytes {
        return Err(ScratchError::TooLarge(watched.bounds.pack_bytes));
    }
    Err(ScratchError::Git(printed.reason()))
}

impl Watched<'_> {
    /// Counts what the packs have grown by since they had `size`.
    fn measure(&mut self, size: &mut u64) -> Result<u64, ScratchError> {
        let now = bytes_in(&self.packs).attempt("measure", &self.packs)?;
        let grown = now.saturating_sub(*size);
        *size = now.max(*size);
        if grown > 0 {
            (self.came)(grown);
            self.folder.grow(grown)?;
        }
        Ok(grown)
    }

    /// TERM, a while, KILL.
    async fn end(&mut self) -> ScratchError {
        self.child.terminate();
        if timeout(self.bounds.grace, self.child.wait()).await.is_err() {
            self.child.kill();
            // Killed: it ends at once, and what it was is no news.
            let _ = self.child.wait().await;
        }
        ScratchError::Silent(self.bounds.silence_max)
    }
}

/// Bytes of all files in a folder. What goes while they are counted does not count.
fn bytes_in(folder: &Path) -> io::Result<u64> {
    let sizes = fs::read_dir(folder)?.map(|entry| entry?.metadata().map(|about| about.len()));
    Ok(sizes.filter_map(Result::ok).sum())
}

/// What was printed.
#[derive(Default)]
struct Printed {
    out: u64,
    err: u64,
    /// The end of the complaints.
    words: Vec<u8>,
}

impl Printed {
    fn out(&mut self, count: usize) -> Result<(), ScratchError> {
        self.out += count as u64;
        if self.out > STDOUT_MAX {
            return Err(ScratchError::TooMuch(STDOUT_MAX));
        }
        Ok(())
    }

    fn err(&mut self, words: &[u8]) -> Result<(), ScratchError> {
        self.err += words.len() as u64;
        if self.err > STDERR_MAX {
            return Err(ScratchError::TooMuch(STDERR_MAX));
        }
        self.words.extend_from_slice(words);
        let surplus = self.words.len().saturating_sub(WORDS_KEPT);
        self.words.drain(..surplus);
        Ok(())
    }

    /// The line that says why, not the progress before it.
    fn reason(&self) -> String {
        let words = String::from_utf8_lossy(&self.words);
        let mut lines = words.split(['\n', '\r']).map(str::trim).rev();
        let last = lines.find(|line| line.starts_with("fatal:") || line.starts_with("error:"));
        let last = last.unwrap_or("it does not say why");
        last.replace(char::is_control, " ")
    }
}

/// When there was a sign last.
struct Moved {
    last: Instant,
    has_warned: bool,
}

impl Moved {
    fn now() -> Self {
        Self {
            last: Instant::now(),
            has_warned: false,
        }
    }

    fn note(&mut self, is_sign: bool) {
        if is_sign {
            *self = Self::now();
        }
    }

    fn is_silent(&mut self, bounds: &Bounds) -> bool {
        let silence = self.last.elapsed();
        if silence >= bounds.warn_after && !self.has_warned {
            self.has_warned = true;
            tracing::warn!(seconds = silence.as_secs(), "git fetches and nothing comes");
        }
        silence >= bounds.silence_max
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;
    use crate::child::git;
    use crate::testing::Place;

    /// HUNT-9: refs and words of a host come through git's own output.
    #[test]
    fn what_git_prints_is_bounded_and_the_reason_is_kept() {
        let mut printed = Printed::default();
        let progress = b"Receiving objects: 1%\r".repeat(1_000);
        printed.err(&progress).expect("some progress is fine");
        printed
            .err(b"\nfatal: early EOF\nhint: ask\n")
            .expect("so are words");
        assert_eq!(printed.reason(), "fatal: early EOF");
        assert!(printed.words.len() <= WORDS_KEPT);
        let too_much = |result| matches!(result, Err(ScratchError::TooMuch(_)));
        assert!((0..200).any(|_| too_much(printed.err(&progress))));
        assert!((0..300).any(|_| too_much(printed.out(4_096))));
    }

    /// HUNT-9: what does not listen to TERM is killed, with all it started.
    #[tokio::test]
    async fn a_child_that_is_silent_and_stubborn_is_killed() {
        let place = Place::new();
        let mut folder = Folder::create(&place.repositories).unwrap();
        let stubborn = "alias.x=!trap '' TERM; echo started; sleep 600.4711 & wait";
        let mut command = git(folder.path(), &[stubborn]);
        command
            .arg("x")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let bounds = Bounds {
            silence_max: Duration::from_millis(300),
            grace: Duration::from_millis(300),
            ..Bounds::default()
        };
        let watched = Watched {
            child: GroupChild::spawn(command).unwrap(),
            packs: folder.path().to_owned(),
            folder: &mut folder,
            bounds: &bounds,
            came: &|_| (),
        };
        let ended = watch(watched).await;
        assert!(matches!(ended, Err(ScratchError::Silent(_))), "{ended:?}");
        let named = |entry: fs::DirEntry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("600.4711")
        };
        while fs::read_dir("/proc").unwrap().flatten().any(named) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
