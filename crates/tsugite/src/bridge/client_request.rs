//! A request of a client: what its `_meta` says, and where messages that belong to it go.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, Raw, RawJson};
use tsugite_core::protocol::logging::Level;
use tsugite_core::revision::RpcError;
use tsugite_core::session::RequestMeta;

use crate::era::Era;
use crate::server::CancellationToken;
use crate::server::layer::RequestParts;
use crate::shared::outbound_queue::OutboundQueue;

/// Where messages that belong to a request go.
#[derive(Clone)]
pub(super) struct ReplyTarget {
    pub(super) id: Id<'static>,
    pub(super) outbox: Arc<OutboundQueue>,
    /// Says why the client cancelled the request.
    pub(super) cancellation: CancellationToken,
    /// The token under which the client wants progress.
    pub(super) progress_token: Option<Id<'static>>,
    /// The log level the client wants, in an era where each request says so.
    pub(super) log_level: Option<Level>,
}

/// Where messages that belong to this request go.
pub(super) fn reply_target(job: &RequestParts) -> Result<ReplyTarget, RpcError> {
    let log_level = match Era::from(job.revision) {
        Era::Handshake => None,
        Era::Stateless => parse_request_meta(&job.params)?.declared_client()?.log_level,
    };
    Ok(ReplyTarget {
        id: job.id.clone(),
        outbox: job.outbox.clone(),
        cancellation: job.cancellation.clone(),
        progress_token: job.progress_token.clone(),
        log_level,
    })
}

/// Scans the params of a request.
pub(super) fn parse_request_meta(params: &RawJson) -> Result<RequestMeta<'_>, RpcError> {
    RequestMeta::from_params(Raw::from(params)).map_err(|error| RpcError::invalid_params(&error))
}
