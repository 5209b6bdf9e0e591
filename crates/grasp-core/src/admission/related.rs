//! Events that hang on repositories and conversations (§9), and those that need no reference (EV-2).

use super::{Decision, Known};
use crate::event::VerifiedEvent;
use crate::policy::Circumstances;
use crate::related::RelatedFacts;

/// §9 and the kinds of EV-2 that are accepted without a reference.
pub fn admit_related(
    event: &VerifiedEvent,
    known: &Known,
    related: &RelatedFacts,
    cx: Circumstances<'_>,
) -> Decision {
    todo!()
}
