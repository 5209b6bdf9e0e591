//! What an event proves by itself (EV-1), checked off the async workers and on every core.
//!
//! The id comes first, then what a glance at the content tells, and last the signature. One check costs some 40 µs; a task of its own would cost almost as much again in switching. So
//! checks are queued, and each of a few tasks drains what is there. The queue is bounded: a sender
//! waits for its place, and with it the connection that reads from the peer.

use grasp_core::admission::{self, Rejection};
use grasp_core::event::{IdentifiedEvent, VerifiedEvent};
use grasp_core::{Event, Timestamp};
use tokio::sync::{mpsc, oneshot};

/// Events that wait for a core.
const QUEUE: usize = 1024;
/// Events that one task takes at once.
const TAKE: usize = 32;

type Verdict = Result<VerifiedEvent, Rejection>;
type Job = (Event, Timestamp, oneshot::Sender<Verdict>);

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
                    for (event, now, answer) in share {
                        // A receiver that left no longer wants to know.
                        let _ = answer.send(check(event, now));
                    }
                });
            }
        });
        Self { queue }
    }

    /// Checks one event, as of `now`.
    pub(super) async fn verify(&self, event: Event, now: Timestamp) -> Result<Verdict, Stopping> {
        let (answer, verdict) = oneshot::channel();
        self.queue
            .send((event, now, answer))
            .await
            .map_err(|_| Stopping)?;
        verdict.await.map_err(|_| Stopping)
    }
}

fn check(event: Event, now: Timestamp) -> Verdict {
    let event = IdentifiedEvent::identify(event)?;
    match admission::glance(event.event(), now) {
        Some(rejection) => Err(rejection),
        None => Ok(event.verify()?),
    }
}
