//! §4: whose states count where.

use std::collections::BTreeSet;

use grasp_core::PublicKey;
use grasp_core::announcement::Announcement;
use grasp_core::lifecycle::Stage;

use super::{Kept, Naive, Ranked as _};

/// What an announcement says, and what deletions left of it.
struct Says {
    leads: BTreeSet<PublicKey>,
    active: BTreeSet<PublicKey>,
}

impl Naive {
    /// NAME-5, for the one way in which the lives write our addresses.
    pub(super) fn lists_us(&self, announcement: &Announcement) -> bool {
        let owner = announcement.owner();
        let ours = format!("{}/{}/{}.git", self.clone_base, npub(&owner), self.project);
        announcement.clone_urls().contains(&ours) && announcement.relays().contains(&self.relay)
    }

    pub(super) fn is_hosted(&self, kept: &Kept) -> bool {
        kept.announcement().is_some_and(|it| self.lists_us(it))
    }

    pub(super) fn announcements(&self) -> impl Iterator<Item = &Kept> {
        self.kept
            .iter()
            .filter(|kept| kept.announcement().is_some())
    }

    pub(super) fn announcements_of(&self, owner: &PublicKey) -> impl Iterator<Item = &Kept> {
        self.announcements().filter(|kept| kept.author() == *owner)
    }

    /// The newest announcement of `owner` that is served, waiting or parked.
    pub(super) fn counting(&self, owner: &PublicKey) -> Option<&Kept> {
        self.announcements_of(owner)
            .filter(|kept| kept.counts())
            .max_by_key(|kept| kept.rank())
    }

    /// DEL-3: nobody is active in a restored version who was not in the deleted one too.
    fn says(&self, owner: &PublicKey) -> Option<Says> {
        let newest = self.counting(owner)?.announcement()?;
        let mut says = Says {
            leads: newest.listing().leads().clone(),
            active: newest.listing().active().clone(),
        };
        for gone in &self.withdrawn {
            if gone.owner() == *owner && gone.rank() > newest.rank() {
                says.leads.retain(|key| gone.listing().lists(key));
                says.active.retain(|key| gone.listing().lists(key));
            }
        }
        Some(says)
    }

    /// MNT-6
    fn root(&self, selected: &PublicKey) -> Option<PublicKey> {
        let mut at = *selected;
        let mut passed = BTreeSet::new();
        while passed.insert(at) {
            let says = self.says(&at)?;
            let mut leads = says.leads.iter();
            match (leads.next(), leads.next()) {
                (Some(lead), None) if *lead == at => return Some(at),
                (Some(lead), None) => at = *lead,
                (None, _) if at == *selected => return says.active.contains(&at).then_some(at),
                _ => return None,
            }
        }
        None
    }

    /// MNT-7
    pub(super) fn confirmed(&self, owner: &PublicKey) -> BTreeSet<PublicKey> {
        let Some(root) = self.root(owner) else {
            return BTreeSet::new();
        };
        let mut confirmed = BTreeSet::from([root]);
        let lists = |who: &PublicKey, whom: &PublicKey| {
            self.says(who)
                .is_some_and(|says| says.active.contains(whom))
        };
        loop {
            let joining = self.announcements().map(Kept::author).find(|them| {
                !confirmed.contains(them)
                    && confirmed.iter().any(|member| lists(member, them))
                    && lists(them, them)
                    && confirmed.iter().any(|member| lists(them, member))
            });
            match joining {
                Some(them) => confirmed.insert(them),
                None => return confirmed,
            };
        }
    }

    /// Whoever has a repository here, or would have it again.
    pub(super) fn owners(&self) -> BTreeSet<PublicKey> {
        let hosted = self.announcements();
        hosted
            .filter(|kept| kept.counts() && self.is_hosted(kept))
            .map(Kept::author)
            .collect()
    }

    /// The owners in whose repository the states of `author` count.
    pub(super) fn authorising(&self, author: &PublicKey) -> Vec<PublicKey> {
        let owners = self.owners().into_iter();
        owners
            .filter(|owner| self.confirmed(owner).contains(author))
            .collect()
    }

    /// Whether the repository of `owner` is announced to everybody.
    pub(super) fn is_serving(&self, owner: &PublicKey) -> bool {
        self.announcements_of(owner)
            .any(|kept| kept.stage == Stage::Served && self.is_hosted(kept))
    }

    /// ANN-6: who has a repository here, or is listed by somebody of whom this holds, among
    /// announcements of these stages; `except` holds for nobody by a repository of their own.
    pub(super) fn known_by(
        &self,
        stages: &[Stage],
        except: Option<&PublicKey>,
    ) -> BTreeSet<PublicKey> {
        let passing = || {
            self.announcements()
                .filter(|kept| stages.contains(&kept.stage))
        };
        let mut known: BTreeSet<PublicKey> = passing()
            .filter(|kept| self.is_hosted(kept) && Some(&kept.author()) != except)
            .map(Kept::author)
            .collect();
        loop {
            let listed: BTreeSet<PublicKey> = passing()
                .filter(|kept| known.contains(&kept.author()))
                .filter_map(Kept::announcement)
                .flat_map(|announcement| announcement.listing().active().clone())
                .collect();
            let before = known.len();
            known.extend(listed);
            if known.len() == before {
                return known;
            }
        }
    }
}

pub(super) fn npub(key: &PublicKey) -> String {
    use nostr::nips::nip19::ToBech32 as _;
    key.to_bech32()
        .unwrap_or_else(|never: std::convert::Infallible| match never {})
}
