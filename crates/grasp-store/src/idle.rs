//! The events of keys that take part in nothing here, in the order in which they have to go (EV-8).

use grasp_core::admission::{IdleEvent, IdleLoad, is_open_to_all};
use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::Standing;
use nostr::event::EventId;

use crate::error::StoreError;
use crate::keys::{Sequence, read_sequence, sequence_key};
use crate::lifecycle::Writing;
use crate::view::View;

const CORRUPT: StoreError = StoreError::Corrupt("idle");
/// At most so many leave with one commit: a bound that was lowered is reached over some.
const STEP: usize = 16;

impl Writing<'_, '_> {
    /// Counts a stored event until it is removed, whatever its stage: what is held takes room too.
    pub(crate) fn idle(&mut self, event: &EventId, used: bool) -> Result<(), StoreError> {
        let (sequence, _) = self.find(event)?.ok_or(StoreError::UnknownEvent(*event))?;
        self.drop_rows(sequence)?;
        let key = idle_key(sequence, used);
        Ok(self.tables.idle.put(self.transaction, &key, &[])?)
    }

    pub(crate) fn not_idle(&mut self, event: &EventId) -> Result<(), StoreError> {
        match self.find(event)? {
            Some((sequence, _)) => self.drop_rows(sequence),
            None => Ok(()),
        }
    }

    /// An event of an idle key has been of use: from now on it goes after all that have not.
    pub(crate) fn idle_used(&mut self, event: &EventId) -> Result<(), StoreError> {
        let (sequence, _) = self.find(event)?.ok_or(StoreError::UnknownEvent(*event))?;
        let unused = idle_key(sequence, false);
        if self.tables.idle.delete(self.transaction, &unused)? {
            let key = idle_key(sequence, true);
            self.tables.idle.put(self.transaction, &key, &[])?;
        }
        Ok(())
    }

    /// For an event that is removed. Most cannot have a row.
    pub(crate) fn drop_idle(
        &mut self,
        sequence: Sequence,
        standing: Standing,
    ) -> Result<(), StoreError> {
        match standing {
            Standing::Bare => self.drop_rows(sequence),
            Standing::Anchor | Standing::Reply { .. } => Ok(()),
        }
    }

    fn drop_rows(&mut self, sequence: Sequence) -> Result<(), StoreError> {
        for used in [false, true] {
            let key = idle_key(sequence, used);
            self.tables.idle.delete(self.transaction, &key)?;
        }
        Ok(())
    }
}

/// Unused before used, then as they came.
pub(crate) fn idle_key(sequence: Sequence, used: bool) -> [u8; 6] {
    let mut key = [u8::from(used); 6];
    key[1..].copy_from_slice(&sequence_key(sequence));
    key
}

impl View<'_> {
    /// What idle keys have stored, and of it what has to go for one more event under `bound`. `None`
    /// if `event` is of a kind that does not count, or its author takes part in something.
    pub fn idle_load(
        &self,
        event: &VerifiedEvent,
        bound: usize,
    ) -> Result<Option<IdleLoad>, StoreError> {
        if !is_open_to_all(event.kind()) || self.participates(&event.author())? {
            return Ok(None);
        }
        let replaced = self.replaced_idle(event)?;
        let events = self.idle_events()? - usize::from(replaced.is_some());
        let step = IdleLoad::excess(events, bound).min(STEP);
        let mut oldest = Vec::with_capacity(step);
        for row in self.tables.idle.iter(self.reading)? {
            if oldest.len() == step {
                break;
            }
            let sequence = read_sequence(row?.0).ok_or(CORRUPT)?;
            if Some(sequence) == replaced {
                continue;
            }
            let record = self.record_at(sequence)?.ok_or(CORRUPT)?;
            oldest.push(IdleEvent {
                event: record.event_id(),
                participates: self.participates(&record.public_key())?,
            });
        }
        Ok(Some(IdleLoad { events, oldest }))
    }

    /// How many events of idle keys are stored; the engine counts the rows of its tables itself.
    pub fn idle_events(&self) -> Result<usize, StoreError> {
        let rows = self.tables.idle.len(self.reading)?;
        Ok(usize::try_from(rows).unwrap_or(usize::MAX))
    }

    /// The counted event that `event` replaces, or is: it takes no room of its own then.
    fn replaced_idle(&self, event: &VerifiedEvent) -> Result<Option<Sequence>, StoreError> {
        let there = match (self.record(&event.id())?, event.address()) {
            (Some(itself), _) => Some(itself),
            (None, Some(address)) => self.served_at(&address)?,
            (None, None) => None,
        };
        let Some((sequence, _)) = there else {
            return Ok(None);
        };
        for used in [false, true] {
            let key = idle_key(sequence, used);
            if self.tables.idle.get(self.reading, &key)?.is_some() {
                return Ok(Some(sequence));
            }
        }
        Ok(None)
    }
}
