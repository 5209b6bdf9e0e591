//! Events that have been checked, and how they are ordered.

use std::cmp::Ordering;
use std::sync::Arc;

use nostr::event::{Event, EventId};
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::defect::Defect;
use crate::name::Identifier;

/// Kind numbers of NIP-34 and its neighbours (KIND-1).
pub mod kind {
    /// Profile (NIP-01).
    pub const PROFILE: u16 = 0;
    /// Deletion request (NIP-09).
    pub const DELETION: u16 = 5;
    /// Request to vanish (NIP-62).
    pub const VANISH: u16 = 62;
    /// Patch.
    pub const PATCH: u16 = 1617;
    /// Pull request.
    pub const PULL_REQUEST: u16 = 1618;
    /// Update of a pull request.
    pub const PULL_REQUEST_UPDATE: u16 = 1619;
    /// Issue.
    pub const ISSUE: u16 = 1621;
    /// Relay list (NIP-65).
    pub const RELAY_LIST: u16 = 10002;
    /// A user's GRASP servers.
    pub const GRASP_LIST: u16 = 10317;
    /// Client authentication (NIP-42).
    pub const AUTH: u16 = 22242;
    /// Repository announcement.
    pub const ANNOUNCEMENT: u16 = 30617;
    /// Repository state.
    pub const STATE: u16 = 30618;

    /// Replaced by the newest of its author (NIP-01).
    pub fn is_replaceable(kind: u16) -> bool {
        matches!(kind, 0 | 3 | 10_000..=19_999)
    }

    /// Replaced by the newest of its author and `d` tag (NIP-01).
    pub fn is_addressable(kind: u16) -> bool {
        matches!(kind, 30_000..=39_999)
    }

    /// Broadcast and forgotten (NIP-01).
    pub fn is_ephemeral(kind: u16) -> bool {
        matches!(kind, 20_000..=29_999)
    }

    /// Roots of conversations: what replies hang on.
    pub fn is_root(kind: u16) -> bool {
        matches!(kind, PATCH | PULL_REQUEST | ISSUE)
    }

    /// Carries a commit and a ref below `refs/nostr/` (§8).
    pub fn is_proposal(kind: u16) -> bool {
        matches!(kind, PULL_REQUEST | PULL_REQUEST_UPDATE)
    }
}

/// An event whose id is the hash of its content. Who signed it is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentifiedEvent(Event);

impl IdentifiedEvent {
    /// Checks the id: call it off the async workers, the content may be long.
    pub fn identify(event: Event) -> Result<Self, VerifyError> {
        if event.verify_id() {
            Ok(Self(event))
        } else {
            Err(VerifyError::Id)
        }
    }

    /// The event itself.
    pub fn event(&self) -> &Event {
        &self.0
    }

    /// Checks the signature: some 40 µs of one core.
    pub fn verify(self) -> Result<VerifiedEvent, VerifyError> {
        if self.0.verify_signature() {
            Ok(VerifiedEvent(Arc::new(self.0)))
        } else {
            Err(VerifyError::Signature)
        }
    }
}

/// An event whose id and signature are right. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedEvent(Arc<Event>);

/// What is wrong with an event (§5: `invalid: …`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The id is not the hash of the content.
    #[error("invalid event ID")]
    Id,
    /// The signature is not the author's over this id.
    #[error("invalid event signature")]
    Signature,
}

impl VerifiedEvent {
    /// Checks id and signature: some 40 µs of one core, so call it off the async workers.
    pub fn verify(event: Event) -> Result<Self, VerifyError> {
        IdentifiedEvent::identify(event)?.verify()
    }

    /// Takes back an event that was verified before it was stored. For the store alone: whatever
    /// else calls this opens the door to forged events.
    pub fn from_own_store(event: Event) -> Self {
        Self(Arc::new(event))
    }

    /// The event itself.
    pub fn event(&self) -> &Event {
        &self.0
    }

    /// The id.
    pub fn id(&self) -> EventId {
        self.0.id
    }

    /// Who signed it.
    pub fn author(&self) -> PublicKey {
        self.0.pubkey
    }

    /// The kind number.
    pub fn kind(&self) -> u16 {
        self.0.kind.as_u16()
    }

    /// When its author says it was made.
    pub fn created_at(&self) -> Timestamp {
        self.0.created_at
    }

    /// All tags as slices of their elements: never empty.
    pub fn tags(&self) -> impl Iterator<Item = &[String]> {
        self.0.tags.iter().map(nostr::event::Tag::as_slice)
    }

    /// The first value of the first tag `name` that has one.
    pub fn first_value(&self, name: &str) -> Option<&str> {
        first_value(&self.0, name)
    }

    /// All values of all tags `name`, in order, repeats dropped (KIND-4).
    pub fn all_values(&self, name: &str) -> Vec<String> {
        let mut seen = std::collections::HashSet::new();
        self.tags()
            .filter(|tag| tag[0] == name)
            .flat_map(|tag| &tag[1..])
            .filter(|value| seen.insert(value.as_str()))
            .cloned()
            .collect()
    }

    /// The `d` tag as a repository identifier; of several the first counts (KIND-4).
    pub fn identifier(&self) -> Option<Identifier> {
        self.first_value("d")?.parse().ok()
    }

    /// The address another event would name it by: `kind:pubkey:d` or `kind:pubkey:`. `None` for
    /// kinds that are not replaced.
    pub fn address(&self) -> Option<String> {
        let kind = self.kind();
        if kind::is_addressable(kind) {
            Some(format!(
                "{kind}:{}:{}",
                self.author().to_hex(),
                self.first_value("d").unwrap_or_default()
            ))
        } else if kind::is_replaceable(kind) {
            Some(format!("{kind}:{}:", self.author().to_hex()))
        } else {
            None
        }
    }

    /// NIP-40: when it stops to be shown.
    pub fn expiration(&self) -> Option<Timestamp> {
        expiration(&self.0)
    }

    /// Its place in the order of versions.
    pub fn version(&self) -> Version {
        Version {
            created_at: self.created_at(),
            id: self.id(),
        }
    }
}

/// The first value of the first tag `name` that has one.
fn first_value<'e>(event: &'e Event, name: &str) -> Option<&'e str> {
    let mut tags = event.tags.iter().map(nostr::event::Tag::as_slice);
    tags.find(|tag| tag[0] == name && tag.len() > 1)
        .map(|tag| tag[1].as_str())
}

/// NIP-40: when an event says that it ends.
pub(crate) fn expiration(event: &Event) -> Option<Timestamp> {
    let end = first_value(event, "expiration")?.parse().ok();
    end.map(Timestamp::from_secs)
}

/// A type that an event was read as, and that keeps it.
pub trait Parsed {
    /// The event.
    fn verified(&self) -> &VerifiedEvent;
}

/// The place of an event among versions of the same thing: the greater wins. A higher `created_at`,
/// and in the same second the **lower** id (KIND-5). Used wherever versions compete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// When its author says it was made.
    pub created_at: Timestamp,
    /// Settles ties.
    pub id: EventId,
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        if Defect::TieOrder.is_on() {
            return (self.created_at, self.id).cmp(&(other.created_at, other.id));
        }
        self.created_at
            .cmp(&other.created_at)
            .then_with(|| other.id.cmp(&self.id))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KIND-1: other texts mix these up.
    #[test]
    fn kinds_are_those_of_nip_34() {
        assert_eq!((kind::ANNOUNCEMENT, kind::STATE), (30617, 30618));
        let roots = (0..=u16::MAX).filter(|kind| kind::is_root(*kind));
        assert_eq!(roots.collect::<Vec<_>>(), [1617, 1618, 1621]);
        let with_commits = (0..=u16::MAX).filter(|kind| kind::is_proposal(*kind));
        assert_eq!(with_commits.collect::<Vec<_>>(), [1618, 1619]);
        assert_eq!((kind::PATCH, kind::ISSUE), (1617, 1621));
        assert_eq!((kind::GRASP_LIST, kind::RELAY_LIST), (10317, 10002));
        assert_eq!((kind::DELETION, kind::VANISH), (5, 62));
    }

    /// KIND-4
    #[test]
    fn of_several_d_tags_the_first_counts() {
        let named = |tags: &[&str]| {
            let draft = crate::testing::draft(kind::ISSUE, crate::testing::key(1));
            let draft = tags
                .iter()
                .fold(draft, |draft, name| draft.tag(["d", name]));
            draft.event().identifier().map(|name| name.to_string())
        };
        assert_eq!(named(&["one", "two"]).as_deref(), Some("one"));
        assert_eq!(named(&["..", "two"]), None);
        assert_eq!(named(&[]), None);
    }

    /// KIND-5
    #[test]
    fn of_two_versions_in_one_second_the_lower_id_wins() {
        let version = |at, id: u8| Version {
            created_at: Timestamp::from_secs(at),
            id: EventId::from_byte_array([id; 32]),
        };
        assert!(version(2, 9) > version(1, 0));
        assert!(version(1, 0x0a) > version(1, 0xf3));
    }
}
