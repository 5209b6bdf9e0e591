//! Whether git data of proposals is left outside a scope that leaves.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use grasp_core::EventId;
use grasp_core::deletion::{Graph as _, Name, Node};
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::oid::Oid;
use grasp_git::{Lease, Objects, Repositories};
use grasp_store::{StoreError, View};
use tracing::error;

/// Looks into the repositories that are still served. Holds a lease on each it looked into.
pub(super) struct Data<'a> {
    git: &'a Repositories,
    view: View<'a>,
    opened: RefCell<BTreeMap<Coordinate, Option<(Lease, Objects)>>>,
}

impl<'a> Data<'a> {
    pub(super) fn new(git: &'a Repositories, view: View<'a>) -> Self {
        Self {
            git,
            view,
            opened: RefCell::default(),
        }
    }

    /// Whether one of the served repositories that the proposal names holds its commit.
    pub(super) fn backs(&self, node: &Node) -> bool {
        let Some(proposal) = node.proposal() else {
            return false;
        };
        let Some(commit) = proposal.tip().commit() else {
            return false;
        };
        let mut targets = proposal.targets().iter();
        targets.any(|target| self.holds(target, &commit))
    }

    /// Those of `events` that are proposals with their commit in a repository that stays.
    pub(super) fn backed_among(&self, events: &[EventId]) -> Result<BTreeSet<EventId>, StoreError> {
        let mut backed = BTreeSet::new();
        for event in events {
            let node = self.view.node(&Name::Event(*event))?;
            backed.extend(node.filter(|node| self.backs(node)).map(|node| node.id()));
        }
        Ok(backed)
    }

    fn holds(&self, target: &Coordinate, commit: &Oid) -> bool {
        let mut opened = self.opened.borrow_mut();
        let objects = opened
            .entry(target.clone())
            .or_insert_with(|| self.open(target));
        objects
            .as_ref()
            .is_some_and(|(_, objects)| objects.contains(commit))
    }

    fn open(&self, target: &Coordinate) -> Option<(Lease, Objects)> {
        let repository = RepoAddress::Announced(target.clone());
        let served = self.view.served_version(&target.address());
        let served = served.is_ok_and(|version| version.is_some());
        if !served || !self.git.exists(&repository) {
            return None;
        }
        let lease = self.git.lease(&repository);
        match self.git.objects(&lease) {
            Ok(objects) => Some((lease, objects)),
            Err(error) => {
                error!(%error, "objects could not be looked at");
                None
            }
        }
    }
}
