//! `<relay data>/control.sock`: bound, guarded, answered, removed (CLI-5).
//!
//! The lock of the store is held before a socket is bound, so one that lies there is a killed server's, and is
//! replaced. Mode 0600 keeps others out, and who asks is looked at again: between binding and the change of the
//! mode the file would be open to all.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use super::{Desk, Reply, Request, Unanswered};

const FILE: &str = "control.sock";
/// Longest line of a request, its end included. One that is longer is not understood.
pub const LINE_MAX: u64 = 64 << 10;
/// Who asks at once; one more is told to come again.
const ASKING_MAX: usize = 8;
/// How long a request may take to arrive.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// What is read of a request that is refused, and for how long, so that the refusal arrives.
const REST_MAX: u64 = 1 << 20;
const REST_TIME: Duration = Duration::from_secs(1);
/// How long a reply may wait for somebody who does not read.
const REPLY_TIME: Duration = Duration::from_mins(1);
/// Replies that wait for somebody who reads slowly.
const REPLIES: usize = 64;
/// A path longer than this is no socket address.
const ADDRESS_MAX: usize = 100;
/// Pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where the socket of a relay folder is. A path that is too long for a socket address is reached through the
/// folder's descriptor, which this holds.
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    address: PathBuf,
    _folder: Option<File>,
}

impl SocketPath {
    /// The socket of the server whose relay data is in `relay_root`.
    pub fn of(relay_root: &Path) -> io::Result<Self> {
        let path = relay_root.join(FILE);
        if path.as_os_str().len() <= ADDRESS_MAX {
            return Ok(Self {
                address: path.clone(),
                path,
                _folder: None,
            });
        }
        let folder = File::open(relay_root)?;
        let address = PathBuf::from(format!("/proc/self/fd/{}/{FILE}", folder.as_raw_fd()));
        Ok(Self {
            path,
            address,
            _folder: Some(folder),
        })
    }

    /// Where it lies, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What to connect to.
    pub fn address(&self) -> &Path {
        &self.address
    }
}

/// The bound socket. Its file goes with it.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    place: SocketPath,
}

impl Socket {
    /// Binds the socket of `relay_root`, whose lock the caller holds. Must be called inside a tokio runtime.
    pub fn bind(relay_root: &Path) -> io::Result<Self> {
        let place = SocketPath::of(relay_root)?;
        match fs::remove_file(place.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(place.address())?;
        let socket = Self { listener, place };
        fs::set_permissions(socket.place.path(), Permissions::from_mode(0o600))?;
        Ok(socket)
    }

    /// Answers until `stop`, and then lets nobody wait: an answer that is not finished is cut.
    pub(crate) async fn run(self, desk: Arc<Desk>, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(ASKING_MAX));
        let tracker = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let place = Arc::clone(&places).try_acquire_owned().ok();
                    let (desk, stop) = (Arc::clone(&desk), stop.clone());
                    tracker.spawn(async move {
                        tokio::select! {
                            () = stop.cancelled() => {}
                            () = serve(desk, stream, place.is_some()) => {}
                        }
                        drop(place);
                    });
                }
                Err(failure) => {
                    warn!(%failure, "a question could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        tracker.close();
        tracker.wait().await;
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A successor replaces it anyway.
        let _ = fs::remove_file(self.place.path());
    }
}

/// One question and its answer.
async fn serve(desk: Arc<Desk>, stream: UnixStream, has_place: bool) {
    let asker = stream.peer_cred();
    let (mut reading, mut writing) = stream.into_split();
    let request = match asker {
        Ok(asker) if is_allowed(asker.uid()) => {
            let line = if has_place {
                timeout(REQUEST_TIME, read_request(&mut reading)).await
            } else {
                Ok(Err(failed(
                    Unanswered::Busy,
                    "too many ask at once, try again",
                )))
            };
            let request = line.unwrap_or_else(|_| {
                Err(failed(Unanswered::Misunderstood, "no request came in time"))
            });
            if let Ok(request) = &request {
                info!(uid = asker.uid(), pid = asker.pid(), command = request.command.name(), asked = ?request.command, "an operator asks");
            }
            request
        }
        Ok(asker) => {
            warn!(
                uid = asker.uid(),
                pid = asker.pid(),
                "somebody asks who may not"
            );
            Err(failed(
                Unanswered::NotAllowed,
                "only the user that runs the server, and root, may ask",
            ))
        }
        Err(failure) => {
            warn!(%failure, "it cannot be told who asks");
            return;
        }
    };
    match request {
        Err(refusal) => {
            let told = write(&mut writing, &refusal).await;
            if told.is_ok() && writing.shutdown().await.is_ok() {
                // Closed with something unread, the socket would take the answer back.
                let mut rest = reading.take(REST_MAX);
                let _ = timeout(
                    REST_TIME,
                    tokio::io::copy(&mut rest, &mut tokio::io::sink()),
                )
                .await;
            }
        }
        Ok(request) => {
            let (replies, mut lines) = mpsc::channel(REPLIES);
            let answering = desk.answer(request, replies);
            let telling = async {
                while let Some(reply) = lines.recv().await {
                    if let Err(failure) = write(&mut writing, &reply).await {
                        debug!(%failure, "an operator left before the end of the answer");
                        break; // the channel closes, and the desk notices
                    }
                }
            };
            tokio::join!(answering, telling);
        }
    }
}

fn is_allowed(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

fn failed(reason: Unanswered, message: &str) -> Reply {
    Reply::Failed {
        reason,
        message: message.to_owned(),
    }
}

async fn read_request(reading: impl tokio::io::AsyncRead + Unpin) -> Result<Request, Reply> {
    let mut line = Vec::new();
    let mut reading = BufReader::new(reading.take(LINE_MAX));
    let misunderstood = |why: &dyn std::fmt::Display| {
        failed(
            Unanswered::Misunderstood,
            &format!("not a request that this server understands: {why}"),
        )
    };
    reading
        .read_until(b'\n', &mut line)
        .await
        .map_err(|error| misunderstood(&error))?;
    serde_json::from_slice(&line).map_err(|error| misunderstood(&error))
}

async fn write(
    writing: &mut (impl tokio::io::AsyncWrite + Unpin),
    reply: &Reply,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply).map_err(io::Error::other)?;
    line.push(b'\n');
    timeout(REPLY_TIME, writing.write_all(&line))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-5
    #[test]
    fn root_and_the_servers_own_user_may_ask() {
        let own = rustix::process::geteuid().as_raw();
        assert!(is_allowed(0) && is_allowed(own));
        assert!(!is_allowed(own.wrapping_add(1)));
    }
}
