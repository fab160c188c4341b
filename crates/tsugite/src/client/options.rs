//! The options of one call.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tsugite_core::protocol::Meta;
use tsugite_core::session::call_timer::Timeouts;

use super::cache::Caching;
use super::client_error::ClientError;
use super::client_settings::ClientSettings;
use super::key_age::KeyAge;
use super::pending_calls::ProgressCallback;
use super::request_id_observer::RequestIdObserver;
use super::task_options::TaskOptions;
use super::task_progress::KeptToken;
use crate::lock::lock;
use crate::shared::failure_causes::FailureCause;

/// The options of one call.
#[derive(Clone, Default)]
pub(super) struct Options {
    pub(super) idle_timeout: Option<Duration>,
    pub(super) total_timeout: Option<Duration>,
    pub(super) on_progress: Option<ProgressCallback>,
    /// Whether to ask for progress even without a callback, because progress extends the idle timeout.
    pub(super) request_progress: bool,
    pub(super) headers: Vec<(String, String)>,
    pub(super) meta: Option<Meta>,
    pub(super) caching: Caching,
    /// Whether the caller declared that running the call twice is safe.
    pub(super) idempotent: bool,
    /// When the call got its key, if it may be sent again as long as the server recognizes the key.
    pub(super) keyed_since: Option<KeyAge>,
    /// Whether the request only checks that the server responds. It does not wait while all connections are in use.
    pub(super) checks_liveness: bool,
    /// Counts the bytes of results, of the server or from the cache.
    pub(super) result_bytes: Option<Arc<AtomicUsize>>,
    /// The connection that the cursors of a list belong to.
    pub(super) list_connection: Option<ListConnection>,
    /// Receives the id before the request is sent.
    pub(super) request_id_observer: Option<Arc<dyn RequestIdObserver>>,
    /// The options for the task that the call may become.
    pub(super) task: Option<Box<TaskOptions>>,
    /// Receives the error of a request for a task that times out; its outcome is still waited for.
    pub(super) timeout_sender: Option<UnboundedSender<ClientError>>,
    /// Keeps the progress token of a call that asks for a task.
    pub(super) task_token: Option<Arc<KeptToken>>,
    /// Receives the error of a handler in the same process.
    pub(super) failure_cause: Option<FailureCauseSlot>,
}

/// The error of the handler of one call in the same process.
#[derive(Clone, Default)]
pub(super) struct FailureCauseSlot(Arc<Mutex<Option<FailureCause>>>);

impl FailureCauseSlot {
    pub(super) fn set(&self, cause: Option<FailureCause>) {
        *lock(&self.0) = cause;
    }

    pub(super) fn take(&self) -> Option<FailureCause> {
        lock(&self.0).take()
    }
}

/// The connection that the pages of a list come from.
#[derive(Clone, Default)]
pub(super) struct ListConnection(Arc<Mutex<Option<AnyConnection>>>);

/// Tells connections apart, also after their end.
type AnyConnection = Weak<dyn Any + Send + Sync>;

impl ListConnection {
    /// Records the connection that a page came from.
    pub(super) fn record(&self, connection: AnyConnection) {
        *lock(&self.0) = Some(connection);
    }

    /// Whether the last page came from another connection.
    pub(super) fn differs_from(&self, connection: &AnyConnection) -> bool {
        lock(&self.0).as_ref().is_some_and(|last| !Weak::ptr_eq(last, connection))
    }
}

impl Options {
    pub(super) fn timeouts(&self, settings: &ClientSettings) -> Timeouts {
        let mut timeouts = settings.timeouts;
        if let Some(idle) = self.idle_timeout {
            timeouts.idle_timeout = idle;
            // A longer idle timeout also extends the total timeout, which could otherwise never be reached.
            timeouts.total_timeout = timeouts.total_timeout.map(|total| total.max(idle));
        }
        if self.total_timeout.is_some() {
            timeouts.total_timeout = self.total_timeout;
        }
        timeouts
    }

    /// Counts a result.
    pub(super) fn count_result(&self, bytes: usize) {
        if let Some(counter) = &self.result_bytes {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn wants_progress(&self) -> bool {
        self.request_progress || self.on_progress.is_some()
    }
}
