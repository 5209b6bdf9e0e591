//! Pull requests and their updates (§8).

use super::{Decision, PurgatoryLoad};
use crate::policy::Circumstances;
use crate::proposal::Proposal;
use crate::related::RelatedFacts;
use crate::view::{ObjectFacts, RepoView};

/// §8. `views` has one view per identifier that its `a` tags name.
pub fn admit_proposal(
    event: &Proposal,
    views: &[RepoView],
    related: &RelatedFacts,
    facts: &ObjectFacts,
    load: PurgatoryLoad,
    cx: Circumstances<'_>,
) -> Decision {
    todo!()
}
