//! Answers filters from the indexes of served events: newest first, lower id first within a second.
//!
//! Each filter gets the most selective index that fits it; the streams of its ranges are merged, and
//! the filters merged again, each with its own limit. What an index finds is matched against the
//! record, so a hash that collides costs a read and never a wrong answer. Long scans stop after a
//! budget and say where: the next snapshot continues there, and no old one pins pages.

mod matches;
mod planner;
mod stream;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use grasp_core::filter::{Filter, Matchable};
use nostr::event::EventId;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::keys::{Sequence, TIME, time_key};
use crate::record::Record;
use crate::view::View;
use matches::{Matches, Scope, Step};

/// How many events a query returns at most, and when "now" is.
#[derive(Debug, Clone, Copy)]
pub struct QueryLimits {
    /// For a filter without a limit.
    pub default_limit: usize,
    /// For a filter with one; each filter counts for itself.
    pub max_limit: usize,
    /// Events whose NIP-40 time has come are not shown (EV-4).
    pub now: Timestamp,
}

impl QueryLimits {
    /// Everything that matches, filters' own limits aside.
    pub fn unlimited(now: Timestamp) -> Self {
        Self {
            default_limit: usize::MAX,
            max_limit: usize::MAX,
            now,
        }
    }
}

/// One served event, as bytes of the snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Its id.
    pub id: EventId,
    /// Seconds.
    pub created_at: u64,
    /// Its kind.
    pub kind: u16,
    /// Its canonical JSON.
    pub json: &'a [u8],
    /// NIP-40: from then on it is not shown any more (EV-4).
    pub ends: Option<Timestamp>,
}

/// A place in the order of answers: later time first, then lower id. Smaller comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) time: [u8; TIME],
    pub(crate) id: [u8; 32],
}

impl Position {
    pub(crate) fn of(record: &Record<'_>) -> Self {
        Self {
            time: time_key(record.created_at()),
            id: *record.id(),
        }
    }
}

/// Where a scan stopped, to be continued in a newer snapshot.
#[derive(Debug, Clone)]
pub struct Cursor {
    after: Position,
    taken: Vec<usize>,
    newest: Sequence,
}

/// How far one snapshot may be read.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Events looked at.
    pub events: usize,
    /// Time passed.
    pub duration: Duration,
}

impl Budget {
    pub(crate) const NONE: Self = Self {
        events: usize::MAX,
        duration: Duration::MAX,
    };
}

/// Shows rows to `emit` until it breaks.
pub type Emit<'e> = dyn FnMut(Row<'_>) -> ControlFlow<()> + 'e;

impl<'a> View<'a> {
    /// Runs the union of `filters` over served events to its end: newest first, lower id first, each
    /// event once.
    pub fn query(
        &self,
        filters: &[Filter],
        limits: QueryLimits,
        emit: &mut Emit<'_>,
    ) -> Result<(), StoreError> {
        self.query_part(filters, limits, None, Budget::NONE, emit)
            .map(|_| ())
    }

    /// As [`Self::query`], from `cursor` on and not further than `budget`. Returns where to continue.
    pub fn query_part(
        &self,
        filters: &[Filter],
        limits: QueryLimits,
        cursor: Option<&Cursor>,
        budget: Budget,
        emit: &mut Emit<'_>,
    ) -> Result<Option<Cursor>, StoreError> {
        let newest = match cursor {
            Some(cursor) => cursor.newest,
            None => self.newest_sequence()?,
        };
        let scope = Scope {
            now: limits.now,
            after: cursor.map(|cursor| cursor.after),
            newest,
            events: budget.events,
            ends: Instant::now().checked_add(budget.duration),
        };
        let taken = cursor.map(|cursor| cursor.taken.clone());
        let mut union = Union::open(self, filters, limits, scope, taken)?;
        while let Some(record) = union.next()? {
            if emit(row(&record)).is_break() {
                return Ok(None);
            }
        }
        Ok(union.interrupted().map(|after| Cursor {
            after,
            taken: union.taken,
            newest,
        }))
    }

    /// How many served events match any of `filters` (NIP-45). Limits of filters do not count.
    pub fn count(&self, filters: &[Filter], now: Timestamp) -> Result<u64, StoreError> {
        let filters: Vec<_> = filters.iter().map(without_limit).collect();
        let mut count = 0;
        self.query(&filters, QueryLimits::unlimited(now), &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// The ids of all served events that match, as NIP-77 wants them: by time, then by id, rising.
    /// `None` if there are more than `max`.
    pub fn negentropy_items(
        &self,
        filter: &Filter,
        now: Timestamp,
        max: usize,
    ) -> Result<Option<Vec<NegentropyItem>>, StoreError> {
        let filters = [without_limit(filter)];
        let mut items = Vec::new();
        self.query(&filters, QueryLimits::unlimited(now), &mut |row| {
            gather_item(&mut items, row, max)
        })?;
        Ok(sealed(items, max))
    }

    /// Runs `visit` on every served event that matches, newest first; the filter's limit is ignored.
    pub(crate) fn each_match(
        &self,
        filter: &Filter,
        now: Timestamp,
        mut visit: impl FnMut(Record<'a>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut matches = Matches::open(self, filter, Scope::all(now))?;
        while let Step::Match(_, record) = matches.next()? {
            if visit(record)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn newest_sequence(&self) -> Result<Sequence, StoreError> {
        let last = self.tables.events.last(self.reading)?;
        Ok(last
            .and_then(|(key, _)| crate::keys::read_sequence(key))
            .unwrap_or(0))
    }
}

/// A time and an id, as NIP-77 reconciles them.
pub type NegentropyItem = (u64, [u8; 32]);

/// Takes the item of `row`, and breaks once there are more than `max`.
pub(crate) fn gather_item(
    items: &mut Vec<NegentropyItem>,
    row: Row<'_>,
    max: usize,
) -> ControlFlow<()> {
    items.push((row.created_at, row.id.to_bytes()));
    if items.len() > max {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// The items in their order, unless they are too many.
pub(crate) fn sealed(mut items: Vec<NegentropyItem>, max: usize) -> Option<Vec<NegentropyItem>> {
    items.sort_unstable();
    (items.len() <= max).then_some(items)
}

/// The filter without its limit.
pub(crate) fn without_limit(filter: &Filter) -> Filter {
    Filter {
        limit: None,
        ..filter.clone()
    }
}

fn row<'a>(record: &Record<'a>) -> Row<'a> {
    Row {
        id: record.event_id(),
        created_at: record.created_at(),
        kind: record.kind(),
        json: record.json(),
        ends: record.expiration(),
    }
}

/// Several filters merged, repeats dropped.
struct Union<'a, 'f> {
    parts: Vec<Part<'a, 'f>>,
    /// By filter: how many it has given so far.
    taken: Vec<usize>,
}

struct Part<'a, 'f> {
    filter: usize,
    limit: usize,
    matches: Matches<'a, 'f>,
    head: Step<'a>,
}

impl<'a, 'f> Union<'a, 'f> {
    fn open(
        view: &View<'a>,
        filters: &'f [Filter],
        limits: QueryLimits,
        scope: Scope,
        taken: Option<Vec<usize>>,
    ) -> Result<Self, StoreError> {
        let taken = taken.unwrap_or_else(|| vec![0; filters.len()]);
        let mut parts = Vec::with_capacity(filters.len());
        for (at, filter) in filters.iter().enumerate() {
            let limit = filter
                .limit
                .unwrap_or(limits.default_limit)
                .min(limits.max_limit);
            if taken.get(at).is_none_or(|taken| *taken >= limit) || filter.is_impossible() {
                continue;
            }
            let mut matches = Matches::open(view, filter, scope)?;
            let head = matches.next()?;
            parts.push(Part {
                filter: at,
                limit,
                matches,
                head,
            });
        }
        Ok(Self { parts, taken })
    }

    /// The next event of any filter; each filter that has it counts it.
    fn next(&mut self) -> Result<Option<Record<'a>>, StoreError> {
        let heads = self.parts.iter().filter_map(|part| match &part.head {
            Step::Match(position, record) => Some((*position, *record)),
            Step::Interrupted(_) | Step::End => None,
        });
        let Some((first, record)) = heads.min_by_key(|(position, _)| *position) else {
            return Ok(None);
        };
        // Beyond a place where another filter was interrupted nothing can be said yet.
        if self.interrupted().is_some_and(|at| at < first) {
            return Ok(None);
        }
        for part in &mut self.parts {
            if !matches!(&part.head, Step::Match(position, _) if *position == first) {
                continue;
            }
            self.taken[part.filter] += 1;
            part.head = if self.taken[part.filter] < part.limit {
                part.matches.next()?
            } else {
                Step::End
            };
        }
        Ok(Some(record))
    }

    /// The first place where a filter ran out of budget.
    fn interrupted(&self) -> Option<Position> {
        let places = self.parts.iter().filter_map(|part| match part.head {
            Step::Interrupted(at) => Some(at),
            Step::Match(..) | Step::End => None,
        });
        places.min()
    }
}
