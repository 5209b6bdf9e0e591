//! How many stored events match (NIP-45).

use std::ops::ControlFlow;

use grasp_core::filter::Filter;
use grasp_store::{QueryLimits, Row};
use nostr::types::Timestamp;

use crate::connection::frame::Frame;
use crate::query::{Reader, Scan, Sink};

#[derive(Debug)]
struct Counter(u64);

impl Sink for Counter {
    fn take(&mut self, _: Row<'_>, _: bool) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

/// The answer to a `COUNT`: limits of filters do not count.
pub(crate) async fn answer(
    reader: &Reader,
    id: &str,
    mut filters: Vec<Filter>,
    now: Timestamp,
) -> Frame {
    for filter in &mut filters {
        filter.limit = None;
    }
    let scan = Scan::new(filters, QueryLimits::unlimited(now), Counter(0));
    match reader.finish(scan).await {
        Ok(scan) => Frame::count(id, scan.sink.0),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a count failed");
            Frame::closed(id, "error: the stored events cannot be read")
        }
    }
}
