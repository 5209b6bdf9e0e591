//! What an author protected comes from nobody else (NIP-70).

use nostr::key::PublicKey;
use serde_json::Value;

use super::Rejection;
use crate::event::VerifiedEvent;

/// Why an event of a client is not taken from whoever sent it: `authenticated` are the keys that its
/// connection has proven to hold (NIP-42).
pub fn protection(event: &VerifiedEvent, authenticated: &[PublicKey]) -> Option<Rejection> {
    let mut tags = event.tags();
    if !tags.any(|tag| tag[0] == "-") || authenticated.contains(&event.author()) {
        None
    } else if authenticated.is_empty() {
        Some(Rejection::AuthRequired)
    } else {
        Some(Rejection::NotByItsAuthor)
    }
}

/// Whether the content is an event with a `-` tag. It need not be a valid one: what a reader would still take
/// for the event counts.
pub(super) fn carries_protected(content: &str) -> bool {
    let inner: Value = serde_json::from_str(content).unwrap_or_default();
    let mut tags = inner["tags"].as_array().into_iter().flatten();
    tags.any(|tag| tag[0] == "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{draft, key};

    /// EV-1, NIP-70
    #[test]
    fn a_protected_event_is_taken_from_its_author_only() {
        let protected = draft(1621, key(1)).tag(["-"]).event();
        assert_eq!(protection(&protected, &[key(1)]), None);
        assert_eq!(protection(&protected, &[key(2), key(1)]), None);
        assert_eq!(protection(&protected, &[]), Some(Rejection::AuthRequired));
        assert_eq!(
            protection(&protected, &[key(2)]),
            Some(Rejection::NotByItsAuthor)
        );
        let open = draft(1621, key(1)).tag(["t", "-"]).event();
        assert_eq!(protection(&open, &[]), None);
    }

    #[test]
    fn what_is_carried_is_found_in_any_event() {
        for protected in [
            r#"{"tags":[["-"]]}"#,
            r#"{"id":"x","tags":[["e","1"],["-","",5]],"kind":1}"#,
        ] {
            assert!(carries_protected(protected), "{protected}");
        }
        for open in [
            "",
            "-",
            "[]",
            "{}",
            r#"{"tags":[[],["t","-"]]}"#,
            r#"{"tags":"-"}"#,
        ] {
            assert!(!carries_protected(open), "{open}");
        }
    }
}
