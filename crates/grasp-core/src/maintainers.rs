//! Who may move the refs of a repository (§4).

use std::collections::BTreeSet;

use nostr::key::PublicKey;

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
/// not be among them.
pub fn confirmed_set(
    owner: &PublicKey,
    view: &RepoView,
    rule: MaintainerRule,
) -> BTreeSet<PublicKey> {
    todo!()
}

/// The confirmed set and whoever a member lists (MNT-8): whose announcements are worth having.
pub fn confirmed_or_invited(
    owner: &PublicKey,
    view: &RepoView,
    rule: MaintainerRule,
) -> BTreeSet<PublicKey> {
    todo!()
}
