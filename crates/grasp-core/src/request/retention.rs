//! How long a request is kept (DEL-9): shown for a while, then out of sight and still in force, then gone.
//!
//! What was of use is kept longer, counted from its last use: as long as somebody keeps bringing back what
//! its author took away, the request stays. A request to vanish ends its showing like any other, its gate
//! never: what it did cannot be undone, so time must not undo it either (DEL-8).

use std::time::Duration;

use nostr::event::EventId;
use nostr::types::Timestamp;

use super::vanish;
use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{Change, Stage};
use crate::policy::Policy;

/// The longest time in which several uses count as one.
const USE_INTERVAL_MAX: Duration = Duration::from_hours(1);
/// The part of its time that a request may lose because several uses count as one.
const USE_INTERVAL_SHARE: u32 = 100;

/// How long requests are kept (DEL-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// One that was of no use yet is served so long after it was first seen.
    pub unused_served: Duration,
    /// And gates so long after that.
    pub unused_gating: Duration,
    /// One that was of use is served so long after its last use.
    pub used_served: Duration,
    /// And gates so long after that.
    pub used_gating: Duration,
}

impl Retention {
    /// Uses within this time after one that counted are not written down: a flood of what a request keeps
    /// out must not become a flood of commits. A request loses at most this much of its time by it.
    pub fn use_interval(&self) -> Duration {
        USE_INTERVAL_MAX.min(self.used_served / USE_INTERVAL_SHARE)
    }
}

/// Since when a request is here, and when it was of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uses {
    /// When it came first. Sending it again changes nothing.
    pub first_seen: Timestamp,
    /// When it last removed something, or kept something out.
    pub last: Option<Timestamp>,
}

/// What decides how long a request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Since when it is here, and its last use.
    pub uses: Uses,
    /// NIP-40: when it stops to be shown (EV-4).
    pub expiration: Option<Timestamp>,
    /// What it gates stays gated.
    pub endless: bool,
}

/// Where a request is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Shown, and in force.
    Served {
        /// Until then.
        until: Timestamp,
    },
    /// In force, out of sight.
    Gating {
        /// Until then, or for ever.
        until: Option<Timestamp>,
    },
    /// To be removed, and its gates with it.
    Over,
}

impl Request {
    /// A stored request.
    pub fn of(event: &VerifiedEvent, uses: Uses, policy: &Policy) -> Self {
        Self {
            uses,
            expiration: event.expiration(),
            endless: event.kind() == kind::VANISH && vanish::is_for_us(event, policy),
        }
    }

    /// Where it is in its life at `now`.
    pub fn life(&self, retention: &Retention, now: Timestamp) -> Life {
        let (start, served, gating) = match self.uses.last {
            None => (
                self.uses.first_seen,
                retention.unused_served,
                retention.unused_gating,
            ),
            Some(last) => (last, retention.used_served, retention.used_gating),
        };
        let unserved = later(start, served);
        let served_until = self.capped(unserved);
        let gates_until = (!self.endless).then(|| self.capped(later(unserved, gating)));
        if now < served_until {
            Life::Served {
                until: served_until,
            }
        } else if gates_until.is_none_or(|until| now < until) {
            Life::Gating { until: gates_until }
        } else {
            Life::Over
        }
    }

    fn capped(&self, end: Timestamp) -> Timestamp {
        self.expiration
            .map_or(end, |expiration| expiration.min(end))
    }
}

impl Life {
    /// Puts a stored request where it belongs.
    pub fn placed(self, request: EventId) -> Change {
        let (stage, deadline) = match self {
            Self::Served { until } => (Stage::Served, Some(until)),
            Self::Gating { until } => (Stage::Held, until),
            Self::Over => return Change::Remove { event: request },
        };
        Change::Move {
            event: request,
            stage,
            deadline,
        }
    }
}

fn later(start: Timestamp, duration: Duration) -> Timestamp {
    Timestamp::from_secs(start.as_secs().saturating_add(duration.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, draft, key, policy};

    const DAY: u64 = 86_400;

    /// The defaults of the settings.
    fn retention() -> Retention {
        policy().requests.retention
    }

    fn request(first_seen: u64, last: Option<u64>) -> Request {
        Request {
            uses: Uses {
                first_seen: at(first_seen * DAY),
                last: last.map(|day| at(day * DAY)),
            },
            expiration: None,
            endless: false,
        }
    }

    fn lives(request: Request, second: u64) -> Life {
        request.life(&retention(), at(second))
    }

    fn served(day: u64) -> Life {
        Life::Served {
            until: at(day * DAY),
        }
    }

    fn gating(day: u64) -> Life {
        Life::Gating {
            until: Some(at(day * DAY)),
        }
    }

    /// DEL-9
    #[test]
    fn a_request_of_no_use_is_served_for_30_days_and_gates_for_180_more() {
        let request = request(5, None);
        assert_eq!(lives(request, 5 * DAY), served(35));
        assert_eq!(lives(request, 35 * DAY - 1), served(35));
        assert_eq!(lives(request, 35 * DAY), gating(215));
        assert_eq!(lives(request, 215 * DAY - 1), gating(215));
        assert_eq!(lives(request, 215 * DAY), Life::Over);
    }

    /// DEL-9: counted from the last use, not from the first sight.
    #[test]
    fn a_request_of_use_is_served_for_270_days_after_it_and_gates_for_90_more() {
        let request = request(5, Some(100));
        assert_eq!(lives(request, 370 * DAY - 1), served(370));
        assert_eq!(lives(request, 370 * DAY), gating(460));
        assert_eq!(lives(request, 460 * DAY - 1), gating(460));
        assert_eq!(lives(request, 460 * DAY), Life::Over);
    }

    /// DEL-8, DEL-9: what a request to vanish took away does not come back with time.
    #[test]
    fn a_request_to_vanish_goes_out_of_sight_and_gates_for_ever() {
        let ever = Life::Gating { until: None };
        for (last, unseen) in [(None, 35), (Some(100), 370)] {
            let request = Request {
                endless: true,
                ..request(5, last)
            };
            assert_eq!(lives(request, unseen * DAY - 1), served(unseen));
            assert_eq!(lives(request, unseen * DAY), ever);
            assert_eq!(lives(request, 100_000 * DAY), ever);
        }
    }

    /// EV-4
    #[test]
    fn its_own_expiration_ends_a_request_early() {
        let expiring = Request {
            expiration: Some(at(20 * DAY)),
            ..request(5, None)
        };
        assert_eq!(lives(expiring, 20 * DAY - 1), served(20));
        assert_eq!(lives(expiring, 20 * DAY), Life::Over);
        let vanish = Request {
            endless: true,
            ..expiring
        };
        assert_eq!(lives(vanish, 20 * DAY), Life::Gating { until: None });
    }

    /// DEL-8
    #[test]
    fn only_a_request_to_vanish_from_here_is_endless() {
        let of = |kind, relay: &str| {
            let event = draft(kind, key(1)).tag(["relay", relay]).event();
            Request::of(&event, request(0, None).uses, &policy()).endless
        };
        assert!(of(kind::VANISH, "ALL_RELAYS"));
        assert!(!of(kind::VANISH, "wss://other.example"));
        assert!(!of(kind::DELETION, "ALL_RELAYS"));
    }

    /// DEL-9
    #[test]
    fn uses_in_quick_succession_count_as_one() {
        assert_eq!(retention().use_interval(), Duration::from_hours(1));
        let short = Retention {
            used_served: Duration::from_secs(1000),
            ..retention()
        };
        assert_eq!(short.use_interval(), Duration::from_secs(10));
    }
}
