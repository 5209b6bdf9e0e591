//! What the owner's two events say, and what follows from those that others have of them. Pure.

use grasp_core::Timestamp;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::service::ServiceAddress;
use serde_json::json;

use crate::pages::Links;

/// What is made here before anybody was asked carries this date, so that whatever the owner ever published is newer.
pub(super) const PROVISIONAL: Timestamp = Timestamp::from_secs(1_577_836_800);

/// One of the two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Card {
    /// Kind 0: who it is.
    Profile,
    /// Kind 10002: where it is.
    Relays,
}

impl Card {
    pub(super) const ALL: [Self; 2] = [Self::Profile, Self::Relays];

    pub(super) fn kind(self) -> u16 {
        match self {
            Self::Profile => kind::PROFILE,
            Self::Relays => kind::RELAY_LIST,
        }
    }

    /// Content and tags, as this server writes them.
    pub(super) fn words(self, name: &str, service: &ServiceAddress) -> (String, Vec<[String; 2]>) {
        match self {
            Self::Profile => {
                let mut profile = json!({"name": name, "bot": true});
                // The names of NIP-05 are looked up at the root of a host.
                if service.base_path().is_empty() {
                    profile["nip05"] = json!(format!("_@{}", service.authority()));
                }
                (profile.to_string(), Vec::new())
            }
            Self::Relays => {
                let here = Links::new(service).relay();
                (String::new(), vec![["r".to_owned(), here]])
            }
        }
    }
}

/// What an index relay has of a card.
#[derive(Debug, Clone)]
pub(super) enum Found {
    /// It did not answer.
    NoAnswer,
    /// It has none.
    Nothing,
    /// It has this one.
    Event(VerifiedEvent),
}

impl Found {
    fn event(&self) -> Option<&VerifiedEvent> {
        match self {
            Self::Event(event) => Some(event),
            Self::NoAnswer | Self::Nothing => None,
        }
    }
}

/// The newest of several replaceable events (NIP-01: of the same second, the one with the lowest id).
pub(super) fn newest<'a>(
    events: impl IntoIterator<Item = &'a VerifiedEvent>,
) -> Option<&'a VerifiedEvent> {
    let order = |event: &&VerifiedEvent| (event.created_at(), std::cmp::Reverse(event.id()));
    events.into_iter().max_by_key(order)
}

/// What to do about a card.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Take this one in: it is newer than what is here.
    pub(super) adopt: Option<VerifiedEvent>,
    /// Nobody has one: date ours of today, so that others take it.
    pub(super) sign_anew: bool,
    /// The relays, by place, that lack the newest.
    pub(super) lacking: Vec<usize>,
}

/// IDN-2: newer ones are adopted, and who lacks the newest gets it. What this server made up by itself goes nowhere
/// before all were asked: a relay that is silent today may hold what the owner wrote.
pub(super) fn step(here: Option<&VerifiedEvent>, found: &[Found]) -> Step {
    let there = newest(found.iter().filter_map(Found::event));
    let Some(best) = newest(here.into_iter().chain(there)) else {
        return Step::default();
    };
    let lacks = |found: &Found| match found {
        Found::NoAnswer => false,
        Found::Nothing => true,
        Found::Event(theirs) => theirs.created_at() < best.created_at(),
    };
    let numbered = found.iter().enumerate();
    let lacking: Vec<_> = numbered
        .filter(|(_, found)| lacks(found))
        .map(|(place, _)| place)
        .collect();
    let is_new = here.is_none_or(|here| here.id() != best.id());
    let is_provisional = best.created_at() <= PROVISIONAL;
    let are_all_asked = lacking.len() == found.len();
    Step {
        adopt: is_new.then(|| best.clone()),
        sign_anew: is_provisional && are_all_asked,
        lacking: if is_provisional && !are_all_asked {
            Vec::new()
        } else {
            lacking
        },
    }
}

#[cfg(test)]
mod tests {
    use nostr::key::Keys;

    use super::super::sign;
    use super::*;

    fn profile(at: u64) -> VerifiedEvent {
        let keys = Keys::parse(&"01".repeat(32)).expect("a key");
        let at = Timestamp::from_secs(at);
        let event = sign::<2>(&keys, at, kind::PROFILE, [], String::new());
        VerifiedEvent::verify(event).expect("signed")
    }

    fn provisional() -> VerifiedEvent {
        profile(PROVISIONAL.as_secs())
    }

    /// IDN-2
    #[test]
    fn a_newer_one_is_adopted_and_given_to_who_lacks_it() {
        let [old, new] = [1_700_000_000, 1_800_000_000].map(profile);
        let found = [
            Found::Event(old.clone()),
            Found::Event(new.clone()),
            Found::Nothing,
            Found::NoAnswer,
        ];
        let step = step(Some(&old), &found);
        assert_eq!(step.adopt.map(|it| it.id()), Some(new.id()));
        assert_eq!((step.sign_anew, step.lacking), (false, vec![0, 2]));
    }

    /// IDN-2
    #[test]
    fn what_the_owner_wrote_long_ago_counts_more_than_what_we_made_up() {
        let written = profile(1_700_000_000);
        let step = step(Some(&provisional()), &[Found::Event(written.clone())]);
        assert_eq!(step.adopt.map(|it| it.id()), Some(written.id()));
        assert!(!step.sign_anew && step.lacking.is_empty());
    }

    /// IDN-2
    #[test]
    fn what_we_made_up_goes_out_once_all_were_asked() {
        let here = provisional();
        let silent = step(Some(&here), &[Found::Nothing, Found::NoAnswer]);
        assert!(!silent.sign_anew && silent.lacking.is_empty());
        let asked = step(Some(&here), &[Found::Nothing, Found::Nothing]);
        assert!(asked.sign_anew && asked.adopt.is_none());
        assert_eq!(asked.lacking, [0, 1]);
    }

    /// IDN-2
    #[test]
    fn names_are_promised_at_the_root_of_a_host_only() {
        let at = |path| ServiceAddress::parse("git.example.com", path).expect("valid");
        let (root, _) = Card::Profile.words("a name", &at("/"));
        assert!(root.contains(r#""nip05":"_@git.example.com""#), "{root}");
        let (below, _) = Card::Profile.words("a name", &at("/git"));
        assert!(!below.contains("nip05"), "{below}");
        assert!(below.contains(r#""bot":true"#), "{below}");
        let (_, tags) = Card::Relays.words("a name", &at("/git"));
        assert_eq!(tags, [["r", "wss://git.example.com/git"]]);
    }
}
