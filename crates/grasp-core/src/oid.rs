//! Names of git objects.

use std::fmt;
use std::str::FromStr;

/// The SHA-1 name of a git object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid([u8; 20]);

/// Why a text is no [`Oid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an object name is 40 lowercase hexadecimal digits")]
pub struct OidError;

impl Oid {
    /// The all-zero name: "no object" in push commands, never an object itself.
    pub const ZERO: Self = Self([0; 20]);

    /// Wraps the raw bytes of a name.
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// Whether this is [`Oid::ZERO`].
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// The first eight digits, for messages to people.
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }

    /// Parses the 40 digits of a name.
    pub fn from_hex(hex: &[u8]) -> Result<Self, OidError> {
        let mut bytes = [0; 20];
        if hex.len() != 40 {
            return Err(OidError);
        }
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = (digit(pair[0])? << 4) + digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

fn digit(character: u8) -> Result<u8, OidError> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        _ => Err(OidError),
    }
}

impl FromStr for Oid {
    type Err = OidError;

    fn from_str(text: &str) -> Result<Self, OidError> {
        Self::from_hex(text.as_bytes())
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Oid({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_round_trips_and_nothing_else_parses() {
        let hex = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(hex.parse::<Oid>().expect("valid").to_string(), hex);
        for bad in [
            "",
            "abc123",
            &hex[1..],
            &hex.to_uppercase(),
            &format!("{hex}00"),
        ] {
            assert_eq!(bad.parse::<Oid>(), Err(OidError), "{bad}");
        }
    }
}
