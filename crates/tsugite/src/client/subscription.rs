//! Changes at a server, as a stream.
//!
//! How the server is made to report them depends on the era, see `era`.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::resources::{Unsubscribe, UriParams};

use super::Client;
use super::call::TypedRequest;
use super::change_filter::ChangeFilter;
use super::client_error::Result;
use super::client_handler::Change;
use super::options::Options;
use super::subscription_queue::SubscriptionQueue;
use crate::lock::lock;

/// The changes of one server as a stream. Dropping it ends the subscription.
///
/// A change that is queued already is not queued again, so the filter limits the size of the queue.
#[doc(alias("subscriptions/listen", "notifications"))]
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

impl Subscription {
    /// The part of the filter that the server reports (from 2026-07-28). `None` up to 2025-11-25, where a server does not
    /// say.
    pub fn acknowledged(&self) -> Option<ChangeFilter> {
        lock(&self.queue.state).granted.clone()
    }
}

/// Identifies the listen request that reports the changes of a subscription, also after it is opened again.
pub(crate) struct SubscriptionSource(Arc<SubscriptionQueue>);

impl SubscriptionSource {
    /// Whether the listen request has this id.
    pub(crate) fn has_id(&self, id: i64) -> bool {
        self.0.has_subscription_id(&Id::from(id))
    }
}

impl Subscription {
    pub(crate) fn source(&self) -> SubscriptionSource {
        SubscriptionSource(Arc::clone(&self.queue))
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

/// Resources subscribed to, and by how many subscriptions.
pub(super) type SubscriptionCounts = HashMap<String, usize>;
