//! Request bodies as streams: never whole in memory, never slower than they may be (HTTP-3, HTTP-4, HTTP-7).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_compression::tokio::bufread::GzipDecoder;
use axum::body::Body;
use futures_util::TryStreamExt;
use http::{HeaderMap, header};
use tokio::io::{AsyncRead, BufReader, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_util::io::StreamReader;

use crate::metrics::{Bound, Metrics};

/// A body must bring so much…
const PROGRESS_BYTES: u64 = 1024;
/// … in this time (HTTP-7).
const PROGRESS_TIME: Duration = Duration::from_secs(30);

/// A request body, ready to be read.
pub(super) type RequestBody = Box<dyn AsyncRead + Send + Unpin>;

/// The `Content-Encoding` is neither absent nor gzip.
#[derive(Debug, thiserror::Error)]
#[error("this content encoding is not understood; send gzip or none")]
pub(super) struct UnknownEncoding;

/// Reads `body`, inflating gzip; at most `bytes_max` bytes come out, or the read fails. `metrics` count the
/// bodies that come too slowly.
pub(super) fn reader(
    headers: &HeaderMap,
    body: Body,
    bytes_max: u64,
    metrics: Arc<Metrics>,
) -> Result<RequestBody, UnknownEncoding> {
    let stream = StreamReader::new(body.into_data_stream().map_err(io::Error::other));
    let raw = Paced::new(stream, metrics);
    match headers
        .get(header::CONTENT_ENCODING)
        .map(|value| value.as_bytes().to_ascii_lowercase())
    {
        Some(name) if name == b"gzip" || name == b"x-gzip" => Ok(Box::new(Limited {
            inner: GzipDecoder::new(BufReader::new(raw)),
            left: bytes_max,
        })),
        Some(name) if name != b"identity" => Err(UnknownEncoding),
        _ => Ok(Box::new(Limited {
            inner: raw,
            left: bytes_max,
        })),
    }
}

/// Fails a read when the peer brings less than it must.
struct Paced<R> {
    inner: R,
    brought: u64,
    deadline: Pin<Box<Sleep>>,
    metrics: Arc<Metrics>,
}

impl<R> Paced<R> {
    fn new(inner: R, metrics: Arc<Metrics>) -> Self {
        Self {
            inner,
            metrics,
            brought: 0,
            deadline: Box::pin(tokio::time::sleep(PROGRESS_TIME)),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Paced<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.inner).poll_read(cx, buffer) {
            Poll::Ready(done) => {
                self.brought += (buffer.filled().len() - before) as u64;
                if self.brought >= PROGRESS_BYTES {
                    self.brought = 0;
                    self.deadline.as_mut().reset(Instant::now() + PROGRESS_TIME);
                }
                Poll::Ready(done)
            }
            Poll::Pending => {
                ready!(self.deadline.as_mut().poll(cx));
                self.metrics.refusals.count(Bound::BodyPace);
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the request body came too slowly",
                )))
            }
        }
    }
}

/// Fails when more than `left` bytes come out: a small body may inflate without end, and a refused one that
/// is only read to be dropped may never end (GIT-10).
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: AsyncRead + Unpin> AsyncRead for Limited<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let came = (buffer.filled().len() - before) as u64;
        if let Some(left) = self.left.checked_sub(came) {
            self.left = left;
            Poll::Ready(Ok(()))
        } else {
            buffer.set_filled(before); // a failed read has brought nothing
            Poll::Ready(Err(io::Error::other(
                "the request body is larger than is allowed",
            )))
        }
    }
}

use std::future::Future as _;

#[cfg(test)]
mod tests {
    use super::*;
    use async_compression::tokio::bufread::GzipEncoder;
    use tokio::io::AsyncReadExt;

    async fn gzipped(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        GzipEncoder::new(text)
            .read_to_end(&mut out)
            .await
            .expect("compresses");
        out
    }

    fn headers(encoding: &str) -> HeaderMap {
        HeaderMap::from_iter([(
            header::CONTENT_ENCODING,
            encoding.parse().expect("a header value"),
        )])
    }

    #[tokio::test]
    async fn gzip_bodies_are_inflated_under_both_names() {
        for name in ["gzip", "x-gzip", "GZIP"] {
            let body = Body::from(gzipped(b"0000").await);
            let mut out = Vec::new();
            reader(&headers(name), body, 100, Arc::default())
                .expect("known")
                .read_to_end(&mut out)
                .await
                .expect("reads");
            assert_eq!(out, b"0000", "{name}");
        }
        assert!(reader(&headers("br"), Body::empty(), 100, Arc::default()).is_err());
    }

    #[tokio::test]
    async fn a_body_without_end_stops_at_the_limit() {
        let endless = futures_util::stream::repeat_with(|| {
            Ok::<_, io::Error>(bytes::Bytes::from_static(&[0; 512]))
        });
        let body = Body::from_stream(endless);
        let mut body = reader(&HeaderMap::new(), body, 10_000, Arc::default()).expect("known");
        let failure = tokio::io::copy(&mut body, &mut tokio::io::sink()).await;
        assert!(failure.is_err());
    }

    #[tokio::test]
    async fn a_bomb_stops_at_the_limit() {
        let body = Body::from(gzipped(&vec![0; 1 << 20]).await);
        let mut out = Vec::new();
        let failure = reader(&headers("gzip"), body, 1000, Arc::default())
            .expect("known")
            .read_to_end(&mut out)
            .await;
        assert!(failure.is_err());
        assert!(out.len() < 64 * 1024);
    }

    /// HTTP-7, BND-1
    #[tokio::test(start_paused = true)]
    async fn a_body_that_brings_nothing_ends() {
        let metrics = Arc::<Metrics>::default();
        let body = Body::from_stream(futures_util::stream::pending::<
            Result<bytes::Bytes, io::Error>,
        >());
        let mut out = Vec::new();
        let failure = reader(&HeaderMap::new(), body, 1000, Arc::clone(&metrics))
            .expect("known")
            .read_to_end(&mut out)
            .await;
        assert_eq!(
            failure.expect_err("too slow").kind(),
            io::ErrorKind::TimedOut
        );
        assert_eq!(metrics.refusals.get(Bound::BodyPace), 1);
    }
}
