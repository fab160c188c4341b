//! Changes at a server, as a stream.
//!
//! How the server is made to report them depends on the era, see `era`.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use indexmap::IndexSet;
use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::resources::{Unsubscribe, UriParams};
use tsugite_core::protocol::subscriptions::SubscriptionFilter;

use super::Client;
use super::call::TypedRequest;
use super::client_error::{ClientError, ErrorKind, Result};
use super::client_handler::{self, Change};
use super::forwarded_request::RequestIdObserver;
use super::options::Options;
use crate::lock::lock;

/// The changes to report.
///
/// ```
/// use tsugite::client::ChangeFilter;
///
/// let watch = ChangeFilter::new().tools().resource("file:///notes.txt");
/// # let _ = watch;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeFilter {
    /// The list of tools.
    pub tools: bool,
    /// The list of prompts.
    pub prompts: bool,
    /// The lists of resources and templates.
    pub resources: bool,
    /// The contents of these resources.
    pub uris: Vec<String>,
}

impl ChangeFilter {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// All three lists.
    pub fn lists() -> Self {
        Self::new().tools().prompts().resources()
    }

    /// The list of tools.
    #[must_use]
    pub fn tools(mut self) -> Self {
        self.tools = true;
        self
    }

    /// The list of prompts.
    #[must_use]
    pub fn prompts(mut self) -> Self {
        self.prompts = true;
        self
    }

    /// The lists of resources and templates.
    #[must_use]
    pub fn resources(mut self) -> Self {
        self.resources = true;
        self
    }

    /// Adds the contents of a resource.
    #[must_use]
    pub fn resource(mut self, uri: impl Into<String>) -> Self {
        self.uris.push(uri.into());
        self
    }

    fn matches(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            Change::Resource { uri } => self.uris.iter().any(|watched| uri.starts_with(watched)),
            Change::ElicitationComplete { .. } => false,
            Change::All => true,
        }
    }

    pub(super) fn to_listen_filter(&self) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::new();
        if self.tools {
            filter = filter.tools_list_changed(true);
        }
        if self.prompts {
            filter = filter.prompts_list_changed(true);
        }
        if self.resources {
            filter = filter.resources_list_changed(true);
        }
        if !self.uris.is_empty() {
            filter = filter.resource_subscriptions(self.uris.clone());
        }
        filter
    }
}

/// The changes of one server as a stream. Dropping it ends the subscription.
///
/// A change that is queued already is not queued again, so the filter limits the size of the queue.
pub struct Subscription {
    pub(super) client: Client,
    pub(super) queue: Arc<SubscriptionQueue>,
    /// The task that keeps a listen stream open, in the stateless era.
    pub(super) task: Option<AbortHandle>,
    /// The resources subscribed to, in the handshake era.
    pub(super) uris: Vec<String>,
}

impl Subscription {
    /// Waits for the next change. `None` when the client was closed.
    ///
    /// After an interruption in which changes may have been missed this is [`Change::All`]. Nothing follows an error.
    pub async fn next(&mut self) -> Option<Result<Change>> {
        poll_fn(|cx| self.queue.poll(cx)).await
    }
}

impl Stream for Subscription {
    type Item = Result<Change>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Change>>> {
        self.queue.poll(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        let last: Vec<String> = {
            let mut watched = lock(&self.client.inner.resource_subscriptions);
            let mut removed = Vec::new();
            for uri in &self.uris {
                if let Some(count) = watched.get_mut(uri) {
                    *count -= 1;
                    if *count == 0 {
                        watched.remove(uri);
                        removed.push(uri.clone());
                    }
                }
            }
            removed
        };
        // A lost connection has no subscriptions to end, and is not opened again for this.
        let connection = self
            .client
            .last_connection()
            .filter(|connection| connection.disconnect_reason().is_none() && !last.is_empty());
        if let (Some(connection), Ok(runtime)) = (connection, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                for uri in last {
                    let params = UriParams::new(uri);
                    let _ = connection
                        .call(&TypedRequest::<Unsubscribe>::new(&params), &Options::default())
                        .await;
                }
            });
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("filter", &self.queue.filter).finish_non_exhaustive()
    }
}

impl Client {
    /// Subscribes to changes at the server, on every revision. Returns when the subscription has begun.
    ///
    /// ```
    /// use tsugite::client::{Change, Client, ChangeFilter};
    /// use tsugite::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::Result<()> {
    /// let server = Server::new("growing", "1.0.0").tool(Tool::new("one").handler(async || 1));
    /// let client = Client::in_process(&server).await?;
    /// let mut changes = client.listen(ChangeFilter::new().tools()).await?;
    /// server.add(Tool::new("two").handler(async || 2))?;
    /// assert_eq!(changes.next().await.unwrap()?, Change::Tools);
    /// # Ok(()) }
    /// ```
    pub async fn listen(&self, filter: ChangeFilter) -> Result<Subscription> {
        let queue = Arc::new(SubscriptionQueue::new(filter.clone(), None));
        let connection = self.connection().await?;
        self.inner.shared.add_subscription(&queue);
        let mut subscription =
            Subscription { client: self.clone(), queue: Arc::clone(&queue), task: None, uris: Vec::new() };
        connection.era().subscribe(&mut subscription, filter).await?;
        Ok(subscription)
    }
}

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
    pub(super) fn acknowledge(&self, id: &Id<'_>) {
        if self.has_subscription_id(id) {
            let mut state = lock(&self.state);
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

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Change>>> {
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

/// Resources subscribed to, and by how many subscriptions.
pub(super) type SubscriptionCounts = HashMap<String, usize>;

/// Changes that may be queued.
const MAX_QUEUED_CHANGES: usize = 1_024;
