//! Cleans up requests to delete and to vanish: out of sight first, then gone with what they gate (DEL-9).

use grasp_core::EventId;
use grasp_core::lifecycle::{Batch, Change};
use grasp_core::policy::Circumstances;
use grasp_core::request::{Life, Request};
use grasp_store::{StoreError, View};

use crate::metrics::RequestCleanups;

/// Requests of one commit: each may take thousands of gates along.
pub(super) const STEP: usize = 16;

/// A request whose time has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct DueRequest {
    pub(super) event: EventId,
    pub(super) kind: u16,
}

/// Puts requests whose time has come where they belong by now. A deadline is a reminder: what counts is
/// when a request was of use, and what the operator has set since.
pub(super) fn clean_up(
    due: &[DueRequest],
    view: &View<'_>,
    cx: Circumstances<'_>,
) -> Result<Batch, StoreError> {
    let mut batch = Batch::new();
    for DueRequest { event: id, .. } in due {
        let Some(stored) = view.event(id)? else {
            continue;
        };
        // Kept by no clock of its own, it ends like any other event.
        let life = view.request_uses(id)?.map_or(Life::Over, |uses| {
            let request = Request::of(&stored.event, uses, cx.policy);
            request.life(&cx.policy.requests.retention, cx.now)
        });
        let placed = life.placed(*id);
        let there = Change::Move {
            event: *id,
            stage: stored.stage,
            deadline: stored.deadline,
        };
        if placed != there {
            batch.push(placed);
        }
    }
    Ok(batch)
}

/// Counts what a committed clean-up did.
pub(super) fn count(due: &[DueRequest], batch: &Batch, metrics: &RequestCleanups) {
    for request in due {
        let of_it = batch.iter().find(|change| match change {
            Change::Move { event, .. } | Change::Remove { event } => *event == request.event,
            _ => false,
        });
        if let Some(change) = of_it {
            metrics.did(request.kind, change);
        }
    }
}
