//! Who may move the refs of a repository (§4).
//!
//! A listing alone is an invitation. If naming a stranger were enough, the stranger's unrelated
//! repository of the same identifier would become authoritative here, so authority needs the link in
//! both directions. *Invariant:* an ambiguous answer is the empty set, never a weaker one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use nostr::key::PublicKey;

use crate::announcement::Listing;
use crate::lifecycle::Stage;
use crate::view::RepoView;

/// Who joins a confirmed set (MNT-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaintainerRule {
    /// MNT-7: listed by a member, and listing a member back.
    #[default]
    Reciprocal,
    /// The published GRASP-01 wording: whoever a member lists is one. The weaker authority.
    Recursive,
}

/// The maintainers of the repository that `owner` announced (MNT-6, MNT-7), or nobody. The owner need
/// not be among them. Near linear in the listings that the root reaches.
pub fn confirmed_set(
    owner: &PublicKey,
    view: &RepoView,
    rule: MaintainerRule,
) -> BTreeSet<PublicKey> {
    match (root(owner, view), rule) {
        (None, _) => BTreeSet::new(),
        (Some(root), MaintainerRule::Reciprocal) => reciprocal(root, view),
        (Some(root), MaintainerRule::Recursive) => recursive(root, view),
    }
}

/// The confirmed set and whoever a member lists (MNT-8): whose announcements are worth having.
pub fn confirmed_or_invited(
    owner: &PublicKey,
    view: &RepoView,
    rule: MaintainerRule,
) -> BTreeSet<PublicKey> {
    let mut keys = confirmed_set(owner, view, rule);
    let invited: Vec<PublicKey> = keys
        .iter()
        .filter_map(|member| listing(member, view))
        .flat_map(|listing| listing.active().clone())
        .collect();
    keys.extend(invited);
    keys
}

/// Where resolution starts: the end of the chain of lead pointers (MNT-6). `None` when the chain
/// forks, turns in a circle or ends in nothing.
fn root(owner: &PublicKey, view: &RepoView) -> Option<PublicKey> {
    let mut current = *owner;
    let mut passed = BTreeSet::new();
    loop {
        let listing = listing(&current, view)?;
        let mut leads = listing.leads().iter();
        match (leads.next(), leads.next()) {
            (Some(lead), None) if *lead == current => return Some(current),
            (Some(lead), None) => {
                passed.insert(current);
                if passed.contains(lead) {
                    return None;
                }
                current = *lead;
            }
            (None, _) => {
                let selected = passed.is_empty();
                return (selected && listing.lists(&current)).then_some(current);
            }
            (Some(_), Some(_)) => return None,
        }
    }
}

/// MNT-7. A key that is listed joins when somebody it lists is a member; until then it waits on each
/// of those it lists, so every listing is read twice at most.
fn reciprocal(root: PublicKey, view: &RepoView) -> BTreeSet<PublicKey> {
    let mut confirmed = BTreeSet::new();
    let mut invited = BTreeSet::new();
    let mut waiting_on: BTreeMap<PublicKey, Vec<PublicKey>> = BTreeMap::new();
    let mut joining = vec![root];
    while let Some(member) = joining.pop() {
        if !confirmed.insert(member) {
            continue;
        }
        joining.extend(waiting_on.remove(&member).into_iter().flatten());
        let Some(listed) = listing(&member, view) else {
            continue;
        };
        for key in listed.active().iter().filter(|key| invited.insert(**key)) {
            let Some(theirs) = listing(key, view).filter(|theirs| theirs.lists(key)) else {
                continue;
            };
            if theirs
                .active()
                .iter()
                .any(|other| confirmed.contains(other))
            {
                joining.push(*key);
            } else {
                for other in theirs.active() {
                    waiting_on.entry(*other).or_default().push(*key);
                }
            }
        }
    }
    confirmed
}

/// MNT-11: listed is enough, own announcement or not. Who says in an own announcement that they left
/// stays out all the same (MNT-4).
fn recursive(root: PublicKey, view: &RepoView) -> BTreeSet<PublicKey> {
    let mut confirmed = BTreeSet::from([root]);
    let mut joined = vec![root];
    while let Some(member) = joined.pop() {
        let Some(listed) = listing(&member, view) else {
            continue;
        };
        for key in listed.active() {
            let left = listing(key, view).is_some_and(|theirs| !theirs.lists(key));
            if !left && confirmed.insert(*key) {
                joined.push(*key);
            }
        }
    }
    confirmed
}

/// What `key`'s newest announcement says. Is it back because a newer one was deleted, then only who
/// was active in both still is: a deletion gives no authority back (DEL-3).
fn listing<'v>(key: &PublicKey, view: &'v RepoView) -> Option<Cow<'v, Listing>> {
    let newest = &view.announcement(key)?.item;
    let versions = view.announcements.get(key)?.iter();
    let deleted = versions
        .filter(|entry| entry.stage == Stage::Held && entry.item.version() > newest.version());
    Some(
        deleted.fold(Cow::Borrowed(newest.listing()), |listing, held| {
            Cow::Owned(listing.limited_to(held.item.listing()))
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Stage::{Held, Parked, Served, Superseded, Waiting};
    use crate::testing::key;
    use crate::testing::project::{RawTag, announcement, maintainers, role, view};

    const NOBODY: [u8; 0] = [];

    /// A view of announcements, all of them served.
    fn project(announcements: &[(u8, Vec<RawTag>)]) -> RepoView {
        announcements
            .iter()
            .fold(view(), |view, (owner, tags)| {
                view.announced(announcement(key(*owner), 100, tags.clone()), Served)
            })
            .build()
    }

    fn legacy(keys: &[u8]) -> Vec<RawTag> {
        vec![maintainers(
            &keys.iter().map(|n| key(*n)).collect::<Vec<_>>(),
        )]
    }

    fn confirmed(owner: u8, view: &RepoView) -> Vec<u8> {
        let set = confirmed_set(&key(owner), view, MaintainerRule::Reciprocal);
        set.iter().map(|key| key.to_bytes()[0]).collect()
    }

    /// MNT-6
    #[test]
    fn without_a_lead_the_author_is_the_root() {
        assert_eq!(confirmed(1, &project(&[(1, vec![])])), [1]);
        assert_eq!(confirmed(2, &project(&[(1, vec![])])), NOBODY);
    }

    /// MNT-6
    #[test]
    fn a_chain_of_leads_is_followed_to_one_that_names_itself() {
        let lead = |n: u8| vec![role("M", key(n), &[])];
        let chain = project(&[(1, lead(2)), (2, lead(3)), (3, lead(3))]);
        assert_eq!(confirmed(1, &chain), [3], "the owner need not be in it");
        for broken in [
            project(&[(1, lead(2))]),
            project(&[(1, lead(2)), (2, vec![])]),
            project(&[(1, lead(2)), (2, vec![role("m", key(2), &[])])]),
            project(&[(1, lead(2)), (2, lead(3)), (3, lead(2))]),
            project(&[(1, lead(2)), (2, lead(1))]),
            project(&[(1, [lead(2), lead(3)].concat()), (2, lead(2)), (3, lead(3))]),
            project(&[(1, [lead(1), lead(2)].concat()), (2, lead(2))]),
            project(&[(1, lead(2)), (2, [lead(2), lead(3)].concat())]),
        ] {
            assert_eq!(confirmed(1, &broken), NOBODY, "never a weaker answer");
        }
    }

    /// MNT-4, MNT-6
    #[test]
    fn an_author_who_left_is_no_root_and_cannot_be_brought_back() {
        let left = |n: u8| vec![role("m", key(n), &["1", "2"])];
        assert_eq!(confirmed(1, &project(&[(1, left(1))])), NOBODY);
        let more = [left(2), vec![role("m", key(1), &[])]].concat();
        let both = project(&[(1, legacy(&[2])), (2, more)]);
        assert_eq!(confirmed(1, &both), [1]);
    }

    /// MNT-7, MNT-8
    #[test]
    fn a_listing_alone_is_an_invitation() {
        let invited = project(&[(1, legacy(&[2])), (2, vec![])]);
        assert_eq!(confirmed(1, &invited), [1]);
        let invited = confirmed_or_invited(&key(1), &invited, MaintainerRule::Reciprocal);
        assert_eq!(invited, BTreeSet::from([key(1), key(2)]));
        let both = project(&[(1, legacy(&[2])), (2, legacy(&[1]))]);
        assert_eq!(confirmed(1, &both), [1, 2]);
        let unannounced = project(&[(1, legacy(&[2]))]);
        assert_eq!(confirmed(1, &unannounced), [1]);
    }

    /// MNT-7: cases, 29.
    #[test]
    fn a_circle_resolves_and_a_stranger_stays_outside() {
        let circle = project(&[
            (1, legacy(&[2])),
            (2, legacy(&[1, 3])),
            (3, legacy(&[2])),
            (4, legacy(&[1, 2, 3])),
        ]);
        for owner in [1, 2, 3] {
            assert_eq!(confirmed(owner, &circle), [1, 2, 3]);
        }
        assert_eq!(confirmed(4, &circle), [4], "nobody listed D");
    }

    /// MNT-7: whoever waits for a later member joins with it.
    #[test]
    fn reciprocity_may_point_at_a_member_that_joins_later() {
        // 1 lists 2 and 3; 2 lists back only 3; 3 lists back 1.
        let view = project(&[(1, legacy(&[2, 3])), (2, legacy(&[3])), (3, legacy(&[1]))]);
        assert_eq!(confirmed(1, &view), [1, 2, 3]);
    }

    /// MNT-7: two who only list each other are no members.
    #[test]
    fn two_invited_keys_do_not_confirm_each_other() {
        let view = project(&[(1, legacy(&[2, 3])), (2, legacy(&[3])), (3, legacy(&[2]))]);
        assert_eq!(confirmed(1, &view), [1]);
    }

    /// MNT-2, MNT-5
    #[test]
    fn roles_and_the_legacy_tag_mix_within_one_project() {
        let roles = vec![role("M", key(1), &[]), role("m", key(2), &["5"])];
        let view = project(&[(1, roles), (2, legacy(&[1]))]);
        assert_eq!(confirmed(1, &view), [1, 2]);
        assert_eq!(
            confirmed(2, &view),
            [1, 2],
            "2's own page shows the same project"
        );
    }

    /// §4: Served, Waiting and Parked announcements count, the newest of each author.
    #[test]
    fn the_newest_announcement_that_counts_decides() {
        let with_two = |stage: Stage| {
            view()
                .announced(announcement(key(1), 100, vec![]), Served)
                .announced(announcement(key(1), 200, legacy(&[2])), stage)
                .announced(announcement(key(2), 100, legacy(&[1])), Served)
                .build()
        };
        for stage in [Served, Waiting, Parked] {
            assert_eq!(confirmed(1, &with_two(stage)), [1, 2], "{stage:?}");
        }
        for stage in [Superseded, Held] {
            assert_eq!(confirmed(1, &with_two(stage)), [1], "{stage:?}");
        }
    }

    /// DEL-3
    #[test]
    fn a_deleted_removal_gives_no_authority_back() {
        let back = |deleted: Vec<RawTag>| {
            view()
                .announced(announcement(key(1), 100, legacy(&[2, 3])), Served)
                .announced(announcement(key(1), 200, deleted), Held)
                .announced(announcement(key(2), 100, legacy(&[1])), Served)
                .announced(announcement(key(3), 100, legacy(&[1])), Served)
        };
        assert_eq!(confirmed(1, &back(legacy(&[3, 4])).build()), [1, 3]);
        let left = vec![role("m", key(1), &["1", "2"])];
        assert_eq!(confirmed(1, &back(left).build()), NOBODY);
        let again = announcement(key(1), 300, legacy(&[2]));
        let again = back(legacy(&[3])).announced(again, Served);
        assert_eq!(confirmed(1, &again.build()), [1, 2]);
    }

    /// MNT-11
    #[test]
    fn under_the_recursive_rule_a_listing_is_enough() {
        let view = project(&[
            (1, legacy(&[2, 5])),
            (2, legacy(&[3])),
            (4, legacy(&[1])),
            (5, vec![role("o", key(5), &[])]),
        ]);
        let set = confirmed_set(&key(1), &view, MaintainerRule::Recursive);
        assert_eq!(set, BTreeSet::from([key(1), key(2), key(3)]));
    }
}
