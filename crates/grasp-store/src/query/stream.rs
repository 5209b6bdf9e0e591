//! Reads one range of an index in small bites.
//!
//! No cursor stays open between bites, so thousands of ranges (a filter with thousands of values)
//! cost memory for one key each.

use std::collections::VecDeque;
use std::ops::Bound;

use crate::error::StoreError;
use crate::keys::{Key, KeyBytes, Suffix, TIE};
use crate::lmdb::Table;
use crate::view::View;

/// Where in which index to look.
#[derive(Clone)]
pub(crate) struct Range {
    pub(crate) table: Table,
    pub(crate) prefix: Prefix,
}

/// The beginning of the keys of a range: short, since there can be thousands.
pub(crate) type Prefix = KeyBytes<10>;

/// The part of time that is wanted, as ends of keys.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// Inclusive.
    pub(crate) first: Suffix,
    /// Inclusive.
    pub(crate) last: Suffix,
}

/// Largest bite.
const BITE_MAX: usize = 256;

/// One range being read, newest first.
pub(crate) struct Stream {
    table: Table,
    prefix: Prefix,
    window: Window,
    bite: usize,
    buffer: VecDeque<Suffix>,
    /// The last key taken from the index.
    reached: Option<Suffix>,
    exhausted: bool,
}

impl Stream {
    pub(crate) fn new(range: Range, window: Window, bite: usize) -> Self {
        Self {
            table: range.table,
            prefix: range.prefix,
            window,
            bite,
            buffer: VecDeque::new(),
            reached: None,
            exhausted: false,
        }
    }

    pub(crate) fn next(&mut self, view: &View<'_>) -> Result<Option<Suffix>, StoreError> {
        if self.buffer.is_empty() && !self.exhausted {
            self.fill(view)?;
        }
        Ok(self.buffer.pop_front())
    }

    fn key(&self, end: &Suffix) -> Key {
        Key::new(&[&self.prefix, end])
    }

    fn fill(&mut self, view: &View<'_>) -> Result<(), StoreError> {
        let from = match &self.reached {
            Some(reached) => self.key(reached),
            None => self.key(&self.window.first),
        };
        let to = self.key(&self.window.last);
        if *from > *to {
            self.exhausted = true;
            return Ok(());
        }
        let start = match self.reached {
            Some(_) => Bound::Excluded(&*from),
            None => Bound::Included(&*from),
        };
        let bounds = (start, Bound::Included(&*to));
        for row in self.table.range(view.reading, &bounds)?.take(self.bite) {
            self.buffer.push_back(read_suffix(row?.0)?);
        }
        self.exhausted = self.buffer.len() < self.bite;
        self.reached = self.buffer.back().copied().or(self.reached);
        self.bite = (self.bite * 2).min(BITE_MAX);
        Ok(())
    }
}

pub(crate) fn read_suffix(key: &[u8]) -> Result<Suffix, StoreError> {
    let suffix: Option<&[u8; TIE + 5]> = key.last_chunk();
    suffix.copied().ok_or(StoreError::Corrupt("index"))
}
