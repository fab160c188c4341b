//! The decision table of HTTP in docs/decisions, row by row over a real socket: what arrives, which status and which
//! number it gets.

mod access;
mod get_and_delete;
mod handshake;
mod stateless;
mod stateless_headers;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::Schema;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, Response, TestServer};

const MODERN: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A server whose handlers are counted.
struct CountingServer {
    serving: TestServer,
    calls: Arc<AtomicUsize>,
}

impl CountingServer {
    async fn start() -> Self {
        Self::with(|server| server).await
    }

    async fn without_sessions() -> Self {
        Self::with(|server| server.http(Http::new().sessions(false))).await
    }

    async fn stateless_only() -> Self {
        Self::with(|server| server.revisions(Revisions::ALL.stateless())).await
    }

    async fn with(set: impl FnOnce(Server) -> Server) -> Self {
        let calls = Arc::new(AtomicUsize::new(0));
        let (count, counts) = (calls.clone(), calls.clone());
        let echo = Tool::new("echo").handler(move |cx: Context| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { cx.revision().to_string() }
        });
        let region = json!({"type": "string", "x-mcp-header": "Region"});
        let schema = json!({"type": "object", "properties": {"region": region}});
        let place = Tool::new("place").input_schema(Schema::from(schema)).raw_handler(move |_, _| {
            counts.fetch_add(1, Ordering::SeqCst);
            async { "placed" }
        });
        let roots = Tool::new("roots").handler(|cx: Context| async move {
            cx.roots().await.map(|roots| format!("{} roots", roots.len()))
        });
        let server = Server::new("s", "1")
            .tool(echo)
            .tool(place)
            .tool(roots)
            .resource(Resource::text("text://a", "a"));
        Self { serving: TestServer::start(&set(server)).await, calls }
    }

    async fn send(&self, request: Request) -> Response {
        self.serving.send(request).await
    }

    /// Opens a session and completes its handshake.
    async fn open(&self, revision: &str) -> String {
        tsugite_testkit::http::open_session(&self.serving, revision, json!({"roots": {}})).await
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// A request of the handshake era.
fn plain(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {}})
}

/// A call of a tool.
fn call(name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "arguments": {}}})
}

/// A request that claims `version` in its `_meta`.
fn claiming(version: &str, mut message: Value) -> Value {
    message["params"]["_meta"] = json!({VERSION: version, CAPABILITIES: {}});
    message
}

fn notice(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

fn response(id: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"roots": []}})
}

/// The status and the code of an error response with the id of its request.
#[track_caller]
fn refused(response: &Response) -> (u16, i64) {
    assert_eq!(response.json()["id"], 7, "{response:?}");
    (response.status, response.error_code().unwrap_or_else(|| panic!("no error in {response:?}")))
}

/// The status and the code of an error response without an id.
#[track_caller]
fn refused_without_id(response: &Response) -> (u16, i64) {
    assert!(response.json().get("id").is_none_or(Value::is_null), "{response:?}");
    (response.status, response.error_code().unwrap_or_else(|| panic!("no error in {response:?}")))
}

#[track_caller]
fn text(response: &Response) -> String {
    assert_eq!(response.status, 200, "{response:?}");
    let message = response.json();
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}")).to_owned()
}
