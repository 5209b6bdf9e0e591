//! Runs seeds until one fails, and that one again, to tell what happened.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::run;
use super::trace::Trace;

/// Lines of a trace that are shown: what is wrong is mostly near the end.
const SHOWN: usize = 400;

/// A run that ended otherwise than it should.
#[derive(Debug)]
pub struct Failure {
    /// Which run.
    pub seed: u64,
    /// What was wrong.
    pub what: String,
    /// All that happened.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, what, trace } = self;
        let skipped = trace.len().saturating_sub(SHOWN);
        writeln!(out, "the run of seed {seed} failed: {what}")?;
        writeln!(out, "its end, after {skipped} lines:")?;
        for line in &trace[skipped..] {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "the run of seed {seed} failed: {what}")?;
        writeln!(out, "all of it: {}", command(*seed))
    }
}

/// What runs a seed again and shows all that happens.
pub fn command(seed: u64) -> String {
    format!("cargo run -p grasp-testkit -- sim --first {seed} --seeds 1 --trace")
}

/// Runs these seeds on all cores. The first that failed, if any did: the lowest of those that ran.
pub fn search(seeds: Range<u64>) -> Option<Failure> {
    let (next, end) = (AtomicU64::new(seeds.start), seeds.end);
    let failed = Mutex::new(None::<u64>);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            if try_run(seed, &Trace::default()).is_err() {
                next.store(end, Ordering::Relaxed);
                let mut failed = failed.lock().expect("nobody panics with it");
                *failed = Some(failed.map_or(seed, |other| other.min(seed)));
            }
        }
    };
    let hands = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..hands {
            scope.spawn(work);
        }
    });
    let seed = failed.into_inner().expect("nobody panics with it")?;
    let (trace, outcome) = replay(seed);
    let what = outcome.err().unwrap_or_else(|| {
        "not when it was repeated: something in it depends on the machine".to_owned()
    });
    Some(Failure { seed, what, trace })
}

/// Runs one seed and takes down all that happens; the error says what was wrong.
pub fn replay(seed: u64) -> (Vec<String>, Result<(), String>) {
    let trace = Trace::kept();
    let outcome = try_run(seed, &trace);
    (trace.lines(), outcome)
}

/// One run. What is wrong in it panics, as in any test.
fn try_run(seed: u64, trace: &Trace) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let run = run::run(seed, trace.clone());
    catch_unwind(AssertUnwindSafe(|| runtime.block_on(run)))
        .map_err(|panic| said(&*panic).to_owned())
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    let formatted = panic.downcast_ref::<String>().map(String::as_str);
    literal.or(formatted).unwrap_or("it cannot be said what")
}
