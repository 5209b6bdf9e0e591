//! Where git data may be had: an address out of somebody's `clone` tag.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use nostr::types::Url;

/// A place on the web where git is spoken, in one spelling: lower-case host, no default port, no last slash. Says
/// where something may be, not that we may go there. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloneUrl(Arc<str>);

/// Why a text is no [`CloneUrl`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CloneUrlError {
    /// Longer than any honest address.
    #[error("a clone URL is at most {} bytes", CloneUrl::LEN_MAX)]
    TooLong,
    /// White space, a backslash or a control character: URL parsers disagree about them.
    #[error("a clone URL has no white space, backslash or control character")]
    Character,
    /// Not a URL with a host.
    #[error("not a URL")]
    Malformed,
    /// Neither `http` nor `https` (HUNT-6).
    #[error("a clone URL that is fetched from starts with http:// or https://")]
    Scheme,
    /// A user name or password.
    #[error("a clone URL names no user")]
    Credentials,
    /// Git puts its own behind the path.
    #[error("a clone URL has no query")]
    Query,
}

impl CloneUrl {
    /// Longest address that is looked at.
    pub const LEN_MAX: usize = 2_048;

    /// The address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CloneUrl {
    type Err = CloneUrlError;

    fn from_str(raw: &str) -> Result<Self, CloneUrlError> {
        if raw.len() > Self::LEN_MAX {
            return Err(CloneUrlError::TooLong);
        }
        let spoils = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
        if raw.contains(spoils) {
            return Err(CloneUrlError::Character);
        }
        let mut url = Url::parse(raw).map_err(|_| CloneUrlError::Malformed)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(CloneUrlError::Scheme);
        }
        let authority = raw.split(['/', '?', '#']).nth(2).unwrap_or_default();
        if !url.username().is_empty() || url.password().is_some() || authority.contains('@') {
            return Err(CloneUrlError::Credentials);
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(CloneUrlError::Malformed);
        }
        if url.query().is_some() {
            return Err(CloneUrlError::Query);
        }
        url.set_fragment(None);
        Ok(Self(url.as_str().trim_end_matches('/').into()))
    }
}

impl fmt::Display for CloneUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, CloneUrlError> {
        text.parse::<CloneUrl>().map(|url| url.to_string())
    }

    /// HUNT-6
    #[test]
    fn every_spelling_of_a_place_is_one() {
        for same in [
            "https://git.example.com/a/b.git",
            "https://git.example.com/a/b.git/",
            "HTTPS://Git.Example.COM:443/a/b.git//",
            "https://git.example.com/a/b.git#readme",
            "https://git.example.com/x/../a/b.git",
        ] {
            assert_eq!(read(same).as_deref(), Ok("https://git.example.com/a/b.git"));
        }
        for other in [
            "http://git.example.com/a/b.git",
            "https://git.example.com:8443/a/b.git",
            "https://git.example.com/a/@b.git",
            "https://[2001:db8::1]/x",
            "https://git.example.com",
        ] {
            assert_eq!(read(other).as_deref(), Ok(other));
        }
    }

    /// HUNT-6
    #[test]
    fn what_is_no_plain_address_of_the_web_is_none() {
        let long = format!("https://git.example.com/{}", "x".repeat(2_048));
        for (bad, error) in [
            (long.as_str(), CloneUrlError::TooLong),
            ("https://git.example.com/a b", CloneUrlError::Character),
            ("https://git.example.com\\x", CloneUrlError::Character),
            ("git.example.com/x", CloneUrlError::Malformed),
            ("", CloneUrlError::Malformed),
            ("https://", CloneUrlError::Malformed),
            ("ssh://git@git.example.com/x", CloneUrlError::Scheme),
            ("git://git.example.com/x", CloneUrlError::Scheme),
            ("file:///etc/passwd", CloneUrlError::Scheme),
            ("ext::sh -c x", CloneUrlError::Character),
            ("https://user@git.example.com/x", CloneUrlError::Credentials),
            ("https://:pw@git.example.com/x", CloneUrlError::Credentials),
            ("https://@git.example.com/x", CloneUrlError::Credentials),
            ("https://git.example.com/x?y=1", CloneUrlError::Query),
        ] {
            assert_eq!(read(bad), Err(error), "{bad}");
        }
    }
}
