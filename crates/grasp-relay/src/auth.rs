//! Who a connection says it is (NIP-42).
//!
//! Nothing asks for it yet but an [`Intake`](crate::Intake) that answers `auth-required:`. The challenge
//! is made when it is first needed and belongs to one connection, so an answer cannot be replayed on
//! another.

use std::hash::BuildHasher;
use std::sync::Arc;

use grasp_core::event::{VerifiedEvent, kind};
use nostr::event::Event;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

/// How far the clock of an answer may be from ours (PRIV-1).
const CLOCK_DIFFERENCE_MAX: u64 = 120;

/// At most so many keys of one connection: more than anybody has at a time.
const KEYS_MAX: usize = 16;

/// Why an `AUTH` is refused (PRIV-2).
pub(crate) const INVALID: &str = "auth-required: invalid NIP-42 authentication";

/// The challenge of one connection and who has met it.
#[derive(Debug, Default)]
pub(crate) struct Auth {
    challenge: Option<String>,
    keys: Arc<Vec<PublicKey>>,
}

impl Auth {
    /// The challenge, made now if there is none.
    pub(crate) fn challenge(&mut self) -> &str {
        self.challenge.get_or_insert_with(random_token)
    }

    /// Who has authenticated.
    pub(crate) fn keys(&self) -> Arc<Vec<PublicKey>> {
        Arc::clone(&self.keys)
    }

    /// Accepts the author of `event` if it is a fresh answer to this connection's challenge.
    pub(crate) fn accept(
        &mut self,
        event: &VerifiedEvent,
        now: Timestamp,
        is_this_relay: impl Fn(&str) -> bool,
    ) -> bool {
        let fresh = now.as_secs().abs_diff(event.created_at().as_secs()) <= CLOCK_DIFFERENCE_MAX;
        let challenged =
            self.challenge.is_some() && event.first_value("challenge") == self.challenge.as_deref();
        let here = event.first_value("relay").is_some_and(is_this_relay);
        let met = event.kind() == kind::AUTH && fresh && challenged && here;
        if met && !self.keys.contains(&event.author()) && self.keys.len() < KEYS_MAX {
            Arc::make_mut(&mut self.keys).push(event.author());
        }
        met
    }
}

/// Checks id and signature of an answer: call it off the async workers.
pub(crate) fn verify(event: Event) -> Option<VerifiedEvent> {
    VerifiedEvent::verify(event).ok()
}

/// 128 bits that nobody outside can guess: the standard library seeds each hasher from the system's
/// randomness, and its keyed hash of nothing is a secret of that seed.
fn random_token() -> String {
    let half = || std::hash::RandomState::new().hash_one(0_u8);
    format!("{:016x}{:016x}", half(), half())
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_testkit::Person;

    fn answer(challenge: &str, relay: &str, at: u64) -> VerifiedEvent {
        let event = Person::named("alice")
            .draft(kind::AUTH)
            .tag(["relay", relay])
            .tag(["challenge", challenge])
            .at(at)
            .sign();
        verify(event).expect("valid")
    }

    /// PRIV-1
    #[test]
    fn only_a_fresh_answer_to_our_own_challenge_counts() {
        let mut auth = Auth::default();
        let (now, here) = (Timestamp::from_secs(1_000), |url: &str| url == "wss://us");
        assert!(!auth.accept(&answer("", "wss://us", 1_000), now, here));
        let challenge = auth.challenge().to_owned();
        assert_eq!(
            (challenge.len(), auth.challenge()),
            (32, challenge.as_str())
        );
        assert!(!auth.accept(&answer("other", "wss://us", 1_000), now, here));
        assert!(!auth.accept(&answer(&challenge, "wss://them", 1_000), now, here));
        assert!(!auth.accept(&answer(&challenge, "wss://us", 800), now, here));
        assert!(auth.keys().is_empty());
        assert!(auth.accept(&answer(&challenge, "wss://us", 1_100), now, here));
        assert_eq!(auth.keys().len(), 1);
    }

    #[test]
    fn no_two_challenges_are_alike() {
        let tokens: std::collections::HashSet<_> = (0..1_000).map(|_| random_token()).collect();
        assert_eq!(tokens.len(), 1_000);
    }
}
