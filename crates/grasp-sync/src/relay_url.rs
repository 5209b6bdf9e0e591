//! How relays are named: one spelling for each, so that nobody is dialled twice.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use nostr::types::Url;

use crate::outbound::has_escaped_control;

/// The address of a relay in its one spelling: lower-case host, no default port, no last slash. Says where a
/// relay is, not that we may go there. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayUrl(Arc<str>);

/// Why a text is no [`RelayUrl`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RelayUrlError {
    /// Longer than any honest address.
    #[error("a relay URL is at most {} bytes", RelayUrl::LEN_MAX)]
    TooLong,
    /// White space, a backslash or a control character: URL parsers disagree about them.
    #[error("a relay URL has no white space, backslash or control character")]
    Character,
    /// An escaped control character, which a careless peer would let loose again.
    #[error("a relay URL has no escaped control character")]
    Escape,
    /// Not a URL with a host.
    #[error("not a URL")]
    Malformed,
    /// Neither `ws` nor `wss`.
    #[error("a relay URL starts with ws:// or wss://")]
    Scheme,
    /// A user name or password.
    #[error("a relay URL names no user")]
    Credentials,
}

impl RelayUrl {
    /// Longest address that is looked at.
    pub const LEN_MAX: usize = 2_048;

    /// The address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RelayUrl {
    type Err = RelayUrlError;

    fn from_str(raw: &str) -> Result<Self, RelayUrlError> {
        if raw.len() > Self::LEN_MAX {
            return Err(RelayUrlError::TooLong);
        }
        let spoils = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
        if raw.contains(spoils) {
            return Err(RelayUrlError::Character);
        }
        if has_escaped_control(raw) {
            return Err(RelayUrlError::Escape);
        }
        let mut url = Url::parse(raw).map_err(|_| RelayUrlError::Malformed)?;
        if !matches!(url.scheme(), "ws" | "wss") {
            return Err(RelayUrlError::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() || raw.contains('@') {
            return Err(RelayUrlError::Credentials);
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(RelayUrlError::Malformed);
        }
        url.set_fragment(None);
        let text = url.as_str();
        Ok(Self(text.strip_suffix('/').unwrap_or(text).into()))
    }
}

impl fmt::Display for RelayUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, RelayUrlError> {
        text.parse::<RelayUrl>().map(|url| url.to_string())
    }

    #[test]
    fn every_spelling_of_a_relay_is_one_name() {
        for same in [
            "wss://relay.example.com",
            "wss://relay.example.com/",
            "WSS://Relay.Example.COM:443/",
            "wss://relay.example.com/#top",
        ] {
            assert_eq!(read(same).as_deref(), Ok("wss://relay.example.com"));
        }
        for other in [
            "ws://relay.example.com",
            "wss://relay.example.com:7334",
            "wss://relay.example.com/inbox",
        ] {
            assert_eq!(read(other).as_deref(), Ok(other));
        }
    }

    /// Case 70.
    #[test]
    fn a_text_that_two_parsers_could_read_differently_is_none() {
        for (bad, why) in [
            ("https://relay.example.com", RelayUrlError::Scheme),
            ("relay.example.com", RelayUrlError::Malformed),
            ("wss://", RelayUrlError::Malformed),
            ("", RelayUrlError::Malformed),
            ("wss://user@relay.example.com", RelayUrlError::Credentials),
            ("wss://@relay.example.com", RelayUrlError::Credentials),
            ("wss://relay.example.com\\@evil", RelayUrlError::Character),
            ("wss://relay.example.com/\tx", RelayUrlError::Character),
            ("wss://relay.example.com ", RelayUrlError::Character),
            (
                "wss://relay.example.com/%0d%0aHost: x",
                RelayUrlError::Character,
            ),
            ("wss://relay.example.com/%0d%0aX", RelayUrlError::Escape),
        ] {
            assert_eq!(read(bad), Err(why), "{bad:?}");
        }
        let long = format!("wss://relay.example.com/{}", "x".repeat(RelayUrl::LEN_MAX));
        assert_eq!(read(&long), Err(RelayUrlError::TooLong));
    }
}
