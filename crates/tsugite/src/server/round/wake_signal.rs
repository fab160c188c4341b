//! The signal that wakes the driver of a handler, and the count of wakers that can still raise it.
//!
//! Each poll of the handler gets a waker of its own. A waker that outlives its poll is kept by something that can wake the
//! handler later: a timer, a channel, a task that is joined. The signal counts these wakers as they are made and dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::lock::lock;

/// Wakes the task of a driver, and remembers that the handler is to be polled.
pub(crate) struct WakeSignal {
    woken: AtomicBool,
    /// Wakers of the handler that are not dropped yet.
    live_wakers: AtomicUsize,
    /// Whether the driver wants to be woken when the handler can no longer be.
    watched: AtomicBool,
    /// The waker of the task that runs the driver.
    parent: Mutex<Waker>,
    /// The waker of the poll that is going on.
    current: Mutex<Option<Waker>>,
}

impl WakeSignal {
    /// A signal for the task that `parent` wakes. It is raised, so that the handler is polled first.
    pub(in crate::server) fn new(parent: &Waker) -> Arc<Self> {
        Arc::new(Self {
            woken: AtomicBool::new(true),
            live_wakers: AtomicUsize::new(0),
            watched: AtomicBool::new(false),
            parent: Mutex::new(parent.clone()),
            current: Mutex::new(None),
        })
    }

    pub(in crate::server) fn set_parent(&self, waker: &Waker) {
        let mut parent = lock(&self.parent);
        if !parent.will_wake(waker) {
            parent.clone_from(waker);
        }
    }

    /// Polls the handler if it was woken; `None` if it was not.
    pub(in crate::server) fn poll_if_woken<F: Future + ?Sized>(
        self: &Arc<Self>,
        handler: Pin<&mut F>,
    ) -> Option<Poll<F::Output>> {
        if !self.woken.swap(false, Ordering::SeqCst) {
            return None;
        }
        self.watched.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::new(HandlerWaker::new(self)));
        *lock(&self.current) = Some(waker.clone());
        let polled = handler.poll(&mut Context::from_waker(&waker));
        // From here on only clones count that something else keeps.
        *lock(&self.current) = None;
        Some(polled)
    }

    /// Asks for [`recheck`](Self::recheck) to wake the driver, until the next poll of the handler.
    pub(in crate::server) fn watch(&self) {
        self.watched.store(true, Ordering::SeqCst);
    }

    /// Whether the handler was woken, or something holds a waker of it.
    pub(in crate::server) fn can_wake(&self) -> bool {
        // In this order: a waker that is used raises the signal before it is dropped.
        self.live_wakers.load(Ordering::SeqCst) > 0 || self.woken.load(Ordering::SeqCst)
    }

    /// Wakes a driver that watches, without a poll of the handler: a waker or a context of the handler was dropped.
    pub(crate) fn recheck(&self) {
        if self.watched.load(Ordering::SeqCst) {
            self.wake_parent();
        }
    }

    /// Whether `waker` belongs to the poll of the handler that is going on.
    pub(crate) fn is_current(&self, waker: &Waker) -> bool {
        lock(&self.current).as_ref().is_some_and(|current| current.will_wake(waker))
    }

    fn wake_parent(&self) {
        let parent = lock(&self.parent).clone();
        parent.wake();
    }
}

/// Raises the signal, without counting as a waker of the handler.
impl Wake for WakeSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.wake_parent();
    }
}

/// The waker of one poll of a handler; counted until its last clone is dropped.
struct HandlerWaker(Arc<WakeSignal>);

impl HandlerWaker {
    fn new(signal: &Arc<WakeSignal>) -> Self {
        signal.live_wakers.fetch_add(1, Ordering::SeqCst);
        Self(signal.clone())
    }
}

impl Drop for HandlerWaker {
    fn drop(&mut self) {
        if self.0.live_wakers.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.recheck();
        }
    }
}

impl Wake for HandlerWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::*;

    #[test]
    fn waker_counts_until_its_last_clone_is_dropped() {
        let signal = WakeSignal::new(Waker::noop());
        let mut kept = Vec::new();
        let mut handler = pin!(poll_fn(|cx| {
            kept.extend([cx.waker().clone(), cx.waker().clone()]);
            Poll::<()>::Pending
        }));
        assert!(signal.can_wake(), "the first poll is due");
        assert_eq!(signal.poll_if_woken(handler.as_mut()), Some(Poll::Pending));
        assert!(signal.can_wake());
        kept.pop();
        assert!(signal.can_wake());
        kept.pop();
        assert!(!signal.can_wake());
    }

    #[test]
    fn own_waker_of_the_driver_does_not_count() {
        let signal = WakeSignal::new(Waker::noop());
        let uncounted = Waker::from(signal.clone());
        let mut handler = pin!(std::future::pending::<()>());
        assert_eq!(signal.poll_if_woken(handler.as_mut()), Some(Poll::Pending));
        assert!(!signal.can_wake());
        assert_eq!(signal.poll_if_woken(handler.as_mut()), None);
        uncounted.wake();
        assert!(signal.can_wake());
        assert_eq!(signal.poll_if_woken(handler.as_mut()), Some(Poll::Pending));
    }

    #[test]
    fn watching_driver_is_woken_by_the_last_drop() {
        struct Parent(AtomicUsize);
        impl Wake for Parent {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let parent = Arc::new(Parent(AtomicUsize::new(0)));
        let signal = WakeSignal::new(&Waker::from(parent.clone()));
        let mut kept = None;
        let mut handler = pin!(poll_fn(|cx| {
            kept = Some(cx.waker().clone());
            Poll::<()>::Pending
        }));
        assert!(signal.poll_if_woken(handler.as_mut()).is_some());
        signal.watch();
        assert!(signal.can_wake());
        assert_eq!(parent.0.load(Ordering::SeqCst), 0);
        drop(kept.take());
        assert_eq!(parent.0.load(Ordering::SeqCst), 1);
        assert!(!signal.can_wake());
    }
}
