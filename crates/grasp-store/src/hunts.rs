//! For which identifiers git data is owed, and when it is looked for next (HUNT-1a).

use std::ops::Bound;

use grasp_core::name::Identifier;

use crate::error::StoreError;
use crate::lifecycle::Writing;
use crate::version::CommitVersion;
use crate::view::View;

const CORRUPT: StoreError = StoreError::Corrupt("hunts");

/// What is remembered of looking for one identifier's git data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunt {
    /// Whose.
    pub identifier: Identifier,
    /// When it is looked for next: milliseconds of wall clock.
    pub next_attempt_ms: u64,
    /// How often it was since the last news.
    pub attempt_count: u32,
    /// Nothing waits any more: what is owed is looked for hourly (G2-4).
    pub is_parked: bool,
    /// The last commit that asked for it. Nothing that was seen before that says it is over.
    pub asked_in: CommitVersion,
}

impl Hunt {
    fn value(&self) -> [u8; 21] {
        let mut value = [0; 21];
        value[..8].copy_from_slice(&self.next_attempt_ms.to_be_bytes());
        value[8..12].copy_from_slice(&self.attempt_count.to_be_bytes());
        value[12] = u8::from(self.is_parked);
        value[13..].copy_from_slice(&self.asked_in.number().to_be_bytes());
        value
    }

    /// Earlier versions wrote the time alone.
    fn read(identifier: Identifier, value: &[u8]) -> Option<Self> {
        let (next_attempt, rest) = value.split_first_chunk::<8>()?;
        let entry = Self {
            identifier,
            next_attempt_ms: u64::from_be_bytes(*next_attempt),
            attempt_count: 0,
            is_parked: false,
            asked_in: CommitVersion::default(),
        };
        if rest.is_empty() {
            return Some(entry);
        }
        let (attempts, rest) = rest.split_first_chunk::<4>()?;
        let (parked, rest) = rest.split_first()?;
        Some(Self {
            attempt_count: u32::from_be_bytes(*attempts),
            is_parked: *parked != 0,
            asked_in: CommitVersion::new(u64::from_be_bytes(rest.try_into().ok()?)),
            ..entry
        })
    }
}

impl Writing<'_, '_> {
    /// HUNT-4: news begins the attempts anew, and may only bring the next one forward.
    pub(crate) fn hunt(
        &mut self,
        identifier: &Identifier,
        not_before_ms: u64,
        version: CommitVersion,
    ) -> Result<(), StoreError> {
        let there = self.hunt_of(identifier)?;
        let next = there.map_or(not_before_ms, |there| {
            there.next_attempt_ms.min(not_before_ms)
        });
        self.put_hunt(&Hunt {
            identifier: identifier.clone(),
            next_attempt_ms: next,
            attempt_count: 0,
            is_parked: false,
            asked_in: version,
        })
    }

    pub(crate) fn hunt_later(
        &mut self,
        identifier: &Identifier,
        next_attempt_ms: u64,
        attempt_count: u32,
        is_parked: bool,
    ) -> Result<(), StoreError> {
        let there = self.hunt_of(identifier)?;
        self.put_hunt(&Hunt {
            identifier: identifier.clone(),
            next_attempt_ms,
            attempt_count,
            is_parked,
            asked_in: there.map_or_else(CommitVersion::default, |there| there.asked_in),
        })
    }

    pub(crate) fn hunt_over(
        &mut self,
        identifier: &Identifier,
        seen: CommitVersion,
    ) -> Result<(), StoreError> {
        let there = self.hunt_of(identifier)?;
        if there.is_some_and(|there| there.asked_in <= seen) {
            let key = identifier.as_str().as_bytes();
            self.tables.hunts.delete(self.transaction, key)?;
        }
        Ok(())
    }

    fn hunt_of(&self, identifier: &Identifier) -> Result<Option<Hunt>, StoreError> {
        let key = identifier.as_str().as_bytes();
        let value = self.tables.hunts.get(self.transaction, key)?;
        Ok(value.and_then(|value| Hunt::read(identifier.clone(), value)))
    }

    fn put_hunt(&mut self, hunt: &Hunt) -> Result<(), StoreError> {
        let key = hunt.identifier.as_str().as_bytes();
        Ok(self
            .tables
            .hunts
            .put(self.transaction, key, &hunt.value())?)
    }
}

impl View<'_> {
    /// For which identifiers git data is owed, by name; at most `max`, after `after` if that is given.
    pub fn hunts(&self, after: Option<&Identifier>, max: usize) -> Result<Vec<Hunt>, StoreError> {
        let from = after.map_or(Bound::Unbounded, |after| {
            Bound::Excluded(after.as_str().as_bytes())
        });
        let mut hunts = Vec::new();
        let rows = self
            .tables
            .hunts
            .range(self.reading, &(from, Bound::Unbounded))?;
        for row in rows.take(max) {
            let (key, value) = row?;
            hunts.push(read(key, value).ok_or(CORRUPT)?);
        }
        Ok(hunts)
    }
}

fn read(key: &[u8], value: &[u8]) -> Option<Hunt> {
    let identifier = std::str::from_utf8(key).ok()?.parse().ok()?;
    Hunt::read(identifier, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HUNT-1a: what earlier versions wrote, and what nobody did.
    #[test]
    fn a_row_of_a_time_alone_is_still_read() {
        let hunt = Hunt {
            identifier: "x".parse().expect("valid"),
            next_attempt_ms: 7,
            attempt_count: 0,
            is_parked: false,
            asked_in: CommitVersion::default(),
        };
        assert_eq!(read(b"x", &7_u64.to_be_bytes()), Some(hunt.clone()));
        let full = Hunt {
            attempt_count: 3,
            is_parked: true,
            asked_in: CommitVersion::new(9),
            ..hunt
        };
        let value = full.value();
        assert_eq!(read(b"x", &value), Some(full));
        for len in (0..8).chain(9..value.len()) {
            assert_eq!(read(b"x", &value[..len]), None, "{len}");
        }
        assert_eq!(read(b"x", &[&value[..], &[0]].concat()), None);
        assert_eq!(read(b"a/b", &value), None);
    }
}
