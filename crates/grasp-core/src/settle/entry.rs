//! The steps in the life of one stored event, with the deadlines that go with them.

use std::time::Duration;

use nostr::types::Timestamp;

use crate::event::Parsed;
use crate::lifecycle::Stage;
use crate::policy::Circumstances;
use crate::purgatory::{SOFT_EXPIRED, WAITING};
use crate::view::Entry;

impl<T: Parsed> Entry<T> {
    /// Served until NIP-40 ends it, or for ever.
    pub(crate) fn serve(&mut self) {
        self.stage = Stage::Served;
        self.deadline = self.item.verified().expiration();
    }

    /// PUR-1, and PUR-3 for one that waits already.
    pub(crate) fn wait(&mut self, cx: Circumstances<'_>) {
        self.stage = Stage::Waiting;
        self.deadline = Some(waiting_deadline(self.item.verified().expiration(), cx));
    }

    /// PUR-4, PUR-15, ANN-6; without a lifetime ANN-3b.
    pub(crate) fn park(&mut self, lifetime: Option<Duration>, cx: Circumstances<'_>) {
        self.stage = Stage::Parked;
        self.deadline = parked_deadline(self.item.verified().expiration(), lifetime, cx);
    }

    /// ANN-3b: parked for as long as an older version is served.
    pub(crate) fn is_parked_without_end(&self) -> bool {
        self.stage == Stage::Parked && self.deadline == self.item.verified().expiration()
    }

    /// PUR-4.
    pub(crate) fn soft_expire(&mut self, cx: Circumstances<'_>) {
        self.park(Some(SOFT_EXPIRED), cx);
    }

    /// DEL-12.
    pub(crate) fn supersede(&mut self, cx: Circumstances<'_>) {
        self.stage = Stage::Superseded;
        self.deadline = Some(cx.after(cx.policy.holding_retention));
    }

    /// DEL-5.
    pub(crate) fn hold(&mut self, cx: Circumstances<'_>) {
        self.stage = Stage::Held;
        self.deadline = Some(cx.after(cx.policy.holding_retention));
    }

    /// In purgatory, or kept where it can come back from.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Parked)
    }
}

/// Whether announcements of this stage count for maintainer sets (§4).
pub(crate) fn counts(stage: Stage) -> bool {
    matches!(stage, Stage::Served | Stage::Waiting | Stage::Parked)
}

/// The end of being parked: after this time, and never later than NIP-40 says (EV-4).
pub(crate) fn parked_deadline(
    expiration: Option<Timestamp>,
    lifetime: Option<Duration>,
    cx: Circumstances<'_>,
) -> Option<Timestamp> {
    let usual = lifetime.map(|lifetime| cx.after(lifetime));
    expiration.into_iter().chain(usual).min()
}

/// PUR-1, cut short by NIP-40.
pub(crate) fn waiting_deadline(expiration: Option<Timestamp>, cx: Circumstances<'_>) -> Timestamp {
    let usual = cx.after(WAITING);
    expiration.map_or(usual, |end| end.min(usual))
}
