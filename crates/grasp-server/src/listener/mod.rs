//! Accepts connections and speaks HTTP on them: header timeout, bounded headers, an orderly end.

mod head;
mod refused;
mod target;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::metrics::Bound;
use head::{Progress, Serving, Watched};
use refused::Lines;
pub(crate) use target::NoUri;

/// How long a connection may idle between two requests (HTTP-7); the head itself has less ([`head`]).
const IDLE_TIME: Duration = Duration::from_mins(1);
/// Largest header block in bytes (HTTP-7).
const HEADER_BYTES: usize = 16 * 1024;
/// Pause after a failed `accept`, so that a lack of file descriptors does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Whoever answers the requests that a socket brings. What goes wrong is a status or a text in the answer.
pub(crate) trait Answer: Send + Sync + 'static {
    /// Answers one request of `peer`.
    fn answer(
        &self,
        request: Request<Body>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// What every answer carries, also those that the HTTP library gives by itself (G1-19).
    fn every_answer(&self) -> HeaderMap;

    /// A request was refused for its head: it never became one.
    fn turned_away(&self, bound: Bound);
}

/// Accepts until `stop`; then lets running requests end for at most `patience`.
pub(crate) async fn run<A: Answer>(
    app: Arc<A>,
    listener: TcpListener,
    stop: CancellationToken,
    patience: Duration,
) {
    let tracker = TaskTracker::new();
    let every_answer = Lines::of(&app.every_answer());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let lines = every_answer.clone();
                tracker.spawn(serve(Arc::clone(&app), stream, peer, lines, stop.clone()));
            }
            Err(failure) => {
                warn!(%failure, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    tracker.close();
    if tokio::time::timeout(patience, tracker.wait())
        .await
        .is_err()
    {
        warn!(
            left = tracker.len(),
            "connections did not end in time and are cut"
        );
    }
}

async fn serve<A: Answer>(
    app: Arc<A>,
    stream: TcpStream,
    peer: SocketAddr,
    every_answer: Lines,
    stop: CancellationToken,
) {
    if let Err(failure) = stream.set_nodelay(true) {
        debug!(%peer, %failure, "nodelay could not be set");
    }
    let progress = Progress::default();
    let socket = Watched::new(stream, progress.clone(), every_answer);
    let answering = Arc::clone(&app);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (app, serving) = (Arc::clone(&answering), progress.serving());
        if progress.has_no_uri() {
            request.extensions_mut().insert(NoUri);
        }
        async move {
            let response = app.answer(request.map(Body::new), peer).await;
            Ok::<_, Infallible>(until_out(response, serving))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIME)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(failure) = ended {
        if let Some(bound) = bound_of(&failure) {
            app.turned_away(bound);
        }
        debug!(%peer, %failure, "a connection ended early");
    }
}

/// The bound that a head ran into, if that is how its connection ended.
fn bound_of(failure: &hyper::Error) -> Option<Bound> {
    let source = std::error::Error::source(failure);
    let socket = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    if failure.is_parse_too_large() {
        Some(Bound::HeadBytes)
    } else if socket.is_some_and(head::is_too_slow) {
        Some(Bound::HeadTime)
    } else {
        None
    }
}

/// Keeps `serving` until the last byte of the answer is handed over.
fn until_out(response: Response<Body>, serving: Serving) -> Response<Body> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        serving.for_good();
        return response;
    }
    response.map(|body| {
        Body::new(Held {
            body,
            _serving: serving,
        })
    })
}

/// A body that holds on to something until it is gone, and is as long as before: short answers keep
/// their `Content-Length`.
struct Held {
    body: Body,
    _serving: Serving,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
