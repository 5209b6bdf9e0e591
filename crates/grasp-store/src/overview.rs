//! What an operator wants to know of everything that is stored, without a scan of it.

use grasp_core::lifecycle::Stage;
use grasp_core::purgatory::WAITING;
use nostr::types::Timestamp;

use crate::counters::Stats;
use crate::deadlines;
use crate::error::StoreError;
use crate::view::View;

/// Of the deadlines that come next so many are looked at for the first of a waiting event: what is due before
/// it is marks and things that end by themselves.
const DEADLINES_MAX: usize = 10_000;

/// Everything at a glance.
#[derive(Debug, Clone, Copy)]
pub struct Overview {
    /// Events by stage.
    pub stats: Stats,
    /// Identifiers whose git data is looked for.
    pub hunts: u64,
    /// Uploads whose event is still to come.
    pub uploads: u64,
    /// When the first waiting event expires; `None` if none waits.
    pub first_waiting_deadline: Option<Timestamp>,
}

impl Overview {
    /// How long the one waits that is to expire first, in seconds since its time last began anew (PUR-3).
    pub fn longest_wait(&self, now: Timestamp) -> Option<u64> {
        let deadline = self.first_waiting_deadline?;
        let end = now.as_secs().saturating_add(WAITING.as_secs());
        Some(end.saturating_sub(deadline.as_secs()))
    }
}

impl View<'_> {
    /// Everything at a glance.
    pub fn overview(&self) -> Result<Overview, StoreError> {
        let stats = self.stats()?;
        let waits = stats.of(Stage::Waiting).events > 0;
        Ok(Overview {
            stats,
            hunts: self.tables.hunts.len(self.reading)?,
            uploads: self.tables.uploads.len(self.reading)?,
            first_waiting_deadline: if waits {
                self.first_waiting_deadline()?
            } else {
                None
            },
        })
    }

    fn first_waiting_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        for row in self
            .tables
            .deadlines
            .iter(self.reading)?
            .take(DEADLINES_MAX)
        {
            let (key, _) = row?;
            let Some((at, sequence)) = deadlines::read_event_key(key) else {
                continue;
            };
            let record = self.record_at(sequence)?;
            if record.is_some_and(|record| record.stage() == Stage::Waiting) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}
