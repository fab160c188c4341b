//! Dispatches the requests and notifications of clients.
//!
//! A client with a session has its own connections ([`BridgeSession`]); one without leases them (`upstream_pool`). How a
//! request is forwarded depends on the eras of both sides (`pairing`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::Method;
use tsugite_core::protocol::discover::Discover;
use tsugite_core::protocol::lifecycle::Initialize;
use tsugite_core::protocol::logging::SetLevel;
use tsugite_core::protocol::ping::Ping;
use tsugite_core::protocol::subscriptions::Listen;
use tsugite_core::protocol::tools::Call;
use tsugite_core::revision::{Revision, RpcError, read_params, translate_raw_result};
use tsugite_core::session::RequestMeta;

use super::bridge_session::BridgeSession;
use super::in_flight::{InFlightCall, ReplyTarget};
use super::join_all::join_all;
use super::pairing::{self, Continuation, LeasedRequest, SessionRequest};
use super::suspended_calls::SuspendedCalls;
use super::target::Target;
use super::upstream::{Upstream, unsupported_error};
use super::upstream_pool::{self, UpstreamPool};
use super::{BridgeSettings, initialize, listen, name_mapping};
use crate::client::forwarded_request::ForwardedRequest;
use crate::era::Era;
use crate::lock::lock;
use crate::server::connection::{ConnectionId, ServerConnection};
use crate::server::layer::{
    DynService, LayerFuture, LayerRequest, LayerResponse, NotificationHandler, RequestParts,
};

/// The state of a bridge: its servers, and the connections to them.
pub(super) struct Forwarder {
    pub(super) targets: Vec<Arc<Target>>,
    pub(super) settings: BridgeSettings,
    pub(super) pools: Vec<Arc<UpstreamPool>>,
    pub(super) suspended: Arc<SuspendedCalls>,
    /// The sessions of connected clients, each until its connection is dropped.
    sessions: Mutex<HashMap<ConnectionId, Arc<BridgeSession>>>,
    /// Every open connection; `None` when the bridge is closed.
    upstreams: Mutex<Option<Vec<Weak<Upstream>>>>,
}

/// The bridge as the service and notification handler of a [`Server`](crate::Server).
pub(super) struct BridgeService(pub(super) Arc<Forwarder>);

impl DynService for BridgeService {
    fn call(&self, request: LayerRequest) -> LayerFuture {
        let relay = Arc::clone(&self.0);
        Box::pin(async move {
            let (method, job) = request.into_parts();
            relay.dispatch(&method, &job).await.map(|result| LayerResponse { result })
        })
    }
}

impl NotificationHandler for BridgeService {
    fn connection_dropped(&self, id: ConnectionId) {
        // Dropped after the lock is released: a session closes its connections.
        let session = lock(&self.0.sessions).remove(&id);
        drop(session);
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

impl Forwarder {
    pub(super) fn new(targets: Vec<Arc<Target>>, settings: BridgeSettings) -> Arc<Self> {
        let pools = targets.iter().map(|_| Arc::new(UpstreamPool::default())).collect();
        let parked = Arc::new(SuspendedCalls::new(settings.max_suspended_calls, settings.suspended_call_ttl));
        Arc::new(Self {
            targets,
            settings,
            pools,
            suspended: parked,
            sessions: Mutex::default(),
            upstreams: Mutex::new(Some(Vec::new())),
        })
    }

    /// Whether there is one server, without a name prefix.
    pub(super) fn is_single(&self) -> bool {
        matches!(self.targets.as_slice(), [target] if target.prefix.is_none())
    }

    /// Opens a connection and registers it, so that [`Forwarder::close`] closes it. Fails if there are too many.
    pub(super) fn register_upstream(
        &self,
        opening: impl FnOnce() -> Arc<Upstream>,
    ) -> Result<Arc<Upstream>, RpcError> {
        let mut open = lock(&self.upstreams);
        let Some(open) = &mut *open else {
            return Err(RpcError::internal_with_message("the bridge is closed"));
        };
        open.retain(|upstream| upstream.strong_count() > 0);
        if open.len() >= self.settings.max_connections {
            return Err(RpcError::internal_with_message(format!(
                "connection limit of the bridge reached ({}); try again later",
                open.len()
            )));
        }
        let upstream = opening();
        open.push(Arc::downgrade(&upstream));
        Ok(upstream)
    }

    /// Closes every connection, and waits until that is done.
    pub(super) async fn close(&self) {
        let open = lock(&self.upstreams).take();
        self.suspended.clear();
        let open = open.into_iter().flatten().filter_map(|upstream| upstream.upgrade());
        let closing: Vec<_> =
            open.map(|upstream| tokio::spawn(async move { upstream.close().await })).collect();
        for upstream in closing {
            let _ = upstream.await;
        }
        for target in &self.targets {
            target.wait_closed().await;
        }
    }

    /// Answers a request.
    async fn dispatch(self: &Arc<Self>, method: &str, job: &RequestParts) -> Result<RawJson, RpcError> {
        match (method, Era::from(job.revision)) {
            // Rare requests are boxed, so that the future of every request stays small.
            (Initialize::NAME, _) => Box::pin(initialize::initialize(self, job)).await,
            (Discover::NAME, Era::Stateless) => Box::pin(initialize::discover(self, job)).await,
            (Ping::NAME, Era::Handshake) => Ok(RawJson::empty_object()),
            // A method of another revision. An unknown method may be the server's own.
            _ if job.revision.is_unavailable_method(method) => {
                Err(RpcError::MethodNotFound { method: method.to_owned() })
            }
            (Listen::NAME, _) => Box::pin(listen::listen(self, job, reply_target(job)?)).await,
            (_, Era::Stateless) => Box::pin(self.forward_stateless(method, job)).await,
            (_, Era::Handshake) => self.forward_in_session(method, job).await,
        }
    }

    /// The session of a client, if it has one yet: a request that stands alone has had no handshake.
    pub(super) fn session(&self, link: &Arc<ServerConnection>) -> Option<Arc<BridgeSession>> {
        lock(&self.sessions).get(&link.id).cloned()
    }

    /// Keeps the session of a client until its connection is dropped.
    pub(super) fn insert_session(&self, link: &ServerConnection, session: &Arc<BridgeSession>) {
        let replaced = lock(&self.sessions).insert(link.id, Arc::clone(session));
        drop(replaced);
    }

    /// Forwards a request of a client with a session.
    async fn forward_in_session(
        self: &Arc<Self>,
        method: &str,
        job: &RequestParts,
    ) -> Result<RawJson, RpcError> {
        let session = match self.session(&job.connection) {
            Some(session) => session,
            None => Box::pin(initialize::open_session_without_handshake(self, job)).await?,
        };
        match method {
            SetLevel::NAME => {
                let level = read_params::<SetLevel>(Raw::from(&job.params), job.revision)?.level;
                session.set_log_level(level);
                return Box::pin(self.set_log_level(&session, job)).await;
            }
            _ if name_mapping::is_list(method) && !self.is_single() => {
                return Box::pin(name_mapping::merged_list(
                    &session.upstreams,
                    method,
                    job,
                    session.log_level(),
                ))
                .await;
            }
            _ => {}
        }
        let (index, params) = name_mapping::route(&self.targets, method, &job.params, job.revision)?;
        let upstream = session.upstreams.get(index).ok_or(RpcError::Internal)?;
        let request = SessionRequest { session: &session, upstream, method, params, job };
        pairing::forward_in_session(request).await
    }

    /// Forwards `logging/setLevel` to every server that takes it.
    async fn set_log_level(&self, session: &BridgeSession, job: &RequestParts) -> Result<RawJson, RpcError> {
        let flight = InFlightCall::new(job.revision, reply_target(job)?);
        let single = self.is_single();
        let mut wanting =
            session.upstreams.iter().filter(|upstream| pairing::takes_log_level(upstream, single));
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
        if !self.is_single() {
            // The client gets one response, whatever each server answers.
            join_all(wanting.map(|upstream| upstream.with_timeout(tell(upstream)))).await;
            return Ok(RawJson::empty_object());
        }
        let Some(upstream) = wanting.next() else { return Ok(RawJson::empty_object()) };
        let (result, from) = tell(upstream).await?;
        translate_result(upstream, SetLevel::NAME, &result, from, job.revision)
    }

    /// Forwards a request of a client without a session.
    async fn forward_stateless(
        self: &Arc<Self>,
        method: &str,
        job: &RequestParts,
    ) -> Result<RawJson, RpcError> {
        if name_mapping::is_list(method) && !self.is_single() {
            let lent = Box::pin(upstream_pool::acquire_all(self, job)).await?;
            let upstreams: Vec<_> = lent.iter().map(|lent| Arc::clone(&lent.upstream)).collect();
            return Box::pin(name_mapping::merged_list(&upstreams, method, job, None)).await;
        }
        let foreign_state = match pairing::resume(self, method, job)? {
            Continuation::Suspended(call) => {
                return Box::pin(pairing::wait_or_suspend(self, call, method, job)).await;
            }
            Continuation::ForeignState(error) => Some(error),
            Continuation::None => None,
        };
        let (index, params) = name_mapping::route(&self.targets, method, &job.params, job.revision)?;
        let lease = upstream_pool::acquire(self, index, method, job).await?;
        let reply_target = reply_target(job)?;
        if method == Call::NAME && job.caller.headers.is_present() {
            Box::pin(check_param_headers(&lease.upstream, &params, job)).await?;
        }
        let relay = self;
        let request = LeasedRequest { relay, lease, method, params, job, reply_target, foreign_state };
        pairing::forward_leased(request).await
    }
}

/// Translates a result of a server into the client's revision and names.
pub(super) fn translate_result(
    upstream: &Upstream,
    method: &str,
    result: &RawJson,
    from: Revision,
    to: Revision,
) -> Result<RawJson, RpcError> {
    let named = name_mapping::prefix_result(&upstream.target, method, result);
    let result = named.as_ref().unwrap_or(result);
    let server_info = pairing::result_server_info(upstream, from, to);
    translate_raw_result(method, Raw::from(result), from, to, server_info.as_ref())
        .map_err(|error| unsupported_error(&error, method))
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

/// Where messages that belong to a request go.
pub(super) fn reply_target(job: &RequestParts) -> Result<ReplyTarget, RpcError> {
    let log_level = match Era::from(job.revision) {
        Era::Handshake => None,
        Era::Stateless => parse_request_meta(&job.params)?.declared_client()?.log_level,
    };
    Ok(ReplyTarget {
        id: job.id.clone(),
        outbox: job.outbox.clone(),
        progress_token: job.progress_token.clone(),
        log_level,
    })
}

/// Scans the params of a request.
pub(super) fn parse_request_meta(params: &RawJson) -> Result<RequestMeta<'_>, RpcError> {
    RequestMeta::from_params(Raw::from(params)).map_err(|error| RpcError::invalid_params(&error))
}
