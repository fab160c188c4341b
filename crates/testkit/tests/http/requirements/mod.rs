//! Requirements of the specification for servers over HTTP, on real sockets.

mod authorization;
mod cancellation;
mod http_sse;
mod json_only;
mod post;
mod principals;
mod resumption;
mod sessions;
mod stateless;
mod streams;
mod token_expiry;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tsugite::prelude::*;
use tsugite::server::ListKind;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Connection, Request, Response, TestServer};

/// The handshake revisions that have Streamable HTTP.
const HANDSHAKES: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// A server with a tool for each behaviour that the tests need.
struct FeatureServer {
    server: Server,
    /// The permits that `waits` and `leaves` wait for.
    gate: Arc<Semaphore>,
    /// How each of their calls ended: finished or dropped.
    ended: mpsc::UnboundedReceiver<bool>,
}

fn feature_server() -> FeatureServer {
    let gate = Arc::new(Semaphore::new(0));
    let (tell, ended) = mpsc::unbounded_channel();
    let echo = Tool::new("echo").handler(|| async { "hello" });
    let steps = Tool::new("steps").handler(|cx: Context| async move {
        cx.progress(1).total(2).await;
        cx.log(Level::Warning, "half").await;
        tokio::task::yield_now().await;
        cx.progress(2).total(2).await;
        "done"
    });
    let asks = Tool::new("asks").handler(|cx: Context| async move {
        let roots = cx.roots().await?;
        Ok::<_, HandlerError>(format!("{} roots", roots.len()))
    });
    let tells_and_asks = Tool::new("tells_and_asks").handler(|cx: Context| async move {
        cx.progress(1).await;
        tokio::task::yield_now().await;
        let roots = cx.roots().await?;
        Ok::<_, HandlerError>(format!("{} roots", roots.len()))
    });
    let hides = Tool::new("hides").handler(|cx: Context| async move {
        cx.server().disable(ListKind::Tool, "hides");
        "hidden"
    });
    let waiting = |name: &str, leaves: bool| {
        let (gate, tell) = (gate.clone(), tell.clone());
        Tool::new(name).handler(move |cx: Context| {
            let (gate, end) = (gate.clone(), End { tell: tell.clone(), done: false });
            async move {
                let mut end = end;
                cx.progress(1).await;
                if leaves {
                    cx.close_stream();
                }
                gate.acquire().await.unwrap().forget();
                cx.progress(2).await;
                end.done = true;
                "waited"
            }
        })
    };
    let (waits, leaves) = (waiting("waits", false), waiting("leaves", true));
    let server = [echo, steps, asks, tells_and_asks, hides, waits, leaves]
        .into_iter()
        .fold(Server::new("features", "1"), Server::tool);
    FeatureServer { server, gate, ended }
}

/// Reports how a call ended.
struct End {
    tell: mpsc::UnboundedSender<bool>,
    done: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.tell.send(self.done);
    }
}

/// A call of a tool. Its progress token is its id.
fn call(id: u64, name: &str) -> Value {
    let params = json!({"name": name, "arguments": {}, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn notice(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

/// Fails the test instead of hanging.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.unwrap_or_else(|_| panic!("timed out"))
}

async fn send(serving: &TestServer, request: Request) -> Response {
    within(serving.send(request)).await
}

/// Opens a stream.
async fn stream(serving: &TestServer, request: Request) -> Connection {
    let mut connection = serving.connect().await;
    let head = within(connection.send(request)).await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")), "{head:?}");
    connection
}

/// Reads the remaining messages of a stream until it ends.
async fn rest(mut stream: Connection) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(message) = within(stream.next_message()).await {
        all.push(message);
    }
    all
}

/// Deletes a session, which ends its streams.
async fn delete(serving: &TestServer, session: &str) {
    let deleted = send(serving, Request::new("DELETE").session(session)).await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
}

/// A summary of messages: the methods of notifications and requests, the ids of responses.
fn summary(messages: &[Value]) -> Vec<String> {
    let name = |message: &Value| match message["method"].as_str() {
        Some(method) => method.to_owned(),
        None => format!("answer {}", message["id"]),
    };
    messages.iter().map(name).collect()
}

fn with_http(http: Http) -> Server {
    feature_server().server.http(http)
}
