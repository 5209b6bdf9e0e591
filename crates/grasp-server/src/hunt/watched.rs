//! A pack on its way, and whether the other side has sent all of it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// Whether the other side has done its part: what is left takes our own time, and is no silence of its (HUNT-9).
#[derive(Debug, Clone, Default)]
pub(super) struct Arrived(Arc<AtomicBool>);

impl Arrived {
    pub(super) fn set(&self, arrived: bool) {
        self.0.store(arrived, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A reader that notes its end.
pub(super) struct Watched<R> {
    inner: R,
    arrived: Arrived,
}

impl<R> Watched<R> {
    pub(super) fn new(inner: R, arrived: Arrived) -> Self {
        Self { inner, arrived }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == before {
            self.arrived.set(true);
        }
        read
    }
}
