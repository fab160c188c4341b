//! What is to be sent to one peer, in order.
//!
//! Messages are written straight into one buffer; the transport takes all of it at once. Whoever has more to say than
//! the peer reads waits here, so that memory stays bounded.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use indexmap::IndexSet;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::lock::lock;

/// The buffer of one peer.
#[derive(Debug)]
pub(crate) struct OutboundQueue {
    buffer: Mutex<Buffer>,
    /// How many bytes may wait for a peer before its questions do.
    max_bytes: usize,
    /// Whether whoever carries this can cut the stream and let the peer come back.
    can_close_stream: bool,
    drained: Notify,
    idle: Notify,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// News for a peer that is too far behind, each once, and how many bytes they are.
    coalesced: IndexSet<Vec<u8>>,
    coalesced_bytes: usize,
    /// Whoever waits to take what is pushed next. Kept here, not in a `Notify`, which would remember a push whose message
    /// has been taken since, and wake for nothing after every answer.
    waker: Option<Waker>,
    /// Whether pushes leave the waker alone, because the messages are taken right after.
    held: bool,
    /// The peer is gone: nothing is kept for it, and nobody waits for it.
    closed: bool,
    /// Whoever speaks here wants the stream to be cut; the answer can be fetched later.
    close_requested: bool,
}

impl OutboundQueue {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let (buffer, notify) = (Mutex::default(), Notify::new);
        Self { buffer, max_bytes, can_close_stream: false, drained: notify(), idle: notify() }
    }

    /// One whose stream can be cut.
    pub(crate) fn with_closable_stream(most: usize) -> Self {
        Self { can_close_stream: true, ..Self::new(most) }
    }

    /// Appends one message as a line. A message that cannot be written is left out by its writer.
    pub(crate) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.append(INITIAL_CAPACITY, |out, start| {
            write(out);
            if out.len() > start {
                tsugite_core::jsonrpc::end_line(out, start);
            }
        });
    }

    /// Appends a message that is known to have no newline in it, of about so many bytes.
    pub(crate) fn push_line(&self, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.append(bytes, |out, _| {
            write(out);
            out.push(b'\n');
        });
    }

    fn append(&self, room: usize, write: impl FnOnce(&mut Vec<u8>, usize)) {
        let mut buffer = self.lock();
        if buffer.closed {
            return;
        }
        let start = buffer.bytes.len();
        // Most answers fit, and are written without growing.
        if buffer.bytes.capacity() == 0 {
            buffer.bytes.reserve(room);
        }
        write(&mut buffer.bytes, start);
        if buffer.bytes.len() > start {
            let taker = if buffer.held { None } else { buffer.waker.take() };
            drop(buffer);
            if let Some(taker) = taker {
                taker.wake();
            }
        }
    }

    /// Appends news. A peer that is too far behind gets the same news once, when it has read on: so what waits for it is
    /// bounded by what it subscribed to.
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

    /// Waits until the peer has read enough for more to be said, or is gone.
    pub(crate) async fn wait_for_capacity(&self) {
        while self.is_full() {
            let drained = self.drained.notified();
            // It may have been emptied between the two looks.
            if self.is_full() {
                drained.await;
            }
        }
    }

    /// Whether the peer is so far behind that nothing more should be asked of it.
    pub(crate) fn is_full(&self) -> bool {
        let buffer = self.lock();
        buffer.bytes.len() >= self.max_bytes && !buffer.closed
    }

    /// Whether as much news waits for a peer that is behind as it may be behind; for whoever cannot say what it subscribed
    /// to.
    pub(crate) fn is_coalesced_full(&self) -> bool {
        self.lock().coalesced_bytes >= self.max_bytes
    }

    /// The peer is gone.
    pub(crate) fn close(&self) {
        let before = std::mem::replace(&mut *self.lock(), Buffer { closed: true, ..Buffer::default() });
        if let Some(taker) = before.waker {
            taker.wake();
        }
        self.drained.notify_waiters();
    }

    /// Whether the peer is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Asks whoever carries this to cut the stream.
    pub(crate) fn request_close(&self) {
        if !self.can_close_stream {
            return;
        }
        let mut buffer = self.lock();
        buffer.close_requested = true;
        let taker = buffer.waker.take();
        drop(buffer);
        if let Some(taker) = taker {
            taker.wake();
        }
    }

    /// Whether the stream should be cut; says so once.
    pub(crate) fn take_close_request(&self) -> bool {
        std::mem::take(&mut self.lock().close_requested)
    }

    /// Something that had more to say is done.
    pub(crate) fn notify_idle(&self) {
        self.idle.notify_waiters();
    }

    /// Waits until something that had more to say is done.
    pub(crate) fn idle(&self) -> Notified<'_> {
        self.idle.notified()
    }

    /// Wakes whoever waits, to look around.
    pub(crate) fn wake(&self) {
        let taker = self.lock().waker.take();
        if let Some(taker) = taker {
            taker.wake();
        }
    }

    /// Nobody waits any more.
    pub(crate) fn clear_waker(&self) {
        self.lock().waker = None;
    }

    /// Keeps pushes from waking the taker until the guard is dropped; the caller takes the messages itself.
    pub(crate) fn hold_wakeups(&self) -> HeldWakeups<'_> {
        self.lock().held = true;
        HeldWakeups(self)
    }

    /// How many bytes there are to take.
    pub(crate) fn len(&self) -> usize {
        self.lock().bytes.len()
    }

    /// Whether there is nothing to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().bytes.is_empty()
    }

    /// Whether there is something to take, or the peer is gone; else `cx` is woken then. One waits at a time.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut buffer = self.lock();
        if !buffer.bytes.is_empty() || buffer.closed || buffer.close_requested {
            return Poll::Ready(());
        }
        if !buffer.waker.as_ref().is_some_and(|taker| taker.will_wake(cx.waker())) {
            buffer.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Waits until there is something to take. One waits at a time.
    pub(crate) fn readable(&self) -> Readable<'_> {
        Readable(self)
    }

    /// Takes all that is there into `taken`, whose memory becomes the next buffer; false if there is nothing.
    pub(crate) fn take_all(&self, taken: &mut Vec<u8>) -> bool {
        let mut buffer = self.lock();
        if buffer.bytes.is_empty() {
            return false;
        }
        taken.clear();
        // A burst must not hold its memory for ever.
        if taken.capacity() > 2 * self.max_bytes {
            *taken = Vec::new();
        }
        std::mem::swap(&mut buffer.bytes, taken);
        let late = std::mem::take(&mut buffer.coalesced);
        buffer.coalesced_bytes = 0;
        drop(buffer);
        // Nobody waits for less.
        if taken.len() >= self.max_bytes {
            self.drained.notify_waiters();
        }
        for message in late {
            self.push(|out| out.extend_from_slice(&message));
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        lock(&self.buffer)
    }
}

/// How much room the first message finds.
const INITIAL_CAPACITY: usize = 512;

/// Waits until there is something to take, or the peer is gone. Whoever stops waiting is not woken any more: what pushes is often the waiter
/// itself.
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

/// Keeps pushes from waking the taker. Dropping it wakes the taker if messages are left.
pub(crate) struct HeldWakeups<'a>(&'a OutboundQueue);

impl Drop for HeldWakeups<'_> {
    fn drop(&mut self) {
        let mut buffer = self.0.lock();
        buffer.held = false;
        let taker = if buffer.bytes.is_empty() { None } else { buffer.waker.take() };
        drop(buffer);
        if let Some(taker) = taker {
            taker.wake();
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
    fn sender_waits_when_the_queue_is_full() {
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
    fn message_sent_before_a_wait_is_not_lost() {
        let outbox = OutboundQueue::new(MAX_BYTES);
        assert!(poll(pin!(outbox.readable())).is_pending());
        outbox.push(|out| out.push(b'x'));
        assert!(poll(pin!(outbox.readable())).is_ready());
        assert!(outbox.take_all(&mut Vec::new()));
        assert!(poll(pin!(outbox.readable())).is_pending());
    }

    #[test]
    fn failed_encoding_leaves_no_line() {
        let outbox = OutboundQueue::new(MAX_BYTES);
        outbox.push(|_| {});
        assert!(!outbox.take_all(&mut Vec::new()));
    }

    #[test]
    fn change_for_a_slow_peer_is_queued_once() {
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
    fn sending_to_a_closed_peer_does_not_wait() {
        let outbox = full();
        let mut waiting = pin!(outbox.wait_for_capacity());
        assert!(poll(waiting.as_mut()).is_pending());
        outbox.close();
        assert!(poll(waiting.as_mut()).is_ready());
        outbox.push(|out| out.push(b'x'));
        assert!(!outbox.take_all(&mut Vec::new()));
    }
}
