//! Lists the repositories that announcements speak of, in any stage.

use std::collections::BTreeSet;
use std::ops::Bound;

use grasp_core::name::{Coordinate, Identifier};

use crate::error::StoreError;
use crate::index::ANYBODY;
use crate::keys::{Key, read_sequence};
use crate::view::View;

/// Rows of one snapshot.
const CHUNK: usize = 1000;

/// Where a list goes on, in this snapshot or a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnouncedCursor(Vec<u8>);

impl View<'_> {
    /// The next repositories that are or were announced, of one identifier or of all, and where the list goes on; `None`
    /// at its end.
    pub fn announced(
        &self,
        identifier: Option<&Identifier>,
        after: Option<&AnnouncedCursor>,
    ) -> Result<(BTreeSet<Coordinate>, Option<AnnouncedCursor>), StoreError> {
        let mut prefix = Key::new(&[&ANYBODY]);
        if let Some(identifier) = identifier {
            prefix.push(&self.hash.identifier(identifier));
        }
        let begin = match after {
            Some(AnnouncedCursor(key)) => Bound::Excluded(key.as_slice()),
            None => Bound::Included(&prefix[..]),
        };
        let mut found = BTreeSet::new();
        let rows = self
            .tables
            .listings
            .range(self.reading, &(begin, Bound::Unbounded))?;
        for (number, row) in rows.enumerate() {
            let (key, _) = row?;
            if !key.starts_with(&prefix) {
                return Ok((found, None));
            }
            let sequence = read_sequence(key).ok_or(StoreError::Corrupt("listings"))?;
            let record = self.record_at(sequence)?;
            let named = record.and_then(|record| {
                let d = record.first_tag('d')?;
                let named: Identifier = d.as_text(|text| text.parse().ok())?;
                let sought = identifier.is_none_or(|identifier| *identifier == named);
                sought.then(|| Coordinate::new(record.public_key(), named))
            });
            found.extend(named);
            if number + 1 == CHUNK {
                return Ok((found, Some(AnnouncedCursor(key.to_vec()))));
            }
        }
        Ok((found, None))
    }
}
