//! Answers clones and fetches.
//!
//! Listing refs costs no process. A `fetch` is answered by one `git upload-pack`, whose input and
//! output stream side by side (GIT-8); it holds one of a bounded number of slots, and the lease on its
//! repository, until it is reaped (REF-7). When the client goes away, or takes nothing for
//! [`UploadConfig::stall_max`], the child ends with all it started (cases 12).

mod child;
mod fetches;

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;

pub use fetches::Fetches;

use super::ProtocolVersion;
use super::v2::{self, Request, RequestError};
use crate::pktline::{self, ReadError};
use crate::refs::RefSnapshot;

/// One repository as its readers see it: what it lists, and where the objects behind that are. `L` is
/// the lease that keeps them there; it is let go when the answer is complete.
#[derive(Debug)]
pub struct UploadRepo<L> {
    /// The bare repository.
    pub path: PathBuf,
    /// The refs that are answered from.
    pub refs: Arc<RefSnapshot>,
    /// Held as long as the objects are read.
    pub lease: L,
}

/// Bounds of what one fetch may cost.
#[derive(Debug, Clone)]
pub struct UploadConfig {
    /// The children that run at a time, and the requests that wait for one.
    pub fetches: Arc<Fetches>,
    /// The most bytes of one request, after inflating. Wants and haves are 50 bytes each.
    pub request_max: u64,
    /// How long a client may take nothing of an answer before it is given up.
    pub stall_max: Duration,
}

impl UploadConfig {
    /// The default bounds (protocol §16) over the given slots.
    pub fn new(fetches: impl Into<Arc<Fetches>>) -> Self {
        Self {
            fetches: fetches.into(),
            request_max: 32 << 20,
            stall_max: Duration::from_mins(5),
        }
    }
}

/// Why a request has no answer at all: our fault, or nobody is there to take it. What the client
/// did wrong is an answer.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The request body broke off.
    #[error("the request body could not be read")]
    Body(#[source] io::Error),
    /// No child could be started.
    #[error("git upload-pack could not be started")]
    Spawn(#[source] io::Error),
}

/// Answers one request to `git-upload-pack`. `body` is the request, already inflated if it was
/// compressed.
pub async fn upload_pack<L, B>(
    repo: UploadRepo<L>,
    version: ProtocolVersion,
    body: B,
    config: &UploadConfig,
) -> Result<Answer, WireError>
where
    L: Send + 'static,
    B: AsyncRead + Send + Unpin + 'static,
{
    if version != ProtocolVersion::V2 {
        return fetch(repo, version, body, config).await;
    }
    let mut reader = v2::reader(body);
    match v2::read_request(&mut reader).await {
        Ok(Request::Empty) => Ok(Answer::whole(Bytes::new())),
        Ok(Request::LsRefs(query)) => Ok(Answer::whole(query.answer(&repo.refs))),
        Ok(Request::Fetch(head)) => {
            let body = io::Cursor::new(head).chain(reader.into_inner());
            fetch(repo, version, body, config).await
        }
        Err(RequestError::Read(ReadError::Io(error))) => Err(WireError::Body(error)),
        Err(error) => Ok(Answer::error(&error)),
    }
}

async fn fetch<L, B>(
    repo: UploadRepo<L>,
    version: ProtocolVersion,
    body: B,
    config: &UploadConfig,
) -> Result<Answer, WireError>
where
    L: Send + 'static,
    B: AsyncRead + Send + Unpin + 'static,
{
    match config.fetches.slot().await {
        Some(slot) => child::start(repo, version, body, config, slot).map(Answer::streamed),
        None => Ok(Answer::error("the server is busy, try again later")),
    }
}

/// The body of a response: a stream of its parts.
#[derive(Debug)]
pub struct Answer(Body);

#[derive(Debug)]
enum Body {
    Whole(Option<Bytes>),
    /// `Some` until the end was reached.
    Streamed(Option<mpsc::Receiver<io::Result<Part>>>),
}

/// What comes out of a running fetch.
#[derive(Debug)]
enum Part {
    Output(Bytes),
    /// Said in so many words: an answer that stops without it was cut off.
    End,
}

impl Answer {
    fn whole(bytes: Bytes) -> Self {
        Self(Body::Whole(Some(bytes)))
    }

    const fn streamed(parts: mpsc::Receiver<io::Result<Part>>) -> Self {
        Self(Body::Streamed(Some(parts)))
    }

    /// GIT-6: what the client did wrong, or we could not do, in words that its git prints.
    fn error(message: impl std::fmt::Display) -> Self {
        Self::whole(error_packet(message))
    }

    /// The whole answer, if it is there already: its length can be told in the head.
    pub fn into_whole(self) -> Result<Bytes, Self> {
        match self.0 {
            Body::Whole(bytes) => Ok(bytes.unwrap_or_default()),
            Body::Streamed(parts) => Err(Self(Body::Streamed(parts))),
        }
    }
}

impl Stream for Answer {
    type Item = io::Result<Bytes>;

    /// An answer that was cut off ends with an error: the connection must not be closed as if it
    /// were complete.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let slot = match &mut self.0 {
            Body::Whole(bytes) => {
                return Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty()).map(Ok));
            }
            Body::Streamed(slot) => slot,
        };
        let Some(parts) = slot else {
            return Poll::Ready(None);
        };
        let item = match ready!(parts.poll_recv(cx)) {
            Some(Ok(Part::Output(bytes))) => return Poll::Ready(Some(Ok(bytes))),
            Some(Ok(Part::End)) => None,
            Some(Err(error)) => Some(Err(error)),
            None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        };
        *slot = None;
        Poll::Ready(item)
    }
}

fn error_packet(message: impl std::fmt::Display) -> Bytes {
    let mut out = Vec::new();
    pktline::error(&mut out, format_args!("upload-pack: {message}"));
    out.into()
}
