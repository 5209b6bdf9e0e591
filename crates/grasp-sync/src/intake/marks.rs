//! Ids of events that were refused and need not be asked for again.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::EventId;
use grasp_core::filter::Filter;

use super::lack::Lack;
use crate::engine::Time;
use crate::relay_url::RelayUrl;

/// Of what an event lacks so much lifts its mark; a crafted event could name much more.
pub const MARK_LACKS_MAX: usize = 8;

/// What is remembered of an event.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) created_at: u64,
    pub(super) kind: u16,
    pub(super) lacks: Vec<Lack>,
    /// The relay that sent it.
    pub(super) source: RelayUrl,
}

/// The marks, by what would lift them and by when they go.
#[derive(Debug)]
pub(super) struct Marks {
    limits: MarkLimits,
    by_id: BTreeMap<EventId, (Time, Mark)>,
    lacking: BTreeMap<Lack, BTreeSet<EventId>>,
    expiries: BTreeSet<(Time, EventId)>,
    by_source: BTreeMap<RelayUrl, BTreeSet<(Time, EventId)>>,
}

/// How many ids are remembered. At the brim those go that would go first anyhow.
#[derive(Debug, Clone, Copy)]
pub struct MarkLimits {
    /// In all.
    pub total: usize,
    /// Of the events that one relay sent, so that none crowds out the others.
    pub per_source: usize,
}

impl Default for MarkLimits {
    fn default() -> Self {
        Self {
            total: 1_000_000,
            per_source: 50_000,
        }
    }
}

impl Marks {
    pub(super) fn new(limits: MarkLimits) -> Self {
        Self {
            limits,
            by_id: BTreeMap::new(),
            lacking: BTreeMap::new(),
            expiries: BTreeSet::new(),
            by_source: BTreeMap::new(),
        }
    }

    /// Remembers an id until then.
    pub(super) fn add(&mut self, id: EventId, mark: Mark, until: Time) {
        self.remove(&id);
        let of_source = self.by_source.get(&mark.source);
        if let Some(of_source) = of_source.filter(|it| it.len() >= self.limits.per_source)
            && let Some((_, first)) = of_source.first().copied()
        {
            self.remove(&first);
        }
        if self.by_id.len() >= self.limits.total
            && let Some((_, first)) = self.expiries.first().copied()
        {
            self.remove(&first);
        }
        let of_source = self.by_source.entry(mark.source.clone()).or_default();
        of_source.insert((until, id));
        for lack in &mark.lacks {
            self.lacking.entry(lack.clone()).or_default().insert(id);
        }
        self.expiries.insert((until, id));
        self.by_id.insert(id, (until, mark));
    }

    pub(super) fn remove(&mut self, id: &EventId) -> Option<Mark> {
        let (until, mark) = self.by_id.remove(id)?;
        self.expiries.remove(&(until, *id));
        if let Some(of_source) = self.by_source.get_mut(&mark.source) {
            of_source.remove(&(until, *id));
            if of_source.is_empty() {
                self.by_source.remove(&mark.source);
            }
        }
        for lack in &mark.lacks {
            if let Some(waiting) = self.lacking.get_mut(lack) {
                waiting.remove(id);
                if waiting.is_empty() {
                    self.lacking.remove(lack);
                }
            }
        }
        Some(mark)
    }

    /// The ids that lack this.
    pub(super) fn lacking(&self, lack: &Lack) -> Vec<EventId> {
        self.lacking
            .get(lack)
            .into_iter()
            .flatten()
            .copied()
            .collect()
    }

    pub(super) fn contains(&self, id: &EventId, now: Time) -> bool {
        self.by_id.get(id).is_some_and(|(until, _)| *until > now)
    }

    pub(super) fn expire(&mut self, now: Time) -> Vec<Mark> {
        let mut gone = Vec::new();
        while let Some((_, id)) = self.expiries.first().filter(|(at, _)| *at <= now).copied() {
            gone.extend(self.remove(&id));
        }
        gone
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// Those that may match, by kind and time.
    pub(super) fn among(&self, filter: &Filter, now: Time) -> Vec<(u64, EventId)> {
        let may_match = |mark: &Mark| {
            let kinds = filter.kinds.as_ref();
            kinds.is_none_or(|kinds| kinds.contains(&mark.kind))
                && filter.since.is_none_or(|since| mark.created_at >= since)
                && filter.until.is_none_or(|until| mark.created_at <= until)
        };
        let valid = self.by_id.iter();
        valid
            .filter(|(_, (until, mark))| *until > now && may_match(mark))
            .map(|(id, (_, mark))| (mark.created_at, *id))
            .collect()
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = u16> {
        self.by_id.values().map(|(_, mark)| mark.kind)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}
