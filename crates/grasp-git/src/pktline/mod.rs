//! Packet lines: the frames of every git conversation.
//!
//! Four hexadecimal digits of length, then at most [`DATA_MAX`] bytes. Whatever arrives here was
//! written by a stranger, so no length is believed before it is checked and nothing is reserved for
//! data that has not come. Works on slices ([`decode`], [`Packets`]) and on streams ([`Reader`]), and
//! a reader takes not one byte more than the packets it returns: a pack follows them unframed.

mod encode;
mod reader;
mod sideband;

pub use encode::{delimiter, error, flush, hex, line, packet};
pub use reader::{ReadError, Reader};
pub use sideband::{BAND_DATA_MAX, Band, band};

/// The longest packet, its length digits included.
pub const PACKET_MAX: usize = 65_520;
/// The most data that one packet carries.
pub const DATA_MAX: usize = PACKET_MAX - 4;

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// `0000`: the message ends.
    Flush,
    /// `0001`: a section of the message ends (protocol v2).
    Delimiter,
    /// `0002`: the response of a stateless connection ends.
    ResponseEnd,
    /// Data, possibly none.
    Data(&'a [u8]),
}

/// Why bytes are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The first four bytes are no length that exists.
    #[error("bad packet length {}", .0.escape_ascii())]
    Length([u8; 4]),
    /// The input ends inside of a packet.
    #[error("a packet is cut off")]
    Truncated,
}

impl<'a> Packet<'a> {
    /// The data without the newline that may close a text line; `None` for the special packets.
    pub fn text(self) -> Option<&'a [u8]> {
        match self {
            Self::Data(data) => Some(data.strip_suffix(b"\n").unwrap_or(data)),
            Self::Flush | Self::Delimiter | Self::ResponseEnd => None,
        }
    }
}

/// What the length digits announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// As [`Packet::Flush`].
    Flush,
    /// As [`Packet::Delimiter`].
    Delimiter,
    /// As [`Packet::ResponseEnd`].
    ResponseEnd,
    /// So many bytes of data follow.
    Data(usize),
}

/// Reads the four digits that every packet begins with.
pub fn header(digits: [u8; 4]) -> Result<Header, DecodeError> {
    let length = digits
        .iter()
        .try_fold(0, |length, digit| {
            Some(length * 16 + char::from(*digit).to_digit(16)?)
        })
        .ok_or(DecodeError::Length(digits))?;
    match length as usize {
        0 => Ok(Header::Flush),
        1 => Ok(Header::Delimiter),
        2 => Ok(Header::ResponseEnd),
        length @ 4..=PACKET_MAX => Ok(Header::Data(length - 4)),
        _ => Err(DecodeError::Length(digits)),
    }
}

/// Takes the first packet off `input` and returns it with what follows it.
pub fn decode(input: &[u8]) -> Result<(Packet<'_>, &[u8]), DecodeError> {
    let (digits, rest) = input.split_first_chunk().ok_or(DecodeError::Truncated)?;
    match header(*digits)? {
        Header::Flush => Ok((Packet::Flush, rest)),
        Header::Delimiter => Ok((Packet::Delimiter, rest)),
        Header::ResponseEnd => Ok((Packet::ResponseEnd, rest)),
        Header::Data(length) => {
            let (data, rest) = rest
                .split_at_checked(length)
                .ok_or(DecodeError::Truncated)?;
            Ok((Packet::Data(data), rest))
        }
    }
}

/// The packets of a slice, up to its end or the first that is broken.
#[derive(Debug, Clone)]
pub struct Packets<'a> {
    rest: &'a [u8],
}

impl<'a> Packets<'a> {
    /// Iterates over the packets in `input`.
    pub const fn new(input: &'a [u8]) -> Self {
        Self { rest: input }
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<Packet<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let decoded = decode(self.rest);
        self.rest = decoded.map_or(&[], |(_, rest)| rest);
        Some(decoded.map(|(packet, _)| packet))
    }
}

#[cfg(test)]
mod tests;
