//! Whom to ask (HUNT-6, ANN-8).

use std::collections::BTreeSet;

use nostr::key::PublicKey;

use super::SOURCES_MAX;
use super::group::Group;
use crate::announcement::ADDRESSES_MAX;
use crate::clone_url::CloneUrl;
use crate::maintainers::listing;
use crate::policy::Policy;

/// The addresses in the announcements of the group's maintainers and of those whom they invite: of every one the first, then of
/// every one the second, so that a long list pushes no other aside. `first` are whom to begin with.
pub(super) fn of_maintainers(
    group: &Group<'_>,
    first: &[PublicKey],
    policy: &Policy,
) -> Vec<CloneUrl> {
    let confirmed = first.iter().chain(&group.members);
    let listings = group
        .members
        .iter()
        .filter_map(|key| listing(key, group.view));
    let invited: BTreeSet<PublicKey> = listings
        .flat_map(|listing| listing.active().clone())
        .collect();
    let mut known = BTreeSet::new();
    let lists = confirmed
        .chain(&invited)
        .filter(|key| known.insert(**key))
        .filter_map(|key| group.view.announcement(key))
        .map(|entry| read(entry.item.clone_urls(), policy));
    in_turn(&lists.collect::<Vec<_>>())
}

/// The addresses in proposals of one author (ANN-8).
pub(super) fn of_proposals<'u>(
    urls: impl Iterator<Item = &'u [String]>,
    policy: &Policy,
) -> Vec<CloneUrl> {
    let lists = urls.map(|urls| read(urls.to_vec(), policy));
    in_turn(&lists.collect::<Vec<_>>())
}

/// Those that are addresses of others.
fn read(urls: Vec<String>, policy: &Policy) -> Vec<CloneUrl> {
    let urls = urls.into_iter().take(ADDRESSES_MAX);
    urls.filter_map(|url| url.parse().ok())
        .filter(|url| !policy.service.is_here(url))
        .collect()
}

fn in_turn(lists: &[Vec<CloneUrl>]) -> Vec<CloneUrl> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or_default();
    let mut known = BTreeSet::new();
    (0..longest)
        .flat_map(|place| lists.iter().filter_map(move |list| list.get(place)))
        .filter(|url| known.insert((*url).clone()))
        .take(SOURCES_MAX)
        .cloned()
        .collect()
}
