//! Puts messages on the socket, and notices a peer that takes none.

use std::time::Duration;

use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::dial::Socket;

/// How long a peer has to take our farewell.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// Writes until there is nothing more to say, or the peer takes nothing for `write_max`: then whoever has something
/// to say finds its queue closed.
pub(super) async fn write(
    mut sink: SplitSink<Socket, Message>,
    mut unwritten: mpsc::Receiver<Message>,
    write_max: Duration,
) {
    while let Some(message) = unwritten.recv().await {
        let written = timeout(write_max, sink.send(message)).await;
        if !matches!(written, Ok(Ok(()))) {
            return;
        }
    }
    // Whether it hears it does not matter: the socket is closed anyway.
    let _ = timeout(FAREWELL_MAX, sink.close()).await;
}
