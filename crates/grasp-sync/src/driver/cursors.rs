//! Writes down what is remembered of relays, one commit after the other.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::engine::Cursor;
use crate::home::Home;
use crate::relay_url::RelayUrl;

/// What is to be remembered. While one commit is under way, what comes collects for the next; of a relay the last counts,
/// so there are never more entries than relays.
pub(super) struct Cursors<H> {
    home: Arc<H>,
    unwritten: BTreeMap<RelayUrl, Option<Cursor>>,
    writing: Option<BoxFuture<'static, ()>>,
}

impl<H: Home> Cursors<H> {
    pub(super) fn new(home: Arc<H>) -> Self {
        Self {
            home,
            unwritten: BTreeMap::new(),
            writing: None,
        }
    }

    /// `None` forgets.
    pub(super) fn remember(&mut self, relay: RelayUrl, cursor: Option<Cursor>) {
        self.unwritten.insert(relay, cursor);
        if self.writing.is_none() {
            self.begin();
        }
    }

    fn begin(&mut self) {
        let cursors: Vec<_> = std::mem::take(&mut self.unwritten).into_iter().collect();
        if !cursors.is_empty() {
            let home = Arc::clone(&self.home);
            let writing = async move { home.remember(cursors).await };
            self.writing = Some(writing.boxed());
        }
    }

    /// Waits for the commit that is under way and begins the next; for ever if there is none. May be abandoned and
    /// taken up again.
    pub(super) async fn written(&mut self) {
        match &mut self.writing {
            Some(writing) => writing.await,
            None => pending().await,
        }
        self.writing = None;
        self.begin();
    }

    /// Waits until all is written.
    pub(super) async fn write_all(&mut self) {
        while self.writing.is_some() {
            self.written().await;
        }
    }
}
