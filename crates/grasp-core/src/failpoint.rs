//! Places where a crash test ends the process.
//!
//! Each step of the write path names itself here. Without the feature `failpoints`, which no release
//! has, a name costs nothing and this module does nothing; with it, the variable `NGIT_FAILPOINT`
//! (`<name>`, or `<name>@<n>` for the n-th passing) makes the process die there as it would by
//! `kill -9`: no destructor runs, nothing is flushed. The one place of this crate that acts.

/// Passes the step `name`; with the feature, perhaps not.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn pass(_name: &'static str) {}

/// Passes the step `name`, or dies there.
#[cfg(feature = "failpoints")]
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that acts, and no release has it"
)]
pub fn pass(name: &'static str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ARMED: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
        let armed = std::env::var("NGIT_FAILPOINT").ok()?;
        Some(match armed.split_once('@') {
            Some((name, count)) => (name.to_owned(), count.parse().ok()?),
            None => (armed, 1),
        })
    });
    static PASSED: AtomicU64 = AtomicU64::new(0);

    if let Some((armed, count)) = &*ARMED
        && armed == name
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *count
    {
        std::process::abort();
    }
}
