//! Tasks of 2025-11-25, which has them in its core, and of the extension of 2026-07-28, across a bridge.
//!
//! What holds with and without a bridge is in the transcripts of the server.

mod foreign_servers;
mod over_http;
mod to_core;
mod to_extension;
mod within_core;

use std::future::IntoFuture;
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite_testkit::fixture;
use tsugite_testkit::raw_client::RawClient;

const CORE: Revision = Revision::V2025_11_25;
const EXTENSION: Revision = Revision::V2026_07_28;

/// Fails the test instead of hanging.
async fn within<F: IntoFuture>(work: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(600), work.into_future()).await.expect("the test hangs")
}

/// The server whose tools run as tasks.
fn server() -> Server {
    fixture::by_name("tasks").unwrap()
}

/// A bridge to a server that speaks one revision.
fn bridge_to(server: &Server, revision: Revision) -> Bridge {
    Bridge::to(Client::in_process(server).revision(revision))
}

/// The capabilities of a client that can be asked, and has the extension.
fn declared() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Calls a tool as a task and returns its id.
async fn start(client: &mut RawClient, tool: &str) -> String {
    let params = json!({"name": tool, "arguments": {}, "task": {}});
    let response = within(client.request_once("tools/call", params)).await;
    let result = &response["result"];
    let id = result["taskId"].as_str().or(result["task"]["taskId"].as_str());
    id.unwrap_or_else(|| panic!("no task: {response}")).to_owned()
}

async fn request_task(client: &mut RawClient, method: &str, id: &str) -> Value {
    within(client.request_once(method, json!({"taskId": id}))).await
}

/// Polls a task until it has this status.
async fn poll_until(client: &mut RawClient, id: &str, status: &str) -> Value {
    for _ in 0..MAX_POLLS {
        let response = request_task(client, "tasks/get", id).await;
        if response["result"]["status"] == status {
            return response["result"].clone();
        }
        assert!(response["error"].is_null(), "{response}");
        tokio::task::yield_now().await;
    }
    panic!("the task is not {status}");
}

/// Polls until a task must have changed.
const MAX_POLLS: usize = 10_000;

fn answer(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}
