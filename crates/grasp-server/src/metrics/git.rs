//! Watches the bodies of git requests and answers go by: how much, what for, and how it ended.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use futures_util::Stream;
use tokio::io::{AsyncRead, ReadBuf};

use super::{Direction, Metrics, Operation, Status};

/// What the request of a fetch says so far.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    wants: AtomicBool,
    haves: AtomicBool,
}

/// The body of a request on its way in.
pub(crate) struct Request<R> {
    inner: R,
    metrics: Arc<Metrics>,
    /// For a fetch.
    asked: Option<(Arc<Asked>, Word, Word)>,
}

impl<R> Request<R> {
    /// The body of a push: it is only weighed.
    pub(crate) fn push(inner: R, metrics: Arc<Metrics>) -> Self {
        Self {
            inner,
            metrics,
            asked: None,
        }
    }

    /// The body of a fetch, and what it will turn out to ask for.
    pub(crate) fn fetch(inner: R, metrics: Arc<Metrics>) -> (Self, Arc<Asked>) {
        let asked = Arc::new(Asked::default());
        let request = Self {
            inner,
            metrics,
            asked: Some((Arc::clone(&asked), Word::new(b"want "), Word::new(b"have "))),
        };
        (request, asked)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Request<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, into))?;
        let read = &into.filled()[before..];
        self.metrics.git_bytes.add(Direction::In, read.len() as u64);
        if let Some((asked, wants, haves)) = &mut self.asked {
            for (seen, word) in [(&asked.wants, wants), (&asked.haves, haves)] {
                if !seen.load(Relaxed) && word.occurs(read) {
                    seen.store(true, Relaxed);
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Finds a word in bytes that come in pieces. Its first letter stands nowhere else in it.
struct Word {
    letters: &'static [u8],
    matched: usize,
}

impl Word {
    fn new(letters: &'static [u8]) -> Self {
        Self {
            letters,
            matched: 0,
        }
    }

    fn occurs(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            if *byte == self.letters[self.matched] {
                self.matched += 1;
            } else {
                self.matched = usize::from(*byte == self.letters[0]);
            }
            if self.matched == self.letters.len() {
                self.matched = 0;
                return true;
            }
        }
        false
    }
}

/// The answer to a fetch on its way out. It counts as one operation when it goes, if the request wanted
/// objects; it went well if it was sent to its end and that was no error.
pub(crate) struct Response<S> {
    inner: S,
    metrics: Arc<Metrics>,
    asked: Arc<Asked>,
    begun: Instant,
    progress: Progress,
}

/// How far an answer got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Begun,
    Sending,
    Complete,
    Failed,
}

impl<S> Response<S> {
    /// The answer to what was `asked` since `begun`.
    pub(crate) fn new(inner: S, metrics: Arc<Metrics>, asked: Arc<Asked>, begun: Instant) -> Self {
        Self {
            inner,
            metrics,
            asked,
            begun,
            progress: Progress::Begun,
        }
    }
}

impl<S: Stream<Item = io::Result<Bytes>> + Unpin> Stream for Response<S> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(Pin::new(&mut self.inner).poll_next(cx));
        if let Some(Ok(piece)) = &item {
            let bytes = piece.len() as u64;
            self.metrics.git_bytes.add(Direction::Out, bytes);
        }
        self.progress = match (self.progress, &item) {
            (Progress::Begun, Some(Ok(piece))) if is_error(piece) => Progress::Failed,
            (Progress::Failed, _) | (_, Some(Err(_))) => Progress::Failed,
            (_, Some(Ok(_))) => Progress::Sending,
            (_, None) => Progress::Complete,
        };
        Poll::Ready(item)
    }
}

impl<S> Drop for Response<S> {
    fn drop(&mut self) {
        if !self.asked.wants.load(Relaxed) {
            return;
        }
        let operation = if self.asked.haves.load(Relaxed) {
            Operation::Fetch
        } else {
            Operation::Clone
        };
        let status = if self.progress == Progress::Complete {
            Status::Success
        } else {
            Status::Error
        };
        self.metrics
            .git_ended(operation, status, self.begun.elapsed());
    }
}

/// Whether an answer is git's own way to say that there is none.
fn is_error(answer: &[u8]) -> bool {
    answer.get(4..8) == Some(b"ERR ")
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use futures_util::stream;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn fetch(request: &[&[u8]], answer: Vec<io::Result<Bytes>>) -> Arc<Metrics> {
        let metrics = Arc::<Metrics>::default();
        let pieces = request
            .iter()
            .map(|it| Ok::<_, io::Error>(Bytes::copy_from_slice(it)));
        let body = tokio_util::io::StreamReader::new(stream::iter(pieces.collect::<Vec<_>>()));
        let (mut body, asked) = Request::fetch(body, Arc::clone(&metrics));
        body.read_to_end(&mut Vec::new())
            .await
            .expect("it is all there");
        let answer = Response::new(
            stream::iter(answer),
            Arc::clone(&metrics),
            asked,
            Instant::now(),
        );
        answer.for_each(async |_| {}).await;
        metrics
    }

    #[tokio::test]
    async fn a_fetch_has_something_and_a_clone_has_nothing() {
        let pack = || vec![Ok(Bytes::from_static(b"0008NAK\nPACK"))];
        let cloned = fetch(&[b"0032wa", b"nt 1\n00000009done\n"], pack()).await;
        let of =
            |metrics: &Metrics, operation, status| metrics.git_operations.get(operation, status);
        assert_eq!(of(&cloned, Operation::Clone, Status::Success), 1);
        assert_eq!(cloned.git_duration.of(Operation::Clone).count(), 1);
        let fetched = fetch(&[b"0032want 1\n00000032ha", b"ve 2\n0009done\n"], pack()).await;
        assert_eq!(of(&fetched, Operation::Fetch, Status::Success), 1);
        assert_eq!(of(&fetched, Operation::Clone, Status::Success), 0);
    }

    #[tokio::test]
    async fn an_answer_that_is_an_error_or_breaks_off_is_no_success() {
        let broken = Err(io::ErrorKind::UnexpectedEof.into());
        for answer in [
            vec![Ok(Bytes::from_static(b"000cERR no\n"))],
            vec![Ok(Bytes::from_static(b"0008NAK\n")), broken],
        ] {
            let metrics = fetch(&[b"0032want 1\n"], answer).await;
            assert_eq!(
                metrics.git_operations.get(Operation::Clone, Status::Error),
                1
            );
        }
    }

    #[tokio::test]
    async fn a_request_that_wants_nothing_is_no_operation() {
        let metrics = fetch(&[b"0014command=ls-refs\n0000"], Vec::new()).await;
        assert!(
            metrics
                .git_operations
                .iter()
                .all(|(_, _, count)| count == 0)
        );
        assert_eq!(metrics.git_bytes.get(Direction::In), 24);
    }
}
