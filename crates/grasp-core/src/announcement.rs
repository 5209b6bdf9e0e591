//! Repository announcements (kind 30617): what a repository is called, where it lives and whom its
//! owner trusts.

use std::collections::{BTreeMap, BTreeSet};

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::event::{Parsed, VerifiedEvent, Version, kind};
use crate::name::{Coordinate, Identifier, IdentifierError};

/// At most so many listed keys of one announcement are read (MNT-10).
pub const LISTED_KEYS_MAX: usize = 100;
/// At most so many boundaries of one role tag are read (MNT-10).
pub const BOUNDARIES_MAX: usize = 50;
/// At most so many clone URLs and relays of one announcement are ever used (ANN-8).
pub const ADDRESSES_MAX: usize = 100;

/// A parsed announcement. Keeps the event it came from.
#[derive(Debug, Clone)]
pub struct Announcement {
    event: VerifiedEvent,
    identifier: Identifier,
    listing: Listing,
}

/// Why an event is no announcement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnouncementError {
    /// Another kind.
    #[error("kind {0} is no repository announcement")]
    Kind(u16),
    /// No `d` tag.
    #[error("a repository announcement needs a d tag")]
    NoIdentifier,
    /// A `d` tag that cannot name a repository (NAME-3).
    #[error(transparent)]
    Identifier(#[from] IdentifierError),
}

impl Parsed for Announcement {
    fn verified(&self) -> &VerifiedEvent {
        &self.event
    }
}

impl Announcement {
    /// Reads an announcement.
    pub fn parse(event: VerifiedEvent) -> Result<Self, AnnouncementError> {
        if event.kind() != kind::ANNOUNCEMENT {
            return Err(AnnouncementError::Kind(event.kind()));
        }
        let identifier = event
            .first_value("d")
            .ok_or(AnnouncementError::NoIdentifier)?
            .parse()?;
        let listing = Listing::read(&event);
        Ok(Self {
            event,
            identifier,
            listing,
        })
    }

    /// The event.
    pub fn event(&self) -> &VerifiedEvent {
        &self.event
    }

    /// The id of the event.
    pub fn id(&self) -> EventId {
        self.event.id()
    }

    /// Its author.
    pub fn owner(&self) -> PublicKey {
        self.event.author()
    }

    /// The `d` tag.
    pub fn identifier(&self) -> &Identifier {
        &self.identifier
    }

    /// Owner and identifier.
    pub fn coordinate(&self) -> Coordinate {
        Coordinate::new(self.owner(), self.identifier.clone())
    }

    /// Its place among the versions of this coordinate.
    pub fn version(&self) -> Version {
        self.event.version()
    }

    /// Whom it lists, and in which role.
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// The clone URLs as written, all of them (KIND-4).
    pub fn clone_urls(&self) -> Vec<String> {
        self.event.all_values("clone")
    }

    /// The relays as written, all of them (KIND-4).
    pub fn relays(&self) -> Vec<String> {
        self.event.all_values("relays")
    }

    /// Whether it gives authority that `other` does not give: makes a key active, or moves the lead
    /// (ANN-3). Taking authority away is no part of it.
    pub fn widens(&self, other: &Self) -> bool {
        let lead = self.lead();
        !self.listing.active.is_subset(&other.listing.active)
            || (lead.is_some() && lead != other.lead())
    }

    /// Where resolution goes from here (MNT-6). Two leads are none.
    fn lead(&self) -> Option<PublicKey> {
        let mut leads = self.listing.leads.iter();
        match (leads.next(), leads.next()) {
            (None, _) => Some(self.owner()).filter(|owner| self.listing.lists(owner)),
            (Some(lead), None) => Some(*lead),
            (Some(_), Some(_)) => None,
        }
    }

    /// Marked as private (G8-4).
    pub fn is_private(&self) -> bool {
        self.event.first_value("private") == Some("true")
    }
}

/// Who an announcement says may move refs (MNT-1 … MNT-5). Independent of the clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Keys in an active `M` role, the author's own included.
    leads: BTreeSet<PublicKey>,
    /// Keys active in any role that may move refs, the author's own included.
    active: BTreeSet<PublicKey>,
}

impl Listing {
    /// Keys with an active `M` role.
    pub fn leads(&self) -> &BTreeSet<PublicKey> {
        &self.leads
    }

    /// Keys with an active `M` or `m` role, or legacy `maintainers`; the author among them unless
    /// they left (MNT-4).
    pub fn active(&self) -> &BTreeSet<PublicKey> {
        &self.active
    }

    /// Whether `key` is active here.
    pub fn lists(&self, key: &PublicKey) -> bool {
        self.active.contains(key)
    }

    /// The same listing without whoever is not active in `other` too (DEL-3).
    #[must_use]
    pub fn limited_to(&self, other: &Self) -> Self {
        let both = |keys: &BTreeSet<PublicKey>| keys & &other.active;
        Self {
            leads: both(&self.leads),
            active: both(&self.active),
        }
    }

    fn read(event: &VerifiedEvent) -> Self {
        let is_role = |tag: &&[String]| matches!(tag[0].as_str(), "M" | "m" | "o");
        if event.tags().any(|tag| is_role(&tag)) {
            Self::from_roles(event.author(), event.tags().filter(is_role))
        } else {
            Self::from_legacy(event)
        }
    }

    fn from_roles<'a>(author: PublicKey, tags: impl Iterator<Item = &'a [String]>) -> Self {
        let mut mentioned = BTreeMap::new();
        for tag in tags {
            let Some(key) = tag.get(1).and_then(|hex| PublicKey::from_hex(hex).ok()) else {
                continue;
            };
            // The author is read in any case, or a long list would hide that they left.
            let known = mentioned.contains_key(&key) || key == author;
            if !known && mentioned.len() >= LISTED_KEYS_MAX {
                continue;
            }
            let (lead, active) = mentioned.entry(key).or_insert((false, false));
            if is_active(&tag[2..]) {
                *lead |= tag[0] == "M";
                *active |= tag[0] != "o";
            }
        }
        // MNT-4: not mentioned at all is implicitly active; mentioned and not active is gone.
        mentioned.entry(author).or_insert((false, true));
        let keys = |chosen: fn(&(bool, bool)) -> bool| {
            mentioned
                .iter()
                .filter(|(_, role)| chosen(role))
                .map(|(key, _)| *key)
                .collect()
        };
        Self {
            leads: keys(|role| role.0),
            active: keys(|role| role.1),
        }
    }

    fn from_legacy(event: &VerifiedEvent) -> Self {
        let tag = event.tags().find(|tag| tag[0] == "maintainers");
        let listed = tag
            .into_iter()
            .flat_map(|tag| &tag[1..])
            .take(LISTED_KEYS_MAX);
        let mut active: BTreeSet<_> = listed
            .filter_map(|hex| PublicKey::from_hex(hex).ok())
            .collect();
        active.insert(event.author());
        Self {
            leads: BTreeSet::new(),
            active,
        }
    }
}

/// MNT-1: an odd number of boundaries, or none, is active; anything malformed is not.
fn is_active(boundaries: &[String]) -> bool {
    if boundaries.len() > BOUNDARIES_MAX {
        return false;
    }
    // `defer` may only be an end, and what ended is inactive, however it is written.
    let well_formed = |text: &String| text.parse::<u64>().is_ok() && !text.starts_with('+');
    boundaries.iter().all(well_formed) && (boundaries.is_empty() || boundaries.len() % 2 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::project::{RawTag, announcement, event, maintainers, role, tag};
    use crate::testing::{NOW, key};

    const AUTHOR: u8 = 1;

    fn listing(tags: Vec<RawTag>) -> Listing {
        announcement(key(AUTHOR), NOW, tags).listing().clone()
    }

    /// The active keys by number, the author left out.
    fn others(tags: Vec<RawTag>) -> Vec<u8> {
        let listing = listing(tags);
        let keys = listing.active().iter().map(|key| key.to_bytes()[0]);
        keys.filter(|n| *n != AUTHOR).collect()
    }

    fn is_author_active(tags: Vec<RawTag>) -> bool {
        listing(tags).lists(&key(AUTHOR))
    }

    /// MNT-1
    #[test]
    fn boundaries_start_and_end_a_role_in_turn() {
        for active in [
            &[][..],
            &["1"],
            &["1", "2", "3"],
            &["0"],
            &["18446744073709551615"],
        ] {
            assert_eq!(others(vec![role("m", key(2), active)]), [2], "{active:?}");
        }
        for over in [
            &["1", "2"][..],
            &["1", "2", "3", "4"],
            &["1", "defer"],
            &["1", "2", "3", "defer"],
            &["defer"],
            &["1", "defer", "3"],
            &["1", "defer", "3", "4"],
            &["-1"],
            &["+1"],
            &["1.5"],
            &["soon"],
            &[""],
            &["18446744073709551616"],
        ] {
            let none: [u8; 0] = [];
            assert_eq!(others(vec![role("m", key(2), over)]), none, "{over:?}");
        }
    }

    /// MNT-1
    #[test]
    fn only_m_in_either_case_grants_something() {
        let roles = [("M", 2), ("m", 3), ("o", 4)];
        let listing = listing(roles.map(|(letter, n)| role(letter, key(n), &[])).to_vec());
        assert_eq!(*listing.leads(), BTreeSet::from([key(2)]));
        let active = [AUTHOR, 2, 3].map(key);
        assert_eq!(*listing.active(), BTreeSet::from(active));
    }

    /// MNT-1: a malformed tag is inactive, and the others of the event stand.
    #[test]
    fn a_malformed_tag_spoils_nothing_else() {
        let tags = vec![
            tag(["m"]),
            tag(["m", "not a key"]),
            role("m", key(2), &["soon"]),
            role("m", key(3), &[]),
        ];
        assert_eq!(others(tags), [3]);
    }

    /// MNT-2
    #[test]
    fn any_role_tag_silences_the_legacy_tag() {
        for letter in ["M", "m", "o"] {
            let tags = vec![maintainers(&[key(2)]), role(letter, key(3), &["1", "2"])];
            let none: [u8; 0] = [];
            assert_eq!(others(tags), none, "{letter}");
        }
        assert_eq!(others(vec![maintainers(&[key(2)])]), [2]);
    }

    /// MNT-3
    #[test]
    fn one_active_tag_of_several_is_enough() {
        let tags = [
            role("m", key(2), &["1", "2"]),
            role("M", key(2), &[]),
            role("o", key(2), &["1"]),
            role("m", key(2), &["soon"]),
        ];
        for turn in 0..tags.len() {
            let mut tags = tags.to_vec();
            tags.rotate_left(turn);
            assert_eq!(others(tags), [2]);
        }
    }

    /// MNT-4
    #[test]
    fn an_author_is_active_until_they_left() {
        assert!(
            is_author_active(vec![role("m", key(2), &[])]),
            "not mentioned"
        );
        assert!(is_author_active(vec![role("m", key(AUTHOR), &["1"])]));
        for left in [
            role("m", key(AUTHOR), &["1", "2"]),
            role("M", key(AUTHOR), &["1", "defer"]),
            role("m", key(AUTHOR), &["soon"]),
            role("o", key(AUTHOR), &[]),
        ] {
            assert!(!is_author_active(vec![left.clone()]), "{left:?}");
        }
    }

    /// MNT-5
    #[test]
    fn of_the_legacy_tag_the_first_counts_and_u_does_nothing() {
        let tags = vec![
            tag(["u", &key(9).to_hex()]),
            tag([
                "maintainers".to_owned(),
                key(2).to_hex(),
                "junk".to_owned(),
                key(3).to_hex(),
            ]),
            maintainers(&[key(4)]),
        ];
        assert_eq!(others(tags.clone()), [2, 3]);
        assert!(is_author_active(tags));
    }

    /// ANN-3: more authority is another active key, or another lead among the same keys.
    #[test]
    fn who_is_added_or_leads_widens_and_who_goes_does_not() {
        let with = |tags: &[RawTag]| announcement(key(AUTHOR), NOW, tags.to_vec());
        let me_and = |letter, n| [role("m", key(AUTHOR), &[]), role(letter, key(n), &[])];
        let (both, led) = (with(&me_and("m", 2)), with(&me_and("M", 2)));
        let led_by_another = with(&[&me_and("M", 3)[..], &me_and("m", 2)].concat());
        let led_and_three = with(&[&me_and("M", 2)[..], &me_and("m", 3)].concat());
        let alone = with(&[]);
        assert!(both.widens(&alone) && led.widens(&alone));
        assert!(!alone.widens(&both), "whoever goes takes no leave");
        assert!(!both.widens(&both) && !led.widens(&led));
        assert!(led.widens(&both), "another leads");
        assert!(led_by_another.widens(&led_and_three), "another leads");
        assert!(both.widens(&led), "the author leads again");
    }

    /// MNT-10
    #[test]
    fn long_lists_are_read_up_to_their_bound() {
        let many: Vec<_> = (2..=180).map(key).collect();
        assert_eq!(others(vec![maintainers(&many)]).len(), LISTED_KEYS_MAX);
        let mut roles: Vec<_> = many.iter().map(|key| role("m", *key, &[])).collect();
        assert_eq!(others(roles.clone()).len(), LISTED_KEYS_MAX);
        roles.push(role("m", key(AUTHOR), &["1", "2"]));
        assert!(!is_author_active(roles), "left, however long the list");
        let boundaries = vec!["1"; BOUNDARIES_MAX + 1];
        assert!(others(vec![role("m", key(2), &boundaries)]).is_empty());
        assert_eq!(others(vec![role("m", key(2), &boundaries[2..])]), [2]);
    }

    /// KIND-4
    #[test]
    fn addresses_may_be_spread_over_several_tags() {
        let tags = vec![
            tag(["d", "one"]),
            tag(["d", "two"]),
            tag(["clone", "https://a", "https://b"]),
            tag(["relays", "wss://a"]),
            tag(["clone", "https://a", "https://c"]),
            tag(["relays"]),
            tag(["relays", "wss://b", "wss://a"]),
        ];
        let event = event(key(AUTHOR), kind::ANNOUNCEMENT, NOW, tags);
        let announcement = Announcement::parse(event).expect("an announcement");
        assert_eq!(announcement.identifier().as_str(), "one");
        assert_eq!(
            announcement.clone_urls(),
            ["https://a", "https://b", "https://c"]
        );
        assert_eq!(announcement.relays(), ["wss://a", "wss://b"]);
    }

    /// NAME-3: cases, 84.
    #[test]
    fn an_identifier_that_is_none_makes_no_announcement() {
        let parse = |kind, tags| Announcement::parse(event(key(AUTHOR), kind, NOW, tags)).err();
        let error = parse(kind::ANNOUNCEMENT, vec![tag(["d"])]);
        assert_eq!(error, Some(AnnouncementError::NoIdentifier));
        for bad in ["", ".", "..", "a/b", "a\0b"] {
            let error = parse(kind::ANNOUNCEMENT, vec![tag(["d", bad])]);
            assert!(
                matches!(error, Some(AnnouncementError::Identifier(_))),
                "{bad:?}"
            );
        }
        let error = parse(kind::STATE, vec![tag(["d", "x"])]);
        assert_eq!(error, Some(AnnouncementError::Kind(kind::STATE)));
    }
}
