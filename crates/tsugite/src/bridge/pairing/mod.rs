//! The four pairs of eras that a bridge connects: the era of the client in front of it, then that of the server behind it.
//!
//! Each pair has a file, which says what becomes of a request, a question of the server, a notification and a
//! cancellation. Tasks between the two eras have a file for each direction. This file chooses between them. Where several
//! servers answer together, or the eras make no difference, the code is in the parent folder.

mod handshake_tasks;
mod handshake_to_handshake;
mod handshake_to_stateless;
mod stateless_tasks;
mod stateless_to_handshake;
mod stateless_to_stateless;

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use tsugite_core::jsonrpc::{ErrorObject, Raw, RawJson};
use tsugite_core::protocol::discover::{Discover, DiscoverResult};
use tsugite_core::protocol::{Implementation, Method, OrderedMap};
use tsugite_core::revision::{Revision, RpcError, ServerInfoMeta, translate_raw_result};

use super::bridge_errors::unsupported_error;
use super::bridge_session::BridgeSession;
use super::bridged_tasks::BridgedTasks;
use super::client_request::ReplyTarget;
use super::description::ServerDescription;
use super::in_flight::InFlightCall;
use super::name_mapping;
use super::suspended_calls::SuspendedCalls;
use super::target::Target;
use super::upstream::{Downstream, Upstream};
use super::upstream_pool::UpstreamLease;
use crate::client::forwarded_request::{ForwardedRequest, ScannedRequest};
use crate::client::upstream_observer::{RequestResult, RequestSource};
use crate::client::{ChangeFilter, Client};
use crate::era::Era;
use crate::server::encode_result;
use crate::server::layer::RequestParts;

pub(super) use stateless_tasks::{push_changes, subscribed_tasks};
pub(super) use stateless_to_handshake::{Continuation, resume, wait_or_suspend};
pub(super) use stateless_to_stateless::forward_listen;

/// A request of a client with a session, addressed to one server.
pub(super) struct SessionRequest<'a> {
    pub(super) session: &'a BridgeSession,
    pub(super) tasks: &'a BridgedTasks,
    pub(super) upstream: &'a Arc<Upstream>,
    pub(super) method: &'a str,
    /// The params with the server's own names.
    pub(super) params: Cow<'a, RawJson>,
    pub(super) job: &'a RequestParts,
}

impl SessionRequest<'_> {
    fn to_forwarded(&self) -> ForwardedRequest<'_> {
        let job = self.job;
        match &self.params {
            // The params are those that were scanned when the request was received.
            Cow::Borrowed(params) => {
                let scanned = ScannedRequest {
                    params,
                    from: job.revision,
                    name: job.subject.requested_name(),
                    meta_presence: job.sender_meta,
                    wants_progress: job.progress_token.is_some(),
                };
                ForwardedRequest::from_scanned(self.method, scanned)
            }
            Cow::Owned(params) => ForwardedRequest::new(self.method, params, job.revision),
        }
    }
}

/// A request of a client without a session, on a connection that it leases.
pub(super) struct LeasedRequest<'a> {
    pub(super) suspended: &'a Arc<SuspendedCalls>,
    pub(super) tasks: &'a Arc<BridgedTasks>,
    pub(super) lease: UpstreamLease,
    pub(super) method: &'a str,
    /// The params with the server's own names.
    pub(super) params: Cow<'a, RawJson>,
    pub(super) job: &'a RequestParts,
    pub(super) reply_target: ReplyTarget,
    /// Why the request is refused unless the server itself understands its `requestState`.
    pub(super) foreign_state: Option<RpcError>,
}

/// Forwards a request of a client with a session, and returns the result in the client's revision.
pub(super) async fn forward_in_session(request: SessionRequest<'_>) -> Result<RawJson, RpcError> {
    match request.upstream.connected_era().await? {
        Era::Handshake => handshake_to_handshake::forward(request).await,
        Era::Stateless if handshake_tasks::is_about_a_task(&request) => {
            Box::pin(handshake_tasks::forward(request)).await
        }
        Era::Stateless => handshake_to_stateless::forward(request).await,
    }
}

/// Forwards a request of a client without a session, and returns the result in the client's revision.
pub(super) async fn forward_leased(request: LeasedRequest<'_>) -> Result<RawJson, RpcError> {
    match request.lease.upstream.connected_era().await? {
        Era::Handshake if stateless_tasks::is_about_a_task(request.method) => {
            Box::pin(stateless_tasks::forward(request)).await
        }
        Era::Handshake => stateless_to_handshake::forward(request).await,
        Era::Stateless => stateless_to_stateless::forward(request).await,
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
    let server_info = result_server_info(upstream, from, to);
    translate_raw_result(method, Raw::from(result), from, to, server_info.as_ref())
        .map_err(|error| unsupported_error(&error, method))
}

/// The members of the `initialize` result for a client with a session, from the server's description of itself.
pub(super) fn initialize_result(
    target: &Target,
    description: &ServerDescription,
    job: &RequestParts,
) -> Result<OrderedMap<RawJson>, RpcError> {
    match Era::from(description.revision) {
        Era::Handshake => handshake_to_handshake::initialize_result(target, description, job),
        Era::Stateless => handshake_to_stateless::initialize_result(target, description, job),
    }
}

/// The `server/discover` result for a client without a session. `served` are the revisions of the bridge.
pub(super) async fn discover_result(
    upstream: &Arc<Upstream>,
    client: &Client,
    served: Vec<String>,
    job: &RequestParts,
) -> Result<RawJson, RpcError> {
    match Era::from(client.revision()) {
        Era::Handshake => {
            let description = ServerDescription::from_client(client).ok_or(RpcError::Internal)?;
            stateless_to_handshake::discover_result(&description, served, job)
        }
        Era::Stateless => stateless_to_stateless::discover_result(upstream, &served, job).await,
    }
}

/// The `server/discover` result from a known description; `None` if the server has the method, and so answers itself.
pub(super) fn described_discover_result(
    description: &ServerDescription,
    served: &[String],
    job: &RequestParts,
) -> Option<Result<RawJson, RpcError>> {
    match Era::from(description.revision) {
        Era::Handshake => Some(stateless_to_handshake::discover_result(description, served.to_vec(), job)),
        Era::Stateless => None,
    }
}

/// Encodes a `server/discover` result for a client.
pub(super) fn encode_discover_result(
    found: DiscoverResult,
    to: Revision,
    stamp: &ServerInfoMeta,
) -> Result<RawJson, RpcError> {
    encode_result::<Discover>(found, to, stamp).map_err(|error| unsupported_error(&error, Discover::NAME))
}

/// The lists of a server to subscribe to for a client with a session, where the server does not push their changes.
pub(super) fn session_list_filter(upstream: &Upstream) -> Option<ChangeFilter> {
    match upstream.era()? {
        Era::Handshake => None,
        Era::Stateless => handshake_to_stateless::session_list_filter(upstream),
    }
}

/// The subscription that a change belongs to, where the server reports each change once per subscription.
pub(super) fn reporting_subscription(from: Revision, call: Option<i64>) -> Option<i64> {
    match Era::from(from) {
        Era::Handshake => None,
        Era::Stateless => call,
    }
}

/// Whether `logging/setLevel` of a client with a session is forwarded to this server. `single` if it is the only one.
pub(super) fn takes_log_level(upstream: &Upstream, single: bool) -> bool {
    match upstream.era() {
        Some(Era::Handshake) => handshake_to_handshake::takes_log_level(upstream, single),
        // The level is sent with each request.
        Some(Era::Stateless) | None => false,
    }
}

/// Repeats to a server that was reached again what a client with a session has set there.
pub(super) fn restore_session(upstream: &Upstream) {
    if let (Downstream::Session(..), Some(Era::Handshake)) = (&upstream.downstream, upstream.era()) {
        handshake_to_handshake::restore_session(upstream);
    }
}

/// The name of the server, where the client's result holds it and the server's does not.
fn result_server_info(upstream: &Upstream, from: Revision, to: Revision) -> Option<Implementation> {
    match (Era::from(to), Era::from(from)) {
        (Era::Stateless, Era::Handshake) => stateless_to_handshake::result_server_info(upstream),
        _ => None,
    }
}

/// The request that a notification of the server belongs to. `is_change` if clients subscribe to such notifications.
pub(super) fn notified_call(
    upstream: &Upstream,
    from: Revision,
    is_change: bool,
    call: Option<i64>,
) -> Option<Arc<InFlightCall>> {
    match (&upstream.downstream, Era::from(from)) {
        (Downstream::Session(..), _) => upstream.in_flight.get(call),
        (Downstream::Stateless, Era::Handshake) => {
            stateless_to_handshake::notified_call(upstream, is_change, call)
        }
        (Downstream::Stateless, Era::Stateless) => {
            stateless_to_stateless::notified_call(upstream, is_change, call)
        }
    }
}

/// A request of a server, and where it comes from.
pub(super) struct ServerRequest<'a> {
    pub(super) method: &'a str,
    pub(super) params: &'a RawJson,
    pub(super) source: RequestSource,
}

/// Puts a request of a server to the client whose call it is working on. Only servers of the handshake era send requests.
///
/// The connection is not kept alive by it: an unanswered request ends with the connection.
pub(super) async fn forward_server_request(
    upstream: &Weak<Upstream>,
    request: ServerRequest<'_>,
) -> RequestResult {
    let upstream = upstream.upgrade().ok_or_else(client_gone_error)?;
    // A server may send requests right after the handshake, before the connection is marked as open.
    upstream.wait_first_connected().await;
    let from = upstream.revision().ok_or_else(client_gone_error)?;
    match &upstream.downstream {
        Downstream::Session(link, to) => {
            let (link, to) = (Weak::clone(link), *to);
            handshake_to_handshake::forward_server_request(upstream, request, from, link, to).await
        }
        Downstream::Stateless => {
            stateless_to_handshake::forward_server_request(upstream, request, from).await
        }
    }
}

fn client_gone_error() -> ErrorObject {
    RpcError::internal_with_message("the client has disconnected").to_error_object(Revision::NEWEST)
}
