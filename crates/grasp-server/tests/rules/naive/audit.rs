//! DEL-11: what tests of the service leave behind.

use std::collections::BTreeSet;

use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::Stage;
use grasp_core::{EventId, PublicKey};

use super::cascade::Fate;
use super::deletion::Ends;
use super::{Kept, Naive};

/// How old a test event grows.
const AGE_MAX: u64 = 7200;

fn is_a_test(event: &VerifiedEvent) -> bool {
    let mark = "grasp-audit-test-event".to_owned();
    event.all_values("t").contains(&mark)
}

impl Naive {
    /// Scope and all, and for good.
    pub(crate) fn clean_up_tests(&mut self) {
        loop {
            let old: Vec<Kept> = self
                .kept
                .iter()
                .filter(|kept| kept.stage == Stage::Served && is_a_test(&kept.event))
                .filter(|kept| kept.event.created_at().as_secs() + AGE_MAX < self.now)
                .cloned()
                .collect();
            if old.is_empty() {
                return;
            }
            let scopes = old.iter().filter(|kept| kept.announcement().is_some());
            let scopes: BTreeSet<PublicKey> = scopes.map(Kept::author).collect();
            for owner in &scopes {
                self.wipe(owner);
            }
            let others = old.iter().filter(|kept| kept.announcement().is_none());
            let others: BTreeSet<EventId> = others.map(Kept::id).collect();
            self.take_back(&others, Ends::Vanished);
            self.settle();
            self.bring_in_line();
        }
    }

    fn wipe(&mut self, owner: &PublicKey) {
        let versions = self.announcements_of(owner);
        let doomed: BTreeSet<EventId> = versions.map(Kept::id).collect();
        self.withdrawn.retain(|gone| gone.owner() != *owner);
        self.take_scope_as(owner, Fate::Gone, |naive, gone| {
            naive.take_back_with(&doomed, Ends::Vanished, gone);
        });
        if self.serving.remove(owner) {
            self.objects.remove(&self.repository(*owner));
        }
        self.bring_in_line();
    }
}
