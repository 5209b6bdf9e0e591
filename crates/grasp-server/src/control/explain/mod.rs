//! `explain`: an [`Explained`] for a terminal, and for a program.
//!
//! [`Explained`]: crate::service::Explained

mod json;
mod text;

pub(super) use json::value;
pub(super) use text::text;

use std::collections::BTreeSet;

use grasp_core::name::{Coordinate, Identifier, parse_npub};
use nostr::key::PublicKey;

use crate::hunt::{Ledger, Page};
use crate::service::Explained;

/// What is looked for elsewhere for the people around the repository.
pub(super) fn hunted(explained: &Explained, ledger: &Ledger) -> Option<Page> {
    let it = &explained.explanation;
    let people = it.people.iter().map(|person| person.key);
    let people: BTreeSet<PublicKey> = people.chain([it.repo.owner]).collect();
    let mut page = ledger.page(&it.repo.identifier)?.clone();
    page.groups
        .retain(|group| people.contains(&group.into.coordinate().owner));
    (!page.groups.is_empty()).then_some(page)
}

/// Reads how an operator names a repository: `<npub or hex>/<identifier>`, `30617:<hex>:<identifier>`, or a clone
/// URL.
pub(super) fn repository(text: &str) -> Option<Coordinate> {
    if let Some(coordinate) = Coordinate::from_address(text) {
        return Some(coordinate);
    }
    if text.contains("://") {
        let (above, segment) = text.trim_end_matches('/').rsplit_once('/')?;
        let (_, owner) = above.rsplit_once('/')?;
        let identifier = Identifier::from_url_segment(segment)?;
        return Some(Coordinate::new(parse_npub(owner)?, identifier));
    }
    let (owner, identifier) = text.split_once('/')?;
    let owner = parse_npub(owner).or_else(|| PublicKey::from_hex(owner).ok())?;
    Some(Coordinate::new(owner, identifier.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::name::npub;

    #[test]
    fn a_repository_is_named_as_people_have_it_at_hand() {
        let owner = PublicKey::from_byte_array([7; 32]);
        let coordinate = Coordinate::new(owner, "my repo".parse().expect("valid"));
        let (npub, hex) = (npub(&owner), owner.to_hex());
        for text in [
            format!("{npub}/my repo"),
            format!("{hex}/my repo"),
            format!("30617:{hex}:my repo"),
            format!("https://grasp.example.com/{npub}/my%20repo.git"),
            format!("ws://grasp.example.com/base/{npub}/my%20repo.git/"),
        ] {
            assert_eq!(repository(&text), Some(coordinate.clone()), "{text}");
        }
        for text in [
            "",
            "my repo",
            &npub,
            &format!("{npub}/"),
            &format!("{npub}/a/b"),
            "https://grasp.example.com/",
        ] {
            assert_eq!(repository(text), None, "{text}");
        }
    }
}
