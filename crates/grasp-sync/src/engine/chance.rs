//! Chance as the engine sees it: a seed.

use std::time::Duration;

/// A sequence that only its seed decides (splitmix64), so that a run can be repeated. Spreads load; protects
/// nothing.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From nothing up to `span`, in milliseconds.
    pub(crate) fn up_to(&mut self, span: Duration) -> Duration {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX - 1);
        Duration::from_millis(self.next() % (millis + 1))
    }
}
