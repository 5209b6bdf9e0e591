//! A server's hunt for git data: what it decides is real, and so is what it is told and what it takes in.

use std::collections::BTreeMap;
use std::sync::Arc;

use grasp_core::lifecycle::Change;
use grasp_core::name::Identifier;
use grasp_server::Service;
use grasp_store::{Committed, Store};
use grasp_sync::engine::Time;
use grasp_sync::hunt::{FetchId, FetchOrder, Hunt, HuntSettings, Input, Output, Owed, StoredEntry};
use tokio::sync::broadcast::Receiver;

/// Addresses of one proposal that count.
const PROPOSAL_URLS: usize = 8;

pub(crate) struct Hunter {
    hunt: Hunt,
    changes: Receiver<Arc<Committed<()>>>,
    /// Fetches that run.
    pub(crate) running: BTreeMap<FetchId, FetchOrder>,
}

impl Hunter {
    pub(crate) fn new(store: &Store, seed: u64) -> Self {
        Self {
            hunt: Hunt::new(HuntSettings::default(), seed),
            changes: store.changes(),
            running: BTreeMap::new(),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.hunt.next_deadline()
    }

    pub(crate) fn handle(&mut self, input: Input, now: Time) -> Vec<Output> {
        self.hunt.handle(input, now)
    }

    /// What commits since the last call mean for it.
    pub(crate) fn heard(&mut self) -> Vec<Input> {
        let mut heard = Vec::new();
        while let Ok(committed) = self.changes.try_recv() {
            heard.extend(committed.batch.iter().filter_map(|change| match change {
                Change::Hunt {
                    identifier,
                    not_before_ms,
                } => Some(Input::Enqueued {
                    identifier: identifier.clone(),
                    not_before: Time::from_millis(*not_before_ms),
                }),
                _ => None,
            }));
        }
        heard
    }
}

/// What a start begins with.
pub(crate) fn loaded(store: &Store) -> Input {
    let snapshot = store.snapshot().expect("readable");
    let stored = snapshot.view().hunts(None, usize::MAX).expect("readable");
    let entries = stored.into_iter().map(|hunt| {
        let entry = StoredEntry {
            next_attempt: Time::from_millis(hunt.next_attempt_ms),
            attempt_count: hunt.attempt_count,
            is_parked: hunt.is_parked,
        };
        (hunt.identifier, entry)
    });
    Input::Loaded {
        entries: entries.collect(),
    }
}

/// What is owed of an identifier.
pub(crate) fn gathered(service: &Service, identifier: Identifier) -> Input {
    let looked = service.owed(&identifier, &[], PROPOSAL_URLS);
    let (owed, seen): (Owed, _) = looked.expect("readable");
    Input::Gathered {
        identifier,
        owed,
        seen: seen.number(),
    }
}

/// Writes down what it wants to find again after a restart.
pub(crate) async fn remember(store: &Store, output: Output) {
    let row = match output {
        Output::Save { identifier, entry } => Change::HuntLater {
            identifier,
            next_attempt_ms: entry.next_attempt.as_millis(),
            attempt_count: entry.attempt_count,
            is_parked: entry.is_parked,
        },
        Output::Forget { identifier, seen } => Change::HuntOver { identifier, seen },
        _ => return,
    };
    let written = store.commit(move |_| Ok((vec![row.clone()], ())));
    written.await.expect("the store works");
}
