//! Which repositories the operator takes (ANN-1): the lists, and what they say about one.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use nostr::key::PublicKey;

use crate::name::{Coordinate, Identifier, IdentifierError, npub, parse_npub};

/// One entry of a list of repositories.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RepositoryEntry {
    /// `npub`: whatever this owner announces.
    Owner(PublicKey),
    /// `npub/identifier`: one repository.
    Repository(Coordinate),
    /// `identifier`: whoever announces it.
    Identifier(Identifier),
}

/// Why a text is no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It begins like an npub.
    #[error("the npub is none")]
    Owner,
    /// It cannot name a repository.
    #[error(transparent)]
    Identifier(#[from] IdentifierError),
}

impl FromStr for RepositoryEntry {
    type Err = EntryError;

    fn from_str(text: &str) -> Result<Self, EntryError> {
        let owner = |text| parse_npub(text).ok_or(EntryError::Owner);
        match text.split_once('/') {
            Some((before, identifier)) => Ok(Self::Repository(Coordinate::new(
                owner(before)?,
                identifier.parse()?,
            ))),
            None if text.starts_with("npub1") => Ok(Self::Owner(owner(text)?)),
            None => Ok(Self::Identifier(text.parse()?)),
        }
    }
}

/// As it is written.
impl fmt::Display for RepositoryEntry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(owner) => out.write_str(&npub(owner)),
            Self::Repository(repository) => repository.fmt(out),
            Self::Identifier(identifier) => identifier.fmt(out),
        }
    }
}

/// A list of repositories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryList(BTreeSet<RepositoryEntry>);

impl RepositoryList {
    /// The entry that names the repository, if one does: itself before its owner before its identifier.
    pub fn entry_for(&self, scope: &Coordinate) -> Option<&RepositoryEntry> {
        let entries = [
            RepositoryEntry::Repository(scope.clone()),
            RepositoryEntry::Owner(scope.owner),
            RepositoryEntry::Identifier(scope.identifier.clone()),
        ];
        entries.iter().find_map(|entry| self.0.get(entry))
    }

    /// Whether an entry names the repository.
    pub fn names(&self, scope: &Coordinate) -> bool {
        self.entry_for(scope).is_some()
    }

    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries, in an order of their own.
    pub fn entries(&self) -> impl Iterator<Item = &RepositoryEntry> {
        self.0.iter()
    }
}

impl FromIterator<RepositoryEntry> for RepositoryList {
    fn from_iter<I: IntoIterator<Item = RepositoryEntry>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

/// The operator's lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Curation {
    /// If there is one, nothing else is hosted.
    pub whitelist: Option<RepositoryList>,
    /// Never hosted, nor known.
    pub blacklist: RepositoryList,
    /// Whether what leaves the blacklist comes back by itself (DEL-7).
    pub blacklist_restores: bool,
    /// Authors whose events are refused. The relay's own key is exempt.
    pub authors: BTreeSet<PublicKey>,
}

impl Curation {
    /// Whether a repository that asks for a place here may have one.
    pub fn hosts(&self, scope: &Coordinate) -> bool {
        let listed = |list: &RepositoryList| list.names(scope);
        !self.blacklist.names(scope) && self.whitelist.as_ref().is_none_or(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::key;

    fn scope(owner: u8, identifier: &str) -> Coordinate {
        Coordinate::new(key(owner), identifier.parse().expect("valid"))
    }

    fn list(entries: &[&str]) -> RepositoryList {
        let entries = entries.iter().map(|entry| entry.parse().expect("valid"));
        entries.collect()
    }

    /// ANN-1, §19
    #[test]
    fn an_entry_names_an_owner_a_repository_or_an_identifier() {
        let (alice, bob) = (npub(&key(1)), npub(&key(2)));
        let named = list(&[&alice, &format!("{bob}/ab"), "spam"]);
        assert!(!named.is_empty() && list(&[]).is_empty());
        for (scope, by) in [
            (scope(1, "x"), Some(alice.clone())),
            (scope(2, "ab"), Some(format!("{bob}/ab"))),
            (scope(2, "x"), None),
            (scope(3, "spam"), Some("spam".to_owned())),
            (scope(3, "SPAM"), None),
        ] {
            let entry = named.entry_for(&scope).map(ToString::to_string);
            assert_eq!(entry, by, "{scope}");
        }
        for (text, error) in [
            ("npub1nonsense", EntryError::Owner),
            ("npub1nonsense/x", EntryError::Owner),
            ("x/y", EntryError::Owner),
            ("", IdentifierError::Empty.into()),
            ("..", IdentifierError::Dots.into()),
            (&format!("{alice}/"), IdentifierError::Empty.into()),
        ] {
            assert_eq!(text.parse::<RepositoryEntry>(), Err(error), "{text}");
        }
    }

    /// ANN-1: the blacklist comes first.
    #[test]
    fn a_whitelist_takes_what_it_names_and_a_blacklist_takes_it_away() {
        let open = Curation::default();
        assert!(open.hosts(&scope(1, "x")));
        let curation = Curation {
            whitelist: Some(list(&[&npub(&key(1))])),
            blacklist: list(&["x"]),
            ..Curation::default()
        };
        assert!(curation.hosts(&scope(1, "y")));
        assert!(!curation.hosts(&scope(1, "x")) && !curation.hosts(&scope(2, "y")));
    }
}
