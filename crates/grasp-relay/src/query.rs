//! The stored part of a subscription.
//!
//! Queries run off the async workers, on snapshots that live for seconds at most: what fits a page is
//! read at once, of the rest only the ids are kept, and their events are read page by page as the client
//! takes them. So a slow client holds some ids, never a snapshot, a thread or a pile of events; what was
//! deleted meanwhile is left out (case 94).
//!
//! The first snapshot draws the line between stored and live. What is read from a later one may have
//! crossed it meanwhile, so those ids are remembered until the live side is past that snapshot.

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use grasp_core::filter::Filter;
use grasp_core::lifecycle::Stage;
use grasp_store::{Budget, CommitVersion, QueryLimits, Row, Store, StoreError};
use nostr::event::EventId;
use tokio::sync::Semaphore;

use crate::connection::frame::Frame;
use crate::connection::outbound::Reservation;
use crate::subscription::{Boundary, Subscription, has_stored_part};

/// How far one snapshot is read.
const BUDGET: Budget = Budget {
    events: 10_000,
    duration: Duration::from_secs(2),
};

/// Reads the store, so many at a time and never on an async worker.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    store: Store,
    running: Arc<Semaphore>,
}

/// Why a read brought nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the read was broken off")]
    BrokenOff,
}

impl Reader {
    pub(crate) fn new(store: Store, running_max: usize) -> Self {
        let running = Arc::new(Semaphore::new(running_max.clamp(1, Semaphore::MAX_PERMITS)));
        Self { store, running }
    }

    /// Runs `read` on a thread that may block, in turn.
    pub(crate) async fn run<T, F>(&self, read: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    {
        let turn = Arc::clone(&self.running).acquire_owned().await;
        let turn = turn.map_err(|_| ReadError::BrokenOff)?;
        let store = self.store.clone();
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            read(&store)
        });
        Ok(task.await.map_err(|_| ReadError::BrokenOff)??)
    }
}

/// A stored part on its way.
struct Answer {
    boundary: Boundary,
    /// What follows the pages read so far.
    rest: VecDeque<EventId>,
}

impl Answer {
    fn up_to(snapshot: CommitVersion) -> Self {
        Self {
            boundary: Boundary {
                first: snapshot,
                last: snapshot,
                late: HashSet::new(),
            },
            rest: VecDeque::new(),
        }
    }

    fn add(&mut self, row: Row<'_>, page: &mut Page, from_first_snapshot: bool) -> ControlFlow<()> {
        if !self.rest.is_empty() || page.is_full() {
            self.rest.push_back(row.id);
        } else {
            page.add(Bytes::copy_from_slice(row.json));
            if !from_first_snapshot {
                self.boundary.late.insert(row.id);
            }
        }
        let asked_often = self.rest.len().is_multiple_of(64);
        if asked_often && page.subscription.is_over() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Sends the stored events that a subscription asks for, then `EOSE`, then what came meanwhile.
pub(crate) async fn answer(reader: &Reader, subscription: &Arc<Subscription>, limits: QueryLimits) {
    let filters: Vec<Filter> = subscription
        .filters()
        .iter()
        .filter(|filter| has_stored_part(filter) && !filter.is_impossible())
        .cloned()
        .collect();
    if filters.is_empty() {
        return subscription.go_live(None);
    }
    if let Err(error) = stream(reader, subscription, filters, limits).await {
        tracing::error!(error = &error as &dyn std::error::Error, "a query failed");
        subscription.close("error: the stored events cannot be read");
    }
}

async fn stream(
    reader: &Reader,
    subscription: &Arc<Subscription>,
    filters: Vec<Filter>,
    limits: QueryLimits,
) -> Result<(), ReadError> {
    let mut page = Page::within(subscription).await;
    let read = reader.run(move |store| Ok((first_page(store, &filters, limits, &mut page)?, page)));
    let (mut answer, page) = read.await?;
    let mut wanted = page.send();
    while wanted && !answer.rest.is_empty() {
        let mut page = Page::within(subscription).await;
        let read = reader.run(move |store| {
            next_page(store, &mut answer, &mut page)?;
            Ok((answer, page))
        });
        let page;
        (answer, page) = read.await?;
        wanted = page.send();
    }
    subscription.go_live(Some(answer.boundary));
    Ok(())
}

/// Events for one subscription, in room that was kept for them.
struct Page {
    subscription: Arc<Subscription>,
    room: Reservation,
    frames: Vec<Frame>,
    bytes: usize,
}

impl Page {
    /// An empty page, once the client has room for one.
    async fn within(subscription: &Arc<Subscription>) -> Self {
        Self {
            subscription: Arc::clone(subscription),
            room: subscription.outbound().reserve_page().await,
            frames: Vec::new(),
            bytes: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.room.bytes()
    }

    fn add(&mut self, json: Bytes) {
        let frame = Frame::event(Arc::clone(self.subscription.prefix()), json);
        self.bytes += frame.weight();
        self.frames.push(frame);
    }

    /// `false` if nobody wants more.
    fn send(self) -> bool {
        self.subscription.send_stored(self.room, self.frames)
    }
}

fn first_page(
    store: &Store,
    filters: &[Filter],
    limits: QueryLimits,
    page: &mut Page,
) -> Result<Answer, StoreError> {
    let mut answer: Option<Answer> = None;
    let mut cursor = None;
    loop {
        let snapshot = store.snapshot()?;
        let version = snapshot.version();
        let is_first = answer.is_none();
        let so_far = answer.get_or_insert_with(|| Answer::up_to(version));
        so_far.boundary.last = version;
        let mut emit = |row: Row<'_>| so_far.add(row, page, is_first);
        cursor = snapshot
            .view()
            .query_part(filters, limits, cursor.as_ref(), BUDGET, &mut emit)?;
        if cursor.is_none() {
            return Ok(answer.unwrap_or_else(|| Answer::up_to(version)));
        }
    }
}

fn next_page(store: &Store, answer: &mut Answer, page: &mut Page) -> Result<(), StoreError> {
    let snapshot = store.snapshot()?;
    let view = snapshot.view();
    answer.boundary.last = snapshot.version();
    while !page.is_full()
        && let Some(id) = answer.rest.pop_front()
    {
        let stored = view.event(&id)?;
        if let Some(stored) = stored.filter(|stored| stored.stage == Stage::Served) {
            page.add(stored.json);
            answer.boundary.late.insert(id);
        }
    }
    Ok(())
}
