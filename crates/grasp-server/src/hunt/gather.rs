//! Says what is owed of an identifier: events from one snapshot, objects from the repositories.

use std::sync::Arc;
use std::time::Duration;

use grasp_core::EventId;
use grasp_core::hunt::Owed;
use grasp_core::name::Identifier;
use tokio::sync::Semaphore;
use tracing::error;

use super::pending::Known;
use crate::service::Service;

/// Looks at once: each reads the disk, and pushes want it too.
const AT_ONCE: usize = 2;
/// How long to wait after a look that failed.
const PAUSE: Duration = Duration::from_secs(10);

/// Looks what is owed, a few identifiers at a time.
pub(super) struct Gatherer {
    service: Service,
    /// Of each proposal so many addresses count (ANN-8).
    proposal_urls: usize,
    turns: Arc<Semaphore>,
}

/// What is owed, and the number of the last commit that this knows of.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) identifier: Identifier,
    pub(super) owed: Owed,
    pub(super) seen: u64,
}

impl Gatherer {
    pub(super) fn new(service: Service, proposal_urls: usize) -> Self {
        Self {
            service,
            proposal_urls,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Tries until it succeeds: what cannot be read is owed on. `pending` are the proposals for the identifier.
    pub(super) async fn gather(&self, identifier: Identifier, pending: Known) -> Gathered {
        let proposals: Arc<[EventId]> = pending.proposals.into();
        loop {
            let turn = Arc::clone(&self.turns).acquire_owned().await;
            let (service, asked) = (self.service.clone(), identifier.clone());
            let (proposals, max) = (Arc::clone(&proposals), self.proposal_urls);
            let looking = move || service.owed(&asked, &proposals, max);
            let look = self.service.blocking(looking).await;
            drop(turn);
            match look {
                Ok((owed, seen)) => {
                    return Gathered {
                        identifier,
                        owed,
                        // Of a proposal that came since nobody said anything here.
                        seen: seen.min(pending.as_of).number(),
                    };
                }
                Err(failure) => error!(
                    error = &failure as &dyn std::error::Error,
                    "what git data is owed cannot be seen; it is looked at again"
                ),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
