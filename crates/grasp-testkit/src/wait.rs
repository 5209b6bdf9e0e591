//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

/// How long a condition may take that should hold at once: generous, since only a failing test
/// ever waits for so long.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Polls `condition` until it holds, and fails the test if it does not within [`DEADLINE`].
pub async fn eventually<F>(what: &str, condition: F)
where
    F: AsyncFnMut() -> bool,
{
    eventually_within(DEADLINE, what, condition).await;
}

/// As [`eventually`], with another deadline.
pub async fn eventually_within<F>(deadline: Duration, what: &str, mut condition: F)
where
    F: AsyncFnMut() -> bool,
{
    let end = Instant::now() + deadline;
    let mut pause = Duration::from_millis(2);
    while !condition().await {
        assert!(Instant::now() < end, "{what}: not within {deadline:?}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}
