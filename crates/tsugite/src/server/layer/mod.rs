//! Middleware: any `tower` layer around every request, and a few ready-made ones.
//!
//! A layer sees the method, the name and the caller, and returns a result or an error. A server without layers pays
//! nothing for them.
//!
//! ```
//! use std::time::Duration;
//! use tsugite::prelude::*;
//! use tsugite::server::layer::{ConcurrencyLimit, RateLimit, Timeout};
//!
//! let server = Server::new("careful", "1.0.0")
//!     .layer(ConcurrencyLimit::new(32))
//!     .layer(Timeout::new(Duration::from_secs(30)))
//!     .layer(RateLimit::new(100, Duration::from_secs(1)).per_principal());
//! # let _ = server;
//! ```

mod limits;

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tower_layer::Layer;
use tower_service::Service;
use tsugite_core::jsonrpc::{self, Id, Raw};
use tsugite_core::revision::{Revision, RpcError};
use tsugite_core::session::RequestMeta;

pub(crate) use super::layer_service::{DynService, LayerFuture, NotificationHandler, RequestParts};
pub use super::layer_service::{LayerRequest, LayerResponse};
pub use limits::{ConcurrencyLimit, ConcurrencyLimited, RateLimit, RateLimited, Timeout, TimeoutService};

use super::Server;
use super::cancellation::CancellationToken;
use super::connection::ServerConnection;
use super::incoming_request::{IncomingRequest, Tracking};
use super::key_state::KeyedRun;
use super::pending::PendingRequest;
use super::principal::Caller;
use super::response_writer::ResponseWriter;
use super::subject::Subject;
use crate::error::Chain;
use crate::shared::log;
use crate::shared::panic::{CatchPanic, PanicError};

/// The error of a layer. A [`RpcError`] is sent to the client; any other error is only logged.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The service that a layer wraps.
#[derive(Clone)]
#[doc(alias = "call_next")]
pub struct Next(Arc<dyn DynService>);

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Next")
    }
}

impl Service<LayerRequest> for Next {
    type Response = LayerResponse;
    type Error = RpcError;
    type Future = LayerFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: LayerRequest) -> LayerFuture {
        self.0.call(request)
    }
}

impl Server {
    /// Wraps every request, and the layers added before, in a layer.
    #[must_use]
    #[doc(alias("middleware", "add_middleware"))]
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<Next>,
        L::Service: Service<LayerRequest, Response = LayerResponse> + Clone + Send + Sync + 'static,
        <L::Service as Service<LayerRequest>>::Error: Into<BoxError>,
        <L::Service as Service<LayerRequest>>::Future: Send,
    {
        self.configure(|config| {
            let inner = config.layers.take().unwrap_or_else(|| Arc::new(RouterService));
            config.layers = Some(Arc::new(ServiceAdapter(layer.layer(Next(inner)))));
        })
    }
}

struct ServiceAdapter<S>(S);

impl<S> DynService for ServiceAdapter<S>
where
    S: Service<LayerRequest, Response = LayerResponse> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    fn call(&self, request: LayerRequest) -> LayerFuture {
        let mut service = self.0.clone();
        let (subject, id) = (request.parts.subject.clone(), request.parts.id.clone());
        Box::pin(async move {
            let answer = async {
                poll_fn(|cx| service.poll_ready(cx)).await?;
                service.call(request).await
            };
            answer.await.map_err(|error| into_rpc_error(error, &subject, &id))
        })
    }
}

fn into_rpc_error(error: impl Into<BoxError>, subject: &Subject<'_>, id: &Id<'_>) -> RpcError {
    match error.into().downcast::<RpcError>() {
        Ok(error) => *error,
        Err(error) => {
            let (kind, name) = (subject.kind, &*subject.name);
            log::error!(kind, name, %id, error = %Chain(&*error), "a layer failed");
            RpcError::Internal
        }
    }
}

/// The innermost service: the router.
struct RouterService;

impl DynService for RouterService {
    fn call(&self, request: LayerRequest) -> LayerFuture {
        Box::pin(async move {
            let (captured, work) = route_captured(&request, None);
            if let Some(work) = work {
                work.future.await;
            }
            match captured.take_captured() {
                Some(outcome) => outcome.map(|result| LayerResponse { result }),
                None => Err(RpcError::Internal),
            }
        })
    }
}

/// Starts a request whose response is captured. `keyed_run` is set if its idempotency key was looked up.
pub(crate) fn route_captured(
    request: &LayerRequest,
    keyed_run: Option<&KeyedRun>,
) -> (ResponseWriter, Option<PendingRequest>) {
    let LayerRequest { method, parts, .. } = request;
    let captured = ResponseWriter::capture(parts.outbox.clone());
    let message = jsonrpc::Request {
        id: parts.id.clone(),
        method: Cow::Borrowed(method),
        params: Some(Raw::from(&parts.params)),
    };
    let Ok(meta) = RequestMeta::from_params(message.params()) else { return (captured, None) };
    let keyed_caller = keyed_run.map(|run| Caller { keyed_run: Some(run.clone()), ..parts.caller.clone() });
    let (caller, tracking) =
        (keyed_caller.as_ref().unwrap_or(&parts.caller), Tracking::Layer(&parts.cancellation));
    let (revision, declared, writer) = (parts.revision, parts.declared, &captured);
    let incoming =
        IncomingRequest { request: &message, meta: &meta, revision, writer, caller, declared, tracking };
    let work = parts.connection.route_request(incoming);
    (captured, work)
}

/// Sends a request through the layers.
pub(crate) fn serve(
    connection: &Arc<ServerConnection>,
    layers: &Arc<dyn DynService>,
    incoming: IncomingRequest<'_>,
) -> Option<PendingRequest> {
    let cancellation = CancellationToken::default();
    let request = LayerRequest::from_incoming(connection, incoming, cancellation.clone());
    let subject = request.parts.subject.clone();
    let mut answer = CatchPanic::new(layers.call(request));
    if let Poll::Ready(outcome) = Pin::new(&mut answer).poll(&mut Context::from_waker(Waker::noop())) {
        send_response(incoming.writer, &incoming.request.id, &subject, incoming.revision, outcome);
        return None;
    }
    let (id, revision, writer) =
        (incoming.request.id.clone().into_owned(), incoming.revision, incoming.writer.clone());
    connection.register_pending(incoming, cancellation, async move {
        let outcome = answer.await;
        move || send_response(&writer, &id, &subject, revision, outcome)
    })
}

fn send_response(
    writer: &ResponseWriter,
    id: &Id<'_>,
    subject: &Subject<'_>,
    revision: Revision,
    outcome: Result<Result<LayerResponse, RpcError>, PanicError>,
) {
    match outcome {
        Ok(Ok(response)) => writer.send_raw_result(id, &response.result, revision),
        Ok(Err(error)) => writer.send_error(Some(id), &error, revision),
        Err(PanicError { message }) => {
            let (kind, name) = (subject.kind, &*subject.name);
            log::error!(kind, name, %id, error = message, "a layer panicked");
            writer.send_error(Some(id), &RpcError::Internal, revision);
        }
    }
}
