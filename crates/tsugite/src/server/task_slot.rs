//! The place of a task in the state of a call: whether the call may become one, and which one it is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::logging::Level;

use super::caller_key::CallerKey;
use super::task_state::{RunningTask, StoredCaller};

/// Whether a call may become a task, and which task it is.
#[derive(Default)]
pub(crate) struct TaskSlot {
    /// Boxed, because most calls have none.
    offer: OnceLock<Box<TaskOffer>>,
    running: OnceLock<Arc<RunningTask>>,
    /// The handler wants the call to become a task.
    is_wanted: AtomicBool,
    /// No task could be created, so the call goes on as it is; or the call has ended.
    is_refused: AtomicBool,
    decided: Notify,
    uses_headers: AtomicBool,
}

/// A call that may become a task, as it is stored then.
pub(crate) struct TaskOffer {
    /// The name that the client called.
    pub(crate) tool: String,
    /// The scopes that the tool needs.
    pub(crate) scopes: Vec<String>,
    pub(crate) params: RawJson,
    pub(crate) caller: Option<StoredCaller>,
    /// The caller whose limits the task counts against.
    pub(crate) counted_for: Option<CallerKey>,
    /// The params of the handshake and the log level, where there is a handshake.
    pub(crate) handshake: Option<(RawJson, Level)>,
    /// How long the client wants the task to be kept.
    pub(crate) requested_ttl: Option<Duration>,
    /// Whether the handler may run again from the start at any time.
    pub(crate) is_restartable: bool,
    /// Whether the handler may run again while it waits for an answer.
    pub(crate) keeps_questions: bool,
    /// After which time the call becomes a task by itself.
    pub(crate) after: Option<Duration>,
}

impl TaskSlot {
    /// Lets the call become a task.
    pub(crate) fn set_offer(&self, offer: TaskOffer) {
        drop(self.offer.set(Box::new(offer)));
    }

    /// The offer, unless the call is a task or cannot become one.
    pub(crate) fn open_offer(&self) -> Option<&TaskOffer> {
        let is_open = self.running.get().is_none() && !self.is_refused.load(Ordering::Acquire);
        self.offer().filter(|_| is_open)
    }

    pub(crate) fn offer(&self) -> Option<&TaskOffer> {
        self.offer.get().map(|offer| &**offer)
    }

    /// The task that the call is.
    pub(crate) fn running(&self) -> Option<&Arc<RunningTask>> {
        self.running.get()
    }

    /// Makes the call a task.
    pub(crate) fn set_running(&self, task: Arc<RunningTask>) {
        drop(self.running.set(task));
        self.decided.notify_waiters();
    }

    /// Whether the handler wants the call to become a task, and it can.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire) && self.open_offer().is_some()
    }

    pub(super) fn want(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Lets the call go on without a task, or says that it has ended.
    pub(crate) fn refuse(&self) {
        self.is_refused.store(true, Ordering::Release);
        self.decided.notify_waiters();
    }

    /// Waits until the call is a task, or cannot become one.
    pub(super) async fn wait_until_decided(&self) {
        loop {
            let decided = self.decided.notified();
            if self.open_offer().is_none() {
                return;
            }
            decided.await;
        }
    }

    /// Waits until the call has ended, which is a task.
    pub(super) async fn wait_until_ended(&self) {
        loop {
            let decided = self.decided.notified();
            if self.is_refused.load(Ordering::Acquire) {
                return;
            }
            decided.await;
        }
    }

    /// Records that the handler reads the headers of its request, which no record holds.
    pub(crate) fn mark_headers_used(&self) {
        self.uses_headers.store(true, Ordering::Release);
    }

    /// Whether the handler may run again in another process, while it waits for nothing but answers or at any time.
    pub(crate) fn can_run_again(&self, is_waiting: bool) -> bool {
        let allows = |offer: &TaskOffer| offer.is_restartable || is_waiting && offer.keeps_questions;
        !self.uses_headers.load(Ordering::Acquire) && self.offer().is_some_and(allows)
    }
}
