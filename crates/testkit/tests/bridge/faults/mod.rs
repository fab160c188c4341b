//! The bridge between peers that hang, connect late, disconnect, or are hostile.
//!
//! No test sleeps: where time matters the clock is paused.

mod cancellation;
mod connection_limits;
mod credentials;
mod disconnects;
mod first_use;
mod hanging_servers;
mod isolation;
mod keys;
mod odd_clients;
mod pauses;
mod prefixes;
mod request_state;
mod script;
mod subscriptions;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::{Value, json};
use tower_layer::Layer;
use tower_service::Service;
use tsugite::client::ClientBuilder;
use tsugite::prelude::*;
use tsugite::server::layer::{BoxError, LayerRequest, LayerResponse, Next};

/// The revision of servers and clients with a handshake.
const HANDSHAKE: Revision = Revision::V2025_11_25;
/// The revision of servers and clients without a handshake.
const STATELESS: Revision = Revision::NEWEST;

/// Fails the test instead of hanging.
async fn within<F: IntoFuture>(work: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), work.into_future()).await.expect("the test hangs")
}

/// All client capabilities.
fn can_be_asked() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {response}"))
}

/// The names of a list of tools.
fn names(response: &Value) -> Vec<&str> {
    let tools = response["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("no list in {response}"));
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

/// Records the messages sent to a server.
pub(crate) fn overheard(server: ClientBuilder) -> (ClientBuilder, Arc<Mutex<Vec<Value>>>) {
    let heard = Arc::<Mutex<Vec<Value>>>::default();
    let noted = heard.clone();
    let server = server.on_wire(move |direction, text| {
        if direction == tsugite::client::Direction::Sent {
            noted.lock().unwrap().push(serde_json::from_str(text).unwrap_or_default());
        }
    });
    (server, heard)
}

/// A layer that ends the next `subscriptions/listen` with an error when notified.
#[derive(Clone, Default)]
struct EndListen(Arc<tokio::sync::Notify>);

#[derive(Clone)]
struct EndingListen(EndListen, Next);

impl Layer<Next> for EndListen {
    type Service = EndingListen;

    fn layer(&self, inner: Next) -> EndingListen {
        EndingListen(self.clone(), inner)
    }
}

impl Service<LayerRequest> for EndingListen {
    type Response = LayerResponse;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<LayerResponse, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: LayerRequest) -> Self::Future {
        let listens = request.method() == "subscriptions/listen";
        let (answer, end) = (self.1.call(request), self.0.0.clone());
        Box::pin(async move {
            tokio::select! {
                answer = answer => answer.map_err(Into::into),
                () = end.notified(), if listens => Err("restarting".into()),
            }
        })
    }
}

/// A layer that never responds to one method.
#[derive(Clone)]
pub(crate) struct Mute(pub(crate) &'static str);

#[derive(Clone)]
pub(crate) struct Muted(&'static str, Next);

impl Layer<Next> for Mute {
    type Service = Muted;

    fn layer(&self, inner: Next) -> Muted {
        Muted(self.0, inner)
    }
}

impl Service<LayerRequest> for Muted {
    type Response = LayerResponse;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<LayerResponse, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: LayerRequest) -> Self::Future {
        if request.method() == self.0 {
            return Box::pin(std::future::pending());
        }
        let answer = self.1.call(request);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}
