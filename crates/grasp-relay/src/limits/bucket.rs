//! A rate with a memory: so many a minute, a whole minute's worth at once if it was saved up.

use std::time::{Duration, Instant};

/// Fills at a steady pace up to one period's worth. Its user brings the clock.
#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    capacity: f64,
    period: Duration,
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    /// A full bucket of `capacity` a `period`.
    pub(crate) fn new(capacity: u32, period: Duration, now: Instant) -> Self {
        let capacity = f64::from(capacity);
        Self {
            capacity,
            period,
            tokens: capacity,
            filled: now,
        }
    }

    /// A full bucket of `capacity` a minute.
    pub(crate) fn per_minute(capacity: u32, now: Instant) -> Self {
        Self::new(capacity, Duration::from_mins(1), now)
    }

    /// Takes one, if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.fill(now);
        let granted = self.tokens >= 1.0;
        if granted {
            self.tokens -= 1.0;
        }
        granted
    }

    /// Whether nothing is left to remember.
    pub(crate) fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.tokens >= self.capacity
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens =
            (self.tokens + passed * self.capacity / self.period.as_secs_f64()).min(self.capacity);
        self.filled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minutes_worth_at_once_then_the_steady_pace() {
        let start = Instant::now();
        let mut bucket = TokenBucket::per_minute(60, start);
        assert_eq!((0..100).filter(|_| bucket.take(start)).count(), 60);
        assert!(!bucket.take(start + Duration::from_millis(900)));
        assert!(bucket.take(start + Duration::from_millis(1_100)));
        assert!(!bucket.is_full(start + Duration::from_secs(30)));
        assert!(bucket.is_full(start + Duration::from_mins(2)));
    }

    #[test]
    fn a_rate_of_zero_grants_nothing() {
        let start = Instant::now();
        let mut bucket = TokenBucket::per_minute(0, start);
        assert!(!bucket.take(start) && !bucket.take(start + Duration::from_hours(1)));
    }
}
