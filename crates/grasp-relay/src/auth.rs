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

/// Why an `AUTH` is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// PRIV-2
    #[error("auth-required: invalid NIP-42 authentication")]
    Invalid,
    /// Another key than those before, and they are as many as there may be.
    #[error("rate-limited: a connection may authenticate as at most {0} keys")]
    TooManyKeys(usize),
}

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

    /// Accepts the author of `event`, as one of at most `keys_max`, if it is a fresh answer to this
    /// connection's challenge.
    pub(crate) fn accept(
        &mut self,
        event: &VerifiedEvent,
        now: Timestamp,
        keys_max: usize,
        is_this_relay: impl Fn(&str) -> bool,
    ) -> Result<(), Refusal> {
        let fresh = now.as_secs().abs_diff(event.created_at().as_secs()) <= CLOCK_DIFFERENCE_MAX;
        let challenged =
            self.challenge.is_some() && event.first_value("challenge") == self.challenge.as_deref();
        let here = event.first_value("relay").is_some_and(is_this_relay);
        if !(event.kind() == kind::AUTH && fresh && challenged && here) {
            return Err(Refusal::Invalid);
        }
        if self.keys.contains(&event.author()) {
            return Ok(());
        }
        if self.keys.len() >= keys_max {
            return Err(Refusal::TooManyKeys(keys_max));
        }
        Arc::make_mut(&mut self.keys).push(event.author());
        Ok(())
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

    const HERE: &str = "wss://us";
    const NOW: u64 = 1_000;

    fn answer(who: &str, kind: u16, challenge: &str, relay: &str, at: u64) -> VerifiedEvent {
        let event = Person::named(who)
            .draft(kind)
            .tag(["relay", relay])
            .tag(["challenge", challenge])
            .at(at)
            .sign();
        verify(event).expect("valid")
    }

    fn accept(auth: &mut Auth, event: &VerifiedEvent) -> Result<(), Refusal> {
        auth.accept(event, Timestamp::from_secs(NOW), 2, |url| url == HERE)
    }

    /// PRIV-1, NIP-42
    #[test]
    fn only_a_fresh_answer_to_our_own_challenge_counts() {
        let mut auth = Auth::default();
        let refused = Err(Refusal::Invalid);
        let early = answer("alice", kind::AUTH, "", HERE, NOW);
        assert_eq!(accept(&mut auth, &early), refused, "nothing was asked");
        let challenge = auth.challenge().to_owned();
        assert_eq!(
            (challenge.len(), auth.challenge()),
            (32, challenge.as_str())
        );
        for (kind, challenge, relay, at) in [
            (kind::AUTH, "other", HERE, NOW),
            (kind::AUTH, &challenge, "wss://them", NOW),
            (kind::AUTH, &challenge, HERE, NOW - 121),
            (kind::AUTH, &challenge, HERE, NOW + 121),
            (22_243, &challenge, HERE, NOW),
        ] {
            let wrong = answer("alice", kind, challenge, relay, at);
            assert_eq!(accept(&mut auth, &wrong), refused, "{kind} {relay} {at}");
        }
        assert!(auth.keys().is_empty());
        for at in [NOW - 120, NOW, NOW + 120] {
            let right = answer("alice", kind::AUTH, &challenge, HERE, at);
            assert_eq!(accept(&mut auth, &right), Ok(()));
        }
        assert_eq!(auth.keys().len(), 1);
    }

    /// NIP-42, BND-1
    #[test]
    fn a_connection_speaks_for_several_keys_but_not_for_any_number() {
        let mut auth = Auth::default();
        let challenge = auth.challenge().to_owned();
        let of = |who| answer(who, kind::AUTH, &challenge, HERE, NOW);
        for who in ["alice", "bob", "alice"] {
            assert_eq!(accept(&mut auth, &of(who)), Ok(()));
        }
        let refused = Err(Refusal::TooManyKeys(2));
        assert_eq!(accept(&mut auth, &of("carol")), refused);
        assert_eq!(auth.keys().len(), 2);
    }

    #[test]
    fn no_two_challenges_are_alike() {
        let tokens: std::collections::HashSet<_> = (0..1_000).map(|_| random_token()).collect();
        assert_eq!(tokens.len(), 1_000);
    }
}
