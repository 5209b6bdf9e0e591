//! Distributions: how long something took, how large it was.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::Label;

/// Counts observations by size. Its buckets are fixed when it is made.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// Observations up to each bound and above the one before; the last has no bound.
    counts: Box<[AtomicU64]>,
    /// The bits of an `f64`.
    sum: AtomicU64,
}

/// A histogram at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    /// Each bound, and the observations up to it.
    pub(crate) buckets: Vec<(f64, u64)>,
    /// All observations.
    pub(crate) count: u64,
    /// Their sum.
    pub(crate) sum: f64,
}

impl Histogram {
    /// Buckets up to each of `bounds`, which ascend, and one for everything above.
    pub fn new(bounds: &'static [f64]) -> Self {
        debug_assert!(bounds.is_sorted(), "bounds ascend");
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0_f64.to_bits()),
        }
    }

    /// Counts one observation.
    pub fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Relaxed);
        let add = |sum| Some((f64::from_bits(sum) + value).to_bits());
        // Always `Ok`: `add` never declines.
        let _ = self.sum.fetch_update(Relaxed, Relaxed, add);
    }

    /// Counts one observation in seconds.
    pub fn took(&self, duration: Duration) {
        self.observe(duration.as_secs_f64());
    }

    /// How many observations there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }

    pub(crate) fn read(&self) -> Reading {
        let mut count = 0;
        let mut upto = |at: usize| {
            count += self.counts[at].load(Relaxed);
            count
        };
        let buckets = (self.bounds.iter().enumerate())
            .map(|(at, bound)| (*bound, upto(at)))
            .collect();
        upto(self.bounds.len());
        Reading {
            buckets,
            count,
            sum: f64::from_bits(self.sum.load(Relaxed)),
        }
    }
}

/// One histogram for each value of a label.
#[derive(Debug)]
pub struct Histograms<L> {
    each: Box<[Histogram]>,
    label: PhantomData<L>,
}

impl<L: Label> Histograms<L> {
    /// All with the same buckets.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            each: L::ALL.iter().map(|_| Histogram::new(bounds)).collect(),
            label: PhantomData,
        }
    }

    /// The one of a value.
    pub fn of(&self, value: L) -> &Histogram {
        &self.each[value.index()]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (L, &Histogram)> {
        L::ALL.iter().map(|value| (*value, self.of(*value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_the_first_bucket_that_reaches_it() {
        let histogram = Histogram::new(&[1.0, 5.0]);
        for value in [0.5, 1.0, 2.0, 100.0] {
            histogram.observe(value);
        }
        let expected = Reading {
            buckets: vec![(1.0, 2), (5.0, 3)],
            count: 4,
            sum: 103.5,
        };
        assert_eq!(histogram.read(), expected);
        assert_eq!(histogram.count(), 4);
    }
}
