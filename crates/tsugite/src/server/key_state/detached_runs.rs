//! The calls with a key that go on although their connection was lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::lock::lock;
use crate::server::cancellation::CancellationToken;

/// The calls of one server that go on without their connection.
#[derive(Default)]
pub(crate) struct DetachedRuns {
    runs: Mutex<NumberedRuns>,
    ended: Notify,
}

#[derive(Default)]
struct NumberedRuns {
    last: u64,
    cancellations: HashMap<u64, CancellationToken>,
}

/// One of these calls, until it is dropped.
pub(crate) struct DetachedRun {
    runs: Arc<DetachedRuns>,
    number: u64,
}

impl DetachedRuns {
    pub(crate) fn begin(self: &Arc<Self>, cancellation: CancellationToken) -> DetachedRun {
        let mut runs = lock(&self.runs);
        runs.last += 1;
        let number = runs.last;
        runs.cancellations.insert(number, cancellation);
        DetachedRun { runs: self.clone(), number }
    }

    /// Waits until no call runs like this.
    pub(crate) async fn wait_until_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if lock(&self.runs).cancellations.is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Cancels all of them.
    pub(crate) fn cancel(&self) {
        lock(&self.runs).cancellations.values().for_each(CancellationToken::cancel);
    }
}

impl Drop for DetachedRun {
    fn drop(&mut self) {
        lock(&self.runs.runs).cancellations.remove(&self.number);
        self.runs.ended.notify_waiters();
    }
}
