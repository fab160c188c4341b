//! The services that the settings of a server hold: layers around the router, and a receiver of notifications.
//!
//! They see the connection of a request, which in turn has the settings, so this file, `connection` and `config` know each
//! other.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, Raw, RawJson};
use tsugite_core::protocol::{Method, subscriptions};
use tsugite_core::revision::{Revision, RpcError, canonical_method};
use tsugite_core::session::ClientMetaPresence;

use super::cancellation::CancellationToken;
use super::connection::{ConnectionId, ServerConnection};
use super::declared_capabilities::DeclaredCapabilities;
use super::incoming_request::IncomingRequest;
use super::principal::{Caller, Headers, Principal};
use super::subject::Subject;
use crate::shared::outbound_queue::OutboundQueue;

/// A request as layers see it.
#[doc(alias = "MiddlewareContext")]
pub struct LayerRequest {
    pub(super) method: String,
    pub(super) parts: RequestParts,
}

/// The owned parts of a request.
pub(crate) struct RequestParts {
    pub(crate) connection: Arc<ServerConnection>,
    pub(crate) id: Id<'static>,
    pub(crate) params: RawJson,
    /// The item that the request names.
    pub(crate) subject: Arc<Subject<'static>>,
    /// The client information in `_meta`.
    pub(crate) sender_meta: ClientMetaPresence,
    /// The progress token.
    pub(crate) progress_token: Option<Id<'static>>,
    pub(crate) revision: Revision,
    pub(crate) outbox: Arc<OutboundQueue>,
    pub(crate) caller: Caller,
    pub(super) declared: DeclaredCapabilities,
    pub(crate) cancellation: CancellationToken,
}

impl LayerRequest {
    /// The owned form of a request.
    pub(super) fn from_incoming(
        connection: &Arc<ServerConnection>,
        incoming: IncomingRequest<'_>,
        cancellation: CancellationToken,
    ) -> Self {
        Self {
            method: canonical_method(&incoming.request.method).to_owned(),
            parts: RequestParts {
                connection: connection.clone(),
                id: incoming.request.id.clone().into_owned(),
                params: incoming.request.params().to_owned(),
                subject: Arc::new(incoming.subject().into_owned()),
                sender_meta: incoming.meta.client_meta_presence(),
                progress_token: incoming.meta.progress_token(),
                revision: incoming.revision,
                outbox: incoming.writer.outbox.clone(),
                caller: incoming.caller.clone(),
                declared: incoming.declared,
                cancellation,
            },
        }
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The name of the tool or prompt, or the URI of the resource.
    pub fn name(&self) -> Option<&str> {
        self.parts.subject.requested_name()
    }

    /// The caller, if the transport authenticated one.
    pub fn principal(&self) -> Option<&Principal> {
        self.parts.caller.principal.as_ref()
    }

    /// The HTTP headers; empty for other transports.
    pub fn headers(&self) -> &Headers {
        &self.parts.caller.headers
    }

    /// The client's revision.
    pub fn revision(&self) -> Revision {
        self.parts.revision
    }

    /// The raw params.
    pub fn params(&self) -> &RawJson {
        &self.parts.params
    }

    /// The parts needed to answer the request in place of the server.
    pub(crate) fn into_parts(self) -> (String, RequestParts) {
        (self.method, self.parts)
    }

    /// Whether the request opens a change stream, which stays open until the client ends it.
    pub fn is_listen(&self) -> bool {
        self.method == subscriptions::Listen::NAME
    }
}

impl fmt::Debug for LayerRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// A result as layers see it, in the form it is sent.
#[derive(Debug, Clone)]
pub struct LayerResponse {
    /// The result.
    pub result: RawJson,
}

pub(crate) type LayerFuture = Pin<Box<dyn Future<Output = Result<LayerResponse, RpcError>> + Send>>;

/// A type-erased service that answers requests.
pub(crate) trait DynService: Send + Sync {
    fn call(&self, request: LayerRequest) -> LayerFuture;
}

/// Receives the notifications of clients, except `notifications/cancelled` and `notifications/initialized`, in place of
/// the server.
pub(crate) trait NotificationHandler: Send + Sync {
    fn handle_notification(&self, connection: &Arc<ServerConnection>, method: &str, params: Option<Raw<'_>>);

    /// Called when a connection is dropped, so that data kept under its id can be dropped too.
    fn connection_dropped(&self, id: ConnectionId);
}
