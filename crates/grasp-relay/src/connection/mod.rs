//! One client: its socket, what it has asked for, and how it ends.
//!
//! One task serves a socket; inside it a reader takes messages and a writer sends frames, side by side.
//! The reader never waits for the answer to a message, only for room: it stops while the client takes
//! too little or has too much in work. Work on the client's behalf ends with it, except events that
//! were submitted: those are decided to the end, as others may have seen their effects.

pub(crate) mod frame;
pub(crate) mod outbound;
mod rates;
mod requests;
mod session;
mod subscriptions;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::address::ClientAddress;
use crate::intake::Intake;
use crate::limits::Limit;
use crate::metrics::Metrics;
use crate::relay::Shared;
use frame::Frame;
use outbound::Outbound;
use session::Session;

/// So much is taken from the queue at a time.
const BATCH_BYTES: usize = 64 * 1024;
/// Silences in a row, each answered with a ping, before a client counts as gone.
const SILENCES_MAX: u32 = 3;
/// How long a connection that ends may take to say so.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long events of a connection that is ended by us may take to be answered.
const LAST_ANSWERS: Duration = Duration::from_secs(12);

/// RFC 6455: the server goes away.
const CLOSE_GOING_AWAY: u16 = 1001;
/// RFC 6455: against the rules of this server.
const CLOSE_POLICY: u16 = 1008;
/// RFC 6455: too big to read.
const CLOSE_TOO_BIG: u16 = 1009;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client closed it or is gone.
    Left,
    /// The client sent a message that is too long to be read.
    TooBig,
    /// The client did not answer for a long time.
    Silent,
    /// The client takes nothing (RLY-3).
    Stuck,
    /// The server stops.
    Shutdown,
}

/// Serves one client.
pub(crate) async fn run<I: Intake>(
    shared: Arc<Shared<I>>,
    socket: WebSocket,
    client: ClientAddress,
    shutdown: CancellationToken,
) {
    let limits = &shared.limits;
    let metrics = Arc::clone(&shared.metrics);
    let (slow_reader, ping) = (limits.slow_reader_timeout, limits.ping_interval);
    let outbound = Outbound::new(
        limits.outbound_bytes_max,
        limits.outbound_total_bytes_max,
        Arc::clone(&metrics),
    );
    let (mut sink, mut stream) = socket.split();
    let mut session = Session::new(shared, client, Arc::clone(&outbound));
    let mut writer = std::pin::pin!(write(&mut sink, &outbound, &metrics, slow_reader));

    let end = tokio::select! {
        end = read(&mut stream, &mut session, &outbound, ping) => end,
        end = &mut writer => end,
        () = shutdown.cancelled() => End::Shutdown,
    };
    tracing::debug!(%client, ?end, "a connection ends");
    session.stop();
    if let Some(close) = farewell(end) {
        let last_words = async {
            if end == End::Shutdown {
                let _ = timeout(LAST_ANSWERS, session.submissions_answered()).await;
            }
            outbound.push(close);
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::select! {
            () = last_words => {}
            _ = &mut writer => {}
        }
    }
    outbound.end();
    match end {
        End::Stuck => metrics.refused(Limit::SlowReader),
        End::TooBig => metrics.refused(Limit::MessageBytes),
        End::Left | End::Silent | End::Shutdown => {}
    }
    if end != End::Stuck {
        // Reads on until the client has closed too, or its last frames would be lost with the socket.
        let _ = timeout(FAREWELL, async {
            while let Some(Ok(_)) = stream.next().await {}
        })
        .await;
    }
}

/// Tells a client why it is not served.
pub(crate) async fn turn_away(mut socket: WebSocket, reason: &str) {
    let say = async {
        for frame in [
            Frame::notice(reason),
            Frame::close(CLOSE_POLICY, "too many connections"),
        ] {
            if let Some(message) = frame.into_message() {
                socket.send(message).await?;
            }
        }
        while let Some(Ok(_)) = socket.recv().await {}
        Ok::<(), axum::Error>(())
    };
    let _ = timeout(FAREWELL, say).await;
}

/// The last frame to a client that still listens.
fn farewell(end: End) -> Option<Frame> {
    match end {
        End::Shutdown => Some(Frame::close(CLOSE_GOING_AWAY, "the server stops")),
        End::TooBig => Some(Frame::close(CLOSE_TOO_BIG, "the message is too long")),
        End::Left | End::Silent | End::Stuck => None,
    }
}

/// Takes messages until the client leaves.
async fn read<I: Intake>(
    stream: &mut SplitStream<WebSocket>,
    session: &mut Session<I>,
    outbound: &Outbound,
    ping_interval: Duration,
) -> End {
    let mut silences = 0;
    loop {
        outbound.wait_for_room().await;
        let Ok(message) = timeout(ping_interval, stream.next()).await else {
            silences += 1;
            if silences > SILENCES_MAX {
                return End::Silent;
            }
            outbound.push(Frame::ping());
            continue;
        };
        silences = 0;
        match message {
            Some(Ok(Message::Text(text))) => session.handle(text.as_str()).await,
            Some(Ok(Message::Binary(_))) => session.handle_binary(),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Err(error)) if is_too_big(&error) => return End::TooBig,
            Some(Ok(Message::Close(_)) | Err(_)) | None => return End::Left,
        }
    }
}

/// Axum hides the error's type; its words are all there is.
fn is_too_big(error: &axum::Error) -> bool {
    error.to_string().contains("too long") || error.to_string().contains("too big")
}

/// Sends frames until the socket fails, takes nothing for too long, or the last frame is out.
async fn write(
    sink: &mut SplitSink<WebSocket, Message>,
    outbound: &Outbound,
    metrics: &Metrics,
    slow_reader_timeout: Duration,
) -> End {
    loop {
        let frames = outbound.take(BATCH_BYTES).await;
        let mut weight = 0;
        for frame in frames {
            weight += frame.weight();
            if let Some(kind) = frame.kind() {
                metrics.sent(kind);
            }
            let Some(message) = frame.into_message() else {
                tracing::error!("a stored event is no UTF-8");
                continue;
            };
            let is_last = matches!(message, Message::Close(_));
            match timeout(slow_reader_timeout, sink.feed(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return End::Left,
                Err(_) => return End::Stuck,
            }
            if is_last {
                let _ = timeout(slow_reader_timeout, sink.flush()).await;
                return End::Left;
            }
        }
        match timeout(slow_reader_timeout, sink.flush()).await {
            Ok(Ok(())) => outbound.written(weight),
            Ok(Err(_)) => return End::Left,
            Err(_) => return End::Stuck,
        }
    }
}
