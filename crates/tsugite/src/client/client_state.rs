//! The state of a client that outlives a single connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Semaphore;
use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::subscriptions::SubscriptionFilter;

use super::cache::Cache;
use super::client_error::{ClientError, truncate};
use super::client_handler::{self, Change};
use super::client_settings::{ClientSettings, Direction};
use super::pausable_clock::PausableClock;
use super::subscription_queue::SubscriptionQueue;
use super::task_watch::TaskWatches;
use super::tool_metadata::ToolMetadataCache;
use crate::lock::lock;
use crate::shared::log;

/// The settings, caches and subscriptions of one client.
pub(super) struct ClientState {
    pub(super) settings: ClientSettings,
    pub(super) cache: Cache,
    pub(super) tools: ToolMetadataCache,
    /// The clock of timeouts that do not belong to a call.
    pub(super) clock: Arc<PausableClock>,
    /// The tasks that are followed.
    pub(super) task_watches: TaskWatches,
    /// Permits for requests for a task that have no caller any more.
    pub(super) abandoned_requests: Semaphore,
    subscription_queues: Mutex<Vec<Weak<SubscriptionQueue>>>,
    /// The number of received lines and bodies that were not messages.
    invalid_message_count: AtomicU64,
}

impl ClientState {
    pub(super) fn new(settings: ClientSettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            cache: Cache::default(),
            tools: ToolMetadataCache::default(),
            clock: Arc::default(),
            task_watches: TaskWatches::default(),
            abandoned_requests: Semaphore::new(MAX_ABANDONED_REQUESTS),
            subscription_queues: Mutex::default(),
            invalid_message_count: AtomicU64::new(0),
        })
    }

    /// Registers a subscription.
    pub(super) fn add_subscription(&self, queue: &Arc<SubscriptionQueue>) {
        let mut queues = lock(&self.subscription_queues);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(queue));
    }

    /// Reports a change to the caches, to the subscriptions (to one of them, if `subscription` names it) and, if the
    /// server pushes changes, to the handler.
    pub(super) fn notify_change(&self, change: Change, subscription: Option<i64>, pushed: bool) {
        self.cache.invalidate(&change);
        if matches!(change, Change::Tools | Change::All) {
            self.tools.invalidate();
        }
        let queues: Vec<_> = lock(&self.subscription_queues).iter().filter_map(Weak::upgrade).collect();
        for queue in queues {
            queue.push(&change, subscription);
        }
        // A server that does not push changes sends them to a subscription of the handler's own.
        if pushed && let Some(callback) = &self.settings.handlers.change {
            client_handler::invoke_callback(&**callback, change);
        }
    }

    /// Marks a subscription as acknowledged by the server.
    pub(super) fn acknowledge_subscription(&self, id: &Id<'_>, granted: Option<SubscriptionFilter>) {
        let queues: Vec<_> = lock(&self.subscription_queues).iter().filter_map(Weak::upgrade).collect();
        for queue in queues {
            // A bridge asks for all that its clients might want.
            queue.acknowledge(id, granted.as_ref(), self.settings.observer.is_none());
        }
    }

    /// Whether the request with this id is a subscription.
    pub(super) fn is_subscription(&self, id: &Id<'_>) -> bool {
        lock(&self.subscription_queues)
            .iter()
            .filter_map(Weak::upgrade)
            .any(|queue| queue.has_subscription_id(id))
    }

    /// Whether a subscription or the change handler waits for changes.
    pub(super) fn has_listeners(&self) -> bool {
        self.settings.handlers.change.is_some()
            || lock(&self.subscription_queues).iter().any(|queue| queue.strong_count() > 0)
    }

    /// Ends every subscription with an error.
    pub(super) fn fail_subscriptions(&self, error: &ClientError) {
        let queues: Vec<_> =
            lock(&self.subscription_queues).drain(..).filter_map(|queue| queue.upgrade()).collect();
        for queue in queues {
            queue.fail(error.clone());
        }
    }

    /// Ends every subscription.
    pub(super) fn close_subscriptions(&self) {
        let queues: Vec<_> =
            lock(&self.subscription_queues).drain(..).filter_map(|queue| queue.upgrade()).collect();
        for queue in queues {
            queue.close();
        }
    }

    /// Reports sent and received bytes to the wire callback.
    pub(super) fn trace_message(&self, direction: Direction, bytes: &[u8]) {
        if let Some(callback) = &self.settings.on_wire {
            let message = String::from_utf8_lossy(bytes);
            client_handler::invoke_callback(&|()| callback(direction, message.trim_end()), ());
        }
    }

    /// Logs received bytes that are not a message.
    pub(super) fn report_invalid_message(&self, bytes: &[u8], parse_error: &str) {
        let text = String::from_utf8_lossy(bytes.get(..MAX_EXCERPT_BYTES).unwrap_or(bytes));
        let line = truncate(&text, MAX_EXCERPT_BYTES);
        match self.invalid_message_count.fetch_add(1, Ordering::Relaxed) {
            ..MAX_INVALID_WARNINGS => {
                log::warn!(parse_error, line, "the server sent a line or body that is not a message")
            }
            MAX_INVALID_WARNINGS => {
                log::warn!(
                    "the server keeps sending what is not a message; the rest is logged at debug level"
                )
            }
            _ => tracing::debug!(parse_error, line, "the server sent a line or body that is not a message"),
        }
    }
}

/// Warnings about invalid messages before they are logged at debug level.
const MAX_INVALID_WARNINGS: u64 = 10;

/// Requests for a task that have no caller any more and are still waited for.
const MAX_ABANDONED_REQUESTS: usize = 100;

/// Bytes of an invalid message that are logged.
const MAX_EXCERPT_BYTES: usize = 200;
