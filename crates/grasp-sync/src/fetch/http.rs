//! One request to a host that was judged, and its answer as a stream.
//!
//! Each request has a connection of its own, to the pinned address: hosts close idle ones anyway, and what is asked next
//! may be minutes away. Nothing is spawned. Whoever reads the body drives the connection, and dropping the body ends it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_util::future::{Either, select};
use grasp_git::scratch;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, DATE, HOST, RETRY_AFTER, USER_AGENT};
use http::request::Builder;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use nostr::types::Url;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::{FetchError, Progress};
use crate::dial::{ConnectError, Dialler, Stream};
use crate::outbound::{Pinned, Refusal};

/// A host that takes no connection for so long is away.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes of the head of an answer; also how much of a body is held at once.
const HEAD_BYTES_MAX: usize = 64 * 1_024;
/// A host that names a longer pause is asked again after this.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// What drives one connection.
type Connection = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// Where a URL leads.
pub(super) struct Site<'a> {
    dialler: &'a Dialler,
    pinned: Pinned,
    authority: String,
    path: String,
    progress: Progress,
}

impl<'a> Site<'a> {
    /// Judges and resolves `url`, once for all requests (NET-1, NET-2).
    pub(super) async fn find(
        dialler: &'a Dialler,
        url: &str,
        progress: Progress,
    ) -> Result<Self, FetchError> {
        let pinned = dialler.pin_http(url).await?;
        let malformed = || ConnectError::Forbidden(Refusal::Malformed);
        let url = Url::parse(url).map_err(|_| malformed())?;
        let host = url.host_str().ok_or_else(malformed)?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        Ok(Self {
            dialler,
            pinned,
            authority,
            path: url.path().trim_end_matches('/').to_owned(),
            progress,
        })
    }

    /// The path of the URL, without a slash at its end.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The target of what lies below the URL.
    pub(super) fn below(&self, rest: &str) -> String {
        [&self.path, rest].concat()
    }

    /// What was judged, for a git that goes there by itself.
    pub(super) fn pin(&self) -> scratch::Pinned<'_> {
        let destination = self.pinned.destination();
        scratch::Pinned {
            host: destination.host(),
            port: destination.port(),
            addresses: self.pinned.addresses().iter().map(SocketAddr::ip).collect(),
        }
    }

    /// Whom to tell of what comes.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Asks for `target`, with one more header.
    pub(super) async fn get(
        &self,
        target: &str,
        (name, value): (HeaderName, &'static str),
    ) -> Result<Answer, FetchError> {
        self.ask(Request::get(target).header(name, value), Bytes::new())
            .await
    }

    /// Sends `body` to the git service there, in protocol version 2.
    pub(super) async fn post(&self, body: Vec<u8>) -> Result<Answer, FetchError> {
        let request = Request::post(self.below("/git-upload-pack"))
            .header(CONTENT_TYPE, "application/x-git-upload-pack-request")
            .header("git-protocol", "version=2");
        self.ask(request, body.into()).await
    }

    async fn ask(&self, request: Builder, body: Bytes) -> Result<Answer, FetchError> {
        let request = request
            .header(HOST, &self.authority)
            .header(USER_AGENT, self.dialler.user_agent())
            .body(Full::new(body))
            .map_err(|_| ConnectError::Forbidden(Refusal::Malformed))?;
        let connecting = timeout(CONNECT_TIME_MAX, self.dialler.connect(&self.pinned));
        let stream = connecting
            .await
            .map_err(|_| FetchError::ConnectTimedOut(CONNECT_TIME_MAX))??;
        let counted = Counted {
            stream,
            progress: self.progress.clone(),
        };
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(counted))
            .await?;
        let connection: Connection = Box::pin(connection);
        let sending = Box::pin(sender.send_request(request));
        let (answer, connection) = match select(sending, connection).await {
            Either::Left((answer, connection)) => (answer?, Some(connection)),
            Either::Right((_, sending)) => (sending.await?, None),
        };
        Answer::judge(answer, connection)
    }
}

/// An answer of success.
#[derive(Debug)]
pub(super) struct Answer {
    kind: Vec<u8>,
    body: Body,
}

impl Answer {
    fn judge(
        answer: Response<Incoming>,
        connection: Option<Connection>,
    ) -> Result<Self, FetchError> {
        let (head, incoming) = answer.into_parts();
        match head.status {
            StatusCode::OK => {}
            StatusCode::TOO_MANY_REQUESTS => {
                let retry_after = retry_after(&head.headers);
                return Err(FetchError::RateLimited { retry_after });
            }
            status if status.is_redirection() => {
                return Err(FetchError::Redirected(status.as_u16()));
            }
            status => return Err(FetchError::Status(status.as_u16())),
        }
        let header = |name| head.headers.get(name).map_or(&b""[..], |v| v.as_bytes());
        if !matches!(header(CONTENT_ENCODING), b"" | b"identity") {
            return Err(FetchError::NotGit("it compresses what nobody asked for"));
        }
        let kind = header(CONTENT_TYPE).split(|byte| *byte == b';').next();
        Ok(Self {
            kind: kind.unwrap_or_default().trim_ascii().to_ascii_lowercase(),
            body: Body {
                incoming,
                connection,
                chunk: Bytes::new(),
            },
        })
    }

    /// The body, if it says that it is of this kind.
    pub(super) fn of_kind(self, kind: &str) -> Option<Body> {
        (self.kind == kind.as_bytes()).then_some(self.body)
    }

    /// The body, of whatever kind.
    pub(super) fn body(self) -> Body {
        self.body
    }
}

/// What a body is read from.
pub(super) struct Body {
    incoming: Incoming,
    connection: Option<Connection>,
    chunk: Bytes,
}

impl AsyncRead for Body {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.chunk.is_empty() {
                let count = self.chunk.len().min(buffer.remaining());
                buffer.put_slice(&self.chunk[..count]);
                self.chunk.advance(count);
                return Poll::Ready(Ok(()));
            }
            match Pin::new(&mut self.incoming).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.chunk = frame.into_data().unwrap_or_default();
                    continue;
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Err(FetchError::from(error).into()));
                }
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => {}
            }
            // What the connection brings wakes the body, which is this task.
            let Some(connection) = &mut self.connection else {
                return Poll::Pending;
            };
            if connection.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.connection = None;
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Body").finish_non_exhaustive()
    }
}

/// How long to wait, from either form of the header. A date is read by the host's own clock, as the answer has it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok();
    let value = text(RETRY_AFTER)?.trim();
    let pause = if let Ok(seconds) = value.parse() {
        Duration::from_secs(seconds)
    } else {
        let until = httpdate::parse_http_date(value).ok()?;
        let now = httpdate::parse_http_date(text(DATE)?).ok()?;
        until.duration_since(now).unwrap_or_default()
    };
    Some(pause.min(RETRY_AFTER_MAX))
}

/// Counts what comes in.
struct Counted {
    stream: Stream,
    progress: Progress,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.progress.add((buffer.filled().len() - before) as u64);
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(headers: &[(HeaderName, &str)]) -> Option<u64> {
        let pairs = headers
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()));
        retry_after(&pairs.collect()).map(|pause| pause.as_secs())
    }

    /// HUNT-7
    #[test]
    fn a_pause_is_read_in_seconds_and_as_a_date() {
        let date = |value| (DATE, value);
        let until = |value| (RETRY_AFTER, value);
        assert_eq!(pause(&[until("120")]), Some(120));
        assert_eq!(pause(&[until(" 0 ")]), Some(0));
        let (noon, later) = (
            "Mon, 30 Nov 2026 12:00:00 GMT",
            "Mon, 30 Nov 2026 12:01:30 GMT",
        );
        assert_eq!(pause(&[until(later), date(noon)]), Some(90));
        assert_eq!(pause(&[until(noon), date(later)]), Some(0));
        assert_eq!(pause(&[until(later)]), None);
        assert_eq!(pause(&[until("soon")]), None);
        assert_eq!(pause(&[until("-1")]), None);
        assert_eq!(pause(&[]), None);
        assert_eq!(pause(&[until("99999999999")]), Some(86_400));
    }
}
