//! How one event lies in the event table: a header, its single-letter tags, its canonical JSON.
//!
//! Header and tags answer filters and most questions of decisions without parsing JSON. The JSON is
//! what subscribers get, made by us from the verified event: never the bytes of its sender.

use std::collections::BTreeSet;

use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Matchable;
use grasp_core::lifecycle::{Stage, Standing};
use nostr::event::{Event, EventId};
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::error::StoreError;

const STAGE: usize = 1;
const STANDING: usize = 2;
const DEADLINE: usize = 4;
const CREATED_AT: usize = 12;
const EXPIRATION: usize = 20;
const KIND: usize = 28;
const ID: usize = 32;
const AUTHOR: usize = 64;
const TAGS_LEN: usize = 96;
const HEADER: usize = 100;
const ROOT: usize = 32;
const ANCHOR: u8 = 0;
const REPLY: u8 = 1;
const REPLY_COUNTED: u8 = 2;
const BARE: u8 = 3;
/// No deadline, no expiration.
const NEVER: u64 = u64::MAX;
/// Record layout, so that a later one can be told apart.
const LAYOUT: u8 = 1;

const CORRUPT: StoreError = StoreError::Corrupt("events");

/// A stored event, as bytes in the map.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    bytes: &'a [u8],
    tags: &'a [u8],
    json: &'a [u8],
}

/// A tag value as stored: 64 lowercase hex digits are packed.
#[derive(Clone, Copy)]
pub(crate) enum TagValue<'a> {
    Text(&'a str),
    Key(&'a [u8; 32]),
}

impl TagValue<'_> {
    /// Runs `look` on the value as text.
    pub(crate) fn as_text<T>(self, look: impl FnOnce(&str) -> T) -> T {
        match self {
            Self::Text(text) => look(text),
            Self::Key(key) => {
                let mut digits = [0; 64];
                for (pair, byte) in digits.chunks_exact_mut(2).zip(key) {
                    pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
                    pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
                }
                look(std::str::from_utf8(&digits).unwrap_or_default())
            }
        }
    }
}

/// Appends the record of `event` to `out`.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    event: &VerifiedEvent,
    json: &str,
    stage: Stage,
    deadline: Option<Timestamp>,
    standing: Standing,
) {
    out.extend([LAYOUT, stage_byte(stage), 0, 0]);
    out.extend(seconds(deadline).to_be_bytes());
    out.extend(event.created_at().as_secs().to_be_bytes());
    out.extend(seconds(event.expiration()).to_be_bytes());
    out.extend(event.kind().to_be_bytes());
    out.extend([0, 0]);
    out.extend(event.id().as_bytes());
    out.extend(event.author().as_bytes());
    out.extend([0; 4]);
    let (standing, root) = standing_bytes(standing);
    out[STANDING] = standing;
    out.extend(root.iter().flat_map(EventId::as_bytes));
    let start = out.len();
    for tag in event.tags() {
        if let (Some(letter), Some(value)) = (single_letter(&tag[0]), tag.get(1)) {
            encode_tag(out, letter, value);
        }
    }
    let tags_len = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[TAGS_LEN..HEADER].copy_from_slice(&tags_len.to_be_bytes());
    out.extend(json.as_bytes());
}

/// The letter of a tag name that filters can ask for.
pub(crate) fn single_letter(name: &str) -> Option<char> {
    let mut letters = name.chars();
    let letter = letters.next()?;
    letters.next().is_none().then_some(letter)
}

fn encode_tag(out: &mut Vec<u8>, letter: char, value: &str) {
    match u8::try_from(u32::from(letter)) {
        Ok(byte) if byte < 0x80 => out.push(byte),
        _ => {
            out.push(0xff);
            out.extend(u32::from(letter).to_be_bytes());
        }
    }
    if let Some(key) = packed(value) {
        encode_length(out, 1);
        out.extend(key);
    } else {
        encode_length(out, (value.len() as u64) << 1);
        out.extend(value.as_bytes());
    }
}

fn packed(value: &str) -> Option<[u8; 32]> {
    let lowercase = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if value.len() != 64 || !value.bytes().all(lowercase) {
        return None;
    }
    EventId::from_hex(value).ok().map(EventId::to_bytes)
}

fn encode_length(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn decode_length(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The single-letter tags of a record, in order.
pub(crate) struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = (char, TagValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (first, mut rest) = self.0.split_first()?;
        let letter = if *first == 0xff {
            let (code, after) = rest.split_first_chunk::<4>()?;
            rest = after;
            char::from_u32(u32::from_be_bytes(*code))?
        } else {
            char::from(*first)
        };
        let length = decode_length(&mut rest)?;
        let value = if length & 1 == 1 {
            let (key, after) = rest.split_first_chunk::<32>()?;
            rest = after;
            TagValue::Key(key)
        } else {
            let (text, after) = rest.split_at_checked(usize::try_from(length >> 1).ok()?)?;
            rest = after;
            TagValue::Text(std::str::from_utf8(text).ok()?)
        };
        self.0 = rest;
        Some((letter, value))
    }
}

impl<'a> Record<'a> {
    /// Reads a record; cheap, nothing is copied.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, StoreError> {
        if bytes.len() < HEADER || bytes[0] != LAYOUT || stage_of(bytes[STAGE]).is_none() {
            return Err(CORRUPT);
        }
        let root = if matches!(bytes[STANDING], REPLY | REPLY_COUNTED) {
            ROOT
        } else {
            0
        };
        let tags_len = bytes[TAGS_LEN..HEADER]
            .iter()
            .fold(0, |number: usize, byte| (number << 8) | usize::from(*byte));
        let body = bytes.get(HEADER + root..).ok_or(CORRUPT)?;
        let (tags, json) = body.split_at_checked(tags_len).ok_or(CORRUPT)?;
        Ok(Self { bytes, tags, json })
    }

    fn number(&self, at: usize) -> u64 {
        self.bytes[at..at + 8]
            .iter()
            .fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }

    fn chunk(&self, at: usize) -> &'a [u8; 32] {
        self.bytes[at..]
            .first_chunk()
            .expect("the header was measured")
    }

    pub(crate) fn stage(&self) -> Stage {
        stage_of(self.bytes[STAGE]).expect("checked by parse")
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.bytes[STANDING] {
            ANCHOR => Standing::Anchor,
            REPLY | REPLY_COUNTED => Standing::Reply {
                root: EventId::from_byte_array(*self.chunk(HEADER)),
                counted: self.bytes[STANDING] == REPLY_COUNTED,
            },
            _ => Standing::Bare,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        Some(self.number(DEADLINE))
            .filter(|at| *at != NEVER)
            .map(Timestamp::from_secs)
    }

    pub(crate) fn event_id(&self) -> EventId {
        EventId::from_byte_array(*self.chunk(ID))
    }

    pub(crate) fn public_key(&self) -> PublicKey {
        PublicKey::from_byte_array(*self.chunk(AUTHOR))
    }

    /// NIP-40: when it stops to be shown.
    pub(crate) fn expiration(&self) -> Option<Timestamp> {
        Some(self.number(EXPIRATION))
            .filter(|at| *at != NEVER)
            .map(Timestamp::from_secs)
    }

    /// NIP-40: whether it may not be shown any more (EV-4).
    pub(crate) fn expired(&self, now: Timestamp) -> bool {
        self.number(EXPIRATION) <= now.as_secs()
    }

    pub(crate) fn tags(&self) -> Tags<'a> {
        Tags(self.tags)
    }

    /// The first value of the first tag of that letter.
    pub(crate) fn first_tag(&self, letter: char) -> Option<TagValue<'a>> {
        self.tags()
            .find(|(name, _)| *name == letter)
            .map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> &'a [u8] {
        self.json
    }

    /// Parses the event: it was verified before it was stored.
    pub(crate) fn event(&self) -> Result<VerifiedEvent, StoreError> {
        Event::from_json(self.json)
            .map(VerifiedEvent::from_own_store)
            .map_err(|_| CORRUPT)
    }

    /// The record of an event that carries nothing.
    pub(crate) fn unburdened(&self) -> Vec<u8> {
        let body = self.tags.len() + self.json.len();
        let mut bytes = Vec::with_capacity(HEADER + body);
        bytes.extend(&self.bytes[..HEADER]);
        bytes.extend(&self.bytes[self.bytes.len() - body..]);
        bytes[STANDING] = BARE;
        bytes
    }

    /// The record in another stage, or with another deadline.
    pub(crate) fn restaged(&self, stage: Stage, deadline: Option<Timestamp>) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        bytes[STAGE] = stage_byte(stage);
        bytes[DEADLINE..DEADLINE + 8].copy_from_slice(&seconds(deadline).to_be_bytes());
        bytes
    }
}

impl Matchable for Record<'_> {
    fn id(&self) -> &[u8; 32] {
        self.chunk(ID)
    }

    fn author(&self) -> &[u8; 32] {
        self.chunk(AUTHOR)
    }

    fn created_at(&self) -> u64 {
        self.number(CREATED_AT)
    }

    fn kind(&self) -> u16 {
        u16::from_be_bytes([self.bytes[KIND], self.bytes[KIND + 1]])
    }

    fn has_tag(&self, letter: char, values: &BTreeSet<String>) -> bool {
        self.tags()
            .filter(|(name, _)| *name == letter)
            .any(|(_, value)| value.as_text(|text| values.contains(text)))
    }
}

fn seconds(at: Option<Timestamp>) -> u64 {
    at.map_or(NEVER, |at| at.as_secs().min(NEVER - 1))
}

/// One byte for a stage, in tables that repeat it.
pub(crate) fn stage_byte(stage: Stage) -> u8 {
    match stage {
        Stage::Served => 0,
        Stage::Waiting => 1,
        Stage::Parked => 2,
        Stage::Superseded => 3,
        Stage::Held => 4,
    }
}

/// See [`stage_byte`].
pub(crate) fn stage_of(byte: u8) -> Option<Stage> {
    Some(match byte {
        0 => Stage::Served,
        1 => Stage::Waiting,
        2 => Stage::Parked,
        3 => Stage::Superseded,
        4 => Stage::Held,
        _ => return None,
    })
}

fn standing_bytes(standing: Standing) -> (u8, Option<EventId>) {
    match standing {
        Standing::Anchor => (ANCHOR, None),
        Standing::Reply {
            root,
            counted: false,
        } => (REPLY, Some(root)),
        Standing::Reply {
            root,
            counted: true,
        } => (REPLY_COUNTED, Some(root)),
        Standing::Bare => (BARE, None),
    }
}
