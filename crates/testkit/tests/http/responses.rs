//! Responses as JSON or as event streams, and errors of the listener.

use std::sync::Arc;

use serde_json::json;
use tsugite::prelude::*;
use tsugite::server::SealKey;
use tsugite::store::MemoryStore;
use tsugite_testkit::http::{Request, TestServer, open_session};

fn server() -> Server {
    let echo = Tool::new("echo").handler(|| async { "hello" });
    let steps = Tool::new("steps").handler(|cx: Context| async move {
        for step in 1..=3 {
            cx.progress(step).total(3).await;
            tokio::task::yield_now().await;
        }
        "done"
    });
    Server::new("s", "1").tool(echo).tool(steps)
}

#[tokio::test]
async fn response_is_json_unless_messages_come_first() {
    let serving = TestServer::start(&server()).await;
    let call = |name: &str| {
        let params = json!({"name": name, "arguments": {}, "_meta": {"progressToken": "t"}});
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    };
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    for request in [Request::post(&call("echo")).session(&session), Request::stateless(call("echo"))] {
        let answer = serving.send(request).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        assert_eq!(answer.json()["result"]["content"][0]["text"], "hello");
    }
    for request in [Request::post(&call("steps")).session(&session), Request::stateless(call("steps"))] {
        let answer = serving.send(request).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
        assert_eq!(answer.header("x-accel-buffering"), Some("no"));
        let said: Vec<_> = answer.events().into_iter().filter(|event| !event.data.is_empty()).collect();
        assert_eq!(said.len(), 4, "{answer:?}");
        assert_eq!(said[3].json()["result"]["content"][0]["text"], "done");
        assert_eq!(said[2].json()["params"]["progress"], 3);
    }
    serving.stop().await.unwrap();
}

#[tokio::test]
async fn poll_of_a_task_is_answered_without_a_stream() {
    // TASK-038
    let serving = TestServer::start(&tsugite_testkit::fixture::by_name("tasks").unwrap()).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let request = |method: &str, params| {
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        Request::post(&message).session(&session)
    };
    let call = request("tools/call", json!({"name": "waits", "arguments": {}, "task": {}}));
    let created = serving.send(call).await.json();
    let id = created["result"]["task"]["taskId"].as_str().unwrap().to_owned();
    let got = serving.send(request("tasks/get", json!({"taskId": id}))).await;
    assert_eq!((got.status, got.header("content-type")), (200, Some("application/json")));
    assert_eq!(got.json()["result"]["status"], "working");
    serving.stop().await.unwrap();
}

#[tokio::test]
async fn stopped_server_fails_a_task_with_the_reason() {
    let store = Arc::new(MemoryStore::new().shared());
    let server = || {
        let server = tsugite_testkit::fixture::by_name("tasks").unwrap();
        server.store(store.clone()).seal_keys(SealKey::new([7; 32]))
    };
    let request = |method: &str, name: &str, params| {
        let mut message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        message["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let post = Request::post(&message).header("MCP-Protocol-Version", "2026-07-28");
        post.header("Mcp-Method", method).header("Mcp-Name", name)
    };
    let first = TestServer::start(&server()).await;
    let created = first.send(request("tools/call", "waits", json!({"name": "waits"}))).await.json();
    let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    first.stop().await.unwrap();
    let second = TestServer::start(&server()).await;
    let got = second.send(request("tasks/get", &id, json!({"taskId": id}))).await.json();
    let text = got["result"]["error"]["message"].as_str().unwrap_or_else(|| panic!("{got}"));
    assert!(text.starts_with("The server was stopped while this task ran"), "{text}");
    second.stop().await.unwrap();
}

#[tokio::test]
async fn error_names_an_address_in_use() {
    let first = tsugite_testkit::fixture::server().bind_http("127.0.0.1:0").await.unwrap();
    let address = first.local_addr().to_string();
    let error = tsugite_testkit::fixture::server().bind_http(&*address).await.map(drop).unwrap_err();
    assert!(error.is_io() && error.to_string().contains(&address), "{error}");
}
