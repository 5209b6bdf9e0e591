//! Writes down when to look again, one commit after the other (HUNT-1a).

use std::collections::BTreeMap;
use std::future::pending;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use grasp_core::lifecycle::Change;
use grasp_core::name::Identifier;
use grasp_store::Store;
use tracing::error;

/// Rows of one commit; more wait for the next.
const TOGETHER: usize = 256;

/// What is to be remembered. While one commit is under way what comes collects for the next; of an identifier the last
/// counts, so there are never more entries than identifiers.
pub(super) struct Rows {
    store: Store,
    unwritten: BTreeMap<Identifier, Change>,
    writing: Option<BoxFuture<'static, ()>>,
}

impl Rows {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            unwritten: BTreeMap::new(),
            writing: None,
        }
    }

    /// `row` is what is remembered of the identifier from now on.
    pub(super) fn remember(&mut self, identifier: Identifier, row: Change) {
        self.unwritten.insert(identifier, row);
        if self.writing.is_none() {
            self.begin();
        }
    }

    fn begin(&mut self) {
        let mut batch = Vec::new();
        while batch.len() < TOGETHER
            && let Some((_, row)) = self.unwritten.pop_first()
        {
            batch.push(row);
        }
        if batch.is_empty() {
            return;
        }
        let store = self.store.clone();
        let writing = async move {
            let written = store.commit(move |_| Ok((batch.clone(), ()))).await;
            if let Err(failure) = written {
                error!(
                    error = &failure as &dyn std::error::Error,
                    "when to look for git data again is not written down; the next start looks at once"
                );
            }
        };
        self.writing = Some(writing.boxed());
    }

    /// Waits for the commit that is under way and begins the next; for ever if there is none. May be abandoned and taken
    /// up again.
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
