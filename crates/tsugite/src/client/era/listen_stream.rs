//! Keeps a `subscriptions/listen` stream open for a subscription: sends it again, with backoff, when it breaks.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tsugite_core::protocol::Method;
use tsugite_core::protocol::subscriptions::{Listen, ListenParams, SubscriptionFilter};

use crate::client::call::TypedRequest;
use crate::client::change_filter::ChangeFilter;
use crate::client::client_error::{ClientError, ErrorKind, Result};
use crate::client::client_handler::Change;
use crate::client::connection::ClientConnection;
use crate::client::options::Options;
use crate::client::request_id_observer::RequestIdObserver;
use crate::client::subscription_queue::SubscriptionQueue;
use crate::client::{Client, WeakClient};
use crate::lock::lock;

/// Starts a task that fills `queue` until it is aborted, the client is gone or the server refuses.
pub(super) fn spawn(client: &Client, queue: &Arc<SubscriptionQueue>) -> AbortHandle {
    tokio::spawn(listen_with_retry(client.downgrade(), Arc::clone(queue))).abort_handle()
}

/// Opens the stream of the client's change handler: every list whose changes the server reports. `None` without a
/// handler, or if the server reports none.
pub(super) fn listen_for_handler(client: &Client, connection: &ClientConnection) -> Option<AbortHandle> {
    let on_change = client.inner.shared.settings.handlers.change.clone()?;
    let reports = |list_changed: Option<bool>| list_changed == Some(true);
    let filter = match &connection.negotiated()?.capabilities {
        Some(capabilities) => ChangeFilter {
            tools: capabilities.tools.as_ref().is_some_and(|list| reports(list.list_changed)),
            prompts: capabilities.prompts.as_ref().is_some_and(|list| reports(list.list_changed)),
            resources: capabilities.resources.as_ref().is_some_and(|list| reports(list.list_changed)),
            uris: Vec::new(),
        },
        // The capabilities are unknown: the server acknowledges the part of the filter that it supports.
        None => ChangeFilter::lists(),
    };
    if filter == ChangeFilter::new() {
        return None;
    }
    let queue = Arc::new(SubscriptionQueue::new(filter, Some(on_change)));
    client.inner.shared.add_subscription(&queue);
    Some(spawn(client, &queue))
}

/// Sends `subscriptions/listen` again and again, until the client is gone or the server refuses.
async fn listen_with_retry(client: WeakClient, queue: Arc<SubscriptionQueue>) {
    let mut failures = 0;
    loop {
        let Some(client) = client.upgrade() else { return queue.close() };
        let was_established = lock(&queue.state).established;
        let connection = client.connection().await;
        // The stream keeps the connection alive, not the client: dropping the client ends both.
        drop(client);
        let result = match connection {
            Ok(connection) => {
                let params = ListenParams::new(queue.filter.to_listen_filter());
                let observer = Arc::clone(&queue) as Arc<dyn RequestIdObserver>;
                listen_once(&connection, &params, observer).await
            }
            Err(error) => Err(error),
        };
        // Without an error the server has ended the stream: it may be restarting.
        let error = result.err();
        let acknowledged = lock(&queue.state).acknowledged.take().is_some();
        if acknowledged {
            failures = 0;
        }
        failures += 1;
        let permanent = error.as_ref().is_some_and(is_permanent);
        if permanent || failures > MAX_ATTEMPTS || !(was_established || acknowledged) {
            let error = error.unwrap_or_else(|| {
                ErrorKind::ConnectionLost {
                    may_have_run: false,
                    reason: "the server ended the subscription".to_owned(),
                }
                .into()
            });
            return queue.fail(error);
        }
        tokio::time::sleep(backoff(failures)).await;
        queue.enqueue(Change::All);
    }
}

async fn listen_once(
    connection: &Arc<ClientConnection>,
    params: &ListenParams,
    request_id_observer: Arc<dyn RequestIdObserver>,
) -> Result<()> {
    let options = Options {
        idle_timeout: Some(Duration::MAX),
        total_timeout: Some(Duration::MAX),
        request_id_observer: Some(request_id_observer),
        ..Options::default()
    };
    match connection.call(&TypedRequest::<Listen>::new(params), &options).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(ClientError::from_error_response(error, Listen::NAME, connection.revision())),
        Err(error) => Err(error.into()),
    }
}

/// Whether the server refuses, so that another attempt would fail, too.
fn is_permanent(error: &ClientError) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::ConnectionLost { .. } | ErrorKind::Connect { .. } | ErrorKind::Status { .. }
    )
}

/// A stream on which the server reports changes of a task. Dropping it ends the stream.
#[derive(Default)]
pub(in crate::client) struct TaskListener(Option<AbortHandle>);

impl Drop for TaskListener {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Opens a stream for the changes of a task. It is opened again if the connection is lost, and not if the server refuses.
pub(super) fn listen_for_task(client: &Client, id: &str) -> TaskListener {
    // It takes no changes: it only learns that the server has acknowledged the stream.
    let queue = Arc::new(SubscriptionQueue::new(ChangeFilter::new(), None));
    client.inner.shared.add_subscription(&queue);
    let (client, params) =
        (client.downgrade(), ListenParams::new(SubscriptionFilter::new().task_ids([id.to_owned()])));
    let task = tokio::spawn(async move {
        let mut failures = 0;
        while failures < MAX_ATTEMPTS {
            let Some(client) = client.upgrade() else { return };
            let connection = client.connection().await;
            drop(client);
            let result = match connection {
                Ok(connection) => {
                    let observer = Arc::clone(&queue) as Arc<dyn RequestIdObserver>;
                    listen_once(&connection, &params, observer).await
                }
                Err(error) => Err(error),
            };
            if result.is_err_and(|error| is_permanent(&error)) {
                return;
            }
            if lock(&queue.state).acknowledged.take().is_some() {
                failures = 0;
            }
            failures += 1;
            tokio::time::sleep(backoff(failures)).await;
        }
    });
    TaskListener(Some(task.abort_handle()))
}

/// The delay before the next attempt: doubles with each failure, up to 30 seconds.
fn backoff(failures: u32) -> Duration {
    Duration::from_millis(250).saturating_mul(1 << failures.min(7)).min(Duration::from_secs(30))
}

/// Streams in a row that may break before they are acknowledged.
const MAX_ATTEMPTS: u32 = 10;
