//! How many stored events match (NIP-45).

use grasp_core::filter::Filter;
use nostr::types::Timestamp;

use crate::connection::frame::Frame;
use crate::query::Reader;

/// The answer to a `COUNT`.
pub(crate) async fn answer(
    reader: &Reader,
    id: &str,
    filters: Vec<Filter>,
    now: Timestamp,
) -> Frame {
    let counted = reader.run(move |store| store.count(&filters, now)).await;
    match counted {
        Ok(count) => Frame::count(id, count),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a count failed");
            Frame::closed(id, "error: the stored events cannot be read")
        }
    }
}
