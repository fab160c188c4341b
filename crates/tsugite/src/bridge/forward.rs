//! Dispatches the requests and notifications of clients.
//!
//! A client with a session has its own connections ([`BridgeSession`]); one without leases them (`upstream_pool`). How a
//! request is forwarded depends on the eras of both sides (`pairing`).

use std::sync::Arc;

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::discover::Discover;
use tsugite_core::protocol::lifecycle::Initialize;
use tsugite_core::protocol::logging::SetLevel;
use tsugite_core::protocol::ping::Ping;
use tsugite_core::protocol::subscriptions::Listen;
use tsugite_core::protocol::tools::Call;
use tsugite_core::protocol::{Method, meta};
use tsugite_core::revision::{Revision, RpcError, read_params};
use tsugite_core::session::ClientMetaPresence;

use super::bridge_session::BridgeSession;
use super::bridge_state::BridgeState;
use super::client_request::{parse_request_meta, reply_target};
use super::in_flight::InFlightCall;
use super::join_all::join_all;
use super::merged_list::merged_list;
use super::pairing::{self, Continuation, LeasedRequest, SessionRequest};
use super::upstream::Upstream;
use super::{initialize, listen, name_mapping};
use crate::client::forwarded_request::ForwardedRequest;
use crate::era::Era;
use crate::server::connection::{ConnectionId, ServerConnection};
use crate::server::layer::{
    DynService, LayerFuture, LayerRequest, LayerResponse, NotificationHandler, RequestParts,
};

/// The bridge as the service and notification handler of a [`Server`](crate::Server).
pub(super) struct BridgeService(pub(super) Arc<BridgeState>);

impl DynService for BridgeService {
    fn call(&self, request: LayerRequest) -> LayerFuture {
        let bridge = Arc::clone(&self.0);
        Box::pin(async move {
            let (method, mut job) = request.into_parts();
            if method == Discover::NAME && job.sender_meta == ClientMetaPresence::Absent {
                job.params = anonymous_params(job.revision)?;
            }
            dispatch(&bridge, &method, &job).await.map(|result| LayerResponse { result })
        })
    }
}

impl NotificationHandler for BridgeService {
    fn connection_dropped(&self, id: ConnectionId) {
        // Dropped after the lock of the table is released: a session closes its connections.
        drop(self.0.remove_session(id));
    }

    /// Forwards a notification of a client with a session to all of its servers.
    fn handle_notification(&self, link: &Arc<ServerConnection>, method: &str, params: Option<Raw<'_>>) {
        let (Some(session), Some(revision)) = (self.0.session(link), link.revision()) else { return };
        let (method, params) = (method.to_owned(), params.map(Raw::to_owned));
        // In the order in which the client sent them.
        session.enqueue(Box::pin({
            let upstreams = session.upstreams.clone();
            async move {
                for upstream in upstreams {
                    // It may follow the request that opens the connection.
                    upstream.wait_while_connecting().await;
                    let Some(client) = upstream.client_if_connected() else { continue };
                    if let Err(error) =
                        client.forward_notification(&method, params.as_ref().map(Raw::from), revision).await
                    {
                        tracing::debug!(method, %error, "a notification was not forwarded");
                    }
                }
            }
        }));
    }
}

/// The params of `mcp/discover` that names no client: the meta of a client without name and capabilities.
fn anonymous_params(revision: Revision) -> Result<RawJson, RpcError> {
    let meta = serde_json::json!({meta::PROTOCOL_VERSION: revision.as_str(), meta::CLIENT_CAPABILITIES: {}});
    RawJson::from_value(&serde_json::json!({"_meta": meta})).map_err(|_| RpcError::Internal)
}

/// Answers a request.
async fn dispatch(bridge: &BridgeState, method: &str, job: &RequestParts) -> Result<RawJson, RpcError> {
    match (method, Era::from(job.revision)) {
        // Rare requests are boxed, so that the future of every request stays small.
        (Initialize::NAME, _) => Box::pin(initialize::initialize(bridge, job)).await,
        (Discover::NAME, Era::Stateless) => Box::pin(initialize::discover(bridge, job)).await,
        (Ping::NAME, Era::Handshake) => Ok(RawJson::empty_object()),
        // A method of another revision. An unknown method may be the server's own.
        _ if job.revision.is_unavailable_method(method) => {
            Err(RpcError::MethodNotFound { method: method.to_owned() })
        }
        (Listen::NAME, _) => Box::pin(listen::listen(bridge, job, reply_target(job)?)).await,
        (_, Era::Stateless) => Box::pin(forward_stateless(bridge, method, job)).await,
        (_, Era::Handshake) => forward_in_session(bridge, method, job).await,
    }
}

/// Forwards a request of a client with a session.
async fn forward_in_session(
    bridge: &BridgeState,
    method: &str,
    job: &RequestParts,
) -> Result<RawJson, RpcError> {
    let session = match bridge.use_session(&job.connection) {
        Some(session) if session.is_ready() => session,
        _ => {
            let for_all = name_mapping::is_list(method) || method == SetLevel::NAME;
            Box::pin(initialize::connect_session(bridge, job, for_all)).await?
        }
    };
    match method {
        SetLevel::NAME => {
            let level = read_params::<SetLevel>(Raw::from(&job.params), job.revision)?.level;
            session.set_log_level(level);
            return Box::pin(set_log_level(bridge, &session, job)).await;
        }
        _ if name_mapping::is_list(method) && !bridge.is_single() => {
            return Box::pin(merged_list(&session.upstreams, method, job, session.log_level())).await;
        }
        _ => {}
    }
    let (index, params) = name_mapping::route(&bridge.targets, method, &job.params, job.revision)?;
    let upstream = session.upstreams.get(index).ok_or(RpcError::Internal)?;
    let request = SessionRequest { session: &session, tasks: &bridge.tasks, upstream, method, params, job };
    pairing::forward_in_session(request).await
}

/// Forwards `logging/setLevel` to every server that takes it.
async fn set_log_level(
    bridge: &BridgeState,
    session: &BridgeSession,
    job: &RequestParts,
) -> Result<RawJson, RpcError> {
    let flight = InFlightCall::new(job.revision, reply_target(job)?);
    let single = bridge.is_single();
    let mut wanting = session.upstreams.iter().filter(|upstream| pairing::takes_log_level(upstream, single));
    let tell = |upstream: &Arc<Upstream>| {
        let (upstream, flight) = (Arc::clone(upstream), &flight);
        async move {
            let told = upstream
                .send(ForwardedRequest::new(SetLevel::NAME, &job.params, job.revision), flight)
                .await?;
            upstream.session_state.record(SetLevel::NAME, &job.params, job.revision);
            Ok(told)
        }
    };
    if !bridge.is_single() {
        // The client gets one response, whatever each server answers.
        join_all(wanting.map(|upstream| upstream.with_timeout(tell(upstream)))).await;
        return Ok(RawJson::empty_object());
    }
    let Some(upstream) = wanting.next() else { return Ok(RawJson::empty_object()) };
    let (result, from) = tell(upstream).await?;
    pairing::translate_result(upstream, SetLevel::NAME, &result, from, job.revision)
}

/// Forwards a request of a client without a session.
async fn forward_stateless(
    bridge: &BridgeState,
    method: &str,
    job: &RequestParts,
) -> Result<RawJson, RpcError> {
    if name_mapping::is_list(method) && !bridge.is_single() {
        let lent = Box::pin(bridge.acquire_all(job)).await?;
        let upstreams: Vec<_> = lent.iter().map(|lent| Arc::clone(&lent.upstream)).collect();
        return Box::pin(merged_list(&upstreams, method, job, None)).await;
    }
    let foreign_state = match pairing::resume(&bridge.suspended, method, job)? {
        Continuation::Suspended(call) => {
            return Box::pin(pairing::wait_or_suspend(&bridge.suspended, call, method, job)).await;
        }
        Continuation::ForeignState(error) => Some(error),
        Continuation::None => None,
    };
    let (index, params) = name_mapping::route(&bridge.targets, method, &job.params, job.revision)?;
    let lease = bridge.acquire(index, method, job).await?;
    let reply_target = reply_target(job)?;
    if method == Call::NAME && job.caller.headers.is_present() {
        Box::pin(check_param_headers(&lease.upstream, &params, job)).await?;
    }
    let (suspended, tasks) = (&bridge.suspended, &bridge.tasks);
    let request = LeasedRequest { suspended, tasks, lease, method, params, job, reply_target, foreign_state };
    pairing::forward_leased(request).await
}

/// Fails unless the headers of a call repeat the arguments that the tool marks for it.
async fn check_param_headers(
    upstream: &Upstream,
    params: &RawJson,
    job: &RequestParts,
) -> Result<(), RpcError> {
    let peek = parse_request_meta(params)?;
    let Some(Some(name)) = peek.mcp_name(Call::NAME) else { return Ok(()) };
    let arguments = match peek.arguments() {
        Some(arguments) => arguments,
        None => Raw::empty_object(),
    };
    let headers = &job.caller.headers;
    let lookup = |name: &str| headers.single(&format!("mcp-param-{name}"));
    upstream.connected_client().await?.check_param_headers(name, arguments, lookup).await
}
