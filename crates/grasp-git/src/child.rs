//! Git as a child process: what it may see, and that it always ends.
//!
//! A child inherits nothing of our environment but the search path, reads no configuration but the
//! repository's own and what we give on its command line, and leads its own process group, so that
//! what it starts itself can be ended with it. Whoever drops a child kills that group. No child is
//! left unreaped: [`GroupChild`] is for async callers, [`BlockingChild`] for those on their own thread.
//!
//! *Invariant:* a group is signalled only while its leader is not reaped, so its number still belongs
//! to us.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

/// Settings of every child. A restored backup or a container volume may belong to another user
/// (cases 101), and whoever can configure hooks there could run programs in our name.
///
/// The others bound what one child costs: one core, and some 40 MiB of memory where git by itself maps
/// whole packs and keeps 256 MiB of deltas. A fetch of a 130 MB repository fell from 125 to 33 MiB of
/// private memory, and neither that one nor one of many small objects became slower.
const OPTIONS: [&str; 9] = [
    "safe.directory=*",
    "core.hooksPath=/dev/null",
    "pack.threads=1",
    "core.packedGitWindowSize=4m",
    "core.packedGitLimit=32m",
    "core.deltaBaseCacheLimit=32m",
    "core.bigFileThreshold=32m",
    "pack.windowMemory=32m",
    "pack.deltaCacheSize=16m",
];

/// A `git` command in `directory`, with a clean environment and its own process group. `options` are
/// `key=value` settings that win over the repository's own. Nothing is connected: the caller sets
/// stdin, stdout and stderr, which are closed (`/dev/null`) otherwise.
pub fn git(directory: &Path, options: &[&str]) -> Command {
    use std::os::unix::process::CommandExt as _;

    let mut command = Command::new("git");
    command
        .env_clear()
        .env("LC_ALL", "C")
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .current_dir(directory)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    for option in OPTIONS.iter().chain(options) {
        command.args([OsStr::new("-c"), OsStr::new(option)]);
    }
    command
}

/// Signals the process group led by `leader`, which must not be reaped yet.
fn signal_group(leader: u32, signal: Signal) {
    if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        // It may have ended by itself: then there is nothing to signal.
        let _ = kill_process_group(group, signal);
    }
}

/// A child for async callers.
#[derive(Debug)]
pub struct GroupChild {
    child: tokio::process::Child,
}

impl GroupChild {
    /// Starts `command`, which must be one of [`git`]'s: it leads its own group.
    pub fn spawn(command: Command) -> io::Result<Self> {
        let child = tokio::process::Command::from(command)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self { child })
    }

    /// The child's standard input, if it is piped and not taken yet.
    pub fn stdin(&mut self) -> Option<tokio::process::ChildStdin> {
        self.child.stdin.take()
    }

    /// The child's standard output, if it is piped and not taken yet.
    pub fn stdout(&mut self) -> Option<tokio::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// The child's standard error, if it is piped and not taken yet.
    pub fn stderr(&mut self) -> Option<tokio::process::ChildStderr> {
        self.child.stderr.take()
    }

    /// The child's process id, for limits set from outside; `None` once it is reaped.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Asks the child and all it started to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the child and all it started. It still has to be waited for.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.child.id() {
            signal_group(leader, signal);
        }
    }

    /// Waits for the child's end and reaps it.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }
}

impl Drop for GroupChild {
    /// The runtime reaps what was not waited for.
    fn drop(&mut self) {
        self.kill();
    }
}

/// A child for callers that may block.
#[derive(Debug)]
pub struct BlockingChild {
    child: std::process::Child,
    reaped: bool,
}

impl BlockingChild {
    /// Starts `command`, which must be one of [`git`]'s: it leads its own group.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        let child = command.spawn()?;
        Ok(Self {
            child,
            reaped: false,
        })
    }

    /// The child's standard input, if it is piped and not taken yet.
    pub fn stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    /// The child's standard output, if it is piped and not taken yet.
    pub fn stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// The child's standard error, if it is piped and not taken yet.
    pub fn stderr(&mut self) -> Option<std::process::ChildStderr> {
        self.child.stderr.take()
    }

    /// The child's process id, for limits set from outside.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the child and all it started. It still has to be waited for.
    pub fn kill(&self) {
        if !self.reaped {
            signal_group(self.child.id(), Signal::KILL);
        }
    }

    /// Whether the child has ended, and how. Reaps it if so.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.reaped |= status.is_some();
        Ok(status)
    }

    /// Waits for the child's end and reaps it. Closes its standard input first, if that is still here.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(status)
    }
}

impl Drop for BlockingChild {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            // Killed: it ends at once, and there is nobody to tell if it cannot be waited for.
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// A `git` that starts a shell that starts a sleeper, all holding our pipe.
    fn nested() -> Command {
        let mut command = git(Path::new("/"), &["alias.x=!echo started; sleep 600 & wait"]);
        command.arg("x").stdout(Stdio::piped());
        command
    }

    #[test]
    fn dropping_a_blocking_child_ends_all_it_started() {
        let mut child = BlockingChild::spawn(nested()).expect("git starts");
        let mut stdout = child.stdout().expect("piped");
        let mut started = [0; 8];
        stdout.read_exact(&mut started).expect("output");
        drop(child);
        // The pipe ends only when the last process that holds it has ended.
        assert_eq!(stdout.read(&mut started).expect("the end"), 0);
    }

    #[tokio::test]
    async fn dropping_an_async_child_ends_all_it_started() {
        use tokio::io::AsyncReadExt as _;

        let mut child = GroupChild::spawn(nested()).expect("git starts");
        let mut stdout = child.stdout().expect("piped");
        let mut started = [0; 8];
        stdout.read_exact(&mut started).await.expect("output");
        drop(child);
        assert_eq!(stdout.read(&mut started).await.expect("the end"), 0);
    }

    #[test]
    fn a_child_sees_only_what_it_is_given() {
        let mut command = git(Path::new("/"), &["alias.x=!env"]);
        command.arg("x").stdout(Stdio::piped());
        let mut child = BlockingChild::spawn(command).expect("git starts");
        let mut seen = String::new();
        let mut stdout = child.stdout().expect("piped");
        stdout.read_to_string(&mut seen).expect("text");
        assert!(child.wait().expect("ends").success());
        assert!(seen.contains("GIT_CONFIG_GLOBAL=/dev/null"), "{seen}");
        assert!(!seen.contains("CARGO"), "{seen}");
    }
}
