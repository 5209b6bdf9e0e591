//! The stored part of a subscription.
//!
//! What fits a page is sent at once; of the rest only the ids are kept, and their events are read page
//! by page as the client takes them. So a slow client holds some ids, never a snapshot, a thread or a
//! pile of events; what was deleted meanwhile is left out (case 94).
//!
//! The first snapshot draws the line between stored and live. What is read from a later one may have
//! crossed it meanwhile, so those ids are remembered until the live side is past that snapshot.

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use grasp_core::lifecycle::Stage;
use grasp_store::{QueryLimits, Row, Store, StoreError, StoredEvent};
use nostr::event::EventId;
use nostr::types::Timestamp;

use super::{Lane, ReadError, Reader, Scan, Sink};
use crate::Clock;
use crate::connection::frame::Frame;
use crate::connection::outbound::Reservation;
use crate::subscription::{Boundary, Subscription, has_stored_part};

/// The stored part of one subscription, or what is left of it to be sent.
#[derive(Debug)]
pub(crate) struct Stored {
    subscription: Arc<Subscription>,
    scan: Scan<Found>,
}

/// What a scan has found so far.
#[derive(Debug, Default)]
struct Found {
    /// Takes events while it has room.
    page: Option<Page>,
    /// What follows.
    rest: VecDeque<EventId>,
    /// What was read from a later snapshot than the first.
    late: HashSet<EventId>,
}

/// Events for one subscription, in room that was kept for them.
#[derive(Debug)]
struct Page {
    subscription: Arc<Subscription>,
    room: Reservation,
    frames: Vec<Frame>,
    bytes: usize,
}

impl Stored {
    /// Nothing of it is sent yet.
    pub(crate) fn new(subscription: Arc<Subscription>, limits: QueryLimits) -> Self {
        let filters = subscription
            .filters()
            .iter()
            .filter(|filter| has_stored_part(filter) && !filter.is_impossible())
            .cloned()
            .collect();
        Self {
            scan: Scan::new(filters, limits, Found::default()),
            subscription,
        }
    }

    /// Sends as much as is sure to be short, here and now. Returns what is left for [`Stored::send`].
    pub(crate) fn send_here(mut self, reader: &Reader) -> Option<Self> {
        if self.scan.filters().is_empty() {
            self.subscription.go_live(None);
            return None;
        }
        let Some(room) = self.subscription.outbound().try_reserve_page() else {
            return Some(self);
        };
        self.scan.sink.page = Some(Page::new(&self.subscription, room));
        let begun = reader.begin_here(&mut self.scan);
        // Sent now: room that is kept while others are waited for could be what those wait for.
        self.send_page();
        match begun {
            Ok(()) if self.is_complete() => {
                self.go_live();
                None
            }
            Ok(()) => Some(self),
            Err(error) => {
                self.fail(&error.into());
                None
            }
        }
    }

    /// Sends the rest, then `EOSE`, then what came meanwhile.
    pub(crate) async fn send(self, reader: &Reader, clock: &Clock) {
        let subscription = Arc::clone(&self.subscription);
        match self.send_all(reader, clock).await {
            Ok(sent) => sent.go_live(),
            Err(error) => fail(&subscription, &error),
        }
    }

    async fn send_all(mut self, reader: &Reader, clock: &Clock) -> Result<Self, ReadError> {
        if !self.scan.is_done() {
            self.scan.sink.page = Some(Page::within(&self.subscription).await);
            self.scan = reader.finish(self.scan).await?;
            self.send_page();
        }
        while !self.is_complete() && !self.subscription.is_over() {
            let page = Page::within(&self.subscription).await;
            let now = clock();
            self = reader
                .run(Lane::Quick, move |store| {
                    self.read_page(store, page, now)?;
                    Ok(self)
                })
                .await?;
            self.send_page();
        }
        Ok(self)
    }

    /// What was deleted meanwhile, or has ended (EV-4), is left out.
    fn read_page(
        &mut self,
        store: &Store,
        mut page: Page,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let snapshot = store.snapshot()?;
        let view = snapshot.view();
        self.scan.seen(snapshot.version());
        let found = &mut self.scan.sink;
        while !page.is_full()
            && let Some(id) = found.rest.pop_front()
        {
            let is_shown = |stored: &StoredEvent| {
                let ended = stored.event.expiration().is_some_and(|end| end <= now);
                stored.stage == Stage::Served && !ended
            };
            if let Some(stored) = view.event(&id)?.filter(is_shown) {
                page.add(stored.json);
                found.late.insert(id);
            }
        }
        found.page = Some(page);
        Ok(())
    }

    fn send_page(&mut self) {
        if let Some(page) = self.scan.sink.page.take() {
            self.subscription.send_stored(page.room, page.frames);
        }
    }

    fn is_complete(&self) -> bool {
        self.scan.is_done() && self.scan.sink.rest.is_empty()
    }

    fn go_live(self) {
        let (first, last) = self.scan.snapshots();
        self.subscription.go_live(Some(Boundary {
            first,
            last,
            late: self.scan.sink.late,
        }));
    }

    fn fail(&self, error: &ReadError) {
        fail(&self.subscription, error);
    }
}

fn fail(subscription: &Subscription, error: &ReadError) {
    tracing::error!(error = error as &dyn std::error::Error, "a query failed");
    subscription.close("error: the stored events cannot be read");
}

impl Page {
    fn new(subscription: &Arc<Subscription>, room: Reservation) -> Self {
        Self {
            subscription: Arc::clone(subscription),
            room,
            frames: Vec::new(),
            bytes: 0,
        }
    }

    /// An empty page, once the client has room for one.
    async fn within(subscription: &Arc<Subscription>) -> Self {
        let room = subscription.outbound().reserve_page().await;
        Self::new(subscription, room)
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.room.bytes()
    }

    fn add(&mut self, json: Bytes) {
        let frame = Frame::event(Arc::clone(self.subscription.prefix()), json);
        self.bytes += frame.weight();
        self.frames.push(frame);
    }
}

impl Sink for Found {
    fn take(&mut self, row: Row<'_>, late: bool) -> ControlFlow<()> {
        let open = self
            .page
            .as_mut()
            .filter(|page| self.rest.is_empty() && !page.is_full());
        match open {
            Some(page) => {
                page.add(Bytes::copy_from_slice(row.json));
                if late {
                    self.late.insert(row.id);
                }
            }
            None => self.rest.push_back(row.id),
        }
        ControlFlow::Continue(())
    }
}
