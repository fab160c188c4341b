//! What stands around every request: any `tower` layer, and a few that are ready to use.
//!
//! A layer sees the method, the name and the caller, and gives a result or a refusal. Without layers nothing of this costs
//! anything.
//!
//! ```
//! use std::time::Duration;
//! use tsugite::prelude::*;
//! use tsugite::server::layer::{ConcurrencyLimit, RateLimit, TimeLimit};
//!
//! let server = Server::new("careful", "1.0.0")
//!     .layer(ConcurrencyLimit::new(32))
//!     .layer(TimeLimit::new(Duration::from_secs(30)))
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
use tsugite_core::jsonrpc::{self, Id, Raw, RawJson};
use tsugite_core::protocol::{Method, subscriptions};
use tsugite_core::revision::{RpcError, Revision, canonical_method};
use tsugite_core::session::{RequestMeta, ClientMetaPresence};

pub use limits::{ConcurrencyLimit, ConcurrencyLimited, RateLimit, RateLimited, TimeLimit, TimeLimited};

use super::Server;
use super::context::Cancelled;
use super::lifecycle::Declared;
use super::link::{Asked, Caller, Link, Tables, Work};
use super::panic::{CatchPanic, Panicked};
use super::principal::{Headers, Principal};
use super::reply::Reply;
use crate::error::Chain;
use crate::transport::outbox::Outbox;

/// A request, as layers see it.
pub struct Request {
    method: String,
    job: Job,
}

/// What is needed to answer it.
pub(crate) struct Job {
    pub(crate) link: Arc<Link>,
    pub(crate) id: Id<'static>,
    pub(crate) params: RawJson,
    pub(crate) name: Option<String>,
    /// What `_meta` says of whoever sends it.
    pub(crate) stamp: ClientMetaPresence,
    /// The token under which progress is wanted.
    pub(crate) token: Option<Id<'static>>,
    pub(crate) revision: Revision,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) caller: Caller,
    declared: Declared,
    cancelled: Cancelled,
}

impl Request {
    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The name of the tool or prompt, or the URI of the resource.
    pub fn name(&self) -> Option<&str> {
        self.job.name.as_deref()
    }

    /// Who calls, if the transport has authenticated them.
    pub fn principal(&self) -> Option<&Principal> {
        self.job.caller.principal.as_ref()
    }

    /// The headers of the request; empty where there are none.
    pub fn headers(&self) -> &Headers {
        &self.job.caller.headers
    }

    /// The revision the client speaks.
    pub fn revision(&self) -> Revision {
        self.job.revision
    }

    /// The params as they came.
    pub fn params(&self) -> &RawJson {
        &self.job.params
    }

    /// What is needed to answer it in another way than the server would.
    pub(crate) fn into_job(self) -> (String, Job) {
        (self.method, self.job)
    }

    /// Whether it is a stream of changes, which stays open for as long as the client wants it.
    pub fn is_stream(&self) -> bool {
        self.method == subscriptions::Listen::NAME
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("name", &self.job.name)
            .finish_non_exhaustive()
    }
}

/// A result, as layers see it: the way it will be sent.
#[derive(Debug, Clone)]
pub struct Response {
    /// The result.
    pub result: RawJson,
}

/// What layers may fail with. A [`RpcError`] is what the client hears; anything else stays in the log.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Response, RpcError>> + Send>>;

/// Something that answers requests, whatever it is made of.
pub(crate) trait Layered: Send + Sync {
    fn call(&self, request: Request) -> Answering;
}

/// Something that hears what a client says that is no request, and nothing of the protocol's own machinery.
pub(crate) trait Hearer: Send + Sync {
    fn hear(&self, link: &Arc<Link>, method: &str, params: Option<Raw<'_>>);
}

/// What a layer stands around.
#[derive(Clone)]
pub struct Next(Arc<dyn Layered>);

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Next")
    }
}

impl Service<Request> for Next {
    type Response = Response;
    type Error = RpcError;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Answering {
        self.0.call(request)
    }
}

impl Server {
    /// Puts a layer around every request, and around the layers that are there already.
    #[must_use]
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<Next>,
        L::Service: Service<Request, Response = Response> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Error: Into<BoxError>,
        <L::Service as Service<Request>>::Future: Send,
    {
        self.configure(|config| {
            let inner = config.layers.take().unwrap_or_else(|| Arc::new(Innermost));
            config.layers = Some(Arc::new(Erased(layer.layer(Next(inner)))));
        })
    }
}

struct Erased<S>(S);

impl<S> Layered for Erased<S>
where
    S: Service<Request, Response = Response> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    fn call(&self, request: Request) -> Answering {
        let mut service = self.0.clone();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(refusal)?;
            service.call(request).await.map_err(refusal)
        })
    }
}

fn refusal(error: impl Into<BoxError>) -> RpcError {
    match error.into().downcast::<RpcError>() {
        Ok(refusal) => *refusal,
        Err(error) => {
            tracing::error!(error = %Chain(&*error), "a layer failed");
            RpcError::Internal
        }
    }
}

/// The server itself.
struct Innermost;

impl Layered for Innermost {
    fn call(&self, request: Request) -> Answering {
        Box::pin(async move {
            let (captured, work) = begin(&request);
            if let Some(work) = work {
                work.future.await;
            }
            match captured.taken() {
                Some(outcome) => outcome.map(|result| Response { result }),
                None => Err(RpcError::Internal),
            }
        })
    }
}

/// Begins to answer a request into a place of its own.
fn begin(request: &Request) -> (Reply, Option<Work>) {
    let Request { method, job, .. } = request;
    let captured = Reply::capture(job.outbox.clone());
    let message = jsonrpc::Request {
        id: job.id.clone(),
        method: Cow::Borrowed(method),
        params: Some(Raw::from(&job.params)),
    };
    let Ok(peek) = RequestMeta::from_params(message.params()) else { return (captured, None) };
    let (caller, tables) = (&job.caller, Tables::Around(&job.cancelled));
    let (revision, declared, reply) = (job.revision, job.declared, &captured);
    let asked = Asked { request: &message, peek: &peek, revision, reply, caller, declared, tables };
    let work = job.link.answer(asked);
    (captured, work)
}

/// Answers a request through the layers.
pub(crate) fn serve(link: &Arc<Link>, layers: &Arc<dyn Layered>, asked: Asked<'_>) -> Option<Work> {
    let method = canonical_method(&asked.request.method);
    let cancelled = Cancelled::default();
    let request = Request {
        method: method.to_owned(),
        job: Job {
            link: link.clone(),
            id: asked.request.id.clone().into_owned(),
            params: asked.request.params().to_owned(),
            name: asked.peek.mcp_name(method).flatten().map(str::to_owned),
            stamp: asked.peek.client_meta_presence(),
            token: asked.peek.progress_token(),
            revision: asked.revision,
            outbox: asked.reply.outbox.clone(),
            caller: asked.caller.clone(),
            declared: asked.declared,
            cancelled: cancelled.clone(),
        },
    };
    let mut answer = CatchPanic::new(layers.call(request));
    if let Poll::Ready(outcome) = Pin::new(&mut answer).poll(&mut Context::from_waker(Waker::noop())) {
        say(asked.reply, &asked.request.id, asked.revision, outcome);
        return None;
    }
    let (id, revision, reply) = (asked.request.id.clone().into_owned(), asked.revision, asked.reply.clone());
    link.pend(asked, cancelled, async move {
        let outcome = answer.await;
        move || say(&reply, &id, revision, outcome)
    })
}

fn say(reply: &Reply, id: &Id<'_>, revision: Revision, outcome: Result<Result<Response, RpcError>, Panicked>) {
    match outcome {
        Ok(Ok(response)) => reply.raw_result(id, &response.result, revision),
        Ok(Err(refusal)) => reply.refusal(Some(id), &refusal, revision),
        Err(Panicked) => {
            tracing::error!(%id, "a layer panicked");
            reply.refusal(Some(id), &RpcError::Internal, revision);
        }
    }
}
