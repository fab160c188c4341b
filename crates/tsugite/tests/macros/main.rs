//! All code that a macro generates can be written by hand: each example has an equal one without macros, and no client
//! can tell them apart.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod errors;
mod forms;
mod handlers;
mod prompts;
mod resources;
mod state;
mod tools;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::transport::memory;

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// A method and its params.
type Request = (&'static str, Value);

/// Calls a tool.
fn call(name: &str, arguments: Value) -> Request {
    ("tools/call", json!({"name": name, "arguments": arguments}))
}

/// The responses of a server on one revision.
async fn answers(server: &Server, revision: &str, requests: &[Request]) -> Vec<Value> {
    let mut wire = memory::connect(server).unwrap();
    if revision < "2026" {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
        let open = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        wire.send(open.to_string());
        wire.next().await;
        wire.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }
    let mut heard = Vec::new();
    for (id, (method, params)) in requests.iter().enumerate() {
        let mut params = params.clone();
        if revision > "2026" {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        wire.send(json!({"jsonrpc": "2.0", "id": id + 1, "method": method, "params": params}).to_string());
        heard.push(serde_json::from_str(&wire.next().await).unwrap());
    }
    heard
}

/// The response to one request on the newest revision.
async fn answer(server: &Server, request: Request) -> Value {
    answers(server, "2026-07-28", &[request]).await.remove(0)
}

/// Fails unless both servers respond the same to lists and to these requests, and none is refused.
async fn assert_twins(made: Server, by_hand: Server, requests: impl IntoIterator<Item = Request>) {
    let lists = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"];
    let lists = lists.map(|method| (method, json!({})));
    let requests: Vec<_> = requests.into_iter().collect();
    for revision in REVISIONS {
        let made = answers(&made, revision, &requests).await;
        let by_hand = answers(&by_hand, revision, &requests).await;
        for ((request, made), by_hand) in requests.iter().zip(&made).zip(&by_hand) {
            assert_eq!(made, by_hand, "{revision}: {request:?}");
            assert!(made.get("result").is_some(), "{revision}: {request:?}: {made}");
        }
    }
    for revision in REVISIONS {
        let (made, by_hand) =
            (answers(&made, revision, &lists).await, answers(&by_hand, revision, &lists).await);
        assert_eq!(made, by_hand, "{revision}");
    }
}
