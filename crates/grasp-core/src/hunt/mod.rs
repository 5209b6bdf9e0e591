//! Which git data is owed, and where it may be (G2-2, G2-3, HUNT-5, HUNT-6).
//!
//! Events come before their objects, or from other servers without them. This room says, of one view, which objects
//! are wanted, for whose repository, and whom to ask. *Invariant:* what is asked of an address that somebody
//! named is only what that somebody's word counts for: a stranger's address is never asked for others' objects.

use nostr::key::PublicKey;

use crate::clone_url::CloneUrl;
use crate::name::RepoAddress;
use crate::oid::Oid;

/// Those whose objects are looked for together (HUNT-5a).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
    /// The maintainers of repositories that share one confirmed set; of their owners the lowest key.
    Maintainers(PublicKey),
    /// The author of proposals to such repositories, whose own addresses are asked for their own commits only: anybody may
    /// make a proposal.
    Proposer {
        /// As in [`Self::Maintainers`].
        to: PublicKey,
        /// Who signed the proposals.
        author: PublicKey,
    },
}

/// What one group is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOwed {
    /// Who.
    pub group: GroupKey,
    /// Where what is found goes: of the group's repositories the one that lacks the least.
    pub into: RepoAddress,
    /// Whether one of its repositories is served. Strangers that announce the same identifier cannot push such a
    /// group aside.
    pub is_served: bool,
    /// What waiting events lack: tips of branches first, then tags, then proposals; each once, bounded.
    pub wants: Vec<Oid>,
    /// What parked events lack besides (G2-4).
    pub parked: Vec<Oid>,
    /// Whom to ask, the likeliest first; each once, bounded, never ourselves (HUNT-6, ANN-8).
    pub sources: Vec<CloneUrl>,
}

/// What is owed of one identifier. Groups that lack nothing, or have nobody to ask, are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owed {
    /// By group.
    pub groups: Vec<GroupOwed>,
}

impl Owed {
    /// Whether nothing is owed.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}
