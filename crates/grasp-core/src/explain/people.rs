//! Who is a maintainer, who is not, and by which rule (§4).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use nostr::key::PublicKey;

use super::Question;
use crate::announcement::Listing;
use crate::maintainers::{self, MaintainerRule};
use crate::view::RepoView;

/// A key and what it has to do with the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Whose.
    pub key: PublicKey,
    /// What, and why.
    pub membership: Membership,
}

/// Whether somebody's states count here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// Resolution begins here (MNT-6).
    Root,
    /// Listed by members, and lists members back (MNT-7).
    Member {
        /// Members that list the key.
        listed_by: BTreeSet<PublicKey>,
        /// Members that the key lists.
        lists: BTreeSet<PublicKey>,
    },
    /// Listed by members under the rule that takes no more than that (MNT-11).
    Listed {
        /// Members that list the key.
        by: BTreeSet<PublicKey>,
    },
    /// Listed by members, which is an invitation (MNT-8).
    Invited {
        /// Members that list the key.
        by: BTreeSet<PublicKey>,
        /// What is missing.
        lacks: Outside,
    },
    /// A member's announcement names the key, in no role that may move refs, or in none any more (MNT-1).
    Ended {
        /// Those members.
        by: BTreeSet<PublicKey>,
    },
    /// Lists members, and none lists it.
    Uninvited {
        /// The members it lists.
        lists: BTreeSet<PublicKey>,
    },
    /// The owner of the repository, whose own announcement leads to others (MNT-6).
    OwnerWithoutSay,
}

/// What keeps somebody who is invited outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// No announcement of theirs is here.
    NoAnnouncement,
    /// Their announcement lists no member.
    ListsNobodyBack,
    /// Their own announcement says that they left (MNT-4).
    Left,
}

/// Why nobody is a maintainer (MNT-6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRoot {
    /// The owner's announcement is not here.
    NotAnnounced,
    /// The owner's own announcement says that they left, and names no lead.
    OwnerLeft,
    /// An announcement names a lead whose own is not here.
    LeadNotAnnounced {
        /// That lead.
        lead: PublicKey,
    },
    /// An announcement names a lead who does not say so.
    LeadDoesNotLead {
        /// That lead.
        lead: PublicKey,
    },
    /// An announcement names several leads.
    SeveralLeads {
        /// Whose announcement.
        of: PublicKey,
    },
    /// The leads name each other in a circle.
    Circle,
}

type Listings<'v> = BTreeMap<PublicKey, Cow<'v, Listing>>;

/// Where resolution begins, and everybody who is in or nearly in.
pub(super) fn explain(
    question: Question<'_>,
    confirmed: &BTreeSet<PublicKey>,
) -> (Result<PublicKey, NoRoot>, Vec<Person>) {
    let view = question.view;
    let listings: Listings<'_> = view
        .announcements
        .keys()
        .filter_map(|key| Some((*key, maintainers::listing(key, view)?)))
        .collect();
    let owner = question.repo.owner;
    let root = root(owner, &listings);
    let circle = Circle {
        root: root.as_ref().ok().copied(),
        owner,
        confirmed,
        named: named(confirmed, view),
        listings: &listings,
        rule: question.policy.maintainer_rule,
    };
    let mut keys: BTreeSet<PublicKey> = confirmed.clone();
    keys.insert(owner);
    keys.extend(circle.named.keys());
    for member in confirmed {
        keys.extend(circle.lists(member));
    }
    let listing_in = listings.keys().filter(|key| circle.lists_members(key));
    keys.extend(listing_in);
    let mut people: Vec<Person> = keys
        .into_iter()
        .filter_map(|key| circle.person(key))
        .collect();
    people.sort_by_key(|person| person.membership.rank());
    people.truncate(super::VERSIONS_MAX);
    (root, people)
}

/// The chain of leads from the owner to its end.
fn root(owner: PublicKey, listings: &Listings<'_>) -> Result<PublicKey, NoRoot> {
    let mut seen = BTreeSet::new();
    let mut current = owner;
    while seen.insert(current) {
        let Some(listing) = listings.get(&current) else {
            return Err(if current == owner {
                NoRoot::NotAnnounced
            } else {
                NoRoot::LeadNotAnnounced { lead: current }
            });
        };
        let mut leads = listing.leads().iter();
        match (leads.next(), leads.next()) {
            (None, _) if current != owner => {
                return Err(NoRoot::LeadDoesNotLead { lead: current });
            }
            (None, _) if listing.lists(&current) => return Ok(current),
            (None, _) => return Err(NoRoot::OwnerLeft),
            (Some(lead), None) if *lead == current => return Ok(current),
            (Some(lead), None) => current = *lead,
            (Some(_), Some(_)) => return Err(NoRoot::SeveralLeads { of: current }),
        }
    }
    Err(NoRoot::Circle)
}

/// Keys that members' announcements name in a role, be it over, and those members.
fn named(
    confirmed: &BTreeSet<PublicKey>,
    view: &RepoView,
) -> BTreeMap<PublicKey, BTreeSet<PublicKey>> {
    let mut named: BTreeMap<PublicKey, BTreeSet<PublicKey>> = BTreeMap::new();
    for member in confirmed {
        let announcement = view.announcement(member);
        let tags = announcement
            .into_iter()
            .flat_map(|entry| entry.item.event().tags());
        let roles = tags.filter(|tag| matches!(tag[0].as_str(), "M" | "m" | "o"));
        for key in roles.filter_map(|tag| PublicKey::from_hex(tag.get(1)?).ok()) {
            named.entry(key).or_default().insert(*member);
        }
    }
    named
}

/// The confirmed set and what is said around it.
struct Circle<'a> {
    root: Option<PublicKey>,
    owner: PublicKey,
    confirmed: &'a BTreeSet<PublicKey>,
    named: BTreeMap<PublicKey, BTreeSet<PublicKey>>,
    listings: &'a Listings<'a>,
    rule: MaintainerRule,
}

impl Circle<'_> {
    fn person(&self, key: PublicKey) -> Option<Person> {
        let by = self.listed_by(&key);
        let mut lists = &self.lists(&key) & self.confirmed;
        lists.remove(&key);
        let membership = if self.confirmed.contains(&key) {
            if self.root == Some(key) {
                Membership::Root
            } else if self.rule == MaintainerRule::Recursive {
                Membership::Listed { by }
            } else {
                Membership::Member {
                    listed_by: by,
                    lists,
                }
            }
        } else if !by.is_empty() {
            let lacks = self.lacks(&key);
            Membership::Invited { by, lacks }
        } else if let Some(by) = self.named.get(&key) {
            Membership::Ended { by: by.clone() }
        } else if key == self.owner {
            // Without a root the reason stands there.
            self.root?;
            Membership::OwnerWithoutSay
        } else {
            Membership::Uninvited { lists }
        };
        Some(Person { key, membership })
    }

    fn lacks(&self, key: &PublicKey) -> Outside {
        match self.listings.get(key) {
            None => Outside::NoAnnouncement,
            Some(listing) if !listing.lists(key) => Outside::Left,
            Some(_) => Outside::ListsNobodyBack,
        }
    }

    /// Members that list the key.
    fn listed_by(&self, key: &PublicKey) -> BTreeSet<PublicKey> {
        let lists_it = |member: &&PublicKey| *member != key && self.lists(member).contains(key);
        self.confirmed.iter().filter(lists_it).copied().collect()
    }

    fn lists(&self, key: &PublicKey) -> BTreeSet<PublicKey> {
        let listing = self.listings.get(key);
        listing.map_or_else(BTreeSet::new, |listing| listing.active().clone())
    }

    fn lists_members(&self, key: &PublicKey) -> bool {
        let listing = self.listings.get(key);
        listing.is_some_and(|listing| !listing.active().is_disjoint(self.confirmed))
    }
}

impl Membership {
    /// Whether the key's states count.
    pub fn counts(&self) -> bool {
        matches!(self, Self::Root | Self::Member { .. } | Self::Listed { .. })
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Root => 0,
            Self::Member { .. } | Self::Listed { .. } => 1,
            Self::OwnerWithoutSay => 2,
            Self::Invited { .. } => 3,
            Self::Ended { .. } => 4,
            Self::Uninvited { .. } => 5,
        }
    }
}
