//! The handshake era, up to 2025-11-25: the server sends requests and pushes changes.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, RawJson, Request, write};
use tsugite_core::protocol::{EmptyParams, Method, ping, resources, roots};
use tsugite_core::revision::{Revision, RpcError};
use tsugite_core::session::inbound::CancelAction;

use crate::client::Client;
use crate::client::call::TypedRequest;
use crate::client::call_error::CallError;
use crate::client::change_filter::ChangeFilter;
use crate::client::client_error::{ClientError, Result};
use crate::client::connection::ClientConnection;
use crate::client::options::Options;
use crate::client::pending_calls::PendingCall;
use crate::client::server_requests;
use crate::client::subscription::Subscription;
use crate::client::transport::ServerReply;
use crate::client::upstream_observer::RequestSource;
use crate::lock::lock;
use crate::shared::cancel_reason::CancelReason;
use crate::shared::log;
use crate::shared::panic::CatchPanic;

/// Sends `notifications/cancelled`, over every transport.
pub(super) fn cancel(connection: &Arc<ClientConnection>, id: i64, reason: Option<String>) {
    connection.send_cancelled(id, reason);
}

/// Stops handling a request that the server has cancelled, for the reason it gave.
pub(super) fn handle_cancelled(connection: &ClientConnection, id: &Id<'static>, reason: Option<String>) {
    let mut requests = lock(&connection.inbound_requests);
    if requests.inbound.cancel(id) == CancelAction::Stop {
        requests.inbound.complete(id);
        if let Some((task, cancel_reason)) = requests.tasks.remove(id) {
            tracing::debug!(%id, reason = reason.as_deref(), "the server cancelled a request");
            cancel_reason.set(reason);
            task.abort();
        }
    }
}

/// Answers a request of the server in a task of its own.
pub(super) fn handle_request(
    connection: &Arc<ClientConnection>,
    request: &Request<'_>,
    via: Option<&Arc<PendingCall>>,
) {
    let revision = connection.revision();
    let id = request.id.clone().into_owned();
    if request.method == ping::Ping::NAME {
        let mut bytes = Vec::new();
        write::raw_result(&mut bytes, &id, &RawJson::empty_object());
        connection.send_response_detached(bytes);
        return;
    }
    let mut requests = lock(&connection.inbound_requests);
    if requests.inbound.begin(&id, &request.method).is_err() {
        drop(requests);
        let error =
            RpcError::InvalidRequest("too many requests in flight, or the request id is in use".into());
        connection.send_response_detached(encode_error(&id, &error, revision));
        return;
    }
    // A request that arrived on no call's stream may belong to any call, so all of their timers pause.
    let paused: Vec<_> = match via {
        Some(call) => vec![call.pause_timer()],
        None => connection.calls.all().iter().map(PendingCall::pause_timer).collect(),
    };
    let (connection, method) = (Arc::clone(connection), request.method.clone().into_owned());
    let params = request.params().to_owned();
    let (request_id, call) = (id.clone(), via.map(|call| call.id()));
    let cancel_reason = CancelReason::default();
    let source = RequestSource { call, cancel_reason: cancel_reason.clone() };
    let task = tokio::spawn(async move {
        let bytes = answer(&connection, &request_id, &method, params, source).await;
        drop(paused);
        // It stays open until its response is sent: a server that reads no responses cannot pile them up here.
        if let Err(error) = connection.send_message(bytes).await {
            log::warn!(error = %ClientError::from(error), method, "cannot send a response");
        }
        let mut requests = lock(&connection.inbound_requests);
        requests.tasks.remove(&request_id);
        requests.inbound.complete(&request_id);
    });
    if requests.inbound.is_open(&id) {
        requests.tasks.insert(id, (task.abort_handle(), cancel_reason));
    }
}

/// The response to a request of the server, encoded. A handler that panics gives an internal error.
async fn answer(
    connection: &ClientConnection,
    id: &Id<'static>,
    method: &str,
    params: RawJson,
    source: RequestSource,
) -> Vec<u8> {
    let (revision, settings) = (connection.revision(), &connection.shared.settings);
    let outcome = match &settings.observer {
        Some(observer) => CatchPanic::new(observer.on_request(method.to_owned(), params, source)).await,
        None => {
            let answer =
                server_requests::handle_server_request(&settings.handlers, method, &params, revision);
            let outcome = CatchPanic::new(Box::pin(answer)).await;
            outcome.map(|answer| answer.map_err(|error| error.to_error_object(revision)))
        }
    };
    let outcome = outcome.unwrap_or_else(|_| Err(RpcError::Internal.to_error_object(revision)));
    let mut bytes = Vec::new();
    match outcome {
        Ok(result) => write::raw_result(&mut bytes, id, &result),
        Err(error) => write::error(&mut bytes, Some(id), revision.writes_null_id(), &error),
    }
    bytes
}

fn encode_error(id: &Id<'_>, error: &RpcError, revision: Revision) -> Vec<u8> {
    let mut bytes = Vec::new();
    write::error(&mut bytes, Some(id), revision.writes_null_id(), &error.to_error_object(revision));
    bytes
}

/// Sends `resources/subscribe` for each resource that no other subscription watches. Changes of lists are pushed
/// anyway.
pub(super) async fn subscribe(subscription: &mut Subscription, filter: ChangeFilter) -> Result<()> {
    let client = subscription.client.clone();
    for uri in filter.uris {
        if !lock(&client.inner.resource_subscriptions).contains_key(&uri) {
            client.subscribe(uri.clone()).await?;
        }
        *lock(&client.inner.resource_subscriptions).entry(uri.clone()).or_insert(0) += 1;
        subscription.uris.push(uri);
    }
    Ok(())
}

/// Sends `resources/subscribe` again for every watched resource: a new connection knows none of them.
pub(super) async fn restore_subscriptions(client: &Client, connection: &Arc<ClientConnection>) {
    let uris: Vec<String> = lock(&client.inner.resource_subscriptions).keys().cloned().collect();
    for uri in uris {
        let params = resources::UriParams::new(uri);
        let request = TypedRequest::<resources::Subscribe>::new(&params);
        if let Err(error) = connection.call(&request, &Options::default()).await
            && !client.is_closed()
        {
            log::warn!(error = %ClientError::from(error), "cannot restore the subscription to a resource");
        }
    }
}

/// Sends `notifications/roots/list_changed`.
pub(super) async fn notify_roots_changed(connection: &Arc<ClientConnection>) -> Result<()> {
    connection.notify::<roots::ListChanged>(EmptyParams::new()).await
}

/// Sends `ping`.
pub(super) async fn ping(connection: &Arc<ClientConnection>) -> Result<ServerReply, CallError> {
    let options = Options { checks_liveness: true, ..Options::default() };
    connection.call(&TypedRequest::<ping::Ping>::new(&EmptyParams::new()), &options).await
}
