//! Looks whether what expired here has its data elsewhere by now (PUR-14).
//!
//! It needs little and is in no hurry: one address a minute in all, so it keeps no account of hosts.

use std::sync::Arc;
use std::time::Duration;

use grasp_core::event::VerifiedEvent;
use grasp_core::state::StateEvent;
use grasp_sync::fetch::Progress;
use tracing::{debug, error, info};

use super::Home;

/// Between two addresses.
const PACE: Duration = Duration::from_mins(1);
/// How long an address has to answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Until it is aborted.
pub(super) async fn run(home: Arc<Home>) {
    loop {
        tokio::time::sleep(PACE).await;
        let now = home.service.clock.now();
        let due = home.service.disputes().due(now);
        if let Some((event, nth)) = due {
            look(&home, event, nth).await;
        }
    }
}

async fn look(home: &Home, event: VerifiedEvent, nth: usize) {
    let service = &home.service;
    let id = event.id();
    let Ok(state) = StateEvent::parse(event.clone()) else {
        return service.disputes().settle(&id);
    };
    let oids = state.oids();
    let asking = service.clone();
    let witnesses = service.blocking(move || asking.witnesses(&state)).await;
    let witnesses = witnesses.unwrap_or_else(|failure| {
        error!(
            error = &failure as &dyn std::error::Error,
            "whom to ask about an expired state cannot be seen"
        );
        Vec::new()
    });
    let Some(source) = witnesses.get(nth) else {
        if witnesses.is_empty() {
            service.disputes().settle(&id);
        } else {
            service.disputes().asked(&id, 0, service.clock.now());
        }
        return;
    };
    let shows = home.fetcher.shows(source, &oids, Progress::new());
    match tokio::time::timeout(PATIENCE, shows).await {
        Ok(Ok(true)) => {
            info!(event = %id, %source, "a state that expired here has its data elsewhere by now");
            service.disputes().settle(&id);
            if let Err(failure) = service.believe(event).await {
                error!(
                    error = &failure as &dyn std::error::Error,
                    "a state could not be taken in again"
                );
            }
        }
        other => {
            debug!(event = %id, %source, ?other, "nothing speaks for an expired state");
            let of = witnesses.len();
            service.disputes().asked(&id, of, service.clock.now());
        }
    }
}
