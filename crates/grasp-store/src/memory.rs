//! What is remembered of events that are not here: marks (PUR-8, SYNC-32). And what is known of an event
//! that arrives, before its kind matters (EV-1).

use grasp_core::admission::Known;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::MarkReason;
use nostr::event::EventId;
use nostr::types::Timestamp;

use crate::deadlines;
use crate::error::StoreError;
use crate::keys::Key;
use crate::lifecycle::Writing;
use crate::view::View;

impl Writing<'_, '_> {
    pub(crate) fn mark(
        &mut self,
        event: &EventId,
        reason: MarkReason,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        self.unmark(event, reason)?;
        let key = mark_key(event, reason);
        self.tables
            .marks
            .put(self.transaction, &key, &until.as_secs().to_be_bytes())?;
        let due = deadlines::mark_key(until, &key);
        Ok(self.tables.deadlines.put(self.transaction, &due, &[])?)
    }

    pub(crate) fn unmark(&mut self, event: &EventId, reason: MarkReason) -> Result<(), StoreError> {
        let key = mark_key(event, reason);
        let Some(until) = self.tables.marks.get(self.transaction, &key)? else {
            return Ok(());
        };
        let due = deadlines::mark_key(read_until(until)?, &key);
        self.tables.deadlines.delete(self.transaction, &due)?;
        self.tables.marks.delete(self.transaction, &key)?;
        Ok(())
    }
}

fn mark_key(event: &EventId, reason: MarkReason) -> Key {
    let reason = match reason {
        MarkReason::Expired => 0,
        MarkReason::Refused => 1,
    };
    Key::new(&[event.as_bytes(), &[reason]])
}

/// Reads [`mark_key`] back.
pub(crate) fn read_mark(key: &[u8]) -> Option<(EventId, MarkReason)> {
    let (event, reason) = key.split_first_chunk::<32>()?;
    let reason = match reason {
        [0] => MarkReason::Expired,
        [1] => MarkReason::Refused,
        _ => return None,
    };
    Some((EventId::from_byte_array(*event), reason))
}

fn read_until(bytes: &[u8]) -> Result<Timestamp, StoreError> {
    let bytes = bytes.try_into().map_err(|_| StoreError::Corrupt("marks"))?;
    Ok(Timestamp::from_secs(u64::from_be_bytes(bytes)))
}

impl View<'_> {
    /// What the checks that come before the kind need to know (EV-1).
    pub fn known(&self, event: &VerifiedEvent, now: Timestamp) -> Result<Known, StoreError> {
        let address = event.address();
        let served_version = match &address {
            Some(address) => self.served_version(address)?,
            None => None,
        };
        Ok(Known {
            stage: self.record(&event.id())?.map(|(_, record)| record.stage()),
            gates: self.gates(event)?,
            expired_mark: self.is_marked(&event.id(), MarkReason::Expired, now)?,
            served_version,
            announced: event.kind() == kind::STATE
                && event
                    .identifier()
                    .map_or(Ok(false), |it| self.is_announced(&it))?,
        })
    }

    /// Whether `event` is remembered for `reason`.
    pub fn is_marked(
        &self,
        event: &EventId,
        reason: MarkReason,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let until = self
            .tables
            .marks
            .get(self.reading, &mark_key(event, reason))?;
        Ok(until
            .map(read_until)
            .transpose()?
            .is_some_and(|until| until > now))
    }
}
