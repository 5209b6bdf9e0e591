//! Takes away what tests of this service left behind (DEL-11).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::Duration;

use grasp_core::EventId;
use grasp_core::deletion::{self, Cause};
use grasp_core::event::kind;
use grasp_core::filter::Filter;
use grasp_core::name::Coordinate;
use grasp_store::{CommitError, QueryLimits, StoreError};
use tracing::info;

use super::super::Service;

/// How audit tools mark what they publish: the value of a `t` tag.
const TEST_EVENT: &str = "grasp-audit-test-event";
/// How old a test event grows.
const AGE_MAX: Duration = Duration::from_hours(2);
/// So many are taken away by one commit.
const CHUNK: usize = 1000;

/// Test events that are old enough.
#[derive(Default)]
struct Old {
    scopes: BTreeSet<Coordinate>,
    events: Vec<EventId>,
}

impl Service {
    /// Removes test events older than two hours for good, repositories with all that hangs on them.
    pub async fn clean_up_tests(&self) -> Result<(), CommitError> {
        let now = self.clock.now().as_secs();
        // Older, not as old.
        let until = now.saturating_sub(AGE_MAX.as_secs() + 1);
        let mut last = Old::default();
        loop {
            let service = self.clone();
            let old = self.blocking(move || service.old_tests(until)).await?;
            // What a fault kept here is left to the next time.
            let same = (&old.scopes, &old.events) == (&last.scopes, &last.events);
            if same || (old.scopes.is_empty() && old.events.is_empty()) {
                return Ok(());
            }
            info!(
                repositories = old.scopes.len(),
                events = old.events.len(),
                "old test events are removed"
            );
            for scope in &old.scopes {
                self.remove_scope(scope, Cause::Audit).await?;
            }
            self.remove_old(old.events.clone()).await?;
            last = old;
        }
    }

    async fn remove_old(&self, events: Vec<EventId>) -> Result<(), CommitError> {
        let service = self.clone();
        let committed = self
            .store
            .commit(move |view| {
                let targets = view.removal_facts(&events)?;
                Ok((deletion::remove_tests(&targets, service.at_present()), ()))
            })
            .await?;
        self.finish(committed, None).await;
        Ok(())
    }

    /// Some of those that are served. Blocking.
    fn old_tests(&self, until: u64) -> Result<Old, StoreError> {
        let filter = Filter {
            tags: BTreeMap::from([('t', BTreeSet::from([TEST_EVENT.to_owned()]))]),
            until: Some(until),
            ..Filter::default()
        };
        let limits = QueryLimits::unlimited(self.clock.now());
        let mut found = Vec::new();
        self.store.query(&[filter], limits, &mut |row| {
            found.push(row.id);
            if found.len() == CHUNK {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let snapshot = self.store.snapshot()?;
        let mut old = Old::default();
        for id in found {
            let Some(stored) = snapshot.view().event(&id)? else {
                continue;
            };
            let event = stored.event;
            match event.identifier() {
                Some(identifier) if event.kind() == kind::ANNOUNCEMENT => {
                    let scope = Coordinate::new(event.author(), identifier);
                    old.scopes.insert(scope);
                }
                _ => old.events.push(id),
            }
        }
        Ok(old)
    }
}
