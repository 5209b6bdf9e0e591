//! Reads until it is told to stop.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A reader that fails once it is told to: whoever blocks on it is set free, however silent the other side is.
pub(super) struct Interruptible<R> {
    inner: R,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<R> Interruptible<R> {
    pub(super) fn new(inner: R, stop: CancellationToken) -> Self {
        Self {
            inner,
            stopped: Box::pin(stop.cancelled_owned()),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Interruptible<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.stopped.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}
