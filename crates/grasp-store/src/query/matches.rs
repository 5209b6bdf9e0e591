//! The events of one filter, in order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

use grasp_core::filter::Filter;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::keys::{Sequence, Suffix, TIE, TIME, read_sequence};
use crate::query::planner::{self, Plan};
use crate::query::stream::Stream;
use crate::query::{Budget, Position};
use crate::record::Record;
use crate::view::View;

/// What comes next of a filter.
#[derive(Clone, Copy)]
pub(crate) enum Step<'a> {
    /// An event that matches.
    Match(Position, Sequence, Record<'a>),
    /// The budget is spent; everything up to there has been looked at.
    Interrupted(Position),
    /// Nothing more.
    End,
}

/// Reads the plan of one filter.
pub(crate) struct Matches<'a, 'f> {
    view: View<'a>,
    filter: &'f Filter,
    now: Timestamp,
    after: Option<Position>,
    source: Source,
    /// Matches that share the time and the beginning of the id, in order.
    tied: VecDeque<(Position, Sequence, Record<'a>)>,
    left: usize,
    pub(crate) ends: Option<Instant>,
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
        now: Timestamp,
        after: Option<Position>,
        budget: Budget,
    ) -> Result<Self, StoreError> {
        let source = match planner::plan(view, filter, after)? {
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
            now,
            after,
            source,
            tied: VecDeque::new(),
            left: budget.events.max(1),
            ends: None,
            looked_at: after,
        })
    }

    pub(crate) fn next(&mut self) -> Result<Step<'a>, StoreError> {
        loop {
            if let Some((position, sequence, record)) = self.tied.pop_front() {
                return Ok(Step::Match(position, sequence, record));
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
        let looked = self.looked_at.filter(|at| Some(*at) != self.after)?;
        let late =
            || self.left.is_multiple_of(64) && self.ends.is_some_and(|at| Instant::now() >= at);
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
            .sort_unstable_by_key(|(position, _, _)| *position);
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
        let wanted = self.after.is_none_or(|after| position > after);
        if wanted && self.filter.matches(&record) && !record.expired(self.now) {
            self.tied.push_back((position, sequence, record));
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
