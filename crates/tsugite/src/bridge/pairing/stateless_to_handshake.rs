//! A client of the stateless era and a server of the handshake era.
//!
//! - A request is forwarded in a task of its own, on a connection that the client leases: the server knows one client per
//!   connection.
//! - A question of the server suspends the call: the client gets a result that asks for input, with a sealed state, and the
//!   call waits in [`SuspendedCalls`] until the client sends the answer. No
//!   two calls that may be asked share a connection, because the server need not say for which call it asks.
//! - A change notification of the server goes to every listen stream that wants it, any other to the request it belongs
//!   to. The log level of a request is set before it.
//! - Tasks are in `stateless_tasks`.
//! - A cancellation of the client becomes `notifications/cancelled`, or `tasks/cancel` for a call that asks for a task; so
//!   does the end of a suspended call whose client does not return.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tsugite_core::jsonrpc::{JsonError, Raw, RawJson};
use tsugite_core::protocol::discover::DiscoverResult;
use tsugite_core::protocol::logging::{Level, SetLevel};
use tsugite_core::protocol::mrtr::{self, REQUEST_STATE};
use tsugite_core::protocol::raw_tasks::{related_task, set_related_task};
use tsugite_core::protocol::tools::Call;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Method};
use tsugite_core::revision::{Revision, RpcError, ServerInfoMeta};
use tsugite_core::session::RequestMeta;

use super::{LeasedRequest, ServerRequest, encode_discover_result, stateless_tasks, translate_result};
use crate::bridge::bridged_tasks::{BridgedTasks, TaskRoom};
use crate::bridge::client_request::{parse_request_meta, reply_target};
use crate::bridge::description::ServerDescription;
use crate::bridge::in_flight::InFlightCall;
use crate::bridge::suspendable_call::SuspendableCall;
use crate::bridge::suspended_calls::{SuspendedCall, SuspendedCalls};
use crate::bridge::suspension_slots::SuspensionClaim;
use crate::bridge::upstream::Upstream;
use crate::bridge::upstream_pool;
use crate::client::forwarded_request::ForwardedRequest;
use crate::client::upstream_observer::RequestResult;
use crate::lock::lock;
use crate::server::ask::{StateBinding, seal_state, unseal_state};
use crate::server::layer::RequestParts;
use crate::server::limits::CallerKey;

/// Forwards a request, and returns its result or the questions of the server.
pub(super) async fn forward(request: LeasedRequest<'_>) -> Result<RawJson, RpcError> {
    if let Some(error) = request.foreign_state {
        return Err(error);
    }
    let (suspended, method, job) = (request.suspended, request.method, request.job);
    let call = start(request)?;
    wait_or_suspend(suspended, call, method, job).await
}

/// Starts a call in a task of its own.
fn start(request: LeasedRequest<'_>) -> Result<SuspendedCall, RpcError> {
    let LeasedRequest { lease, tasks, method, params, job, reply_target, suspended, .. } = request;
    let capabilities = parse_request_meta(&job.params)?.declared_client()?.capabilities;
    let to = job.revision;
    let suspendable = Arc::new(SuspendableCall::new(capabilities.clone(), to));
    let log_level = reply_target.log_level;
    let claim = lease.suspension_claim();
    let asked_here = lease.is_exclusive().then(|| Arc::clone(&suspendable));
    let call = InFlightCall::suspendable(to, reply_target, asked_here);
    let task = tokio::spawn({
        let suspendable = Arc::clone(&suspendable);
        let outbound = OutboundCall {
            upstream: Arc::clone(&lease.upstream),
            method: method.to_owned(),
            params: params.into_owned(),
            revision: to,
            capabilities,
            in_flight: Arc::clone(&call),
            tasks: Arc::clone(tasks),
            caller: CallerKey::of_caller(&job.caller),
            claim: lease.suspension_claim(),
            ttl: suspended.ttl(),
        };
        async move {
            let mut lease = lease;
            if let Some(level) = log_level {
                set_log_level(&outbound.upstream, level).await;
            }
            let mut outcome = outbound.send().await;
            if let Err(error) = &outcome
                && suspendable.elicit_required_urls(error).await
            {
                outcome = outbound.send().await;
            }
            if !outbound.in_flight.timed_out.load(Ordering::Acquire) {
                lease.mark_completed();
            }
            drop(outbound);
            // The connection is free before the client can call again.
            drop(lease);
            suspendable.complete(outcome);
        }
    });
    Ok(SuspendedCall { call: suspendable, in_flight: call, task: task.abort_handle(), claim })
}

/// A request on its way to a server.
struct OutboundCall {
    upstream: Arc<Upstream>,
    method: String,
    params: RawJson,
    /// The revision of the client.
    revision: Revision,
    /// The capabilities of the client.
    capabilities: ClientCapabilities,
    in_flight: Arc<InFlightCall>,
    tasks: Arc<BridgedTasks>,
    caller: Option<CallerKey>,
    claim: Option<SuspensionClaim>,
    /// How long a suspended call waits for its client.
    ttl: Duration,
}

impl OutboundCall {
    /// Sends the request, and returns its result in the client's revision. A call of a tool may become a task.
    async fn send(&self) -> Result<RawJson, RpcError> {
        if self.method == Call::NAME
            && let Some((params, from, room)) = self.task_request().await?
        {
            let result = self.forward(&params, from).await?;
            return stateless_tasks::CreatedTask {
                room,
                upstream: &self.upstream,
                capabilities: self.capabilities.clone(),
                revision: self.revision,
                claim: self.claim.clone(),
                ttl: self.ttl,
            }
            .register(result)
            .await;
        }
        match self.forward(&self.params, self.revision).await {
            Err(error) if self.method == Call::NAME => {
                Err(stateless_tasks::explain_error(&self.upstream, &self.params, &self.capabilities, error)
                    .await)
            }
            outcome => outcome,
        }
    }

    async fn task_request(&self) -> Result<Option<(RawJson, Revision, TaskRoom<'_>)>, RpcError> {
        if !self.capabilities.has_task_extension() {
            return Ok(None);
        }
        let room = || self.tasks.reserve(self.caller.clone());
        stateless_tasks::request_task(&self.upstream, &self.params, self.revision, room).await
    }

    async fn forward(&self, params: &RawJson, written_in: Revision) -> Result<RawJson, RpcError> {
        let request = ForwardedRequest::new(&self.method, params, written_in);
        let (result, from) = self.upstream.send(request, &self.in_flight).await?;
        translate_result(&self.upstream, &self.method, &result, from, self.revision)
    }
}

/// Sets the log level of the connection, unless it is set already.
async fn set_log_level(upstream: &Upstream, level: Level) {
    if upstream.replace_log_level(level)
        && let Some(client) = upstream.client_if_connected()
        && client.server_capabilities().is_some_and(|offered| offered.logging.is_some())
        && let Err(error) = client.set_log_level(level).await
    {
        tracing::debug!(%error, method = SetLevel::NAME, "the log level could not be set");
    }
}

/// The earlier call that a request continues.
pub(in crate::bridge) enum Continuation {
    /// None: the request has no state.
    None,
    /// A call that is suspended here.
    Suspended(SuspendedCall),
    /// A state that the bridge did not make. A stateless server may have made it; with any other the request fails with
    /// this error.
    ForeignState(RpcError),
}

/// Finds the suspended call that a request continues, and hands it the client's answers.
pub(in crate::bridge) fn resume(
    suspended: &SuspendedCalls,
    method: &str,
    job: &RequestParts,
) -> Result<Continuation, RpcError> {
    let meta = parse_request_meta(&job.params)?;
    let Some(state) = meta.request_state().filter(|_| upstream_pool::allows_input_requests(method)) else {
        return Ok(Continuation::None);
    };
    let invalid = |error| RpcError::invalid_params(&error);
    let state = mrtr::read_request_state(state).map_err(invalid)?;
    let (config, principal) = (&job.connection.config, job.caller.principal.as_ref());
    // The server may be a bridge too, and its states look like ours.
    let key = match unseal_state(config, principal, &binding(&meta, method), &state) {
        Ok(key) => key,
        Err(error) => return Ok(Continuation::ForeignState(error)),
    };
    // Errors in the request are found while the call is still suspended, so that the client can try again.
    let answers = mrtr::read_input_responses(meta.input_responses()).map_err(invalid)?;
    let target = reply_target(job)?;
    let Some(call) = std::str::from_utf8(&key).ok().and_then(|key| suspended.take(key)) else {
        let over = format!("the call this `{REQUEST_STATE}` belongs to is over; call again without it");
        return Ok(Continuation::ForeignState(invalid(JsonError::new(over))));
    };
    call.in_flight.reattach(target);
    call.call.resolve_inputs(&answers);
    Ok(Continuation::Suspended(call))
}

/// Waits for the result. If the server asks first, suspends the call and returns its questions.
pub(in crate::bridge) async fn wait_or_suspend(
    suspended: &Arc<SuspendedCalls>,
    call: SuspendedCall,
    method: &str,
    job: &RequestParts,
) -> Result<RawJson, RpcError> {
    if let Some(outcome) = poll_fn(|cx| call.call.poll(cx)).await {
        return outcome;
    }
    let meta = parse_request_meta(&job.params)?;
    let (config, principal) = (&job.connection.config, job.caller.principal.as_ref());
    let suspendable = Arc::clone(&call.call);
    // The client is away from now on; progress is kept for it.
    lock(&call.in_flight.reply_target).take();
    let key = suspended.insert(call)?;
    let sealed = seal_state(config, principal, &binding(&meta, method), key.as_bytes(), suspended.ttl());
    let result = sealed.ok_or(RpcError::Internal).and_then(|state| suspendable.input_required_result(state));
    if result.is_err() {
        drop(suspended.take(&key));
    }
    result
}

/// The request that the state of a suspended call is bound to.
fn binding(meta: &RequestMeta<'_>, method: &str) -> StateBinding {
    let name = meta.mcp_name(method).flatten().unwrap_or_default().to_owned();
    let arguments = meta.arguments().map(|raw| raw.text().to_owned()).unwrap_or_default();
    StateBinding { method: method.to_owned().into(), name, arguments }
}

/// Hands a request of the server to the call it belongs to, and returns the client's answer.
pub(super) async fn forward_server_request(
    upstream: Arc<Upstream>,
    request: ServerRequest<'_>,
    from: Revision,
) -> RequestResult {
    let ServerRequest { method, params, source } = request;
    // The question of a task may arrive on any stream.
    if let Some(id) = related_task(Raw::from(params))
        && let Some(questions) = upstream.task_questions.find(&id).await
    {
        drop(upstream);
        let params = set_related_task(params, None).unwrap_or_else(|_| params.clone());
        return questions.request_input(method, &params, from).await;
    }
    let named = upstream.in_flight.get(source.call);
    let call = named.or_else(|| upstream.in_flight.only(|call| call.suspendable.is_some()));
    drop(upstream);
    match call.and_then(|call| call.suspendable.clone()) {
        Some(suspendable) => suspendable.request_input(method, params, from).await,
        None => Err(RpcError::internal_with_message("the bridge cannot tell for which call this is asked")
            .to_error_object(from)),
    }
}

/// Builds a `server/discover` result from the server's handshake.
pub(super) fn discover_result(
    description: &ServerDescription,
    served: Vec<String>,
    job: &RequestParts,
) -> Result<RawJson, RpcError> {
    let mut capabilities = description.capabilities.clone().unwrap_or_default();
    if capabilities.has_task_calls() {
        capabilities = capabilities.with_task_extension();
    }
    let mut result = DiscoverResult::new(served, capabilities);
    result.instructions = description.instructions.clone();
    let server = description.info.clone().unwrap_or_else(|| Implementation::new("unknown", "0"));
    encode_discover_result(result, job.revision, &ServerInfoMeta::new(server))
}

/// The name of the server from its handshake: every result of the stateless era holds it.
pub(super) fn result_server_info(upstream: &Upstream) -> Option<Implementation> {
    upstream.client_if_connected().and_then(|client| client.server_info())
}

/// The request that a notification names, else the only one in flight. A change belongs to none: it goes to the listen
/// streams, wherever the server sent it.
pub(super) fn notified_call(
    upstream: &Upstream,
    is_change: bool,
    call: Option<i64>,
) -> Option<Arc<InFlightCall>> {
    if is_change {
        return None;
    }
    upstream.in_flight.get(call).or_else(|| upstream.in_flight.only(|_| true))
}
