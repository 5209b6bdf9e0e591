//! What an event tells about itself, before its signature is worth a check (EV-1).
//!
//! These refusals have no effect and cost little, so a flood of such events costs little too. What needs the
//! signature, the store or the operator's lists comes after it, in [`protection`](super::protection) and
//! [`screen`](super::screen).

use nostr::event::Event;
use nostr::types::Timestamp;

use super::Rejection;
use super::protection::carries_protected;
use crate::event::{expiration, kind};

const REPOST: u16 = 6;
const GENERIC_REPOST: u16 = 16;
const GIFT_WRAP: u16 = 1059;

/// The first of these checks that fails: NIP-40, reposts of protected events, gift wraps, and proofs of
/// identity, which belong into an `AUTH` and are never shown to others (NIP-42).
pub fn glance(event: &Event, now: Timestamp) -> Option<Rejection> {
    let kind = event.kind.as_u16();
    if expiration(event).is_some_and(|end| end <= now) {
        Some(Rejection::Expired)
    } else if is_repost(kind) && carries_protected(&event.content) {
        Some(Rejection::RepostOfProtected)
    } else if kind == GIFT_WRAP && recipients(event) != 1 {
        Some(Rejection::GiftWrapRecipients)
    } else if kind == kind::AUTH {
        Some(Rejection::Authentication)
    } else {
        None
    }
}

fn is_repost(kind: u16) -> bool {
    matches!(kind, REPOST | GENERIC_REPOST)
}

/// NIP-59
fn recipients(event: &Event) -> usize {
    let tags = event.tags.iter().map(nostr::event::Tag::as_slice);
    tags.filter(|tag| tag[0] == "p").count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::VerifiedEvent;
    use crate::testing::{NOW, at, draft, key};

    fn glanced(event: &VerifiedEvent) -> Option<Rejection> {
        glance(event.event(), at(NOW))
    }

    /// EV-4, case 53
    #[test]
    fn an_expired_event_is_refused_and_one_that_will_expire_is_not() {
        let event = |end: u64| {
            draft(1621, key(1))
                .tag(["expiration".to_owned(), end.to_string()])
                .event()
        };
        assert_eq!(glanced(&event(NOW - 3600)), Some(Rejection::Expired));
        assert_eq!(glanced(&event(NOW)), Some(Rejection::Expired));
        assert_eq!(glanced(&event(NOW + 3)), None);
    }

    /// EV-1, NIP-70
    #[test]
    fn a_repost_of_a_protected_event_is_refused() {
        let repost = |kind: u16, inner: &VerifiedEvent| {
            draft(kind, key(1)).content(inner.event().as_json()).event()
        };
        let protected = draft(1, key(2)).tag(["-"]).event();
        let open = draft(1, key(2)).event();
        for kind in [REPOST, GENERIC_REPOST] {
            assert_eq!(
                glanced(&repost(kind, &protected)),
                Some(Rejection::RepostOfProtected)
            );
            assert_eq!(glanced(&repost(kind, &open)), None);
        }
        assert_eq!(glanced(&repost(1, &protected)), None, "no repost");
    }

    /// EV-1, NIP-59
    #[test]
    fn a_gift_wrap_has_one_recipient() {
        let wrap = |recipients: &[u8]| {
            recipients
                .iter()
                .fold(draft(GIFT_WRAP, key(1)), |wrap, n| {
                    wrap.tag(["p".to_owned(), key(*n).to_hex()])
                })
                .event()
        };
        assert_eq!(glanced(&wrap(&[2])), None);
        for wrong in [wrap(&[]), wrap(&[2, 3])] {
            assert_eq!(glanced(&wrong), Some(Rejection::GiftWrapRecipients));
        }
    }

    /// NIP-42
    #[test]
    fn a_proof_of_identity_is_not_published() {
        let proof = draft(kind::AUTH, key(1)).tag(["challenge", "x"]).event();
        assert_eq!(glanced(&proof), Some(Rejection::Authentication));
    }

    /// EV-1: the first failure answers.
    #[test]
    fn expiration_answers_before_the_others() {
        let wrap = draft(GIFT_WRAP, key(1)).tag(["expiration", "1"]).event();
        assert_eq!(glanced(&wrap), Some(Rejection::Expired));
    }
}
