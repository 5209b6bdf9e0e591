//! The events of one filter, in order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

use grasp_core::filter::Filter;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::keys::{Sequence, Suffix, TIE, TIME, read_sequence};
use crate::query::Position;
use crate::query::planner::{self, Plan};
use crate::query::stream::Stream;
use crate::record::Record;
use crate::view::View;

/// What comes next of a filter.
#[derive(Clone, Copy)]
pub(crate) enum Step<'a> {
    /// An event that matches.
    Match(Position, Record<'a>),
    /// The budget is spent; everything up to there has been looked at.
    Interrupted(Position),
    /// Nothing more.
    End,
}

/// What of a filter's matches is wanted, and how far to look.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// Events whose NIP-40 time has come are left out.
    pub(crate) now: Timestamp,
    /// Only what comes after this place.
    pub(crate) after: Option<Position>,
    /// Only what was stored up to then: the rest reaches a subscriber live.
    pub(crate) newest: Sequence,
    /// Events to look at.
    pub(crate) events: usize,
    /// When to stop.
    pub(crate) ends: Option<Instant>,
}

impl Scope {
    /// All matches.
    pub(crate) fn all(now: Timestamp) -> Self {
        Self {
            now,
            after: None,
            newest: Sequence::MAX,
            events: usize::MAX,
            ends: None,
        }
    }
}

/// Reads the plan of one filter.
pub(crate) struct Matches<'a, 'f> {
    view: View<'a>,
    filter: &'f Filter,
    scope: Scope,
    source: Source,
    /// Matches that share the time and the beginning of the id, in order.
    tied: VecDeque<(Position, Record<'a>)>,
    left: usize,
    looked_at: Option<Position>,
}

enum Source {
    /// Known places, in order.
    Listed(VecDeque<(Position, Sequence)>),
    /// Ranges of an index; the heap holds the next key of each.
    Merged {
        streams: Vec<Stream>,
        heads: BinaryHeap<Reverse<(Suffix, usize)>>,
    },
}

impl<'a, 'f> Matches<'a, 'f> {
    pub(crate) fn open(
        view: &View<'a>,
        filter: &'f Filter,
        scope: Scope,
    ) -> Result<Self, StoreError> {
        let source = match planner::plan(view, filter, scope.after)? {
            Plan::Listed(places) => Source::Listed(places.into()),
            Plan::Ranges(ranges, window) => {
                let bite = if ranges.len() > 16 { 1 } else { 16 };
                let mut streams: Vec<_> = ranges
                    .into_iter()
                    .map(|range| Stream::new(range, window, bite))
                    .collect();
                let mut heads = BinaryHeap::with_capacity(streams.len());
                for (at, stream) in streams.iter_mut().enumerate() {
                    heads.extend(stream.next(view)?.map(|suffix| Reverse((suffix, at))));
                }
                Source::Merged { streams, heads }
            }
        };
        Ok(Self {
            view: *view,
            filter,
            scope,
            source,
            tied: VecDeque::new(),
            left: scope.events.max(1),
            looked_at: scope.after,
        })
    }

    pub(crate) fn next(&mut self) -> Result<Step<'a>, StoreError> {
        loop {
            if let Some((position, record)) = self.tied.pop_front() {
                return Ok(Step::Match(position, record));
            }
            if let Some(at) = self.spent() {
                return Ok(Step::Interrupted(at));
            }
            let more = match &mut self.source {
                Source::Listed(places) => match places.pop_front() {
                    Some((_, sequence)) => {
                        self.look_at(sequence)?;
                        true
                    }
                    None => false,
                },
                Source::Merged { .. } => self.look_at_tie()?,
            };
            if !more {
                return Ok(Step::End);
            }
        }
    }

    /// Where the budget ended, once something was looked at.
    fn spent(&self) -> Option<Position> {
        let looked = self.looked_at.filter(|at| Some(*at) != self.scope.after)?;
        let late = || {
            self.left.is_multiple_of(64) && self.scope.ends.is_some_and(|at| Instant::now() >= at)
        };
        (self.left == 0 || late()).then_some(looked)
    }

    /// Takes all keys that agree in time and beginning of the id: only full ids order them.
    fn look_at_tie(&mut self) -> Result<bool, StoreError> {
        let mut tie: Option<Suffix> = None;
        let mut last: Option<Sequence> = None;
        while let Some(key) = self.pop_tied(tie.as_ref())? {
            tie.get_or_insert(key);
            let sequence = read_sequence(&key);
            // One event in several ranges has the same key in each.
            if let Some(sequence) = sequence.filter(|_| sequence != last) {
                self.look_at(sequence)?;
            }
            last = sequence;
        }
        self.tied
            .make_contiguous()
            .sort_unstable_by_key(|(position, _)| *position);
        Ok(tie.is_some())
    }

    fn pop_tied(&mut self, tie: Option<&Suffix>) -> Result<Option<Suffix>, StoreError> {
        let Source::Merged { streams, heads } = &mut self.source else {
            return Ok(None);
        };
        let Some(Reverse((key, at))) = heads.peek().copied() else {
            return Ok(None);
        };
        if tie.is_some_and(|tie| !are_tied(tie, &key)) {
            return Ok(None);
        }
        heads.pop();
        heads.extend(
            streams[at]
                .next(&self.view)?
                .map(|suffix| Reverse((suffix, at))),
        );
        Ok(Some(key))
    }

    fn look_at(&mut self, sequence: Sequence) -> Result<(), StoreError> {
        let Some(record) = self.view.record_at(sequence)? else {
            return Ok(());
        };
        let position = Position::of(&record);
        self.left = self.left.saturating_sub(1);
        self.looked_at = self.looked_at.max(Some(position));
        let wanted =
            sequence <= self.scope.newest && self.scope.after.is_none_or(|after| position > after);
        if wanted && self.filter.matches(&record) && !record.expired(self.scope.now) {
            self.tied.push_back((position, record));
        }
        Ok(())
    }
}

/// Times beyond the last that a key can hold are one second, whatever their ids.
fn are_tied(first: &Suffix, second: &Suffix) -> bool {
    let len = if first[..TIME] == [0; TIME] {
        TIME
    } else {
        TIE
    };
    first[..len] == second[..len]
}
