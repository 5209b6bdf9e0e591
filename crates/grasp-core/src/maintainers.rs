//! Who may move the refs of a repository (§4).
//!
//! A listing alone is an invitation. If naming a stranger were enough, the stranger's unrelated
//! repository of the same identifier would become authoritative here, so authority needs the link in
//! both directions. *Invariant:* an ambiguous answer is the empty set, never a weaker one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nostr::key::PublicKey;

use crate::announcement::Listing;
use crate::defect::Defect;
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
/// not be among them. Whoever asks about several owners of a view asks a [`Resolution`].
pub fn confirmed_set(
    owner: &PublicKey,
    view: &RepoView,
    rule: MaintainerRule,
) -> BTreeSet<PublicKey> {
    let set = Resolution::of(view, rule).confirmed(owner);
    Arc::unwrap_or_clone(set)
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

/// The maintainer sets of one view. Reads every listing once; a set then costs what its members list,
/// and members that list each other share one. So a thousand strangers that announce the same
/// identifier and list each other cannot make it costly (MNT-10).
#[derive(Debug)]
pub struct Resolution {
    rule: MaintainerRule,
    numbers: BTreeMap<PublicKey, usize>,
    people: Vec<Person>,
    sets: BTreeMap<usize, Arc<BTreeSet<PublicKey>>>,
}

/// A key of the view, and its ties to others by number.
#[derive(Debug)]
struct Person {
    key: PublicKey,
    /// Where its announcement sends whoever looks for the root.
    lead: Lead,
    /// Active in its own announcement. Without one it is neither active nor gone.
    active: Option<bool>,
    /// Whom it lists, ascending, itself left out.
    lists: Vec<usize>,
    /// Who lists it, being active themselves.
    listed_by: Vec<usize>,
}

/// What an announcement says about the lead (MNT-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// Nothing.
    Nobody,
    /// The author.
    Author,
    /// Somebody else whose announcement is known.
    Other(usize),
    /// Several, somebody unknown, or there is no announcement.
    Unclear,
}

impl Resolution {
    /// Reads the announcements of a view.
    pub fn of(view: &RepoView, rule: MaintainerRule) -> Self {
        let announced = view.announcements.keys();
        let listings: BTreeMap<PublicKey, Cow<'_, Listing>> = announced
            .filter_map(|key| Some((*key, listing(key, view)?)))
            .collect();
        // Without an announcement nobody joins, but by the recursive rule.
        let mut keys: BTreeSet<PublicKey> = listings.keys().copied().collect();
        if rule == MaintainerRule::Recursive {
            keys.extend(listings.values().flat_map(|listing| listing.active()));
        }
        let numbers: BTreeMap<PublicKey, usize> = keys.into_iter().zip(0..).collect();
        let mut people: Vec<Person> = numbers
            .iter()
            .map(|(key, number)| Person::read(*key, *number, listings.get(key), &numbers))
            .collect();
        for lister in 0..people.len() {
            if people[lister].active == Some(true) {
                for listed in people[lister].lists.clone() {
                    people[listed].listed_by.push(lister);
                }
            }
        }
        Self {
            rule,
            numbers,
            people,
            sets: BTreeMap::new(),
        }
    }

    /// The maintainers of the repository that `owner` announced (MNT-6, MNT-7), or nobody.
    pub fn confirmed(&mut self, owner: &PublicKey) -> Arc<BTreeSet<PublicKey>> {
        let selected = self.numbers.get(owner);
        let Some(root) = selected.and_then(|selected| self.root(*selected)) else {
            return Arc::default();
        };
        if let Some(known) = self.sets.get(&root) {
            return Arc::clone(known);
        }
        let members = self.members(root);
        let keys = members.iter().map(|member| self.people[*member].key);
        let set: Arc<BTreeSet<PublicKey>> = Arc::new(keys.collect());
        for equal in self.equals(root) {
            self.sets.insert(equal, Arc::clone(&set));
        }
        set
    }

    /// Where resolution starts: the end of the chain of lead pointers (MNT-6). `None` when the chain
    /// forks, turns in a circle or ends in nothing.
    fn root(&self, selected: usize) -> Option<usize> {
        let mut current = selected;
        for _ in 0..self.people.len() {
            let person = &self.people[current];
            match person.lead {
                Lead::Author => return Some(current),
                Lead::Other(lead) => current = lead,
                Lead::Nobody if current == selected => {
                    return (person.active == Some(true)).then_some(current);
                }
                Lead::Nobody | Lead::Unclear => return None,
            }
        }
        None // more steps than people: a circle
    }

    fn members(&self, root: usize) -> Vec<usize> {
        match self.rule {
            MaintainerRule::Reciprocal => self.reciprocal(root),
            MaintainerRule::Recursive => self.recursive(root),
        }
    }

    /// MNT-7: whoever is invited and linked back joins, in whichever order the two become true.
    fn reciprocal(&self, root: usize) -> Vec<usize> {
        let nobody = vec![false; self.people.len()];
        let (mut invited, mut linked_back) = (nobody.clone(), nobody.clone());
        let mut joined = nobody;
        joined[root] = true;
        let mut members = vec![root];
        let mut next = 0;
        while let Some(member) = members.get(next).map(|member| &self.people[*member]) {
            next += 1;
            member.lists.iter().for_each(|key| invited[*key] = true);
            member
                .listed_by
                .iter()
                .for_each(|key| linked_back[*key] = true);
            for key in member.lists.iter().chain(&member.listed_by) {
                let linked = linked_back[*key] || Defect::InvitedAuthority.is_on();
                if invited[*key] && linked && !joined[*key] {
                    joined[*key] = true;
                    members.push(*key);
                }
            }
        }
        members
    }

    /// MNT-11: listed is enough, own announcement or not. Who says in an own announcement that they
    /// left stays out all the same (MNT-4).
    fn recursive(&self, root: usize) -> Vec<usize> {
        let mut joined = vec![false; self.people.len()];
        joined[root] = true;
        let mut members = vec![root];
        let mut next = 0;
        while let Some(member) = members.get(next).map(|member| &self.people[*member]) {
            next += 1;
            for key in &member.lists {
                if self.people[*key].active != Some(false) && !joined[*key] {
                    joined[*key] = true;
                    members.push(*key);
                }
            }
        }
        members
    }

    /// Roots with the same set as `root`. Two who list each other are members from either's point of
    /// view, and more members never confirm fewer.
    fn equals(&self, root: usize) -> BTreeSet<usize> {
        let mut equals = BTreeSet::from([root]);
        let mut queue = vec![root];
        while let Some(one) = queue.pop() {
            let listed = self.people[one].lists.iter();
            let mutual =
                listed.filter(|other| self.people[one].listed_by.binary_search(other).is_ok());
            queue.extend(mutual.filter(|other| equals.insert(**other)));
        }
        equals
    }
}

impl Person {
    fn read(
        key: PublicKey,
        number: usize,
        listing: Option<&Cow<'_, Listing>>,
        numbers: &BTreeMap<PublicKey, usize>,
    ) -> Self {
        let listed = listing.into_iter().flat_map(|listing| listing.active());
        let listed = listed.filter_map(|key| numbers.get(key).copied());
        Self {
            key,
            lead: listing.map_or(Lead::Unclear, |listing| Lead::read(&key, listing, numbers)),
            active: listing.map(|listing| listing.lists(&key)),
            lists: listed.filter(|other| *other != number).collect(),
            listed_by: Vec::new(),
        }
    }
}

impl Lead {
    fn read(author: &PublicKey, listing: &Listing, numbers: &BTreeMap<PublicKey, usize>) -> Self {
        let mut leads = listing.leads().iter();
        match (leads.next(), leads.next()) {
            (None, _) => Self::Nobody,
            (Some(lead), None) if lead == author => Self::Author,
            (Some(lead), None) => numbers
                .get(lead)
                .map_or(Self::Unclear, |it| Self::Other(*it)),
            (Some(_), Some(_)) => Self::Unclear,
        }
    }
}

/// What `key`'s newest announcement says. Is it back because a newer one was deleted, then only who
/// was active in both still is: a deletion gives no authority back (DEL-3).
pub(crate) fn listing<'v>(key: &PublicKey, view: &'v RepoView) -> Option<Cow<'v, Listing>> {
    let newest = &view.announcement(key)?.item;
    let versions = view.announcements.get(key)?.iter();
    let deleted = versions
        .filter(|_| !Defect::RestoredAuthority.is_on())
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

    /// MNT-10: a crowd that lists each other costs one set, however many ask.
    #[test]
    fn members_that_list_each_other_share_one_set() {
        let view = project(&[
            (1, legacy(&[2])),
            (2, legacy(&[1, 3])),
            (3, legacy(&[2])),
            (4, legacy(&[1])),
        ]);
        let mut resolution = Resolution::of(&view, MaintainerRule::Reciprocal);
        let [one, two, three, stranger] = [1, 2, 3, 4].map(|n| resolution.confirmed(&key(n)));
        assert!(Arc::ptr_eq(&one, &two) && Arc::ptr_eq(&one, &three));
        assert!(!Arc::ptr_eq(&one, &stranger));
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
