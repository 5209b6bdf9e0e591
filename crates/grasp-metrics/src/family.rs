//! Counters by label.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Label;

/// One counter for each value of a label.
#[derive(Debug)]
pub struct Family<L> {
    counters: Box<[AtomicU64]>,
    label: PhantomData<L>,
}

impl<L: Label> Default for Family<L> {
    fn default() -> Self {
        Self {
            counters: L::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            label: PhantomData,
        }
    }
}

impl<L: Label> Family<L> {
    /// Counts one.
    pub fn count(&self, value: L) {
        self.add(value, 1);
    }

    /// Counts several.
    pub fn add(&self, value: L, count: u64) {
        self.counters[value.index()].fetch_add(count, Relaxed);
    }

    /// The count so far.
    pub fn get(&self, value: L) -> u64 {
        self.counters[value.index()].load(Relaxed)
    }

    /// All counts so far.
    pub fn iter(&self) -> impl Iterator<Item = (L, u64)> + '_ {
        L::ALL.iter().map(|value| (*value, self.get(*value)))
    }
}

/// One counter for each pair of two labels' values.
#[derive(Debug)]
pub struct Table<A, B> {
    rows: Box<[Family<B>]>,
    label: PhantomData<A>,
}

impl<A: Label, B: Label> Default for Table<A, B> {
    fn default() -> Self {
        Self {
            rows: A::ALL.iter().map(|_| Family::default()).collect(),
            label: PhantomData,
        }
    }
}

impl<A: Label, B: Label> Table<A, B> {
    /// Counts one.
    pub fn count(&self, first: A, second: B) {
        self.rows[first.index()].count(second);
    }

    /// The count so far.
    pub fn get(&self, first: A, second: B) -> u64 {
        self.rows[first.index()].get(second)
    }

    /// All counts so far.
    pub fn iter(&self) -> impl Iterator<Item = (A, B, u64)> + '_ {
        A::ALL.iter().flat_map(|first| {
            let row = self.rows[first.index()].iter();
            row.map(|(second, count)| (*first, second, count))
        })
    }
}
