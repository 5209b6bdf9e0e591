//! Whole events that wait for something.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use grasp_core::EventId;
use grasp_core::event::VerifiedEvent;

use super::lack::Lack;
use crate::engine::Time;
use crate::relay_url::RelayUrl;

/// At most so many are kept; at the brim those go that would go first anyhow.
pub const ORPHANS_MAX: usize = 1_024;
/// Bytes of all of them.
pub const ORPHANS_BYTES_MAX: usize = 8 << 20;
/// A larger one is only marked.
pub const ORPHAN_BYTES_MAX: usize = 128 << 10;

/// An event that waits, where it came from, and for what it waits.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) event: VerifiedEvent,
    pub(super) from: RelayUrl,
    pub(super) lacks: Vec<Lack>,
}

#[derive(Debug)]
struct Kept {
    orphan: Orphan,
    bytes: usize,
    until: Time,
}

/// The events, by what they lack and by when they go.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    kept: BTreeMap<EventId, Kept>,
    lacking: BTreeMap<Lack, BTreeSet<EventId>>,
    expiries: BTreeSet<(Time, EventId)>,
    /// What they lacked is there. In the order in which that was noticed; never longer than `kept`.
    due: VecDeque<EventId>,
    bytes: usize,
}

impl Orphans {
    /// Keeps an event until then. One that is kept already keeps its time. Returns the event as it is kept, if there is
    /// room for it, and those that had to make room.
    pub(super) fn add(&mut self, orphan: Orphan, until: Time) -> (Option<&Orphan>, Vec<Orphan>) {
        let id = orphan.event.id();
        let bytes = orphan.event.event().as_json().len();
        let until = self.kept.get(&id).map_or(until, |kept| kept.until);
        self.remove(&id);
        if bytes > ORPHAN_BYTES_MAX {
            return (None, Vec::new());
        }
        let mut pushed_out = Vec::new();
        while self.kept.len() >= ORPHANS_MAX || self.bytes + bytes > ORPHANS_BYTES_MAX {
            let first = self.expiries.first().map(|(_, id)| *id);
            match first.and_then(|id| self.remove(&id)) {
                Some(gone) => pushed_out.push(gone),
                None => break,
            }
        }
        for lack in &orphan.lacks {
            self.lacking.entry(lack.clone()).or_default().insert(id);
        }
        self.expiries.insert((until, id));
        self.bytes += bytes;
        let kept = Kept {
            orphan,
            bytes,
            until,
        };
        self.kept.insert(id, kept);
        let kept = self.kept.get(&id).map(|kept| &kept.orphan);
        (kept, pushed_out)
    }

    pub(super) fn remove(&mut self, id: &EventId) -> Option<Orphan> {
        let kept = self.kept.remove(id)?;
        for lack in &kept.orphan.lacks {
            if let Some(waiting) = self.lacking.get_mut(lack) {
                waiting.remove(id);
                if waiting.is_empty() {
                    self.lacking.remove(lack);
                }
            }
        }
        self.expiries.remove(&(kept.until, *id));
        self.due.retain(|due| due != id);
        self.bytes -= kept.bytes;
        Some(kept.orphan)
    }

    /// What lacks this is due.
    pub(super) fn meet(&mut self, lack: &Lack) {
        for id in self.lacking.get(lack).into_iter().flatten() {
            if !self.due.contains(id) {
                self.due.push_back(*id);
            }
        }
    }

    /// All that is lacked.
    pub(super) fn lacks(&self) -> Vec<Lack> {
        self.lacking.keys().cloned().collect()
    }

    /// The next that are due. They stay until it is known what became of them.
    pub(super) fn take_due(&mut self, max: usize) -> Vec<(RelayUrl, VerifiedEvent)> {
        let count = max.min(self.due.len());
        let due = self.due.drain(..count);
        let kept = due.filter_map(|id| self.kept.get(&id));
        kept.map(|kept| (kept.orphan.from.clone(), kept.orphan.event.clone()))
            .collect()
    }

    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(super) fn expire(&mut self, now: Time) -> Vec<Orphan> {
        let mut gone = Vec::new();
        while let Some((_, id)) = self.expiries.first().filter(|(at, _)| *at <= now).copied() {
            gone.extend(self.remove(&id));
        }
        gone
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.expiries.first().map(|(at, _)| *at)
    }

    pub(super) fn contains(&self, id: &EventId) -> bool {
        self.kept.contains_key(id)
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = u16> {
        self.kept.values().map(|kept| kept.orphan.event.kind())
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
