//! Services beside the endpoint, for a server that listens itself.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use tower_service::Service;

use super::http_settings::Http;
use super::response_body::HttpBody;

impl Http {
    /// Serves a `tower` service at `path`, for a server that listens itself: a document, or the endpoints of an
    /// authorization server. A path that ends with `/*` stands for all paths below it. The endpoint, the health check, the
    /// page and earlier services come first.
    ///
    /// Its requests need no token, and their origin is not checked, but their host is. Their bodies are read before, within
    /// the limits of the endpoint. [`ClientAddr`](super::ClientAddr) in their extensions is the address of the client.
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use tsugite::transport::http::{Http, HttpBody};
    ///
    /// #[derive(Clone)]
    /// struct Robots;
    ///
    /// impl tower_service::Service<http::Request<HttpBody>> for Robots {
    ///     type Response = http::Response<HttpBody>;
    ///     type Error = Infallible;
    ///     type Future = std::future::Ready<Result<Self::Response, Infallible>>;
    ///
    ///     fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
    ///         std::task::Poll::Ready(Ok(()))
    ///     }
    ///
    ///     fn call(&mut self, _: http::Request<HttpBody>) -> Self::Future {
    ///         std::future::ready(Ok(http::Response::new("User-agent: *\nDisallow: /".into())))
    ///     }
    /// }
    ///
    /// let http = Http::new().route_service("/robots.txt", Robots);
    /// # let _ = http;
    /// ```
    #[must_use]
    pub fn route_service<S>(mut self, path: impl AsRef<str>, service: S) -> Self
    where
        S: Service<Request<HttpBody>, Response = Response<HttpBody>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send,
    {
        let path = path.as_ref();
        if !path.starts_with('/') {
            self.config_errors.push(format!("the path {path:?} of a service does not begin with `/`"));
        }
        self.side_services.update(|services: &mut SideServices| services.add(path, service));
        self
    }
}

/// The services of a listener, by their paths.
#[derive(Clone, Default)]
pub(super) struct SideServices(Arc<Vec<(String, Arc<CallService>)>>);

type CallService = dyn Fn(Request<HttpBody>) -> ResponseFuture + Send + Sync;

pub(super) type ResponseFuture = Pin<Box<dyn Future<Output = Response<HttpBody>> + Send>>;

impl SideServices {
    /// The services that were set.
    pub(super) fn of(http: &Http) -> Self {
        http.side_services.get()
    }

    /// Adds a service at a path, which is that of all below it if it ends with `/*`.
    pub(super) fn add<S>(&mut self, path: &str, service: S)
    where
        S: Service<Request<HttpBody>, Response = Response<HttpBody>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send,
    {
        let call = move |request| -> ResponseFuture {
            let mut service = service.clone();
            Box::pin(async move {
                match poll_fn(|cx| service.poll_ready(cx)).await {
                    Ok(()) => {}
                    Err(never) => match never {},
                }
                match service.call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            })
        };
        Arc::make_mut(&mut self.0).push((path.to_owned(), Arc::new(call)));
    }

    /// The number of the first service that has this path.
    pub(super) fn find(&self, path: &str) -> Option<usize> {
        self.0.iter().position(|(known, _)| match known.strip_suffix('*') {
            Some(folder) => path.starts_with(folder),
            None => path == known,
        })
    }

    /// Calls a service by its number.
    pub(super) fn call(&self, service: usize, request: Request<HttpBody>) -> Option<ResponseFuture> {
        self.0.get(service).map(|(_, call)| call(request))
    }
}
