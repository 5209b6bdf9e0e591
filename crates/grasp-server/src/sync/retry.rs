//! Tries again what had to wait, has asked for what it hangs on and for what hangs on replies, and forgets what waited long
//! enough (SYNC-32, SYNC-33, SYNC-35).

use std::sync::Arc;
use std::time::{Duration, Instant};

use grasp_sync::driver::Handle;
use grasp_sync::engine::Time;
use grasp_sync::intake::Errand;
use tokio::time::timeout;
use tracing::error;

use super::asking;
use super::home::Home;

/// How long it sleeps while nothing is due.
const SLEEP_MAX: Duration = Duration::from_mins(1);
/// Between two passes that ask, so that what came together is asked for together.
const ASKING: Duration = Duration::from_secs(1);

/// Replies that are asked about in one pass.
const REPLIES_MAX: usize = 1_000;

/// Runs until it is aborted.
pub(super) async fn run(home: Arc<Home>, handle: Handle) {
    let mut asked = Instant::now();
    loop {
        if asked.elapsed() >= ASKING {
            asked = Instant::now();
            for errand in errands(&home) {
                handle.ask(errand.relay, errand.filters).await;
            }
        }
        try_again(&home).await;
        if home.intake().has_retries() {
            continue;
        }
        let sleep = next_deadline(&home).map_or(SLEEP_MAX, |at| at.since(home.now()));
        // Woken early or not: it looks at what is due either way.
        let _ = timeout(sleep.clamp(ASKING, SLEEP_MAX), home.due.notified()).await;
    }
}

/// Forgets what waited long enough, and tries again what lacks nothing any more.
pub(super) async fn try_again(home: &Home) {
    let retries = {
        let mut intake = home.intake();
        intake.expire(home.now());
        intake.retries()
    };
    for (from, event) in retries {
        home.admit(&from, event).await;
    }
}

/// When something is to be asked or forgotten.
pub(super) fn next_deadline(home: &Home) -> Option<Time> {
    let of_refused = home.intake().next_deadline();
    let of_replies = home.descendants().next_deadline();
    of_refused.into_iter().chain(of_replies).min()
}

/// What is to be asked now, and of whom.
pub(super) fn errands(home: &Home) -> Vec<Errand> {
    let mut errands = home.intake().errands(home.now());
    errands.extend(about_replies(home));
    errands
}

/// SYNC-35: the questions about replies whose turn it is.
fn about_replies(home: &Home) -> Vec<Errand> {
    let questions = home.descendants().questions(home.now(), REPLIES_MAX);
    if questions.is_empty() {
        return Vec::new();
    }
    let snapshot = home.service().store.snapshot();
    let errands = snapshot.and_then(|snapshot| asking::errands(&snapshot.view(), questions));
    errands.unwrap_or_else(|failure| {
        error!(
            error = &failure as &dyn std::error::Error,
            "nobody was asked about some replies; they have another turn"
        );
        Vec::new()
    })
}
