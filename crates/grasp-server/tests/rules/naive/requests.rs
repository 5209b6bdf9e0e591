//! DEL-1, DEL-9: what requests to delete keep out, and how long they are kept themselves.

use std::collections::BTreeSet;

use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::Stage;
use grasp_core::{EventId, PublicKey};

use super::{Carries, Naive, What};

const DAY: u64 = 86_400;
/// Uses within so long after one that counted are not written down.
const USE_INTERVAL: u64 = 3600;

/// A request to delete, and of what use it was.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) event: EventId,
    author: PublicKey,
    pub(super) ids: BTreeSet<EventId>,
    /// The author's own.
    addresses: BTreeSet<String>,
    /// Versions up to this second are meant.
    until: u64,
    first_seen: u64,
    used: Option<u64>,
    /// All that its author made up to then is meant.
    vanishes: bool,
}

/// Requests are not taken back by requests.
pub(super) fn is_request(event: &VerifiedEvent) -> bool {
    matches!(event.kind(), kind::DELETION | kind::VANISH)
}

impl Request {
    pub(super) fn read(event: &VerifiedEvent, now: u64) -> Self {
        let ids = event.all_values("e");
        let addresses = event.all_values("a").into_iter();
        let author = event.author();
        let own = |address: &String| address.split(':').nth(1) == Some(&author.to_hex());
        Self {
            event: event.id(),
            author,
            ids: ids
                .iter()
                .filter_map(|id| EventId::from_hex(id).ok())
                .collect(),
            addresses: addresses.filter(own).collect(),
            until: event.created_at().as_secs(),
            first_seen: now,
            used: None,
            vanishes: false,
        }
    }

    /// DEL-8: from `here`, or from elsewhere, which is nothing to us.
    pub(super) fn to_vanish(event: &VerifiedEvent, here: bool, now: u64) -> Self {
        Self {
            ids: BTreeSet::new(),
            addresses: BTreeSet::new(),
            vanishes: here,
            ..Self::read(event, now)
        }
    }

    /// By its address: every version up to the request.
    pub(super) fn covers(&self, event: &VerifiedEvent) -> bool {
        let address = event.address().unwrap_or_default();
        self.addresses.contains(&address) && event.created_at().as_secs() <= self.until
    }

    /// Whether it is for this event.
    pub(super) fn names(&self, event: &VerifiedEvent) -> bool {
        let past = event.created_at().as_secs() <= self.until;
        let named = self.ids.contains(&event.id()) || self.covers(event);
        let meant = if self.vanishes {
            past && event.id() != self.event
        } else {
            named && !is_request(event)
        };
        meant && event.author() == self.author
    }

    /// Until when it is served, and until when it is in force: who vanished has vanished for ever.
    fn ends(&self) -> (u64, Option<u64>) {
        let (served, gating) = match self.used {
            None => (self.first_seen + 30 * DAY, self.first_seen + 210 * DAY),
            Some(used) => (used + 270 * DAY, used + 360 * DAY),
        };
        (served, (!self.vanishes).then_some(gating))
    }
}

impl Naive {
    pub(super) fn is_gated(&self, event: &VerifiedEvent) -> bool {
        self.requests.iter().any(|request| request.names(event))
    }

    /// One of those that keep an event out was of use: used before unused, then the earliest, then the
    /// lowest id.
    pub(super) fn credit(&mut self, event: &VerifiedEvent) {
        let gates = self.requests.iter_mut().filter(|it| it.names(event));
        let first = gates.min_by_key(|it| (it.used.is_none(), it.first_seen, it.event));
        let Some(request) = first else {
            return;
        };
        if request
            .used
            .is_none_or(|used| used + USE_INTERVAL <= self.now)
        {
            request.used = Some(self.now);
            let request = request.clone();
            self.place_request(&request);
        }
    }

    pub(super) fn keep_request(&mut self, event: &VerifiedEvent, mut request: Request, used: bool) {
        request.used = used.then_some(self.now);
        self.put(event.clone(), What::Other, Carries::Nothing);
        self.place_request(&request);
        self.requests.push(request);
    }

    /// Served, then out of sight, then gone with everything it kept out.
    fn place_request(&mut self, request: &Request) {
        let (served, gating) = request.ends();
        if gating.is_some_and(|end| end <= self.now) {
            self.requests.retain(|other| other.event != request.event);
            return self.forget(&request.event);
        }
        let now = self.now;
        let kept = self.find_mut(&request.event).expect("it is kept");
        if now < served {
            (kept.stage, kept.until) = (Stage::Served, Some(served));
        } else {
            (kept.stage, kept.until) = (Stage::Held, gating);
        }
    }

    pub(super) fn clean_up_requests(&mut self) {
        for request in self.requests.clone() {
            self.place_request(&request);
        }
    }
}
