//! Services beside the endpoint, for a server that listens itself.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use tower_service::Service;

use super::response_body::HttpBody;

/// The services of a listener, by their paths.
#[derive(Clone, Default)]
pub(super) struct SideServices(Vec<(String, Arc<CallService>)>);

type CallService = dyn Fn(Request<HttpBody>) -> ResponseFuture + Send + Sync;

pub(super) type ResponseFuture = Pin<Box<dyn Future<Output = Response<HttpBody>> + Send>>;

impl SideServices {
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
        self.0.push((path.to_owned(), Arc::new(call)));
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

impl fmt::Debug for SideServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(path, _)| path)).finish()
    }
}
