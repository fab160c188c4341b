//! A client of the stateless era and a server of the stateless era.
//!
//! - A request is forwarded on one connection that all clients share, and its response returned. Each request says who
//!   sends it.
//! - A question of the server is a result that asks for input, and is returned as any other result.
//! - A notification of the server belongs to a request or a listen stream, and is forwarded on it. Such clients send none
//!   but cancellations.
//! - A cancellation of the client becomes one to the server, or over HTTP the end of the response stream.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::discover::Discover;
use tsugite_core::protocol::subscriptions::Listen;
use tsugite_core::protocol::{Meta, Method, OrderedMap};
use tsugite_core::revision::RpcError;

use super::{LeasedRequest, translate_result};
use crate::bridge::bridge_errors::malformed_result_error;
use crate::bridge::client_request::{ReplyTarget, reply_target};
use crate::bridge::in_flight::InFlightCall;
use crate::bridge::notification_encoding::set_subscription_id;
use crate::bridge::upstream::Upstream;
use crate::bridge::upstream_listener::listen_result;
use crate::client::forwarded_request::ForwardedRequest;
use crate::server::Headers;
use crate::server::layer::RequestParts;

/// Forwards a request. A `requestState` in it is the server's own.
pub(super) async fn forward(request: LeasedRequest<'_>) -> Result<RawJson, RpcError> {
    let LeasedRequest { lease, method, params, job, reply_target, .. } = request;
    let call = InFlightCall::new(job.revision, reply_target);
    let headers = param_headers(&job.caller.headers);
    let forwarded = ForwardedRequest::new(method, &params, job.revision).param_headers(headers);
    let (result, from) = lease.upstream.send(forwarded, &call).await?;
    translate_result(&lease.upstream, method, &result, from, job.revision)
}

/// The headers that are forwarded: those that repeat arguments. All others, credentials above all, are the bridge's own.
fn param_headers(headers: &Headers) -> Vec<(String, String)> {
    let is_param = |name: &str| {
        name.get(..PARAM_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PARAM_PREFIX))
    };
    let forwarded = headers.iter().filter(|(name, _)| is_param(name));
    forwarded.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Forwards `server/discover`, and puts the revisions of the bridge into the result.
pub(super) async fn discover_result(
    upstream: &Arc<Upstream>,
    served: &[String],
    job: &RequestParts,
) -> Result<RawJson, RpcError> {
    let call = InFlightCall::new(job.revision, reply_target(job)?);
    let forwarded = ForwardedRequest::new(Discover::NAME, &job.params, job.revision);
    let (result, _) = upstream.send(forwarded, &call).await?;
    let mut members: OrderedMap<RawJson> =
        result.read().map_err(|_| malformed_result_error(&upstream.target))?;
    members.insert("supportedVersions", RawJson::from_value(served).map_err(|_| RpcError::Internal)?);
    RawJson::from_value(&members).map_err(|_| RpcError::Internal)
}

/// Forwards `subscriptions/listen` until the client, the server or the bridge ends it.
pub(in crate::bridge) async fn forward_listen(
    upstream: &Arc<Upstream>,
    job: &RequestParts,
    target: ReplyTarget,
) -> Result<RawJson, RpcError> {
    let call = InFlightCall::subscription(job.revision, target.clone());
    let forwarded = ForwardedRequest::new(Listen::NAME, &job.params, job.revision);
    let result = tokio::select! {
        biased;
        result = upstream.send(forwarded, &call) => result?.0,
        () = job.connection.closed() => {
            let mut meta = Meta::new();
            meta.set_subscription_id(&target.id);
            return listen_result(job, meta);
        }
    };
    Ok(set_subscription_id(Raw::from(&result), &target).unwrap_or(result))
}

/// The request or listen stream that a notification names. One that names none, and is no change, belongs to the only
/// request in flight.
pub(super) fn notified_call(
    upstream: &Upstream,
    is_change: bool,
    call: Option<i64>,
) -> Option<Arc<InFlightCall>> {
    let named = upstream.in_flight.get(call);
    if is_change { named } else { named.or_else(|| upstream.in_flight.only(|_| true)) }
}

/// How the names of headers that repeat arguments begin.
const PARAM_PREFIX: &str = "mcp-param-";
