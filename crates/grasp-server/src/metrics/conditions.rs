//! Repositories that an operator should know of.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use grasp_core::name::RepoAddress;

/// What is unusual about a repository, as `reconcile` left it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// No state decides about it, so its refs stay as they are (REF-5).
    pub(crate) frozen: bool,
    /// Objects of its refs are gone, so it does not show all of them (REF-8).
    pub(crate) degraded: bool,
}

/// The unusual ones; never more than there are repositories.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Mutex<BTreeMap<RepoAddress, Condition>>);

impl Conditions {
    /// A repository was looked at.
    pub(crate) fn set(&self, repository: &RepoAddress, condition: Condition) {
        let mut unusual = self.lock();
        if condition == Condition::default() {
            unusual.remove(repository);
        } else {
            unusual.insert(repository.clone(), condition);
        }
    }

    /// Whether objects of its refs are gone.
    pub(crate) fn is_degraded(&self, repository: &RepoAddress) -> bool {
        self.lock().get(repository).is_some_and(|one| one.degraded)
    }

    /// How many are frozen.
    pub(crate) fn frozen(&self) -> usize {
        self.lock().values().filter(|one| one.frozen).count()
    }

    /// How many are degraded.
    pub(crate) fn degraded(&self) -> usize {
        self.lock().values().filter(|one| one.degraded).count()
    }

    /// Those that are frozen.
    pub(crate) fn frozen_ones(&self) -> Vec<RepoAddress> {
        self.those(|one| one.frozen)
    }

    /// Those that are degraded.
    pub(crate) fn degraded_ones(&self) -> Vec<RepoAddress> {
        self.those(|one| one.degraded)
    }

    fn those(&self, counts: impl Fn(&Condition) -> bool) -> Vec<RepoAddress> {
        let unusual = self.lock();
        let counting = unusual.iter().filter(|(_, one)| counts(one));
        counting.map(|(repository, _)| repository.clone()).collect()
    }

    /// Whole even after a panic: a change is one step.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RepoAddress, Condition>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use grasp_core::PublicKey;
    use grasp_core::name::Coordinate;

    use super::*;

    #[test]
    fn a_repository_counts_until_it_is_as_usual_again() {
        let conditions = Conditions::default();
        let owner = PublicKey::from_hex(&"1".repeat(64)).expect("hex");
        let repository =
            RepoAddress::Announced(Coordinate::new(owner, "x".parse().expect("valid")));
        let frozen = Condition {
            frozen: true,
            degraded: false,
        };
        conditions.set(&repository, frozen);
        conditions.set(&repository, frozen);
        assert_eq!((conditions.frozen(), conditions.degraded()), (1, 0));
        conditions.set(&repository, Condition::default());
        assert_eq!((conditions.frozen(), conditions.degraded()), (0, 0));
    }
}
