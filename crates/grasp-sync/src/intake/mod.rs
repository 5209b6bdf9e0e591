//! What is remembered of events that were not taken in: not now, and perhaps later.
//!
//! Relays send events in any order, and what an event hangs on may come after it, from another relay, or never.
//! Two memories hold all of that (SYNC-32): *orphans* are whole events that lack something, tried again as
//! soon as it arrives; *marks* are ids that need not be asked for again. What orphans lack is asked for by exact id or
//! address, politely (SYNC-33). *Invariant:* only verified events are remembered, a whole event has its mark too, and nothing
//! here outlives the process: a restart asks once more.

mod dependencies;
mod lack;
mod marks;
mod orphans;
mod tally;

use std::time::Duration;

use grasp_core::EventId;
use grasp_core::admission::Rejection;
use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;

use crate::engine::Time;
use crate::relay_url::RelayUrl;
use dependencies::Dependencies;
pub use dependencies::{
    ASK_PAUSE, ASK_PAUSE_MAX, ERRANDS_MAX, Errand, FILTERS_MAX as ERRAND_FILTERS_MAX,
    VALUES_MAX as ERRAND_VALUES_MAX,
};
pub use lack::Lack;
use lack::Outlook;
pub use marks::{MARK_LACKS_MAX, MarkLimits};
use marks::{Mark, Marks};
pub use orphans::{ORPHAN_BYTES_MAX, ORPHANS_BYTES_MAX, ORPHANS_MAX};
use orphans::{Orphan, Orphans};
pub use tally::{BySort, Sort, Tallies};

/// Orphans that are tried again in one pass (SYNC-33).
pub const RETRIES_MAX: usize = 512;
/// For so long an event waits for what it refers to (SYNC-33).
pub const ORPHAN_KEPT: Duration = Duration::from_hours(7 * 24);

/// How long refused events are remembered (SYNC-32).
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The whole event, where it lacks nothing that could be asked for.
    pub hot: Duration,
    /// Its id.
    pub cold: Duration,
    /// How many ids.
    pub marks: MarkLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hot: Duration::from_mins(2),
            cold: Duration::from_hours(7 * 24),
            marks: MarkLimits::default(),
        }
    }
}

/// How much is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Whole events.
    pub orphans: usize,
    /// Their bytes.
    pub orphan_bytes: usize,
    /// Ids, those of whole events among them.
    pub marks: usize,
    /// What is asked for.
    pub dependencies: usize,
}

/// What was not taken in. See the [module](self).
#[derive(Debug)]
pub struct Intake {
    settings: Settings,
    orphans: Orphans,
    marks: Marks,
    dependencies: Dependencies,
    tallies: Tallies,
}

impl Intake {
    /// Nothing was refused yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            orphans: Orphans::default(),
            marks: Marks::new(settings.marks),
            dependencies: Dependencies::default(),
            tallies: Tallies::default(),
        }
    }

    /// An event was taken in after all, or need not be remembered any more.
    pub fn taken(&mut self, id: &EventId) {
        self.forget_orphan(id);
        self.marks.remove(id);
    }

    /// A verified event that `from` delivered was not taken in. Whether it is kept whole, to be tried again. One that
    /// only lacked room is not remembered: it comes again with the next full sync.
    pub fn refused(
        &mut self,
        event: VerifiedEvent,
        from: &RelayUrl,
        rejection: &Rejection,
        now: Time,
    ) -> bool {
        let id = event.id();
        let (lacks, kept) = match Outlook::of(&event, rejection) {
            Outlook::Passing => {
                self.taken(&id);
                return false;
            }
            Outlook::Final => (Vec::new(), None),
            Outlook::Changes(lacks) => (lacks, Some(self.settings.hot)),
            Outlook::Lacks(lacks) => (lacks, Some(ORPHAN_KEPT)),
        };
        let mark = Mark {
            created_at: event.created_at().as_secs(),
            kind: event.kind(),
            lacks: lacks.iter().take(MARK_LACKS_MAX).cloned().collect(),
            source: from.clone(),
        };
        let cold = self.settings.cold.max(kept.unwrap_or_default());
        self.marks.add(id, mark, now + cold);
        let Some(kept) = kept else {
            self.forget_orphan(&id);
            return false;
        };
        let orphan = Orphan {
            event,
            from: from.clone(),
            lacks,
        };
        let (added, pushed_out) = self.orphans.add(orphan, now + kept);
        for gone in pushed_out {
            // It stays known by its id, until what it lacks arrives.
            self.dependencies.drop_orphan(&gone.event.id(), &gone.lacks);
        }
        if let Some(orphan) = added {
            self.dependencies.want(id, &orphan.lacks, from, now);
        }
        added.is_some()
    }

    /// Something arrived: what lacked it is due to be tried again, and what is only marked may be asked for again.
    pub fn meet(&mut self, lack: &Lack) {
        self.dependencies.remove(lack);
        self.orphans.meet(lack);
        for id in self.marks.lacking(lack) {
            // What is kept whole is tried again from memory; until then nobody need send it.
            if !self.orphans.contains(&id)
                && let Some(mark) = self.marks.remove(&id)
            {
                self.tallies.misses.count(mark.kind);
            }
        }
    }

    /// It is not known what arrived: whatever waits is due to be tried again.
    pub fn meet_all(&mut self) {
        for lack in self.orphans.lacks() {
            self.meet(&lack);
        }
    }

    /// The events to try again now, each with the relay that sent it, at most [`RETRIES_MAX`].
    pub fn retries(&mut self) -> Vec<(RelayUrl, VerifiedEvent)> {
        let due = self.orphans.take_due(RETRIES_MAX);
        for (_, event) in &due {
            self.tallies.hits.count(event.kind());
        }
        due
    }

    /// Whether more is due than one pass takes.
    pub fn has_retries(&self) -> bool {
        self.orphans.has_due()
    }

    /// What to ask of whom now (SYNC-33).
    pub fn errands(&mut self, now: Time) -> Vec<Errand> {
        self.dependencies.errands(now)
    }

    /// Forgets what was remembered long enough.
    pub fn expire(&mut self, now: Time) {
        for orphan in self.orphans.expire(now) {
            self.dependencies
                .drop_orphan(&orphan.event.id(), &orphan.lacks);
            self.tallies.orphans_expired.count(orphan.event.kind());
        }
        for mark in self.marks.expire(now) {
            self.tallies.marks_expired.count(mark.kind);
        }
    }

    /// When to look again for what is to be asked or forgotten.
    pub fn next_deadline(&self) -> Option<Time> {
        let times = [
            self.orphans.next_expiry(),
            self.marks.next_expiry(),
            self.dependencies.next(),
        ];
        times.into_iter().flatten().min()
    }

    /// Whether an event was refused lately and need not come again.
    pub fn knows(&self, id: &EventId, now: Time) -> bool {
        self.marks.contains(id, now)
    }

    /// The marks that may be among a filter's matches, for a reconciliation (SYNC-25): one too many costs nothing there.
    pub fn marked(&self, filter: &Filter, now: Time) -> Vec<(u64, EventId)> {
        self.marks.among(filter, now)
    }

    /// How much is remembered.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            orphans: self.orphans.len(),
            orphan_bytes: self.orphans.bytes(),
            marks: self.marks.len(),
            dependencies: self.dependencies.len(),
        }
    }

    /// Whole events by sort, and ids.
    pub fn by_sort(&self) -> (BySort, BySort) {
        (
            BySort::over(self.orphans.kinds()),
            BySort::over(self.marks.kinds()),
        )
    }

    /// What has happened so far.
    pub fn tallies(&self) -> Tallies {
        self.tallies
    }

    fn forget_orphan(&mut self, id: &EventId) {
        if let Some(orphan) = self.orphans.remove(id) {
            self.dependencies.drop_orphan(id, &orphan.lacks);
        }
    }
}

#[cfg(test)]
mod tests;
