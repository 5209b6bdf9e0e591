//! When waiting things expire, and what becomes of them (§10).

use std::time::Duration;

use nostr::event::EventId;

use crate::lifecycle::{Batch, UploadRecord};
use crate::name::RepoAddress;
use crate::policy::Circumstances;
use crate::view::RepoView;

/// How long an announcement, state, proposal or upload waits (PUR-1).
pub const WAITING: Duration = Duration::from_secs(1800);
/// How long a soft-expired announcement is kept (PUR-4).
pub const SOFT_EXPIRED: Duration = Duration::from_secs(86_400);
/// How long an expired id is remembered (PUR-8).
pub const EXPIRED_MARK: Duration = Duration::from_secs(7 * 86_400);

/// What follows when the deadline of a stored announcement, state or proposal has passed (PUR-4, PUR-6,
/// PUR-7, PUR-15, ANN-3b, DEL-12). `leased` says whether somebody uses a repository right now: expiry
/// skips it and comes back with the next sweep.
pub fn expire(
    event: &EventId,
    view: &RepoView,
    leased: &dyn Fn(&RepoAddress) -> bool,
    cx: Circumstances<'_>,
) -> Batch {
    todo!()
}

/// What follows when an upload's deadline has passed (PUR-9).
pub fn expire_upload(
    upload: &UploadRecord,
    view: &RepoView,
    leased: &dyn Fn(&RepoAddress) -> bool,
    cx: Circumstances<'_>,
) -> Batch {
    todo!()
}
