//! One `git upload-pack` and the streams around it.

use std::future::{Future, pending};
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug};

use super::fetches::Slot;
use super::{Part, UploadConfig, UploadRepo, WireError, error_packet};
use crate::child::{self, GroupChild};
use crate::http::ProtocolVersion;

/// What upload-pack is told on its command line, above the repository's own configuration. Any object
/// that is there may be asked for (GIT-2).
const OPTIONS: &[&str] = &[
    "uploadpack.allowFilter=true",
    "uploadpack.allowAnySHA1InWant=true",
    "uploadpack.allowTipSHA1InWant=true",
    "uploadpack.allowReachableSHA1InWant=true",
    "lsrefs.unborn=advertise",
    "transfer.advertiseSID=false",
];

/// One read from a pipe: what a pipe holds.
const PART: usize = 64 * 1024;
/// Parts of an answer that wait for the client. Together with the pipe, all that is held of it.
const PARTS_WAITING: usize = 2;
/// What is kept of the child's last words.
const STDERR_MAX: usize = 4096;
/// How long the rest of a request is read once its answer is complete, so that a client which writes
/// first and reads then is not cut off.
const LINGER: Duration = Duration::from_secs(5);

/// Starts the child and the task that serves it; returns where its output comes out.
pub(super) fn start<L, B>(
    repo: UploadRepo<L>,
    version: ProtocolVersion,
    body: B,
    config: &UploadConfig,
    slot: Slot,
) -> Result<Receiver<io::Result<Part>>, WireError>
where
    L: Send + 'static,
    B: AsyncRead + Send + Unpin + 'static,
{
    let mut command = child::git(&repo.path, OPTIONS);
    command
        .args(["upload-pack", "--stateless-rpc", "--strict", "."])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(variable) = version.variable() {
        command.env("GIT_PROTOCOL", variable);
    }
    let mut child = GroupChild::spawn(command).map_err(WireError::Spawn)?;
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin(), child.stdout(), child.stderr())
    else {
        return Err(WireError::Spawn(io::ErrorKind::BrokenPipe.into()));
    };
    let (parts, answer) = mpsc::channel(PARTS_WAITING);
    let running = Running {
        child,
        parts,
        stall_max: config.stall_max,
    };
    let (request_max, fetches) = (config.request_max, Arc::clone(&config.fetches));
    let serve = async move {
        let feed = async {
            let fed = feed(body, stdin, request_max).await;
            if let Err(FeedError::TooLarge(_)) = fed {
                fetches.count_too_large();
            }
            fed
        };
        running.serve(feed, stdout, stderr, &slot.stopping).await;
        drop((slot, repo));
    };
    config.fetches.run(serve.in_current_span());
    Ok(answer)
}

struct Running {
    child: GroupChild,
    parts: Sender<io::Result<Part>>,
    stall_max: Duration,
}

/// How the child's output ended.
enum Drained {
    /// Complete; whether there was any.
    End { some: bool },
    /// The client is gone, takes nothing, or has had its time.
    Abandoned,
    /// The pipe broke.
    Failed(io::Error),
}

impl Running {
    async fn serve(
        mut self,
        feed: impl Future<Output = Result<(), FeedError>>,
        stdout: ChildStdout,
        stderr: ChildStderr,
        stopping: &CancellationToken,
    ) {
        let mut feed = pin!(feed);
        let mut request = None;
        let (drained, said) = {
            let output = async { tokio::join!(self.output(stdout, stopping), last_words(stderr)) };
            // The request is fed as long as there is output to wait for. If it cannot be read to its
            // end, the child would wait for the rest: end it, and with it the output.
            let feeding = async {
                let result = feed.as_mut().await;
                if result.is_err() {
                    self.child.kill();
                }
                request = Some(result);
                pending::<()>().await;
            };
            tokio::select! {
                biased;
                output = output => output,
                () = feeding => return,
            }
        };
        let status = self.child.wait().await;
        match drained {
            Drained::Abandoned => debug!("a fetch was given up before it was complete"),
            Drained::Failed(error) => self.send(Err(error)).await,
            Drained::End { some } => {
                if request.is_none() {
                    request = timeout(LINGER, feed).await.ok();
                }
                self.conclude(some, status, request, &said).await;
            }
        }
    }

    /// Passes the output on until it ends. If it shall not go on, ends the child.
    async fn output(&self, stdout: ChildStdout, stopping: &CancellationToken) -> Drained {
        let drained = tokio::select! {
            drained = self.drain(stdout) => drained,
            () = stopping.cancelled() => Drained::Abandoned,
        };
        if !matches!(drained, Drained::End { .. }) {
            self.child.kill();
        }
        drained
    }

    /// Passes the output on as it comes.
    async fn drain(&self, mut stdout: ChildStdout) -> Drained {
        let mut some = false;
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(PART);
            let read = tokio::select! {
                biased;
                () = self.parts.closed() => return Drained::Abandoned,
                read = stdout.read_buf(&mut buffer) => read,
            };
            match read {
                Ok(0) => return Drained::End { some },
                Ok(_) => some = true,
                Err(error) => return Drained::Failed(error),
            }
            let sent = timeout(
                self.stall_max,
                self.parts.send(Ok(Part::Output(buffer.split().freeze()))),
            );
            if !matches!(sent.await, Ok(Ok(()))) {
                return Drained::Abandoned;
            }
        }
    }

    /// Says how it ended, where the output did not.
    async fn conclude(
        &self,
        some: bool,
        status: io::Result<ExitStatus>,
        request: Option<Result<(), FeedError>>,
        said: &str,
    ) {
        let status = match (request, status) {
            (Some(Err(error @ FeedError::TooLarge(_))), _) if !some => {
                return self.end_with(&error.to_string()).await;
            }
            (Some(Err(error)), _) => return self.send(Err(io::Error::other(error))).await,
            (_, Err(error)) => return self.send(Err(error)).await,
            (_, Ok(status)) => status,
        };
        if !status.success() {
            debug!(%status, said, "git upload-pack ended with an error");
        }
        match (some, status.code()) {
            // GIT-6
            (false, code) if code != Some(0) => self.end_with(said).await,
            // It is complete, or says itself why not.
            (_, Some(_)) => self.send(Ok(Part::End)).await,
            // Killed in the middle of a pack: the client must not take it for the end.
            (_, None) => self.send(Err(io::ErrorKind::UnexpectedEof.into())).await,
        }
    }

    async fn end_with(&self, message: &str) {
        self.send(Ok(Part::Output(error_packet(message)))).await;
        self.send(Ok(Part::End)).await;
    }

    async fn send(&self, part: io::Result<Part>) {
        // A client that left does not hear it.
        let _ = timeout(self.stall_max, self.parts.send(part)).await;
    }
}

/// Why the child did not get a whole request.
#[derive(Debug, thiserror::Error)]
enum FeedError {
    #[error("the request body could not be read")]
    Body(#[source] io::Error),
    #[error("request is larger than the limit of {0} bytes")]
    TooLarge(u64),
}

/// Writes the request to the child and closes its input. Goes on reading when the child has heard
/// enough.
async fn feed<B: AsyncRead + Unpin>(
    mut body: B,
    stdin: ChildStdin,
    request_max: u64,
) -> Result<(), FeedError> {
    let mut stdin = Some(stdin);
    let mut bytes_left = request_max;
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PART / 4);
        match body.read_buf(&mut buffer).await {
            Ok(0) => return Ok(()),
            Ok(count) => {
                bytes_left = bytes_left
                    .checked_sub(count as u64)
                    .ok_or(FeedError::TooLarge(request_max))?;
            }
            Err(error) => return Err(FeedError::Body(error)),
        }
        if let Some(pipe) = &mut stdin
            && pipe.write_all(&buffer).await.is_err()
        {
            stdin = None;
        }
        buffer.clear();
    }
}

/// Reads what the child complains about to its end and returns the last complaint, without what
/// git puts in front of it.
async fn last_words(mut stderr: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..count]);
        if kept.len() > STDERR_MAX {
            kept.drain(..kept.len() - STDERR_MAX);
        }
    }
    complaint(&String::from_utf8_lossy(&kept)).to_owned()
}

fn complaint(stderr: &str) -> &str {
    let last = stderr.lines().rev().find(|line| {
        let line = line.trim();
        !line.is_empty()
    });
    let line = stderr
        .lines()
        .find(|line| line.starts_with("fatal: "))
        .or(last)
        .unwrap_or("git ended without a word");
    let line = line.strip_prefix("fatal: ").unwrap_or(line);
    line.strip_prefix("git upload-pack: ").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complaint_is_what_git_died_of() {
        assert_eq!(
            complaint("warning: x\nfatal: git upload-pack: not our ref 00\n"),
            "not our ref 00"
        );
        assert_eq!(complaint("error: a\n\n"), "error: a");
        assert_eq!(complaint(""), "git ended without a word");
    }
}
