//! Names of git refs, as `git check-ref-format` allows them.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use nostr::event::EventId;

/// A full ref name below `refs/`, well formed by git's rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefName(String);

/// Why a text is no [`RefName`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefNameError {
    /// Not below `refs/`, or nothing after the category.
    #[error("a ref name starts with refs/ and has a name below it")]
    NotBelowRefs,
    /// One of the rules of `git check-ref-format` is broken.
    #[error("git does not allow this ref name")]
    Malformed,
    /// Longer than any file system that plain git writes loose refs to would take.
    #[error("a ref name is at most {} bytes", RefName::LEN_MAX)]
    TooLong,
}

/// What part of a repository a ref belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefSpace {
    /// `refs/heads/…`: moved by signed states only.
    Branch,
    /// `refs/tags/…`: moved by signed states only.
    Tag,
    /// `refs/nostr/…`: proposals, bound to the event whose id they carry.
    Proposal,
    /// Anything else: never written here (PUSH-5).
    Other,
}

impl RefName {
    /// Longest accepted name in bytes.
    pub const LEN_MAX: usize = 1024;

    /// `refs/heads/main`: what `HEAD` names when nothing says otherwise (REF-4).
    pub fn main() -> Self {
        Self("refs/heads/main".to_owned())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Which space the name lies in.
    pub fn space(&self) -> RefSpace {
        if self.0.starts_with("refs/heads/") {
            RefSpace::Branch
        } else if self.0.starts_with("refs/tags/") {
            RefSpace::Tag
        } else if self.0.starts_with("refs/nostr/") {
            RefSpace::Proposal
        } else {
            RefSpace::Other
        }
    }

    /// The ref that carries the commit of a proposal (PR-3, PR-5).
    pub fn proposal(event: &EventId) -> Self {
        Self(format!("refs/nostr/{}", event.to_hex()))
    }

    /// The event a proposal ref is bound to: its last part must be 64 lowercase digits (PUSH-4).
    pub fn proposal_event(&self) -> Option<EventId> {
        let id = self.0.strip_prefix("refs/nostr/")?;
        let lowercase = id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        (id.len() == 64 && lowercase)
            .then(|| EventId::from_hex(id).ok())
            .flatten()
    }

    /// Whether both cannot exist together on disk: one is a folder of the other (KIND-3).
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let below = |long: &str, short: &str| {
            long.len() > short.len()
                && long.starts_with(short)
                && long.as_bytes()[short.len()] == b'/'
        };
        below(&self.0, &other.0) || below(&other.0, &self.0)
    }
}

/// Sorted sets of names can be searched by any text, a prefix too.
impl Borrow<str> for RefName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for RefName {
    type Err = RefNameError;

    fn from_str(text: &str) -> Result<Self, RefNameError> {
        let rest = text
            .strip_prefix("refs/")
            .ok_or(RefNameError::NotBelowRefs)?;
        if !rest.contains('/') {
            return Err(RefNameError::NotBelowRefs);
        }
        if text.len() > Self::LEN_MAX {
            return Err(RefNameError::TooLong);
        }
        let forbidden = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
        let bad_part = |part: &str| {
            part.is_empty()
                || part.starts_with('.')
                || part.len() > 255
                || std::path::Path::new(part)
                    .extension()
                    .is_some_and(|end| end == "lock")
                || part == ".lock"
        };
        if text.contains(forbidden)
            || text.contains("..")
            || text.contains("@{")
            || text.ends_with('.')
            || text.split('/').any(bad_part)
        {
            return Err(RefNameError::Malformed);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps by name are searched by text.
    #[test]
    fn a_name_is_found_by_its_text() {
        let name: RefName = "refs/heads/main".parse().expect("valid");
        let names = std::collections::BTreeSet::from([name.clone()]);
        assert_eq!(names.get("refs/heads/main"), Some(&name));
        assert_eq!(names.get("refs/heads/mai"), None);
    }

    #[test]
    fn a_name_and_its_parts_have_bounds() {
        let name = |part: usize, parts: usize| {
            let name = vec!["x".repeat(part); parts].join("/");
            format!("refs/heads/{name}").parse::<RefName>()
        };
        assert!(name(255, 1).is_ok());
        assert!(name(256, 1).is_err());
        let whole = |length: usize| {
            let rest = "x/".repeat((length - "refs/heads/".len()) / 2) + "xx";
            let name = format!("refs/heads/{rest}");
            name[..length].parse::<RefName>()
        };
        assert!(whole(RefName::LEN_MAX).is_ok());
        assert_eq!(whole(RefName::LEN_MAX + 2), Err(RefNameError::TooLong));
    }

    #[test]
    fn git_s_rules_hold() {
        for good in [
            "refs/heads/main",
            "refs/heads/pr/one",
            "refs/tags/v1.0",
            "refs/heads/ünï",
            "refs/heads/a@b",
        ] {
            assert!(good.parse::<RefName>().is_ok(), "{good}");
        }
        for bad in [
            "main",
            "refs/heads",
            "refs/heads/",
            "refs/heads/a..b",
            "refs/heads/.a",
            "refs/heads/a.lock",
            "refs/heads/a.lock/b",
            "refs/heads/a b",
            "refs/heads/a~1",
            "refs/heads/a^{}",
            "refs/heads/a:b",
            "refs/heads/a?",
            "refs/heads/a*",
            "refs/heads/a[",
            "refs/heads/a\\b",
            "refs/heads/a\u{7f}",
            "refs/heads//a",
            "refs/heads/a/",
            "refs/heads/a.",
            "refs/heads/@{x",
            "refs/heads/a\0b",
        ] {
            assert!(bad.parse::<RefName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn folder_and_file_of_one_name_conflict() {
        let name = |text: &str| text.parse::<RefName>().expect("valid");
        assert!(name("refs/heads/a").conflicts_with(&name("refs/heads/a/b")));
        assert!(!name("refs/heads/a").conflicts_with(&name("refs/heads/ab")));
        assert!(!name("refs/heads/a").conflicts_with(&name("refs/heads/a")));
    }

    #[test]
    fn a_proposal_ref_names_its_event_in_lowercase() {
        let id = "a".repeat(64);
        let name: RefName = format!("refs/nostr/{id}").parse().expect("valid");
        assert_eq!(name.proposal_event().expect("an id").to_hex(), id);
        for bad in [id.to_uppercase(), id[1..].to_owned(), format!("{id}/x")] {
            let name: RefName = format!("refs/nostr/{bad}").parse().expect("well formed");
            assert_eq!(name.proposal_event(), None, "{bad}");
        }
    }
}
