//! Gives a request head ten seconds from its first byte (HTTP-7).
//!
//! The HTTP library has one timer for two things: a connection that idles between requests, which may
//! take long, and a head that comes byte by byte, which may not. The socket knows when bytes come, the
//! service knows when a head is whole and an answer is out; together they tell the two apart. The socket also
//! sees targets that are no URI ([`target`](super::target)) and answers that nobody here gave
//! ([`refused`](super::refused)).

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::refused::Lines;
use super::target::Line;

/// From the first byte of a head to its last.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// Where a connection is between requests and answers. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<Place>);

#[derive(Debug, Default)]
struct Place {
    step: Mutex<Step>,
    /// The head that is coming has a target that is no URI.
    no_uri: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    /// Nothing of the next request has come.
    #[default]
    Idle,
    /// Part of a head is here, the rest has to come by then.
    Head(Instant),
    /// A request is being served: what comes is its body.
    Serving,
}

impl Progress {
    fn step(&self) -> Step {
        *self.0.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, step: Step) {
        *self.0.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    /// Whether the target of the head that has just come is no URI.
    pub(super) fn has_no_uri(&self) -> bool {
        self.0.no_uri.swap(false, Relaxed)
    }

    /// A head is whole. Keep the guard until its answer is out.
    pub(super) fn serving(&self) -> Serving {
        self.set(Step::Serving);
        Serving(self.clone())
    }
}

/// While it lives, a request is being served.
#[derive(Debug)]
pub(super) struct Serving(Progress);

impl Serving {
    /// The connection speaks another protocol from now on: no head will come.
    pub(super) fn for_good(self) {
        std::mem::forget(self);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.set(Step::Idle);
    }
}

/// The head came too slowly.
#[derive(Debug, thiserror::Error)]
#[error("the request head came too slowly")]
struct TooSlow;

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, TooSlow)
}

/// Whether a connection ended since a head came too slowly.
pub(super) fn is_too_slow(failure: &io::Error) -> bool {
    failure
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<TooSlow>)
}

/// A socket that fails when a head takes too long.
#[derive(Debug)]
pub(super) struct Watched<S> {
    socket: S,
    progress: Progress,
    deadline: Pin<Box<Sleep>>,
    line: Line,
    /// Escaped, and not handed on yet.
    escaped: Bytes,
    every_answer: Lines,
    /// Of an answer that was lengthened, and not sent yet.
    lengthened: Bytes,
}

impl<S> Watched<S> {
    /// Watches `socket`.
    pub(super) fn new(socket: S, progress: Progress, every_answer: Lines) -> Self {
        Self {
            socket,
            progress,
            deadline: Box::pin(tokio::time::sleep(HEAD_TIME)),
            line: Line::default(),
            escaped: Bytes::new(),
            every_answer,
            lengthened: Bytes::new(),
        }
    }

    /// Escapes what came of a target as far as it is no URI.
    fn look_at_target(&mut self, buffer: &mut ReadBuf<'_>, before: usize) {
        if let Some(escaped) = self.line.escape(&buffer.filled()[before..]) {
            self.progress.0.no_uri.store(true, Relaxed);
            buffer.set_filled(before);
            self.escaped = escaped.into();
            self.hand_on(buffer);
        }
    }

    fn hand_on(&mut self, buffer: &mut ReadBuf<'_>) {
        let fits = self.escaped.len().min(buffer.remaining());
        buffer.put_slice(&self.escaped.split_to(fits));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.escaped.is_empty() {
            self.hand_on(buffer);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        let came = buffer.filled().len() > before;
        match self.progress.step() {
            Step::Idle if came => {
                let until = Instant::now() + HEAD_TIME;
                self.deadline.as_mut().reset(until);
                self.progress.set(Step::Head(until));
                self.line = Line::HEAD;
            }
            Step::Head(_) if read.is_pending() => {
                ready!(self.deadline.as_mut().poll(cx));
                return Poll::Ready(Err(too_slow()));
            }
            Step::Head(until) if Instant::now() >= until => {
                return Poll::Ready(Err(too_slow()));
            }
            Step::Idle | Step::Head(_) | Step::Serving => {}
        }
        if came {
            self.look_at_target(buffer, before);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.lengthened.is_empty() && self.progress.step() != Step::Serving {
            self.lengthened = self.every_answer.dress(bytes).unwrap_or_default();
        }
        if self.lengthened.is_empty() {
            return Pin::new(&mut self.socket).poll_write(cx, bytes);
        }
        let this = &mut *self;
        while !this.lengthened.is_empty() {
            let sent = ready!(Pin::new(&mut this.socket).poll_write(cx, &this.lengthened))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            this.lengthened.advance(sent);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [bytes] = bytes {
            return self.poll_write(cx, bytes);
        }
        Pin::new(&mut self.socket).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn no_lines() -> Lines {
        Lines::of(&http::HeaderMap::new())
    }

    /// G1-19: whatever the socket takes at a time, and not while an answer of ours is on its way.
    #[tokio::test]
    async fn a_refusal_of_the_library_is_lengthened_and_no_answer_of_ours() {
        let refusal = b"HTTP/1.1 431 Too Large\r\ncontent-length: 0\r\n\r\n";
        let mut headers = http::HeaderMap::new();
        headers.insert("x-every", http::HeaderValue::from_static("1"));
        let (mut client, server) = tokio::io::duplex(16);
        let progress = Progress::default();
        let mut watched = Watched::new(server, progress.clone(), Lines::of(&headers));
        let writer = tokio::spawn(async move {
            watched.write_all(refusal).await.expect("room");
            let _serving = progress.serving();
            watched.write_all(refusal).await.expect("room");
        });
        let mut sent = String::new();
        client.read_to_string(&mut sent).await.expect("text");
        writer.await.expect("wrote all");
        assert_eq!(sent.matches("HTTP/1.1").count(), 2);
        let first = "HTTP/1.1 431 Too Large\r\ncontent-length: 0\r\nx-every: 1\r\n\r\nHTTP";
        assert!(
            sent.starts_with(first) && sent.matches("x-every").count() == 1,
            "{sent}"
        );
    }

    #[tokio::test]
    async fn an_escaped_target_is_handed_on_in_pieces_and_marked_once() {
        let (mut client, server) = tokio::io::duplex(64);
        let progress = Progress::default();
        let mut watched = Watched::new(server, progress.clone(), no_lines());
        client.write_all(b"GET /<<< HTTP/1.1").await.expect("room");
        client.shutdown().await.expect("open");
        let mut head = Vec::new();
        let mut piece = [0; 5];
        while let count @ 1.. = watched.read(&mut piece).await.expect("bytes") {
            head.extend_from_slice(&piece[..count]);
        }
        assert_eq!(head, b"GET /%3C%3C%3C HTTP/1.1");
        assert!(progress.has_no_uri() && !progress.has_no_uri());
    }

    /// HTTP-7
    #[tokio::test(start_paused = true)]
    async fn a_head_that_dribbles_in_is_cut_after_ten_seconds() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut watched = Watched::new(server, Progress::default(), no_lines());
        client.write_all(b"GET / HT").await.expect("room");
        let mut read = [0; 64];
        assert_eq!(watched.read(&mut read).await.expect("bytes"), 8);
        let began = Instant::now();
        let failure = watched.read(&mut read).await.expect_err("too slow");
        assert!(is_too_slow(&failure));
        assert_eq!(began.elapsed().as_secs(), HEAD_TIME.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_and_an_idle_connection_may_take_longer() {
        let (mut client, server) = tokio::io::duplex(64);
        let progress = Progress::default();
        let mut watched = Watched::new(server, progress.clone(), no_lines());
        let writer = tokio::spawn(async move {
            tokio::time::sleep(HEAD_TIME * 3).await; // idle
            client.write_all(b"head").await.expect("room");
            tokio::time::sleep(HEAD_TIME * 3).await; // body
            client.write_all(b"body").await.expect("room");
        });
        let mut read = [0; 4];
        watched.read_exact(&mut read).await.expect("the head");
        let serving = progress.serving();
        watched.read_exact(&mut read).await.expect("the body");
        assert_eq!(&read, b"body");
        drop(serving);
        assert_eq!(progress.step(), Step::Idle);
        writer.await.expect("wrote all");
    }
}
