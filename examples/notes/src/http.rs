//! The server over HTTP: an axum application that asks for a bearer token at `/mcp`.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::ensure;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tsugite::Server;
use tsugite::server::Principal;

/// The tokens that callers send, each with the name of its caller.
#[derive(Clone)]
pub struct Tokens(Arc<[(String, String)]>);

impl Tokens {
    /// Reads pairs `name=token`, separated by spaces or newlines.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
        let pairs: Vec<_> = pairs.map(|(name, token)| (name.to_owned(), token.to_owned())).collect();
        ensure!(pairs.len() == text.split_whitespace().count(), "a token must be written as name=token");
        ensure!(pairs.iter().all(|(_, token)| token.len() >= 16), "a token must have at least 16 characters");
        ensure!(!pairs.is_empty(), "there are no tokens; write at least one as name=token");
        Ok(Self(pairs.into()))
    }

    /// The caller that a token belongs to. Compares with every token, so that the time does not tell which one is close.
    fn caller(&self, given: &str) -> Option<Principal> {
        let mut caller = None;
        for (name, token) in self.0.iter() {
            if is_equal(token.as_bytes(), given.as_bytes()) {
                caller = Some(Principal::new(name.as_str()));
            }
        }
        caller
    }
}

/// Compares without stopping at the first difference. Only the length shows in the time that it takes.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |difference, (a, b)| black_box(difference | (a ^ b)));
    a.len() == b.len() && difference == 0
}

/// Lets a request with a valid token through, with the caller in its extensions.
async fn authenticate(State(tokens): State<Tokens>, mut request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match given.and_then(|value| value.strip_prefix("Bearer ")).and_then(|token| tokens.caller(token)) {
        Some(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        None => (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response(),
    }
}

/// Serves until `stop` completes.
pub async fn serve(
    server: &Server,
    tokens: Tokens,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let mcp = server.http_service()?;
    let app = Router::new()
        .route_service("/mcp", mcp.clone())
        .layer(from_fn_with_state(tokens, authenticate))
        // After the layer: this route needs no token.
        .route("/health", get(async || "ok\n"));
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let stop = async move {
        stop.await;
        // axum waits for every connection, and the streams of subscribers do not end by themselves.
        mcp.close();
    };
    Ok(axum::serve(listener, app).with_graceful_shutdown(stop).await?)
}
