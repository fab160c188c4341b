//! A request that is to be answered, as every stage of the pipeline after the decision receives it.

use tsugite_core::jsonrpc::Request;
use tsugite_core::revision::{Revision, RpcError, canonical_method};
use tsugite_core::session::request_meta::RequestMeta;

use super::cancellation::CancellationToken;
use super::declared_capabilities::DeclaredCapabilities;
use super::principal::{Caller, Principal};
use super::response_writer::ResponseWriter;
use super::subject::Subject;

/// A request that is to be answered, and what is known about it.
#[derive(Clone, Copy)]
pub(crate) struct IncomingRequest<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) meta: &'a RequestMeta<'a>,
    pub(crate) revision: Revision,
    pub(crate) writer: &'a ResponseWriter,
    pub(crate) caller: &'a Caller,
    /// The capabilities that were declared to its session.
    pub(crate) declared: DeclaredCapabilities,
    pub(crate) tracking: Tracking<'a>,
}

impl<'a> IncomingRequest<'a> {
    pub(crate) fn principal(&self) -> Option<&'a Principal> {
        self.caller.principal.as_ref()
    }

    /// Whether the caller can be told apart from others.
    pub(crate) fn has_identified_caller(&self) -> bool {
        self.principal().is_some_and(Principal::is_identified)
    }

    /// The item that the request names.
    pub(crate) fn subject(&self) -> Subject<'a> {
        let method = canonical_method(&self.request.method);
        Subject::from_request(method, self.meta.mcp_name(method).flatten())
    }

    pub(crate) fn send_error(&self, error: &RpcError) {
        self.writer.send_error(Some(&self.request.id), error, self.revision);
    }
}

/// Where a pending request is registered, and so how it is cancelled.
#[derive(Clone, Copy)]
pub(crate) enum Tracking<'a> {
    /// In the connection's table, by its id.
    Connection,
    /// With the layers around it, which are in the connection's table themselves.
    Layer(&'a CancellationToken),
    /// Nowhere: to cancel it, its future is dropped.
    Untracked,
}

impl Tracking<'_> {
    /// The cancellation token of the request.
    pub(crate) fn cancellation_token(self) -> CancellationToken {
        match self {
            Tracking::Layer(token) => token.clone(),
            Tracking::Connection | Tracking::Untracked => CancellationToken::default(),
        }
    }
}
