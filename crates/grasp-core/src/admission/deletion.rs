//! Deletion requests (§11).

use super::{Decision, DeletionFacts};
use crate::event::VerifiedEvent;
use crate::policy::Circumstances;

/// NIP-09 (DEL-1, DEL-2, DEL-3, PUR-10).
pub fn admit_deletion(
    event: &VerifiedEvent,
    targets: &DeletionFacts,
    cx: Circumstances<'_>,
) -> Decision {
    todo!()
}
