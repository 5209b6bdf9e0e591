//! The view of a repository: whether its directory exists, its refs and its HEAD (REF-1 … REF-6).

use std::collections::BTreeMap;

use nostr::event::EventId;

use crate::name::RepoAddress;
use crate::oid::Oid;
use crate::policy::Policy;
use crate::refname::RefName;
use crate::state::StateEvent;
use crate::view::{Entry, RepoView};

/// What a repository shall look like. `reconcile` makes it so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The directory exists (REF-6).
    pub exists: bool,
    /// Branches and tags.
    pub refs: DesiredRefs,
    /// `refs/nostr/*`, exactly (REF-3).
    pub proposals: BTreeMap<RefName, Oid>,
}

/// The branches and tags a repository shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DesiredRefs {
    /// No winner: they and HEAD stay as last applied (REF-5). A new repository has none, and HEAD names
    /// `refs/heads/main`.
    Frozen,
    /// Exactly those of the winner (REF-2).
    Winner {
        /// The winning state.
        state: EventId,
        /// Its branches and tags.
        refs: BTreeMap<RefName, Oid>,
        /// What HEAD names (REF-4).
        head: RefName,
    },
}

/// The winner of the repository of `repo`'s owner: the newest served state by its confirmed set (REF-1).
pub fn winner<'v>(
    repo: &RepoAddress,
    view: &'v RepoView,
    policy: &Policy,
) -> Option<&'v Entry<StateEvent>> {
    todo!()
}

/// The view of `repo`, as a function of events and upload records.
pub fn desired(repo: &RepoAddress, view: &RepoView, policy: &Policy) -> Desired {
    todo!()
}

/// REF-4. `branches` are the names that will exist.
pub fn head<'a>(
    declared: Option<&RefName>,
    branches: impl IntoIterator<Item = &'a RefName>,
) -> RefName {
    todo!()
}
