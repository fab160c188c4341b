//! The cancellation token of a request.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::shared::cancel_reason::CancelReason;

/// The cancellation token of one request.
#[derive(Clone, Default)]
pub struct CancellationToken(Arc<CancellationState>);

#[derive(Default)]
struct CancellationState {
    cancelled: AtomicBool,
    notify: Notify,
    reason: CancelReason,
}

impl CancellationToken {
    /// Whether the request was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// The reason that the client gave, if it cancelled the request and gave one.
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.get()
    }

    /// Waits until the request is cancelled.
    pub async fn cancelled(&self) {
        loop {
            let notified = self.0.notify.notified();
            if self.is_cancelled() {
                return;
            }
            notified.await;
        }
    }

    /// Cancels the request for the reason that the client gave.
    pub(crate) fn cancel_for(&self, reason: Option<String>) {
        self.0.reason.set(reason);
        self.cancel();
    }

    pub(crate) fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancelled({})", self.is_cancelled())
    }
}
