//! The queue between the messages of a server and a subscription.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use indexmap::IndexSet;
use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::subscriptions::SubscriptionFilter;

use super::change_filter::ChangeFilter;
use super::client_error::{ClientError, ErrorKind, Result};
use super::client_handler::{self, Change};
use super::request_id_observer::RequestIdObserver;
use crate::lock::lock;
use crate::shared::log;

/// The changes of one subscription that were not taken yet.
pub(super) struct SubscriptionQueue {
    pub(super) filter: ChangeFilter,
    /// The id of the listen request that fills it, in the stateless era.
    subscription_id: AtomicI64,
    /// Is called for each change, in place of the queue.
    callback: Option<Arc<dyn Fn(Change) + Send + Sync>>,
    pub(super) state: Mutex<SubscriptionState>,
}

impl RequestIdObserver for SubscriptionQueue {
    fn on_request_id(&self, id: i64) {
        self.subscription_id.store(id, Ordering::Release);
    }
}

/// The queued changes, and the state of the server's stream.
#[derive(Default)]
pub(super) struct SubscriptionState {
    changes: IndexSet<Change>,
    error: Option<ClientError>,
    closed: bool,
    /// Whether the server has acknowledged the subscription at least once.
    pub(super) established: bool,
    pub(super) acknowledged: Option<()>,
    /// The part of the filter that the server granted, in the stateless era.
    pub(super) granted: Option<ChangeFilter>,
    waker: Option<Waker>,
}

impl SubscriptionQueue {
    pub(super) fn new(filter: ChangeFilter, callback: Option<Arc<dyn Fn(Change) + Send + Sync>>) -> Self {
        Self { filter, subscription_id: AtomicI64::new(0), callback, state: Mutex::default() }
    }

    /// Adds a change, if it is for this subscription and in its filter.
    pub(super) fn push(&self, change: &Change, subscription: Option<i64>) {
        let is_own = subscription.is_none_or(|id| self.subscription_id.load(Ordering::Acquire) == id);
        if is_own && self.filter.matches(change) {
            self.enqueue(change.clone());
        }
    }

    pub(super) fn enqueue(&self, change: Change) {
        if let Some(callback) = &self.callback {
            return client_handler::invoke_callback(&**callback, change);
        }
        let mut state = lock(&self.state);
        if state.changes.len() >= MAX_QUEUED_CHANGES {
            state.changes.clear();
            state.changes.insert(Change::All);
        }
        state.changes.insert(change);
        wake(state);
    }

    /// Whether this is the listen request that fills it.
    pub(super) fn has_subscription_id(&self, id: &Id<'_>) -> bool {
        id.as_i64() == Some(self.subscription_id.load(Ordering::Acquire))
    }

    /// Records that the server has acknowledged the listen request.
    pub(super) fn acknowledge(&self, id: &Id<'_>, granted: Option<&SubscriptionFilter>, warns: bool) {
        if self.has_subscription_id(id) {
            let granted = granted.map(|granted| self.filter.granted(granted));
            if let Some(granted) = granted
                .as_ref()
                .filter(|granted| **granted != self.filter && self.callback.is_none() && warns)
            {
                log::warn!(requested = ?self.filter, ?granted, "the server reports only some of the changes");
            }
            let mut state = lock(&self.state);
            state.granted = granted;
            state.established = true;
            state.acknowledged = Some(());
            wake(state);
        }
    }

    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        wake(state);
    }

    pub(super) fn fail(&self, error: ClientError) {
        let mut state = lock(&self.state);
        state.error = Some(error);
        state.closed = true;
        wake(state);
    }

    /// Takes the next change; `None` when the queue is closed.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Change>>> {
        let mut state = lock(&self.state);
        if let Some(change) = state.changes.shift_remove_index(0) {
            return Poll::Ready(Some(Ok(change)));
        }
        if let Some(error) = state.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut state = lock(&self.state);
        if state.established {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = state.error.take() {
            return Poll::Ready(Err(error));
        }
        if state.closed {
            return Poll::Ready(Err(ErrorKind::Closed.into()));
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

fn wake(mut state: std::sync::MutexGuard<'_, SubscriptionState>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Changes that may be queued.
const MAX_QUEUED_CHANGES: usize = 1_024;
