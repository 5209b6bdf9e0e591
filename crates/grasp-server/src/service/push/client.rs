//! The other end of a push: hears that work goes on, and why it ended.

use std::time::Duration;

use bytes::Bytes;
use grasp_git::http::receive_pack::Responder;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tracing::debug;

/// The reading end of a push: what it negotiated, and where the answer goes.
pub(super) struct Client {
    pub(super) responder: Responder,
    pub(super) answer: mpsc::Sender<Bytes>,
}

impl Client {
    /// Sends one piece of the answer. A client that left is told nothing.
    pub(super) async fn send(&self, bytes: Bytes) {
        if !bytes.is_empty() {
            let _ = self.answer.send(bytes).await;
        }
    }

    /// Waits for `work` and shows that it goes on (GIT-7).
    pub(super) async fn while_waiting<T>(
        &self,
        every: Duration,
        step: &str,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = beat.tick() => self.send(self.responder.keepalive(step)).await,
            }
        }
    }
}

/// Reads a body to its end and drops it, so that the client takes notice of the answer (GIT-10). The
/// body is bounded by its pace and by what the route lets through.
pub(super) async fn drain(mut body: impl AsyncRead + Unpin) {
    if let Err(failure) = tokio::io::copy(&mut body, &mut tokio::io::sink()).await {
        debug!(%failure, "the rest of a refused push did not come");
    }
}
