//! Maintainer sets against a naive reading of §4, over any mix of announcements.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::PublicKey;
use grasp_core::announcement::{Announcement, Listing};
use grasp_core::lifecycle::Stage;
use grasp_core::maintainers::{MaintainerRule, Resolution, confirmed_or_invited, confirmed_set};
use grasp_core::view::{ANNOUNCEMENTS_MAX, RepoView};
use proptest::prelude::*;

use crate::support::key;
use crate::support::project::{RawTag, announcement, maintainers, role, tag, view};

/// So few keys that circles, forks and mutual listings are the rule.
const KEYS: u8 = 6;

/// MNT-7 as it is written: look at everybody again until nobody joins.
fn naive_set(owner: &PublicKey, view: &RepoView) -> BTreeSet<PublicKey> {
    let Some(root) = naive_root(owner, view) else {
        return BTreeSet::new();
    };
    let newest = newest(view);
    let mut confirmed = BTreeSet::from([root]);
    while let Some(joining) = newest.iter().find(|(key, theirs)| {
        !confirmed.contains(*key)
            && theirs.lists(key)
            && confirmed
                .iter()
                .any(|member| newest.get(member).is_some_and(|listing| listing.lists(key)))
            && confirmed.iter().any(|member| theirs.lists(member))
    }) {
        confirmed.insert(*joining.0);
    }
    confirmed
}

/// MNT-6 by trying every number of steps along the pointers.
fn naive_root(owner: &PublicKey, view: &RepoView) -> Option<PublicKey> {
    let newest = newest(view);
    let mut at = *owner;
    for step in 0..=usize::from(KEYS) {
        let listing = newest.get(&at)?;
        let leads: Vec<_> = listing.leads().iter().collect();
        match leads[..] {
            [] if step == 0 => return listing.lists(&at).then_some(at),
            [lead] if *lead == at => return Some(at),
            [lead] => at = *lead,
            _ => return None,
        }
    }
    None // more steps than keys: a circle
}

/// The newest announcement of each owner that counts, without what a deleted newer one took away
/// (DEL-3).
fn newest(view: &RepoView) -> BTreeMap<PublicKey, Listing> {
    let mut listings = BTreeMap::new();
    for (owner, versions) in &view.announcements {
        let Some(newest) = view.announcement(owner) else {
            continue;
        };
        let mut listing = newest.item.listing().clone();
        for held in versions.iter().filter(|entry| entry.stage == Stage::Held) {
            if held.item.version() > newest.item.version() {
                listing = listing.limited_to(held.item.listing());
            }
        }
        listings.insert(*owner, listing);
    }
    listings
}

fn any_key() -> impl Strategy<Value = PublicKey> {
    (1..=KEYS).prop_map(key)
}

/// Active, ended, deferred, malformed.
fn any_boundaries() -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![
        4 => Just(vec![]),
        1 => Just(vec!["1"]),
        1 => Just(vec!["1", "2"]),
        1 => Just(vec!["1", "2", "3"]),
        1 => Just(vec!["1", "defer"]),
        1 => Just(vec!["soon"]),
    ]
}

fn any_role() -> impl Strategy<Value = RawTag> {
    let letter = prop_oneof![1 => Just("M"), 4 => Just("m"), 1 => Just("o")];
    (letter, any_key(), any_boundaries())
        .prop_map(|(letter, key, boundaries)| role(letter, key, &boundaries))
}

fn any_tags() -> impl Strategy<Value = Vec<RawTag>> {
    let legacy = prop::collection::vec(any_key(), 0..4)
        .prop_map(|keys| vec![maintainers(&keys), tag(["u", "ignored"])])
        .boxed();
    let roles = prop::collection::vec(any_role(), 0..5).boxed();
    let mixed = (legacy.clone(), roles.clone()).prop_map(|(a, b)| [a, b].concat());
    prop_oneof![3 => legacy, 3 => roles, 1 => mixed]
}

fn any_announcement() -> impl Strategy<Value = (Announcement, Stage)> {
    let stage = prop_oneof![
        4 => Just(Stage::Served),
        2 => Just(Stage::Waiting),
        2 => Just(Stage::Parked),
        1 => Just(Stage::Superseded),
        1 => Just(Stage::Held),
    ];
    (any_key(), 1..4_u64, any_tags(), stage)
        .prop_map(|(owner, at, tags, stage)| (announcement(owner, at, tags), stage))
}

fn view_of(announcements: &[(Announcement, Stage)]) -> RepoView {
    announcements
        .iter()
        .fold(view(), |view, (item, stage)| {
            view.announced(item.clone(), *stage)
        })
        .build()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    /// MNT-6, MNT-7
    #[test]
    fn the_worklist_agrees_with_the_naive_reading(
        announcements in prop::collection::vec(any_announcement(), 0..12),
    ) {
        let view = view_of(&announcements);
        for owner in (1..=KEYS).map(key) {
            let set = confirmed_set(&owner, &view, MaintainerRule::Reciprocal);
            prop_assert_eq!(&set, &naive_set(&owner, &view));
        }
    }

    /// MNT-10: what owners share is the same as what each would get alone, in whatever order asked.
    #[test]
    fn sets_resolved_together_are_those_resolved_alone(
        announcements in prop::collection::vec(any_announcement(), 0..12),
        order in Just((1..=KEYS).map(key).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let view = view_of(&announcements);
        for rule in [MaintainerRule::Reciprocal, MaintainerRule::Recursive] {
            let mut together = Resolution::of(&view, rule);
            for owner in &order {
                prop_assert_eq!(&*together.confirmed(owner), &confirmed_set(owner, &view, rule));
            }
        }
    }

    /// MNT-7: order must not matter.
    #[test]
    fn the_order_of_arrival_does_not_matter(
        (announcements, shuffled) in prop::collection::vec(any_announcement(), 0..12)
            .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        let (view, other) = (view_of(&announcements), view_of(&shuffled));
        for rule in [MaintainerRule::Reciprocal, MaintainerRule::Recursive] {
            for owner in (1..=KEYS).map(key) {
                let sets = [&view, &other].map(|view| confirmed_set(&owner, view, rule));
                prop_assert_eq!(&sets[0], &sets[1]);
            }
        }
    }

    /// MNT-8, MNT-11: reciprocal members are recursive members, and members are confirmed or invited.
    #[test]
    fn the_weaker_rules_contain_the_stronger(
        announcements in prop::collection::vec(any_announcement(), 0..12),
    ) {
        let view = view_of(&announcements);
        for owner in (1..=KEYS).map(key) {
            let confirmed = confirmed_set(&owner, &view, MaintainerRule::Reciprocal);
            let recursive = confirmed_set(&owner, &view, MaintainerRule::Recursive);
            let invited = confirmed_or_invited(&owner, &view, MaintainerRule::Reciprocal);
            prop_assert!(confirmed.is_subset(&recursive));
            prop_assert!(confirmed.is_subset(&invited));
            prop_assert!(confirmed.is_empty() == invited.is_empty());
        }
    }
}

/// MNT-10: the worst that a thousand strangers can do. Everybody lists a hundred others, in pairs that
/// confirm each other and take in all the pairs after them: no two pairs have the same set.
#[test]
fn a_thousand_strangers_who_list_each_other_are_resolved() {
    let count = ANNOUNCEMENTS_MAX;
    let key = |n: usize| {
        let mut bytes = [1; 32];
        bytes[..8].copy_from_slice(&(n as u64).to_be_bytes());
        PublicKey::from_byte_array(bytes)
    };
    let view = (0..count).fold(view(), |view, n| {
        let listed: Vec<_> = if n % 2 == 0 {
            // The partner, and the first of the pairs that follow.
            let following = (1..98).map(|pair| n + 2 * pair);
            [n + 1].into_iter().chain(following).map(key).collect()
        } else {
            vec![key(n - 1)]
        };
        let back = (n % 2 == 0 && n > 0).then(|| key(n - 1));
        let listed: Vec<_> = listed.into_iter().chain(back).collect();
        let item = announcement(key(n), 1, vec![maintainers(&listed)]);
        view.announced(item, Stage::Served)
    });
    let view = view.build();
    let mut together = Resolution::of(&view, MaintainerRule::Reciprocal);
    for n in 0..count {
        let set = together.confirmed(&key(n));
        assert_eq!(set.len(), count - (n - n % 2), "{n}");
    }
}
