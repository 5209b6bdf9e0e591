//! How keys are spelled: short, because keys decide how many pages a commit writes.
//!
//! Index keys end in a *suffix* that sorts newest first and within a second by the first bytes of
//! the id; the rest of the tie is settled on the full id while reading. Values of any length are
//! indexed by a hash under a random key of this store, so that no peer can craft collisions; what a
//! hash finds is checked again on the record.

use std::hash::Hasher;
use std::ops::Deref;

use grasp_core::lifecycle::UploadRecord;
use grasp_core::name::{Coordinate, Identifier, RepoAddress};
use nostr::event::EventId;
use nostr::key::PublicKey;
use siphasher::sip128::{Hasher128, SipHasher24};

/// The number an event is stored under: rising, so that pages of the event table fill up.
pub(crate) type Sequence = u64;

/// Longest key without a repository in it.
const SHORT: usize = 72;
/// Longest key that we build; LMDB takes 511 bytes.
const LONG: usize = 400;
/// Times beyond the year 36,812 are ordered as one second.
const TIME_MAX: u64 = (1 << 40) - 1;
/// Bytes of a time in a key.
pub(crate) const TIME: usize = 5;
/// Bytes of a time and the beginning of an id: events that agree in them are tied.
pub(crate) const TIE: usize = TIME + 4;

/// The end of an index key: inverted time, beginning of the id, sequence number.
pub(crate) type Suffix = [u8; TIE + 5];

/// A key under construction, on the stack.
#[derive(Clone)]
pub(crate) struct KeyBytes<const MAX: usize> {
    bytes: [u8; MAX],
    len: usize,
}

/// A key without a repository in it.
pub(crate) type Key = KeyBytes<SHORT>;
/// A key with a repository in it.
pub(crate) type LongKey = KeyBytes<LONG>;

impl<const MAX: usize> KeyBytes<MAX> {
    pub(crate) fn new(parts: &[&[u8]]) -> Self {
        let mut key = Self {
            bytes: [0; MAX],
            len: 0,
        };
        for part in parts {
            key.push(part);
        }
        key
    }

    pub(crate) fn push(&mut self, part: &[u8]) {
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }

    pub(crate) fn with(mut self, part: &[u8]) -> Self {
        self.push(part);
        self
    }
}

impl<const MAX: usize> Deref for KeyBytes<MAX> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The key of the event table.
pub(crate) fn sequence_key(sequence: Sequence) -> [u8; 5] {
    let [_, _, _, rest @ ..] = sequence.to_be_bytes();
    rest
}

/// Reads the last five bytes of a key or a value as a sequence number.
pub(crate) fn read_sequence(bytes: &[u8]) -> Option<Sequence> {
    let last: &[u8; 5] = bytes.last_chunk()?;
    Some(
        last.iter()
            .fold(0, |number, byte| (number << 8) | u64::from(*byte)),
    )
}

/// A time so that later sorts first.
pub(crate) fn time_key(seconds: u64) -> [u8; TIME] {
    sequence_key(TIME_MAX - seconds.min(TIME_MAX))
}

/// The time that a key stands for.
pub(crate) fn read_time(bytes: [u8; TIME]) -> u64 {
    let inverted = bytes
        .iter()
        .fold(0, |number, byte| (number << 8) | u64::from(*byte));
    TIME_MAX - inverted
}

/// See [`Suffix`].
pub(crate) fn suffix(created_at: u64, id: &[u8; 32], sequence: Sequence) -> Suffix {
    let mut out = [0; TIE + 5];
    out[..TIME].copy_from_slice(&time_key(created_at));
    out[TIME..TIE].copy_from_slice(&id[..4]);
    out[TIE..].copy_from_slice(&sequence_key(sequence));
    out
}

/// A repository as bytes: no prefix of another's, since identifiers have no NUL.
pub(crate) fn repository_key(repository: &RepoAddress) -> LongKey {
    let (space, coordinate) = match repository {
        RepoAddress::Announced(coordinate) => (Space::Announced, coordinate),
        RepoAddress::Proposals(coordinate) => (Space::Proposals, coordinate),
    };
    owner_key(space, &coordinate.owner)
        .with(coordinate.identifier.as_str().as_bytes())
        .with(&[0])
}

/// Repositories of one kind.
#[derive(Clone, Copy)]
pub(crate) enum Space {
    Announced = 0,
    Proposals = 1,
}

/// What [`repository_key`] begins with for all repositories of one owner.
pub(crate) fn owner_key(space: Space, owner: &PublicKey) -> LongKey {
    LongKey::new(&[&[space as u8], owner.as_bytes()])
}

/// Reads [`repository_key`] back; the rest of the bytes follows.
pub(crate) fn read_repository(bytes: &[u8]) -> Option<(RepoAddress, &[u8])> {
    let (space, rest) = bytes.split_first()?;
    let (owner, rest) = rest.split_first_chunk::<32>()?;
    let (identifier, rest) = read_identifier(rest)?;
    let coordinate = Coordinate::new(PublicKey::from_byte_array(*owner), identifier);
    match space {
        0 => Some((RepoAddress::Announced(coordinate), rest)),
        1 => Some((RepoAddress::Proposals(coordinate), rest)),
        _ => None,
    }
}

/// Reads an identifier that ends in NUL; the rest of the bytes follows.
pub(crate) fn read_identifier(bytes: &[u8]) -> Option<(Identifier, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let identifier = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
    Some((identifier, &bytes[end + 1..]))
}

/// The key of an upload record: repository, then event.
pub(crate) fn upload_key(repository: &RepoAddress, event: &EventId) -> LongKey {
    repository_key(repository).with(event.as_bytes())
}

/// Value of an upload record, what its key does not say.
pub(crate) fn upload_value(upload: &UploadRecord) -> [u8; 36] {
    let mut out = [0; 36];
    out[..20].copy_from_slice(upload.commit.as_bytes());
    out[20..28].copy_from_slice(&upload.bytes.to_be_bytes());
    out[28..].copy_from_slice(&upload.deadline.as_secs().to_be_bytes());
    out
}

/// The keyed hash of this store.
#[derive(Clone, Copy)]
pub(crate) struct KeyedHash(pub(crate) [u8; 16]);

/// What a hash is of: the same bytes in two roles do not meet.
#[derive(Clone, Copy)]
enum Role {
    Tag = 1,
    Address = 2,
    Listed = 3,
    Target = 4,
    Submitter = 5,
    Relay = 6,
}

impl KeyedHash {
    /// Sixteen bytes that stand for `parts`.
    fn of(&self, role: Role, parts: &[&[u8]]) -> [u8; 16] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write_u8(role as u8);
        for part in parts {
            hasher.write_usize(part.len());
            hasher.write(part);
        }
        let hash = hasher.finish128();
        (u128::from(hash.h1) << 64 | u128::from(hash.h2)).to_be_bytes()
    }

    /// The beginning of the tag index for one letter and value.
    pub(crate) fn tag(&self, letter: char, value: &str) -> [u8; 8] {
        let mut utf8 = [0; 4];
        let letter = letter.encode_utf8(&mut utf8).as_bytes();
        half(&self.of(Role::Tag, &[letter, value.as_bytes()]))
    }

    /// The beginning of the version table for one replaceable or addressable event.
    pub(crate) fn address(&self, kind: u16, author: &[u8; 32], d: &str) -> [u8; 16] {
        self.of(Role::Address, &[&kind.to_be_bytes(), author, d.as_bytes()])
    }

    /// The beginning of the listing table for one listed key; then the identifier.
    pub(crate) fn listed(&self, listed: &PublicKey) -> [u8; 8] {
        half(&self.of(Role::Listed, &[listed.as_bytes()]))
    }

    /// The second part of a listing key.
    pub(crate) fn identifier(&self, identifier: &Identifier) -> [u8; 8] {
        half(&self.of(Role::Listed, &[identifier.as_str().as_bytes()]))
    }

    /// The beginning of the proposal table for one target repository.
    pub(crate) fn target(&self, owner: &PublicKey, identifier: &Identifier) -> [u8; 16] {
        self.of(
            Role::Target,
            &[owner.as_bytes(), identifier.as_str().as_bytes()],
        )
    }

    /// The key of what is remembered of a relay.
    pub(crate) fn relay(&self, address: &str) -> [u8; 16] {
        self.of(Role::Relay, &[address.as_bytes()])
    }

    /// The beginning of the proposal table for what one submitter proposes to an identifier.
    pub(crate) fn submitter(&self, author: &PublicKey, identifier: &Identifier) -> [u8; 16] {
        self.of(
            Role::Submitter,
            &[author.as_bytes(), identifier.as_str().as_bytes()],
        )
    }
}

fn half(hash: &[u8; 16]) -> [u8; 8] {
    *hash.first_chunk().expect("sixteen bytes begin with eight")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_sorts_newest_first_then_lower_id() {
        let id = |byte: u8| [byte; 32];
        assert!(suffix(2, &id(9), 1) < suffix(1, &id(0), 2));
        assert!(suffix(1, &id(0x0a), 2) < suffix(1, &id(0xf3), 1));
        assert_eq!(read_time(time_key(1_700_000_000)), 1_700_000_000);
        assert_eq!(read_time(time_key(u64::MAX)), TIME_MAX);
        assert_eq!(read_sequence(&suffix(7, &id(3), 77)), Some(77));
    }

    #[test]
    fn a_repository_key_round_trips() {
        let owner = PublicKey::from_byte_array([7; 32]);
        for name in ["a", "my 🚀 repo"] {
            let address =
                RepoAddress::Proposals(Coordinate::new(owner, name.parse().expect("valid")));
            let event = EventId::from_byte_array([9; 32]);
            let key = upload_key(&address, &event);
            let (read, rest) = read_repository(&key).expect("reads");
            assert_eq!((read, rest), (address, event.as_bytes().as_slice()));
        }
    }
}
