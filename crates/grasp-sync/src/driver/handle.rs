//! How the rest of the server reaches a driver that runs.

use grasp_core::filter::Filter;
use tokio::sync::{mpsc, oneshot};

use crate::engine::{Input, Notice, RelayReport};
use crate::relay_url::RelayUrl;

/// Requests that wait for the driver. Whoever sends one more waits.
pub(super) const QUEUE: usize = 1_024;

/// What the server wants of the driver.
#[derive(Debug)]
pub(super) enum Request {
    Input(Input),
    Status(oneshot::Sender<Vec<RelayReport>>),
    Stop,
}

/// Reaches a driver. Cheap to clone; a driver outlives its handles.
#[derive(Debug, Clone)]
pub struct Handle {
    requests: mpsc::Sender<Request>,
}

impl Handle {
    pub(super) fn new() -> (Self, mpsc::Receiver<Request>) {
        let (requests, incoming) = mpsc::channel(QUEUE);
        (Self { requests }, incoming)
    }

    /// The store committed something that may change what is followed. Waits while the driver is behind; a driver that
    /// has ended takes it and does nothing.
    pub async fn notice(&self, notice: Notice) {
        self.request(Request::Input(Input::Noticed(notice))).await;
    }

    /// Notices were lost: these are all there are now.
    pub async fn reload(&self, notices: Vec<Notice>) {
        self.request(Request::Input(Input::Reloaded { notices }))
            .await;
    }

    /// Has a relay asked something, once, if it is connected (SYNC-33). What comes is taken in like all else.
    pub async fn ask(&self, relay: RelayUrl, filters: Vec<Filter>) {
        self.request(Request::Input(Input::Asked { relay, filters }))
            .await;
    }

    /// How all relays are doing; nothing if the driver has ended.
    pub async fn status(&self) -> Vec<RelayReport> {
        let (answer, reports) = oneshot::channel();
        self.request(Request::Status(answer)).await;
        reports.await.unwrap_or_default()
    }

    /// Ends the driver: cursors are written, connections closed. Returns when it has ended.
    pub async fn stop(&self) {
        self.request(Request::Stop).await;
        self.requests.closed().await;
    }

    async fn request(&self, request: Request) {
        // A driver that has ended wants nothing and tells nothing.
        let _ = self.requests.send(request).await;
    }
}
