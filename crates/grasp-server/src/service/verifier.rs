//! Signature checks, off the async workers and on every core.
//!
//! One check costs some 40 µs; a task of its own would cost almost as much again in switching. So
//! checks are queued, and each of a few tasks drains what is there. The queue is bounded: a sender
//! waits for its place, and with it the connection that reads from the peer.

use grasp_core::Event;
use grasp_core::event::{VerifiedEvent, VerifyError};
use tokio::sync::{mpsc, oneshot};

/// Events that wait for a core.
const QUEUE: usize = 1024;
/// Events that one task takes at once.
const TAKE: usize = 32;

type Job = (Event, oneshot::Sender<Result<VerifiedEvent, VerifyError>>);

/// Checks events. Cheap to clone; ends with its last clone.
#[derive(Debug, Clone)]
pub(super) struct Verifier {
    queue: mpsc::Sender<Job>,
}

/// The server is stopping and checks nothing any more.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the server is stopping")]
pub(super) struct Stopping;

impl Verifier {
    /// Starts the task that hands work to the cores. Must be called inside a tokio runtime.
    pub(super) fn start() -> Self {
        let (queue, mut jobs) = mpsc::channel::<Job>(QUEUE);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        tokio::spawn(async move {
            let mut running = tokio::task::JoinSet::new();
            let mut taken = Vec::with_capacity(TAKE);
            while jobs.recv_many(&mut taken, TAKE).await > 0 {
                if running.len() >= cores {
                    running.join_next().await;
                }
                let share = std::mem::replace(&mut taken, Vec::with_capacity(TAKE));
                running.spawn_blocking(move || {
                    for (event, answer) in share {
                        // A receiver that left no longer wants to know.
                        let _ = answer.send(VerifiedEvent::verify(event));
                    }
                });
            }
        });
        Self { queue }
    }

    /// Checks one event.
    pub(super) async fn verify(
        &self,
        event: Event,
    ) -> Result<Result<VerifiedEvent, VerifyError>, Stopping> {
        let (answer, verdict) = oneshot::channel();
        self.queue
            .send((event, answer))
            .await
            .map_err(|_| Stopping)?;
        verdict.await.map_err(|_| Stopping)
    }
}
