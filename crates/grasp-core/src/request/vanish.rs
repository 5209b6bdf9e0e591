//! Whom a request to vanish is sent to (DEL-8).

use crate::event::VerifiedEvent;
use crate::policy::Policy;

/// Addresses every relay there is. In capitals only, as NIP-62 spells it.
const ALL_RELAYS: &str = "ALL_RELAYS";

/// Whether a request to vanish means this relay: it names all of them, or this one in any spelling of
/// its URL (NAME-5). Of each `relay` tag the value counts and nothing behind it: what cannot be undone
/// is not read out of a malformed tag.
pub fn is_for_us(request: &VerifiedEvent, policy: &Policy) -> bool {
    request.tags().any(|tag| match tag {
        [name, relay, ..] if name == "relay" => {
            relay == ALL_RELAYS || policy.service.is_relay_url(relay)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::kind;
    use crate::service::ServiceAddress;
    use crate::testing::{draft, key, policy};

    fn vanishes(base: &str, tags: &[&[&str]]) -> bool {
        let policy = Policy {
            service: ServiceAddress::parse("grasp.example.com", base).expect("valid"),
            ..policy()
        };
        let request = draft(kind::VANISH, key(1));
        let request = tags.iter().fold(request, |request, tag| {
            request.tag(tag.iter().map(ToString::to_string))
        });
        is_for_us(&request.event(), &policy)
    }

    /// DEL-8, case 55
    #[test]
    fn a_request_to_vanish_names_this_relay_or_all_of_them() {
        for ours in [
            "ALL_RELAYS",
            "wss://grasp.example.com",
            "wss://grasp.example.com/",
            "ws://GRASP.example.com:80",
            "wss://grasp.example.com:443/",
        ] {
            assert!(vanishes("/", &[&["relay", ours]]), "{ours}");
            let others = [&["relay", "wss://other.example"][..], &["relay", ours]];
            assert!(vanishes("/", &others), "{ours} and another");
        }
    }

    /// DEL-8, NAME-5, case 55
    #[test]
    fn a_request_to_vanish_from_elsewhere_is_none_here() {
        for other in [
            "",
            "all_relays",
            "ALL_RELAYS ",
            "grasp.example.com",
            "https://grasp.example.com",
            "wss://grasp.example.com:7334",
            "wss://grasp.example.com/x",
            "wss://grasp.example.com.evil",
            "wss://evil-grasp.example.com",
            "wss://grasp.example.com@evil",
            "wss://evil/grasp.example.com",
        ] {
            assert!(!vanishes("/", &[&["relay", other]]), "{other}");
        }
        let other = "wss://other.example";
        assert!(!vanishes("/", &[]));
        assert!(!vanishes("/", &[&["relay"]]));
        assert!(!vanishes("/", &[&["relay", other, "ALL_RELAYS"]]));
        assert!(!vanishes("/", &[&["r", "ALL_RELAYS"]]));
    }

    /// NAME-6
    #[test]
    fn a_relay_below_a_path_is_named_with_it() {
        let below = "wss://grasp.example.com/git/";
        assert!(vanishes("/git", &[&["relay", below]]));
        assert!(!vanishes("/git", &[&["relay", "wss://grasp.example.com/"]]));
    }
}
