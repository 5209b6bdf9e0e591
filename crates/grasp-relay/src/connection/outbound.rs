//! What waits to be sent to one client: bounded in bytes, whatever the client does.
//!
//! Three kinds of frames enter. *Answers* always do: a client earns them one message at a time, and its
//! messages are not read while the queue is long, so they are bounded too. *Stored* events are read only
//! once there is a [`Reservation`] for them. *Live* events are taken while there is room; at the brim
//! the caller closes their subscription (RLY-3).
//!
//! All queues share one budget. When it is used up, a queue that is nearly empty still takes a small
//! share, so that clients who read are not starved by clients who do not.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::frame::Frame;
use crate::limits::Limit;
use crate::metrics::Metrics;

/// What one queue may hold although the common budget is used up.
const SHARE: usize = 64 * 1024;

/// One client's queue.
#[derive(Debug)]
pub(crate) struct Outbound {
    queue: Mutex<Queue>,
    ready: Notify,
    room: Notify,
    bytes_max: usize,
    total_bytes_max: usize,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Frame>,
    /// Of the frames, of what is being written, and of everything reserved.
    bytes: usize,
    ended: bool,
}

/// Room that is kept for somebody, and given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    outbound: Arc<Outbound>,
    bytes: usize,
}

impl Outbound {
    /// An empty queue of at most `bytes_max`, in a common budget of `total_bytes_max`.
    pub(crate) fn new(
        bytes_max: usize,
        total_bytes_max: usize,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            ready: Notify::new(),
            room: Notify::new(),
            bytes_max,
            total_bytes_max,
            metrics,
        })
    }

    /// Queues an answer.
    pub(crate) fn push(&self, frame: Frame) {
        let mut queue = self.lock();
        self.append(&mut queue, frame);
    }

    /// Queues a live event if there is room; else says which bound is reached.
    pub(crate) fn offer(&self, frame: Frame) -> Result<(), Limit> {
        let mut queue = self.lock();
        if !queue.ended {
            self.check_room(&queue, frame.weight())?;
        }
        self.append(&mut queue, frame);
        Ok(())
    }

    /// Keeps room for `bytes` that come later, if there is some; else says which bound is reached.
    pub(crate) fn try_reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, Limit> {
        let mut queue = self.lock();
        self.check_room(&queue, bytes)?;
        self.charge(&mut queue, bytes);
        Ok(self.reservation(bytes))
    }

    /// Waits for room and keeps a page's worth of it for stored events.
    pub(crate) async fn reserve_page(self: &Arc<Self>) -> Reservation {
        loop {
            let notified = self.room.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(reservation) = self.try_reserve_page() {
                return reservation;
            }
            notified.await;
        }
    }

    /// Keeps a page's worth of room for stored events, if there is some.
    pub(crate) fn try_reserve_page(self: &Arc<Self>) -> Option<Reservation> {
        let mut queue = self.lock();
        let page = (self.bytes_max / 16).max(1);
        let bytes = if queue.bytes < self.bytes_max / 2 && self.total() < self.total_bytes_max {
            page
        } else if queue.bytes < SHARE.min(self.bytes_max / 4) {
            page.min(SHARE)
        } else {
            return None;
        };
        self.charge(&mut queue, bytes);
        Some(self.reservation(bytes))
    }

    fn reservation(self: &Arc<Self>, bytes: usize) -> Reservation {
        Reservation {
            outbound: Arc::clone(self),
            bytes,
        }
    }

    /// Waits until the client has taken enough of its answers to earn another.
    pub(crate) async fn wait_for_room(&self) {
        loop {
            let notified = self.room.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.lock().bytes <= self.bytes_max / 4 * 3 {
                return;
            }
            notified.await;
        }
    }

    /// Waits for frames and takes some: one at least, and no more than about `bytes`. What they weigh is
    /// free again once [`Outbound::written`] says so.
    pub(crate) async fn take(&self, bytes: usize) -> Vec<Frame> {
        loop {
            let frames = self.take_ready(bytes);
            if !frames.is_empty() {
                return frames;
            }
            self.ready.notified().await;
        }
    }

    fn take_ready(&self, bytes: usize) -> Vec<Frame> {
        let mut queue = self.lock();
        let mut taken = 0;
        let mut frames = Vec::new();
        while taken < bytes {
            let Some(frame) = queue.frames.pop_front() else {
                break;
            };
            taken += frame.weight();
            frames.push(frame);
        }
        frames
    }

    /// The socket has taken frames of this weight.
    pub(crate) fn written(&self, bytes: usize) {
        let mut queue = self.lock();
        self.release(&mut queue, bytes);
    }

    /// The client is gone: nothing more is kept for it.
    pub(crate) fn end(&self) {
        let mut queue = self.lock();
        queue.ended = true;
        let bytes: usize = queue.frames.iter().map(Frame::weight).sum();
        queue.frames.clear();
        self.release(&mut queue, bytes);
    }

    /// A subscription was closed for want of room.
    pub(crate) fn count_overflow(&self, limit: Limit) {
        self.metrics.refused(limit);
    }

    /// Bytes queued, being written, or reserved.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn check_room(&self, queue: &Queue, bytes: usize) -> Result<(), Limit> {
        let after = queue.bytes + bytes;
        if after > self.bytes_max && queue.bytes > 0 {
            Err(Limit::Outbound)
        } else if self.total() + bytes > self.total_bytes_max && after > SHARE {
            Err(Limit::OutboundTotal)
        } else {
            Ok(())
        }
    }

    fn append(&self, queue: &mut Queue, frame: Frame) {
        if queue.ended {
            return;
        }
        self.charge(queue, frame.weight());
        queue.frames.push_back(frame);
        self.ready.notify_one();
    }

    fn charge(&self, queue: &mut Queue, bytes: usize) {
        queue.bytes += bytes;
        self.metrics.outbound_bytes.fetch_add(bytes as u64, Relaxed);
    }

    fn release(&self, queue: &mut Queue, bytes: usize) {
        debug_assert!(queue.bytes >= bytes, "more was released than charged");
        queue.bytes = queue.bytes.saturating_sub(bytes);
        self.metrics.outbound_bytes.fetch_sub(bytes as u64, Relaxed);
        self.room.notify_waiters();
    }

    fn total(&self) -> usize {
        usize::try_from(self.metrics.outbound_bytes.load(Relaxed)).unwrap_or(usize::MAX)
    }

    /// A panic while the lock was held leaves at worst a count that is off by one frame.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        let bytes = self.lock().bytes;
        self.metrics.outbound_bytes.fetch_sub(bytes as u64, Relaxed);
    }
}

impl Reservation {
    /// How much room there is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts the frames that the room was kept for into the queue.
    pub(crate) fn fill(mut self, frames: impl IntoIterator<Item = Frame>) {
        let outbound = Arc::clone(&self.outbound);
        let mut queue = outbound.lock();
        for frame in frames {
            outbound.append(&mut queue, frame);
        }
        // Given back under the same lock, or somebody could take the room twice.
        let bytes = std::mem::take(&mut self.bytes);
        outbound.release(&mut queue, bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.outbound.written(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::event_prefix;
    use super::*;
    use bytes::Bytes;

    fn event(size: usize) -> Frame {
        Frame::event(event_prefix("s"), Bytes::from(vec![b'x'; size]))
    }

    /// RLY-3
    #[tokio::test]
    async fn answers_enter_a_full_queue_and_live_events_do_not() {
        let metrics = Arc::new(Metrics::default());
        let outbound = Outbound::new(10_000, 1_000_000, Arc::clone(&metrics));
        while outbound.offer(event(1_000)).is_ok() {}
        assert_eq!(outbound.offer(event(1_000)), Err(Limit::Outbound));
        assert!(outbound.bytes() <= 10_000);
        outbound.push(Frame::eose("s"));
        let frames = outbound.take(usize::MAX).await;
        assert_eq!(
            frames.last().and_then(Frame::kind),
            Some(crate::metrics::Sent::Eose)
        );
        outbound.written(frames.iter().map(Frame::weight).sum());
        assert_eq!(
            (outbound.bytes(), metrics.outbound_bytes.load(Relaxed)),
            (0, 0)
        );
    }

    #[test]
    fn clients_who_read_keep_a_share_when_others_use_up_the_budget() {
        let metrics = Arc::new(Metrics::default());
        let slow = Outbound::new(1_000_000, 200_000, Arc::clone(&metrics));
        while slow.offer(event(1_000)).is_ok() {}
        assert_eq!(slow.offer(event(1_000)), Err(Limit::OutboundTotal));
        let fast = Outbound::new(1_000_000, 200_000, Arc::clone(&metrics));
        assert_eq!(fast.offer(event(1_000)), Ok(()));
        while fast.offer(event(1_000)).is_ok() {}
        assert!(fast.bytes() <= SHARE);
        drop((slow, fast));
        assert_eq!(metrics.outbound_bytes.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn stored_events_wait_until_the_client_reads() {
        let outbound = Outbound::new(1_000_000, 1_000_000, Arc::default());
        let first = outbound.reserve_page().await;
        first.fill([event(600_000)]);
        let waiting = tokio::spawn({
            let outbound = Arc::clone(&outbound);
            async move { outbound.reserve_page().await.bytes() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let frames = outbound.take(usize::MAX).await;
        outbound.written(frames.iter().map(Frame::weight).sum());
        assert_eq!(waiting.await.expect("no panic"), 62_500);
        assert_eq!(outbound.bytes(), 0);
    }

    #[test]
    fn nothing_is_kept_for_a_client_that_is_gone() {
        let outbound = Outbound::new(10_000, 1_000_000, Arc::default());
        let reservation = outbound.try_reserve(500).expect("room");
        outbound.push(Frame::eose("s"));
        outbound.end();
        outbound.push(Frame::eose("s"));
        reservation.fill([event(10)]);
        assert_eq!(outbound.bytes(), 0);
    }
}
