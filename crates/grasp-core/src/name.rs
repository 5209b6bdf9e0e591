//! How repositories are named: by owner and identifier, on the wire, in URLs and on disk.

use std::fmt;
use std::str::FromStr;

use nostr::key::PublicKey;
use nostr::nips::nip19::{FromBech32, ToBech32};

/// Names a repository among its owner's: the `d` tag of an announcement, and one path component on
/// disk (NAME-3). Construction is the check, so no other code looks for `/` or `..`. Bytes are kept
/// as they came: no case folding, no Unicode normalisation (NAME-4).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier(String);

/// Why a text is no [`Identifier`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    /// Nothing to name.
    #[error("a repository identifier is not empty")]
    Empty,
    /// `.` or `..`.
    #[error("a repository identifier is not '.' or '..'")]
    Dots,
    /// `/` or `\`.
    #[error("a repository identifier has no '/' or '\\'")]
    Separator,
    /// NUL, newline and their like.
    #[error("a repository identifier has no control characters")]
    Control,
    /// With `.git` it would not fit one path component.
    #[error("a repository identifier is at most {} bytes", Identifier::LEN_MAX)]
    TooLong,
}

impl Identifier {
    /// Longest identifier: `<identifier>.git` is one component of at most 255 bytes.
    pub const LEN_MAX: usize = 251;

    /// The identifier as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of its directory: `<identifier>.git`.
    pub fn directory(&self) -> String {
        format!("{}.git", self.0)
    }

    /// The identifier as it stands in URLs that we write (NAME-2).
    pub fn percent_encoded(&self) -> String {
        let mut out = String::with_capacity(self.0.len());
        for byte in self.0.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    out.push(byte.into());
                }
                _ => {
                    out.push('%');
                    out.extend(
                        [byte >> 4, byte & 15]
                            .map(|n| char::from(b"0123456789ABCDEF"[usize::from(n)])),
                    );
                }
            }
        }
        out
    }

    /// Reads the `<identifier>.git` segment of a URL: decodes it once and takes the last `.git` off
    /// (NAME-2). `None` for anything that cannot name a repository.
    pub fn from_url_segment(segment: &str) -> Option<Self> {
        percent_decode_once(segment)?
            .strip_suffix(".git")?
            .parse()
            .ok()
    }
}

/// Decodes `%XX` once. `None` for a broken escape or a result that is not UTF-8.
pub fn percent_decode_once(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

impl FromStr for Identifier {
    type Err = IdentifierError;

    fn from_str(raw: &str) -> Result<Self, IdentifierError> {
        match raw {
            "" => Err(IdentifierError::Empty),
            "." | ".." => Err(IdentifierError::Dots),
            _ if raw.contains(['/', '\\']) => Err(IdentifierError::Separator),
            _ if raw.contains(char::is_control) => Err(IdentifierError::Control),
            _ if raw.len() > Self::LEN_MAX => Err(IdentifierError::TooLong),
            _ => Ok(Self(raw.to_owned())),
        }
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The canonical bech32 text of a key (NAME-1).
pub fn npub(key: &PublicKey) -> String {
    key.to_bech32()
        .unwrap_or_else(|never: std::convert::Infallible| match never {})
}

/// Reads a canonical npub; hex, `nprofile` and other spellings are none (NAME-1).
pub fn parse_npub(text: &str) -> Option<PublicKey> {
    let key = PublicKey::from_bech32(text).ok()?;
    (npub(&key) == text).then_some(key)
}

/// An announced repository: its owner and its identifier. The *scope* of protocol.md.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coordinate {
    /// The author of the announcement.
    pub owner: PublicKey,
    /// The `d` tag.
    pub identifier: Identifier,
}

impl Coordinate {
    /// Names the repository `identifier` of `owner`.
    pub fn new(owner: PublicKey, identifier: Identifier) -> Self {
        Self { owner, identifier }
    }

    /// Reads the `30617:<hex>:<d>` of an `a` tag. `None` for another kind or a malformed part.
    pub fn from_address(text: &str) -> Option<Self> {
        let (owner, identifier) = text.strip_prefix("30617:")?.split_once(':')?;
        let lowercase = owner.len() == 64 && !owner.bytes().any(|b| b.is_ascii_uppercase());
        Some(Self {
            owner: PublicKey::from_hex(owner).ok().filter(|_| lowercase)?,
            identifier: identifier.parse().ok()?,
        })
    }

    /// The `30617:<hex>:<d>` form.
    pub fn address(&self) -> String {
        format!("30617:{}:{}", self.owner.to_hex(), self.identifier)
    }
}

/// For people and logs: `npub…/identifier`.
impl fmt::Display for Coordinate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", npub(&self.owner), self.identifier)
    }
}

/// Any repository this server can hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RepoAddress {
    /// `<npub>/<identifier>.git`: what an announcement asks for.
    Announced(Coordinate),
    /// `prs/<npub>/<identifier>.git`: what a contributor pushes proposals to (GRASP-06). The
    /// coordinate's owner is the submitter.
    Proposals(Coordinate),
}

impl RepoAddress {
    /// Whose path it is, and the identifier.
    pub fn coordinate(&self) -> &Coordinate {
        match self {
            Self::Announced(coordinate) | Self::Proposals(coordinate) => coordinate,
        }
    }

    /// The identifier.
    pub fn identifier(&self) -> &Identifier {
        &self.coordinate().identifier
    }
}

impl fmt::Display for RepoAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Announced(coordinate) => coordinate.fmt(out),
            Self::Proposals(coordinate) => write!(out, "prs/{coordinate}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_one_safe_path_component() {
        for good in [
            "my 🚀 repo",
            "x.git",
            "-rf",
            ".github",
            "prs",
            "A",
            "a#b?c+d",
            "ä",
        ] {
            assert!(good.parse::<Identifier>().is_ok(), "{good}");
        }
        let long = "x".repeat(300);
        for bad in [
            "", ".", "..", "a/b", "../x", "a\\b", "a\0b", "a\nb", "\u{85}", &long,
        ] {
            assert!(bad.parse::<Identifier>().is_err(), "{bad:?}");
        }
    }

    /// NAME-3: the longest has a directory of 255 bytes.
    #[test]
    fn an_identifier_is_as_long_as_its_directory_may_be() {
        let longest: Identifier = "x".repeat(251).parse().expect("valid");
        assert_eq!(longest.directory(), format!("{}.git", "x".repeat(251)));
        assert_eq!(longest.directory().len(), 255);
        let longer = "x".repeat(252).parse::<Identifier>();
        assert_eq!(longer, Err(IdentifierError::TooLong));
    }

    #[test]
    fn a_url_segment_is_decoded_once() {
        let name: Identifier = "my 🚀 repo".parse().expect("valid");
        assert_eq!(name.percent_encoded(), "my%20%F0%9F%9A%80%20repo");
        assert_eq!(
            Identifier::from_url_segment("my%20%F0%9F%9A%80%20repo.git"),
            Some(name)
        );
        assert_eq!(
            Identifier::from_url_segment("x.git.git")
                .expect("valid")
                .as_str(),
            "x.git"
        );
        assert_eq!(
            Identifier::from_url_segment("a%252fb.git")
                .expect("valid")
                .as_str(),
            "a%2fb"
        );
        for bad in [
            "..%2fx.git",
            "%2e%2e.git",
            "x",
            ".git",
            "%zz.git",
            "%ff.git",
            "a%00b.git",
        ] {
            assert_eq!(Identifier::from_url_segment(bad), None, "{bad}");
        }
    }

    /// NAME-1
    #[test]
    fn only_a_canonical_npub_names_an_owner() {
        let key = PublicKey::from_hex(&"1".repeat(64)).expect("hex");
        let text = npub(&key);
        assert_eq!(parse_npub(&text), Some(key));
        for bad in [
            text.to_uppercase(),
            key.to_hex(),
            format!("{}q", &text[..62]),
            String::new(),
        ] {
            assert_eq!(parse_npub(&bad), None, "{bad}");
        }
    }

    /// §2: as logs and the command line name repositories.
    #[test]
    fn repositories_are_shown_by_owner_and_name() {
        let owner = PublicKey::from_byte_array([1; 32]);
        let coordinate = Coordinate::new(owner, "my repo".parse().expect("valid"));
        let shown = format!("{}/my repo", npub(&owner));
        assert_eq!(coordinate.to_string(), shown);
        let announced = RepoAddress::Announced(coordinate.clone());
        let proposals = RepoAddress::Proposals(coordinate.clone());
        assert_eq!(announced.to_string(), shown);
        assert_eq!(proposals.to_string(), format!("prs/{shown}"));
        for address in [announced, proposals] {
            assert_eq!(address.coordinate(), &coordinate);
            assert_eq!(address.identifier().as_str(), "my repo");
        }
    }

    #[test]
    fn an_address_keeps_colons_of_the_identifier() {
        let text = format!("30617:{}:a:b", "1".repeat(64));
        assert_eq!(
            Coordinate::from_address(&text).expect("valid").address(),
            text
        );
        assert_eq!(
            Coordinate::from_address(&text.replace("30617", "30618")),
            None
        );
    }

    /// REL-3: one address has one spelling.
    #[test]
    fn an_address_is_lower_case_hex_of_a_whole_key() {
        let address = |owner: &str| Coordinate::from_address(&format!("30617:{owner}:x"));
        assert!(address(&"a".repeat(64)).is_some());
        for owner in [
            "A".repeat(64),
            "a".repeat(63),
            "a".repeat(65),
            "g".repeat(64),
        ] {
            assert_eq!(address(&owner), None, "{owner}");
        }
    }
}
