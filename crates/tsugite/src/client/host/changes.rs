//! The changes in the lists of all servers of a host, as one stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use indexmap::IndexSet;
use tokio::task::AbortHandle;

use super::Host;
use crate::client::{Change, ChangeFilter, Client};
use crate::lock::lock;

/// The changes of all servers of a host. Yields `None` after the host was closed.
///
/// A change that is queued already is not queued again.
pub struct HostChanges {
    /// Keeps the host, and with it its clients, alive.
    _host: Host,
    feed: Arc<HostChangeFeed>,
}

/// A change of one of the servers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ServerChange {
    /// The name of the server.
    pub server: String,
    /// The change.
    pub change: Change,
}

impl HostChanges {
    pub(super) fn new(host: Host, feed: Arc<HostChangeFeed>) -> Self {
        Self { _host: host, feed }
    }

    /// Waits for the next change.
    pub async fn next(&mut self) -> Option<ServerChange> {
        poll_fn(|cx| self.feed.poll(cx)).await
    }

    /// Waits until every current server has either accepted or rejected its subscription.
    pub async fn ready(&self) {
        poll_fn(|cx| self.feed.poll_ready(cx)).await;
    }
}

impl Stream for HostChanges {
    type Item = ServerChange;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServerChange>> {
        self.feed.poll(cx)
    }
}

/// Collects the changes of all servers.
#[derive(Default)]
pub(super) struct HostChangeFeed {
    state: Mutex<HostChangeState>,
}

#[derive(Default)]
struct HostChangeState {
    changes: IndexSet<ServerChange>,
    /// Servers whose subscription is neither accepted nor rejected yet.
    pending_servers: usize,
    closed: bool,
    waker: Option<Waker>,
    ready_wakers: Vec<Waker>,
    tasks: Vec<AbortHandle>,
}

impl HostChangeFeed {
    /// Subscribes to the changes of a server.
    pub(super) fn add_server(self: &Arc<Self>, name: &str, client: &Client) {
        lock(&self.state).pending_servers += 1;
        let (feed, name, client) = (Arc::downgrade(self), name.to_owned(), client.clone());
        let task = tokio::spawn(async move {
            let subscription = client.listen(ChangeFilter::lists()).await;
            if let Some(feed) = feed.upgrade() {
                feed.mark_server_ready();
            }
            let mut subscription = match subscription {
                Ok(subscription) => subscription,
                Err(error) => return tracing::debug!(server = name, %error, "cannot subscribe to changes"),
            };
            // The subscription keeps the client alive until the host drops the feed.
            drop(client);
            while let Some(change) = subscription.next().await {
                let Some(feed) = feed.upgrade() else { return };
                match change {
                    Ok(change) => feed.push(ServerChange { server: name.clone(), change }),
                    Err(error) => {
                        return tracing::debug!(server = name, %error, "the subscription to changes has ended");
                    }
                }
            }
        });
        lock(&self.state).tasks.push(task.abort_handle());
    }

    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        wake(state);
    }

    fn push(&self, changed: ServerChange) {
        let mut state = lock(&self.state);
        if state.changes.len() >= MAX_QUEUED_CHANGES {
            let server = changed.server.clone();
            state.changes.retain(|kept| kept.server != server);
            state.changes.insert(ServerChange { server, change: Change::All });
        }
        state.changes.insert(changed);
        wake(state);
    }

    fn mark_server_ready(&self) {
        let mut state = lock(&self.state);
        state.pending_servers -= 1;
        if state.pending_servers == 0 {
            for waker in std::mem::take(&mut state.ready_wakers) {
                waker.wake();
            }
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<ServerChange>> {
        let mut state = lock(&self.state);
        if let Some(changed) = state.changes.shift_remove_index(0) {
            return Poll::Ready(Some(changed));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.pending_servers == 0 || state.closed {
            return Poll::Ready(());
        }
        state.ready_wakers.push(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for HostChangeFeed {
    fn drop(&mut self) {
        for task in lock(&self.state).tasks.drain(..) {
            task.abort();
        }
    }
}

fn wake(mut state: std::sync::MutexGuard<'_, HostChangeState>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The number of changes that may be queued.
const MAX_QUEUED_CHANGES: usize = 1_024;
