//! A client of the handshake era and a server of the handshake era.
//!
//! - A request is forwarded on the session's own connection, and its response returned.
//! - A question of the server is sent to the client: on the stream of the call it belongs to, else on the session's.
//! - A notification is forwarded both ways. Log level and resource subscriptions are set again after a reconnect.
//! - A cancellation of the client becomes one to the server, under the id the request has there, or `tasks/cancel` for a
//!   call that asks for a task; a question that the server cancels is cancelled at the client.
//! - The list of tasks is not offered where it would hold the tasks of other clients.

use std::sync::{Arc, Weak};

use tsugite_core::jsonrpc::{JsonError, Raw, RawJson};
use tsugite_core::protocol::lifecycle::Initialize;
use tsugite_core::protocol::tasks;
use tsugite_core::protocol::{Method, OrderedMap};
use tsugite_core::revision::{
    Revision, RpcError, translate_raw_error, translate_raw_input_response, translate_raw_params,
    translate_raw_result,
};

use super::{ServerRequest, SessionRequest, client_gone_error, translate_result};
use crate::bridge::bridge_errors::{malformed_result_error, unsupported_error};
use crate::bridge::client_request::reply_target;
use crate::bridge::description::ServerDescription;
use crate::bridge::in_flight::InFlightCall;
use crate::bridge::target::Target;
use crate::bridge::upstream::Upstream;
use crate::client::upstream_observer::RequestResult;
use crate::server::connection::ServerConnection;
use crate::server::layer::RequestParts;
use crate::server::limits::CallerKey;
use crate::server::outgoing_requests::send_raw_request;

/// Forwards a request, and records what the server must be told again after a reconnect.
pub(super) async fn forward(request: SessionRequest<'_>) -> Result<RawJson, RpcError> {
    let SessionRequest { upstream, method, job, .. } = request;
    if method == tasks::List::NAME && lists_tasks_of_others(&upstream.target, job) {
        return Err(RpcError::MethodNotFound { method: method.to_owned() });
    }
    let call = InFlightCall::new(job.revision, reply_target(job)?);
    let (result, from) = upstream.send(request.to_forwarded(), &call).await?;
    upstream.session_state.record(method, &request.params, job.revision);
    translate_result(upstream, method, &result, from, job.revision)
}

/// Translates the server's `initialize` result.
pub(super) fn initialize_result(
    target: &Target,
    description: &ServerDescription,
    job: &RequestParts,
) -> Result<OrderedMap<RawJson>, RpcError> {
    let (result, from) = (Raw::from(&description.result), description.revision);
    let mut members: OrderedMap<RawJson> =
        translate_raw_result(Initialize::NAME, result, from, job.revision, None)
            .map_err(|error| unsupported_error(&error, Initialize::NAME))?
            .read()
            .map_err(|_| malformed_result_error(target))?;
    if lists_tasks_of_others(target, job) {
        remove_task_list(&mut members).map_err(|_| malformed_result_error(target))?;
    }
    Ok(members)
}

/// Whether the server's `tasks/list` would hold the tasks of other clients: to a server, all clients of the bridge are one
/// caller. A client over pipes is the only one, and a child process serves one session.
fn lists_tasks_of_others(target: &Target, job: &RequestParts) -> bool {
    let is_only_client = CallerKey::of_caller(&job.caller).is_none() && !job.caller.headers.is_present();
    !is_only_client && !target.starts_server()
}

/// Removes `capabilities.tasks.list` from an `initialize` result.
fn remove_task_list(result: &mut OrderedMap<RawJson>) -> Result<(), JsonError> {
    let Some(offered) = result.get_mut("capabilities") else { return Ok(()) };
    let mut capabilities: OrderedMap<RawJson> = offered.read()?;
    let Some(tasks) = capabilities.get_mut("tasks") else { return Ok(()) };
    let mut forms: OrderedMap<RawJson> = tasks.read()?;
    if forms.remove("list").is_some() {
        *tasks = RawJson::from_value(&forms)?;
        *offered = RawJson::from_value(&capabilities)?;
    }
    Ok(())
}

/// Whether the server is connected and takes `logging/setLevel`. The only server answers for itself.
pub(super) fn takes_log_level(upstream: &Upstream, single: bool) -> bool {
    upstream.client_if_connected().is_some_and(|client| {
        single || client.server_capabilities().is_none_or(|offered| offered.logging.is_some())
    })
}

/// Sets the log level and the resource subscriptions again, in a task of its own.
pub(super) fn restore_session(upstream: &Upstream) {
    let Some(client) = upstream.client_if_connected().cloned() else { return };
    let state = Arc::clone(&upstream.session_state);
    tokio::spawn(async move { state.restore(&client).await });
}

/// Sends a request of the server to the client, and returns its response.
pub(super) async fn forward_server_request(
    upstream: Arc<Upstream>,
    request: ServerRequest<'_>,
    from: Revision,
    link: Weak<ServerConnection>,
    to: Revision,
) -> RequestResult {
    let ServerRequest { method, params, source } = request;
    let named = upstream.in_flight.get(source.call);
    let call = named.or_else(|| upstream.in_flight.only(|call| call.reply_target().is_some()));
    drop(upstream);
    ServerConnection::wait_until_ready(&link).await.ok_or_else(client_gone_error)?;
    let unsupported = |error| unsupported_error(&error, method).to_error_object(from);
    let params = translate_raw_params(method, Raw::from(params), from, to).map_err(unsupported)?;
    let (requests, outbox) = {
        let link = link.upgrade().ok_or_else(client_gone_error)?;
        let target = call.and_then(|call| call.reply_target());
        let outbox = target.map_or_else(|| link.outbox().clone(), |target| target.outbox);
        (link.outgoing_requests().clone(), outbox)
    };
    let sent = send_raw_request(&requests, &outbox, to, (method, &params), &source.cancel_reason).await;
    match sent.ok_or_else(client_gone_error)? {
        Ok(answer) => translate_raw_input_response(method, Raw::from(&answer), to, from).map_err(unsupported),
        Err(error) => Err(translate_raw_error(error, method, to, from)),
    }
}
