//! Which rows two states of the store differ in.

use std::cmp::Ordering;

use crate::error::StoreError;
use crate::lmdb::{Reading, Table};
use crate::tables::Tables;

use super::EventFinding;

pub(super) fn compare(
    tables: &Tables,
    before: &Reading<'_>,
    after: &Reading<'_>,
    tell: &mut dyn FnMut(EventFinding),
) -> Result<(), StoreError> {
    let mixed = [
        ("deadlines", &tables.deadlines),
        ("requests", &tables.requests),
    ];
    let gates = [
        ("gated_events", &tables.gated_events),
        ("gated_addresses", &tables.gated_addresses),
        ("gated_authors", &tables.gated_authors),
    ];
    for (name, table) in tables.derived().into_iter().chain(mixed).chain(gates) {
        let (missing, surplus) = difference(table, before, after)?;
        if missing + surplus > 0 {
            tell(EventFinding::Rows {
                table: name,
                missing,
                surplus,
            });
        }
    }
    if tables.stats(before)? != tables.stats(after)? {
        tell(EventFinding::Counters);
    }
    Ok(())
}

/// How many rows of `after` are not in `before`, and how many keys of `before` are not in `after`. Both are sorted.
fn difference(
    table: &Table,
    before: &Reading<'_>,
    after: &Reading<'_>,
) -> Result<(u64, u64), StoreError> {
    let (mut old, mut new) = (table.iter(before)?, table.iter(after)?);
    let (mut one, mut two) = (old.next().transpose()?, new.next().transpose()?);
    let (mut missing, mut surplus) = (0, 0);
    loop {
        let order = match (one, two) {
            (None, None) => return Ok((missing, surplus)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old_key, _)), Some((new_key, _))) => old_key.cmp(new_key),
        };
        match order {
            Ordering::Less => surplus += 1,
            Ordering::Greater => missing += 1,
            Ordering::Equal => missing += u64::from(one != two),
        }
        if order != Ordering::Greater {
            one = old.next().transpose()?;
        }
        if order != Ordering::Less {
            two = new.next().transpose()?;
        }
    }
}
