//! What is to be sent to one peer, in order.
//!
//! Messages are written straight into one buffer; the transport takes all of it at once. Whoever has more to say than
//! the peer reads waits here, so that memory stays bounded.

use std::sync::{Mutex, MutexGuard};

use indexmap::IndexSet;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The buffer of one peer.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    buffer: Mutex<Vec<u8>>,
    /// News for a peer that is too far behind, each once.
    late: Mutex<IndexSet<Vec<u8>>>,
    filled: Notify,
    drained: Notify,
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

    /// Appends news. A peer that is too far behind gets the same news once, when it has read on: so what waits for it is
    /// bounded by what it subscribed to.
    pub(crate) fn push_once(&self, message: Vec<u8>) {
        if self.is_full() {
            self.late().insert(message);
        } else {
            self.push(|out| out.extend_from_slice(&message));
        }
    }

    /// Waits until the peer has read enough for more to be said.
    pub(crate) async fn room(&self) {
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
        self.lock().len() >= HIGH_WATER
    }

    /// Something that had more to say is done.
    pub(crate) fn spoken(&self) {
        self.quiet.notify_waiters();
    }

    /// Waits until something that had more to say is done.
    pub(crate) fn quiet(&self) -> Notified<'_> {
        self.quiet.notified()
    }

    /// Waits until there is something to take. A push before the call counts.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Takes all that is there into `taken`, whose memory becomes the next buffer; false if there is nothing.
    pub(crate) fn take_now(&self, taken: &mut Vec<u8>) -> bool {
        let mut buffer = self.lock();
        if buffer.is_empty() {
            return false;
        }
        taken.clear();
        // A burst must not hold its memory for ever.
        if taken.capacity() > 2 * HIGH_WATER {
            *taken = Vec::new();
        }
        std::mem::swap(&mut *buffer, taken);
        drop(buffer);
        self.drained.notify_waiters();
        let late = std::mem::take(&mut *self.late());
        for message in late {
            self.push(|out| out.extend_from_slice(&message));
        }
        true
    }

    fn late(&self) -> MutexGuard<'_, IndexSet<Vec<u8>>> {
        self.late.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
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
        let mut taken = Vec::new();
        assert!(outbox.take_now(&mut taken));
        assert_eq!(taken.len(), HIGH_WATER + 1);
        assert!(poll(waiting.as_mut()).is_ready());
    }

    #[test]
    fn what_was_said_before_anyone_waited_is_not_forgotten() {
        let outbox = Outbox::default();
        assert!(poll(pin!(outbox.filled())).is_pending());
        outbox.push(|out| out.push(b'x'));
        assert!(poll(pin!(outbox.filled())).is_ready());
    }

    #[test]
    fn a_message_that_was_not_written_leaves_no_line() {
        let outbox = Outbox::default();
        outbox.push(|_| {});
        assert!(!outbox.take_now(&mut Vec::new()));
    }
}
