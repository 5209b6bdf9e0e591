//! Picks the index for a filter: the one whose ranges hold the fewest keys, as far as a few seeks
//! can tell.

use std::collections::BTreeSet;
use std::ops::Bound;

use grasp_core::filter::Filter;
use grasp_core::lifecycle::Stage;
use nostr::event::EventId;

use crate::error::StoreError;
use crate::keys::{Key, Sequence, TIE, TIME, read_time, time_key};
use crate::query::Position;
use crate::query::stream::{Prefix, Range, Window, read_suffix};
use crate::view::View;

/// Keys counted of one range before the rest is guessed.
const PROBE_KEYS: usize = 32;
/// Ranges probed of one candidate before the rest is guessed.
const PROBE_RANGES: usize = 64;
/// So few keys that looking for a better index would cost more.
const GOOD_ENOUGH: u64 = 64;
/// More ranges than this are not worth merging while another index fits.
const RANGES_MAX: usize = 20_000;

/// How a filter is answered.
pub(crate) enum Plan {
    /// By looking up ids: places in order.
    Listed(Vec<(Position, Sequence)>),
    /// By merging ranges of one index within a window of time.
    Ranges(Vec<Range>, Window),
}

/// Plans `filter`, for what comes after `after`.
pub(crate) fn plan(
    view: &View<'_>,
    filter: &Filter,
    after: Option<Position>,
) -> Result<Plan, StoreError> {
    if filter.is_impossible() {
        return Ok(Plan::Listed(Vec::new()));
    }
    if let Some(ids) = &filter.ids {
        return listed(view, ids).map(Plan::Listed);
    }
    let window = window(filter, after);
    let mut candidates = candidates(view, filter)?;
    let mut best = (u64::MAX, 0);
    for (at, ranges) in candidates.iter().enumerate() {
        if candidates.len() == 1 {
            break;
        }
        let weight = weigh(view, ranges, &window)?;
        if weight < best.0 {
            best = (weight, at);
        }
        if weight <= GOOD_ENOUGH {
            break;
        }
    }
    Ok(Plan::Ranges(candidates.swap_remove(best.1), window))
}

fn listed(
    view: &View<'_>,
    ids: &BTreeSet<[u8; 32]>,
) -> Result<Vec<(Position, Sequence)>, StoreError> {
    let mut places = Vec::new();
    for id in ids {
        let found = view.record(&EventId::from_byte_array(*id))?;
        let served = found.filter(|(_, record)| record.stage() == Stage::Served);
        places.extend(served.map(|(sequence, record)| (Position::of(&record), sequence)));
    }
    places.sort_unstable_by_key(|(position, _)| *position);
    Ok(places)
}

/// From `until` or the cursor to `since`, as ends of keys.
fn window(filter: &Filter, after: Option<Position>) -> Window {
    let mut first = [0; TIE + 5];
    let mut last = [0xff; TIE + 5];
    if let Some(until) = filter.until {
        first[..TIME].copy_from_slice(&time_key(until));
    }
    if let Some(since) = filter.since {
        last[..TIME].copy_from_slice(&time_key(since));
    }
    if let Some(after) = after {
        let mut from = [0; TIE + 5];
        from[..TIME].copy_from_slice(&after.time);
        if after.time != [0; TIME] {
            from[TIME..TIE].copy_from_slice(&after.id[..4]);
        }
        first = first.max(from);
    }
    Window { first, last }
}

/// The indexes that fit, those that are usually most selective first. Never empty.
fn candidates(view: &View<'_>, filter: &Filter) -> Result<Vec<Vec<Range>>, StoreError> {
    let tables = view.tables;
    let mut candidates = Vec::new();
    let fits = |values: &BTreeSet<String>| values.len() <= RANGES_MAX;
    for (letter, values) in filter.tags.iter().filter(|(_, values)| fits(values)) {
        let ranges = values.iter().map(|value| Range {
            table: tables.tags,
            prefix: Prefix::new(&[&view.hash.tag(*letter, value)]),
        });
        candidates.push(ranges.collect());
    }
    if let Some(authors) = &filter.authors {
        candidates.extend(author_ranges(view, authors, filter.kinds.as_ref())?);
    }
    if let Some(kinds) = &filter.kinds {
        let ranges = kinds.iter().map(|kind| Range {
            table: tables.kinds,
            prefix: Prefix::new(&[&kind.to_be_bytes()]),
        });
        candidates.push(ranges.collect());
    }
    if candidates.is_empty() {
        candidates.push(vec![Range {
            table: tables.times,
            prefix: Prefix::new(&[]),
        }]);
    }
    Ok(candidates)
}

/// One range for each author and kind, unless that is too many.
fn author_ranges(
    view: &View<'_>,
    authors: &BTreeSet<[u8; 32]>,
    kinds: Option<&BTreeSet<u16>>,
) -> Result<Option<Vec<Range>>, StoreError> {
    let mut ranges = Vec::new();
    if authors.len().saturating_mul(kinds.map_or(1, BTreeSet::len)) > RANGES_MAX {
        return Ok(None);
    }
    for author in authors {
        let author = &author[..8];
        let own: Vec<u16> = match kinds {
            Some(_) => Vec::new(),
            None => kinds_of(view, author)?,
        };
        let kinds = kinds.into_iter().flatten().chain(&own);
        ranges.extend(kinds.map(|kind| author_range(view, author, *kind)));
        if ranges.len() > RANGES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(ranges))
}

fn author_range(view: &View<'_>, author: &[u8], kind: u16) -> Range {
    Range {
        table: view.tables.authors,
        prefix: Prefix::new(&[author, &kind.to_be_bytes()]),
    }
}

/// The kinds of which an author has events: one seek each.
fn kinds_of(view: &View<'_>, author: &[u8]) -> Result<Vec<u16>, StoreError> {
    let mut kinds = Vec::new();
    let mut next = Some(0_u16);
    while let Some(kind) = next {
        let from = Prefix::new(&[author, &kind.to_be_bytes()]);
        let found = view
            .tables
            .authors
            .get_greater_than_or_equal_to(view.reading, &from)?;
        let kind = found
            .and_then(|(key, _)| key.strip_prefix(author))
            .and_then(|rest| rest.first_chunk::<2>())
            .map(|kind| u16::from_be_bytes(*kind));
        kinds.extend(kind);
        next = kind.and_then(|kind| kind.checked_add(1));
    }
    Ok(kinds)
}

/// About how many keys the ranges hold.
fn weigh(view: &View<'_>, ranges: &[Range], window: &Window) -> Result<u64, StoreError> {
    let mut sum: u64 = 0;
    let probed = ranges.len().min(PROBE_RANGES);
    for range in &ranges[..probed] {
        sum = sum.saturating_add(weigh_range(view, range, window)?);
    }
    let scale = ranges.len().div_ceil(probed.max(1)) as u64;
    Ok(sum.saturating_mul(scale))
}

/// Counts a little and, when there is more, goes by how dense in time it is.
fn weigh_range(view: &View<'_>, range: &Range, window: &Window) -> Result<u64, StoreError> {
    let from = Key::new(&[&range.prefix, &window.first]);
    let to = Key::new(&[&range.prefix, &window.last]);
    if *from > *to {
        return Ok(0);
    }
    let bounds = (Bound::Included(&*from), Bound::Included(&*to));
    let mut count = 0_u64;
    let (mut newest, mut reached) = (None, 0);
    for row in range.table.range(view.reading, &bounds)?.take(PROBE_KEYS) {
        reached = time_of(row?.0)?;
        newest.get_or_insert(reached);
        count += 1;
    }
    let Some(newest) = newest.filter(|_| count == PROBE_KEYS as u64) else {
        return Ok(count);
    };
    let last = range.table.rev_range(view.reading, &bounds)?.next();
    let oldest = last.map_or(Ok(reached), |row| time_of(row?.0))?;
    let span = newest.saturating_sub(reached).max(1);
    let whole = newest.saturating_sub(oldest).max(1);
    Ok((count.saturating_mul(whole) / span).max(count + 1))
}

fn time_of(key: &[u8]) -> Result<u64, StoreError> {
    let suffix = read_suffix(key)?;
    let time = suffix
        .first_chunk::<TIME>()
        .ok_or(StoreError::Corrupt("index"))?;
    Ok(read_time(*time))
}
