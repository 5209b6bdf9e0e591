//! What is to be done in steps (DEL-4): a row for each plan, and one for each of its steps.
//!
//! *Invariant:* a plan is there as long as it must be worked out or has steps left. Whatever a crash cuts
//! short is found here.

use std::collections::BTreeSet;

use grasp_core::deletion::{Cause, Lost, Name, Plan, Work};
use grasp_core::name::Coordinate;
use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::keys::{LongKey, read_identifier};
use crate::lifecycle::Writing;
use crate::view::View;

const CORRUPT: StoreError = StoreError::Corrupt("plans");

const CASCADE: u8 = 0;
const VANISH: u8 = 1;

/// A plan as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPlan {
    /// The plan.
    pub plan: Plan,
    /// The place of the newest event when its steps were worked out; `None` as long as they are to be.
    pub horizon: Option<u64>,
}

/// The value of a plan's row.
struct Row {
    horizon: Option<u64>,
    /// The number of the next step that is added.
    next: u32,
    lost: Lost,
}

impl Writing<'_, '_> {
    /// A plan that is there already gets more to look at, and keeps its steps.
    pub(crate) fn plan(&mut self, plan: &Plan) -> Result<(), StoreError> {
        let key = work_key(&plan.work);
        let mut row = Row {
            horizon: None,
            next: 0,
            lost: plan.lost.clone(),
        };
        if let Some(there) = self.tables.plans.get(self.transaction, &key)? {
            let there = Row::decode(there).ok_or(CORRUPT)?;
            row.next = there.next;
            row.lost.merge(there.lost);
        }
        Ok(self
            .tables
            .plans
            .put(self.transaction, &key, &row.encode())?)
    }

    /// Steps of a plan that is gone are of no use.
    pub(crate) fn steps(
        &mut self,
        work: &Work,
        horizon: u64,
        steps: &[Vec<EventId>],
    ) -> Result<(), StoreError> {
        let key = work_key(work);
        let Some(row) = self.tables.plans.get(self.transaction, &key)? else {
            return Ok(());
        };
        let mut row = Row::decode(row).ok_or(CORRUPT)?;
        // Older steps are looked at with the older horizon: what came since is new to them.
        let older = row.horizon.filter(|_| row.next > 0);
        row.horizon = Some(older.map_or(horizon, |older| older.min(horizon)));
        for events in steps.iter().filter(|events| !events.is_empty()) {
            let bytes: Vec<u8> = events.iter().flat_map(|id| id.to_bytes()).collect();
            let step = step_key(&key, row.next);
            self.tables
                .plan_steps
                .put(self.transaction, &step, &bytes)?;
            row.next += 1;
        }
        self.tables
            .plans
            .put(self.transaction, &key, &row.encode())?;
        self.end_plan(&key)
    }

    pub(crate) fn step_done(&mut self, work: &Work, step: u32) -> Result<(), StoreError> {
        let key = work_key(work);
        self.tables
            .plan_steps
            .delete(self.transaction, &step_key(&key, step))?;
        self.end_plan(&key)
    }

    /// Drops a plan that is worked out and has no step left.
    fn end_plan(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let Some(row) = self.tables.plans.get(self.transaction, key)? else {
            return Ok(());
        };
        let open = Row::decode(row).ok_or(CORRUPT)?.horizon.is_none();
        let mut steps = self.tables.plan_steps.prefix_iter(self.transaction, key)?;
        let left = steps.next().transpose()?.is_some();
        drop(steps);
        if !open && !left {
            self.tables.plans.delete(self.transaction, key)?;
        }
        Ok(())
    }
}

impl View<'_> {
    /// What is still to be done, at most `max` of it.
    pub fn plans(&self, max: usize) -> Result<Vec<StoredPlan>, StoreError> {
        let mut plans = Vec::new();
        for row in self.tables.plans.iter(self.reading)?.take(max) {
            let (key, value) = row?;
            let work = read_work(key).ok_or(CORRUPT)?;
            let Row { horizon, lost, .. } = Row::decode(value).ok_or(CORRUPT)?;
            plans.push(StoredPlan {
                plan: Plan { work, lost },
                horizon,
            });
        }
        Ok(plans)
    }

    /// One plan, if it is still to be done.
    pub fn plan(&self, work: &Work) -> Result<Option<StoredPlan>, StoreError> {
        let Some(value) = self.tables.plans.get(self.reading, &work_key(work))? else {
            return Ok(None);
        };
        let Row { horizon, lost, .. } = Row::decode(value).ok_or(CORRUPT)?;
        let work = work.clone();
        let plan = Plan { work, lost };
        Ok(Some(StoredPlan { plan, horizon }))
    }

    /// The first step of a plan, with its number.
    pub fn next_step(&self, work: &Work) -> Result<Option<(u32, Vec<EventId>)>, StoreError> {
        let key = work_key(work);
        let mut steps = self.tables.plan_steps.prefix_iter(self.reading, &key)?;
        steps
            .next()
            .transpose()?
            .map(|(key, value)| read_step(key, value))
            .transpose()
    }

    /// The events of all steps of a plan that are left.
    pub fn planned(&self, work: &Work) -> Result<BTreeSet<EventId>, StoreError> {
        let key = work_key(work);
        let mut events = BTreeSet::new();
        for row in self.tables.plan_steps.prefix_iter(self.reading, &key)? {
            let (key, value) = row?;
            events.extend(read_step(key, value)?.1);
        }
        Ok(events)
    }
}

fn read_step(key: &[u8], value: &[u8]) -> Result<(u32, Vec<EventId>), StoreError> {
    let number = key.last_chunk::<4>().ok_or(CORRUPT)?;
    let (ids, rest) = value.as_chunks::<32>();
    if !rest.is_empty() {
        return Err(CORRUPT);
    }
    let events = ids.iter().map(|id| EventId::from_byte_array(*id)).collect();
    Ok((u32::from_be_bytes(*number), events))
}

/// No key of one work is the beginning of another's.
fn work_key(work: &Work) -> LongKey {
    match work {
        Work::Cascade { scope, cause } => scope_key(&[CASCADE, cause_byte(*cause)], scope),
        Work::Vanish { author, until } => {
            LongKey::new(&[&[VANISH], author.as_bytes(), &until.as_secs().to_be_bytes()])
        }
    }
}

fn scope_key(start: &[u8], scope: &Coordinate) -> LongKey {
    LongKey::new(&[
        start,
        scope.owner.as_bytes(),
        scope.identifier.as_str().as_bytes(),
        &[0],
    ])
}

fn step_key(work: &[u8], step: u32) -> LongKey {
    LongKey::new(&[work, &step.to_be_bytes()])
}

fn read_work(key: &[u8]) -> Option<Work> {
    let (what, rest) = key.split_first()?;
    match *what {
        CASCADE => {
            let (cause, rest) = rest.split_first()?;
            let cause = Cause::ALL
                .into_iter()
                .find(|other| cause_byte(*other) == *cause)?;
            let scope = read_scope(rest)?;
            Some(Work::Cascade { scope, cause })
        }
        VANISH => {
            let (author, until) = rest.split_first_chunk::<32>()?;
            Some(Work::Vanish {
                author: PublicKey::from_byte_array(*author),
                until: Timestamp::from_secs(u64::from_be_bytes(until.try_into().ok()?)),
            })
        }
        _ => None,
    }
}

fn read_scope(bytes: &[u8]) -> Option<Coordinate> {
    let (owner, rest) = bytes.split_first_chunk::<32>()?;
    let (identifier, rest) = read_identifier(rest)?;
    rest.is_empty()
        .then(|| Coordinate::new(PublicKey::from_byte_array(*owner), identifier))
}

fn cause_byte(cause: Cause) -> u8 {
    match cause {
        Cause::Deleted => 0,
        Cause::Delisted => 1,
        Cause::Vanished => 2,
        Cause::Curated => 3,
        Cause::Audit => 4,
    }
}

impl Row {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.horizon.is_some())];
        out.extend(self.horizon.unwrap_or_default().to_be_bytes());
        out.extend(self.next.to_be_bytes());
        for names in [&self.lost.names, &self.lost.mentioned] {
            let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
            out.extend(count.to_be_bytes());
            for name in names {
                encode_name(&mut out, name);
            }
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (planned, rest) = bytes.split_first()?;
        let (horizon, rest) = rest.split_first_chunk::<8>()?;
        let (next, mut rest) = rest.split_first_chunk::<4>()?;
        let names = decode_names(&mut rest)?;
        let mentioned = decode_names(&mut rest)?;
        rest.is_empty().then(|| Self {
            horizon: (*planned == 1).then(|| u64::from_be_bytes(*horizon)),
            next: u32::from_be_bytes(*next),
            lost: Lost { names, mentioned },
        })
    }
}

/// An id as its 32 bytes after a zero; an address as its length and its text, never of length zero.
fn encode_name(out: &mut Vec<u8>, name: &Name) {
    match name {
        Name::Event(id) => {
            out.extend(0_u32.to_be_bytes());
            out.extend(id.as_bytes());
        }
        Name::Address(address) => {
            let length = u32::try_from(address.len()).unwrap_or(u32::MAX);
            out.extend(length.to_be_bytes());
            out.extend(address.as_bytes());
        }
    }
}

fn decode_names(bytes: &mut &[u8]) -> Option<BTreeSet<Name>> {
    let count = take_number(bytes)?;
    (0..count).map(|_| decode_name(bytes)).collect()
}

fn decode_name(bytes: &mut &[u8]) -> Option<Name> {
    let length = usize::try_from(take_number(bytes)?).ok()?;
    if length == 0 {
        let (id, rest) = bytes.split_first_chunk::<32>()?;
        *bytes = rest;
        return Some(Name::Event(EventId::from_byte_array(*id)));
    }
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(Name::Address(std::str::from_utf8(text).ok()?.to_owned()))
}

fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> PublicKey {
        PublicKey::from_byte_array([n; 32])
    }

    fn scope(identifier: &str) -> Coordinate {
        Coordinate::new(key(7), identifier.parse().expect("valid"))
    }

    #[test]
    fn works_round_trip_and_none_begins_another() {
        let mut works = vec![Work::Vanish {
            author: key(7),
            until: Timestamp::from_secs(5),
        }];
        for cause in Cause::ALL {
            for name in ["a", "ab"] {
                let scope = scope(name);
                works.push(Work::Cascade { scope, cause });
            }
        }
        for work in &works {
            let key = work_key(work);
            assert_eq!(read_work(&key).as_ref(), Some(work));
            let begun = works
                .iter()
                .filter(|other| work_key(other).starts_with(&key));
            assert_eq!(begun.count(), 1, "{work:?}");
        }
    }

    #[test]
    fn a_row_round_trips() {
        let id = |n| Name::Event(EventId::from_byte_array([n; 32]));
        let address = Name::Address(format!("30617:{}:x", key(7).to_hex()));
        for horizon in [None, Some(0), Some(77)] {
            let lost = Lost {
                names: BTreeSet::from([id(1), address.clone()]),
                mentioned: BTreeSet::from([id(2)]),
            };
            let row = Row {
                horizon,
                next: 3,
                lost: lost.clone(),
            };
            let read = Row::decode(&row.encode()).expect("reads");
            assert_eq!((read.horizon, read.next, read.lost), (horizon, 3, lost));
        }
    }
}
