//! What is to be sent to one peer, in order.
//!
//! Messages are written straight into one buffer; the transport takes all of it at once. Whoever has more to say than
//! the peer reads waits here, so that memory stays bounded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

/// The buffer of one peer.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    buffer: Mutex<Vec<u8>>,
    filled: Notify,
    drained: Notify,
    /// What was taken has not left yet.
    leaving: AtomicBool,
    quiet: Notify,
}

impl Outbox {
    /// Appends one message as a line. A message that cannot be written is left out by its writer.
    pub(crate) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut buffer = self.lock();
        let start = buffer.len();
        write(&mut buffer);
        if buffer.len() > start {
            tsugite_core::jsonrpc::end_line(&mut buffer, start);
            drop(buffer);
            self.filled.notify_one();
        }
    }

    /// Waits until the peer has read enough for more to be said.
    pub(crate) async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            if self.lock().len() < HIGH_WATER {
                return;
            }
            drained.await;
        }
    }

    /// Whether the peer is so far behind that nothing more should be asked of it.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().len() >= HIGH_WATER
    }

    /// What was taken has left.
    pub(crate) fn left(&self) {
        self.leaving.store(false, Ordering::Release);
        self.quiet.notify_waiters();
    }

    /// Something that had more to say is done.
    pub(crate) fn spoken(&self) {
        self.quiet.notify_waiters();
    }

    /// Waits until everything has left and `done` says that nothing more will come.
    pub(crate) async fn settled(&self, done: impl Fn() -> bool) {
        loop {
            let quiet = self.quiet.notified();
            if done() && self.lock().is_empty() && !self.leaving.load(Ordering::Acquire) {
                return;
            }
            quiet.await;
        }
    }

    /// Takes all that is there; waits until there is something. `spare` becomes the next buffer.
    pub(crate) async fn take(&self, spare: Vec<u8>) -> Vec<u8> {
        let mut spare = Some(spare);
        loop {
            let filled = self.filled.notified();
            if let Some(taken) = self.take_now(&mut spare) {
                return taken;
            }
            filled.await;
        }
    }

    fn take_now(&self, spare: &mut Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut buffer = self.lock();
        if buffer.is_empty() {
            return None;
        }
        let mut next = spare.take().unwrap_or_default();
        next.clear();
        // A burst must not hold its memory for ever.
        if next.capacity() > 2 * HIGH_WATER {
            next = Vec::new();
        }
        let taken = std::mem::replace(&mut *buffer, next);
        self.leaving.store(true, Ordering::Release);
        drop(buffer);
        self.drained.notify_waiters();
        Some(taken)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.buffer.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// How many bytes may wait for a peer before its questions do.
const HIGH_WATER: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn whoever_says_more_than_the_peer_reads_waits() {
        let outbox = Outbox::default();
        assert!(poll(pin!(outbox.room())).is_ready());
        outbox.push(|out| out.resize(HIGH_WATER, b'x'));
        let mut waiting = pin!(outbox.room());
        assert!(poll(waiting.as_mut()).is_pending());
        assert!(outbox.is_full());
        let Poll::Ready(taken) = poll(pin!(outbox.take(Vec::new()))) else { panic!() };
        assert_eq!(taken.len(), HIGH_WATER + 1);
        assert!(poll(waiting.as_mut()).is_ready());
    }

    #[test]
    fn it_is_settled_only_when_what_was_taken_has_left() {
        let outbox = Outbox::default();
        outbox.push(|out| out.push(b'x'));
        let mut settled = pin!(outbox.settled(|| true));
        assert!(poll(settled.as_mut()).is_pending());
        assert!(poll(pin!(outbox.take(Vec::new()))).is_ready());
        assert!(poll(settled.as_mut()).is_pending());
        outbox.left();
        assert!(poll(settled.as_mut()).is_ready());
    }

    #[test]
    fn a_message_that_was_not_written_leaves_no_line() {
        let outbox = Outbox::default();
        outbox.push(|_| {});
        assert!(poll(pin!(outbox.take(Vec::new()))).is_pending());
    }
}
