//! The outbound queue: messages that wait to be sent to one peer, in order.
//!
//! Messages are encoded directly into one buffer, and the transport takes the whole buffer at once. Senders wait here while
//! the peer reads too slowly, so that memory stays bounded.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use indexmap::IndexSet;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::lock::lock;

/// The outbound queue of one peer.
#[derive(Debug)]
pub(crate) struct OutboundQueue {
    buffer: Mutex<Buffer>,
    /// The queue is full at this many bytes: then senders wait, and no more requests are read from the peer.
    max_bytes: usize,
    /// Whether the transport can close the stream and let the peer reconnect.
    can_close_stream: bool,
    /// Whether the peer takes nothing but the response, so that messages are dropped.
    is_discarding: bool,
    drained: Notify,
    idle: Notify,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Notifications for a peer whose queue is full, without duplicates, and their size.
    coalesced: IndexSet<Vec<u8>>,
    coalesced_bytes: usize,
    /// The task that waits for the next message. A `Notify` would also remember a push whose message has been taken since,
    /// and cause a useless wakeup after every response.
    waker: Option<Waker>,
    /// Whether pushes do not wake the reader, because the messages are taken right after.
    held: bool,
    /// The peer is disconnected: messages are dropped, and senders do not wait.
    closed: bool,
    /// A handler wants the stream closed; the client fetches the response later.
    close_requested: bool,
}

impl OutboundQueue {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let (buffer, notify) = (Mutex::default(), Notify::new);
        Self {
            buffer,
            max_bytes,
            can_close_stream: false,
            is_discarding: false,
            drained: notify(),
            idle: notify(),
        }
    }

    /// Creates a queue whose stream can be closed.
    pub(crate) fn with_closable_stream(max_bytes: usize) -> Self {
        Self { can_close_stream: true, ..Self::new(max_bytes) }
    }

    /// Creates a queue that drops all messages, for a peer that takes nothing but the response.
    pub(crate) fn discarding() -> Self {
        Self { is_discarding: true, ..Self::new(1) }
    }

    /// Whether all messages are dropped, so that a question can never reach the peer.
    pub(crate) fn is_discarding(&self) -> bool {
        self.is_discarding
    }

    /// Appends one message as a line. Appends nothing if `write` writes nothing, because the message cannot be encoded.
    pub(crate) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.append(INITIAL_CAPACITY, |out, start| {
            write(out);
            if out.len() > start {
                tsugite_core::jsonrpc::end_line(out, start);
            }
        });
    }

    /// Appends a message without newlines, of about `bytes` bytes.
    pub(crate) fn push_line(&self, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.append(bytes, |out, _| {
            write(out);
            out.push(b'\n');
        });
    }

    fn append(&self, capacity: usize, write: impl FnOnce(&mut Vec<u8>, usize)) {
        let mut buffer = self.lock();
        if buffer.closed || self.is_discarding {
            return;
        }
        let start = buffer.bytes.len();
        // Most responses fit, and are written without growing the buffer.
        if buffer.bytes.capacity() == 0 {
            buffer.bytes.reserve(capacity);
        }
        write(&mut buffer.bytes, start);
        if buffer.bytes.len() > start {
            let waker = if buffer.held { None } else { buffer.waker.take() };
            drop(buffer);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Appends a change notification. While the queue is full, equal notifications are kept once and appended after the next
    /// read, so their number is limited by the subscriptions of the peer.
    pub(crate) fn push_coalesced(&self, message: Vec<u8>) {
        let mut buffer = self.lock();
        if buffer.bytes.len() >= self.max_bytes && !buffer.closed {
            let bytes = message.len();
            if buffer.coalesced.insert(message) {
                buffer.coalesced_bytes += bytes;
            }
            return;
        }
        drop(buffer);
        self.push(|out| out.extend_from_slice(&message));
    }

    /// Waits until the queue is no longer full, or is closed.
    pub(crate) async fn wait_for_capacity(&self) {
        while self.is_full() {
            let drained = self.drained.notified();
            // The queue may have been read before `drained` was created.
            if self.is_full() {
                drained.await;
            }
        }
    }

    /// Whether the queue has reached its limit. A closed queue is never full.
    pub(crate) fn is_full(&self) -> bool {
        let buffer = self.lock();
        buffer.bytes.len() >= self.max_bytes && !buffer.closed
    }

    /// Whether the coalesced notifications have reached the limit of the queue; for senders that do not know the
    /// subscriptions of the peer.
    pub(crate) fn is_coalesced_full(&self) -> bool {
        self.lock().coalesced_bytes >= self.max_bytes
    }

    /// Closes the queue: the peer is disconnected.
    pub(crate) fn close(&self) {
        let before = std::mem::replace(&mut *self.lock(), Buffer { closed: true, ..Buffer::default() });
        if let Some(waker) = before.waker {
            waker.wake();
        }
        self.drained.notify_waiters();
    }

    /// Whether the queue is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Asks the transport to close the stream. Does nothing if it cannot.
    pub(crate) fn request_close(&self) {
        if !self.can_close_stream {
            return;
        }
        let mut buffer = self.lock();
        buffer.close_requested = true;
        let waker = buffer.waker.take();
        drop(buffer);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns whether the stream should be closed, and clears the request.
    pub(crate) fn take_close_request(&self) -> bool {
        std::mem::take(&mut self.lock().close_requested)
    }

    /// Notifies waiters of [`Self::idle`] that a request has finished.
    pub(crate) fn notify_idle(&self) {
        self.idle.notify_waiters();
    }

    /// Waits until a request has finished.
    pub(crate) fn idle(&self) -> Notified<'_> {
        self.idle.notified()
    }

    /// Wakes the task that waits for messages, although there may be none.
    pub(crate) fn wake(&self) {
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether a task waits for messages.
    pub(crate) fn has_reader(&self) -> bool {
        self.lock().waker.is_some()
    }

    /// Removes the waker of a task that no longer waits.
    pub(crate) fn clear_waker(&self) {
        self.lock().waker = None;
    }

    /// Keeps pushes from waking the reader until the guard is dropped; the caller takes the messages itself.
    pub(crate) fn hold_wakeups(&self) -> HeldWakeups<'_> {
        self.lock().held = true;
        HeldWakeups(self)
    }

    /// The number of queued bytes.
    pub(crate) fn len(&self) -> usize {
        self.lock().bytes.len()
    }

    /// Whether no messages are queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().bytes.is_empty()
    }

    /// Ready if messages are queued, the queue is closed, or closing the stream was requested; wakes `cx` then. Only one
    /// task can wait at a time.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut buffer = self.lock();
        if !buffer.bytes.is_empty() || buffer.closed || buffer.close_requested {
            return Poll::Ready(());
        }
        if !buffer.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            buffer.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Waits until [`Self::poll_readable`] is ready. Only one task can wait at a time.
    pub(crate) fn readable(&self) -> Readable<'_> {
        Readable(self)
    }

    /// Moves all messages into `taken`, whose memory becomes the next buffer. Returns false if there are none.
    pub(crate) fn take_all(&self, taken: &mut Vec<u8>) -> bool {
        let mut buffer = self.lock();
        if buffer.bytes.is_empty() {
            return false;
        }
        taken.clear();
        // Frees the memory of a burst.
        if taken.capacity() > 2 * self.max_bytes {
            *taken = Vec::new();
        }
        std::mem::swap(&mut buffer.bytes, taken);
        let coalesced = std::mem::take(&mut buffer.coalesced);
        buffer.coalesced_bytes = 0;
        drop(buffer);
        // Senders wait only for a full queue.
        if taken.len() >= self.max_bytes {
            self.drained.notify_waiters();
        }
        for message in coalesced {
            self.push(|out| out.extend_from_slice(&message));
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        lock(&self.buffer)
    }
}

/// The initial capacity of the buffer.
const INITIAL_CAPACITY: usize = 512;

/// A future that waits for messages. Dropping it removes its waker: the task that pushes is often the one that waits.
pub(crate) struct Readable<'a>(&'a OutboundQueue);

impl Future for Readable<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_readable(cx)
    }
}

impl Drop for Readable<'_> {
    fn drop(&mut self) {
        self.0.clear_waker();
    }
}

/// Keeps pushes from waking the reader. Dropping it wakes the reader if messages are left.
pub(crate) struct HeldWakeups<'a>(&'a OutboundQueue);

impl Drop for HeldWakeups<'_> {
    fn drop(&mut self) {
        let mut buffer = self.0.lock();
        buffer.held = false;
        let waker = if buffer.bytes.is_empty() { None } else { buffer.waker.take() };
        drop(buffer);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    const MAX_BYTES: usize = 1_000;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn full() -> OutboundQueue {
        let outbox = OutboundQueue::new(MAX_BYTES);
        outbox.push(|out| out.resize(MAX_BYTES, b'x'));
        outbox
    }

    #[test]
    fn sender_waits_while_the_queue_is_full() {
        assert!(poll(pin!(OutboundQueue::new(MAX_BYTES).wait_for_capacity())).is_ready());
        let outbox = full();
        let mut waiting = pin!(outbox.wait_for_capacity());
        assert!(poll(waiting.as_mut()).is_pending());
        assert!(outbox.is_full());
        let mut taken = Vec::new();
        assert!(outbox.take_all(&mut taken));
        assert_eq!(taken.len(), MAX_BYTES + 1);
        assert!(poll(waiting.as_mut()).is_ready());
    }

    #[test]
    fn message_pushed_before_waiting_is_readable() {
        let outbox = OutboundQueue::new(MAX_BYTES);
        assert!(poll(pin!(outbox.readable())).is_pending());
        outbox.push(|out| out.push(b'x'));
        assert!(poll(pin!(outbox.readable())).is_ready());
        assert!(outbox.take_all(&mut Vec::new()));
        assert!(poll(pin!(outbox.readable())).is_pending());
    }

    #[test]
    fn empty_message_is_not_sent() {
        let outbox = OutboundQueue::new(MAX_BYTES);
        outbox.push(|_| {});
        assert!(!outbox.take_all(&mut Vec::new()));
    }

    #[test]
    fn full_queue_coalesces_equal_notifications() {
        let outbox = full();
        for _ in 0..3 {
            outbox.push_coalesced(b"news".to_vec());
        }
        let mut taken = Vec::new();
        assert!(outbox.take_all(&mut taken));
        assert!(outbox.take_all(&mut taken));
        assert_eq!(taken, b"news\n");
        assert!(!outbox.take_all(&mut taken));
    }

    #[test]
    fn closed_queue_blocks_no_sender() {
        let outbox = full();
        let mut waiting = pin!(outbox.wait_for_capacity());
        assert!(poll(waiting.as_mut()).is_pending());
        outbox.close();
        assert!(poll(waiting.as_mut()).is_ready());
        outbox.push(|out| out.push(b'x'));
        assert!(!outbox.take_all(&mut Vec::new()));
    }
}
