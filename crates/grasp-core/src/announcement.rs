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
            let keys = mentioned.len();
            let known = mentioned.contains_key(&key);
            if !known && keys == LISTED_KEYS_MAX {
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
    let well_formed = boundaries.iter().enumerate().all(|(at, text)| {
        let last_end = at + 1 == boundaries.len() && at % 2 == 1;
        text.parse::<u64>().is_ok() && !text.starts_with('+') || (last_end && text == "defer")
    });
    well_formed && (boundaries.is_empty() || boundaries.len() % 2 == 1)
}
