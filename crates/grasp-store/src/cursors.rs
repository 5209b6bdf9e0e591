//! What following other relays remembers of each over a restart (SYNC-11). Its bytes are not read here.

use crate::error::StoreError;
use crate::lifecycle::Writing;
use crate::view::View;

const CORRUPT: StoreError = StoreError::Corrupt("cursors");

impl Writing<'_, '_> {
    pub(crate) fn keep_cursor(
        &mut self,
        relay: &str,
        cursor: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let key = self.hash.relay(relay);
        match (cursor, u32::try_from(relay.len())) {
            (Some(cursor), Ok(len)) => {
                let value = [&len.to_be_bytes(), relay.as_bytes(), cursor].concat();
                self.tables.cursors.put(self.transaction, &key, &value)?;
            }
            _ => {
                self.tables.cursors.delete(self.transaction, &key)?;
            }
        }
        Ok(())
    }
}

impl View<'_> {
    /// What is remembered of relays, by address.
    pub fn cursors(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut cursors = Vec::new();
        for row in self.tables.cursors.iter(self.reading)? {
            let (_, value) = row?;
            cursors.push(read(value).ok_or(CORRUPT)?);
        }
        Ok(cursors)
    }
}

fn read(value: &[u8]) -> Option<(String, Vec<u8>)> {
    let (len, rest) = value.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
    let (relay, cursor) = rest.split_at_checked(len)?;
    Some((std::str::from_utf8(relay).ok()?.to_owned(), cursor.to_vec()))
}
