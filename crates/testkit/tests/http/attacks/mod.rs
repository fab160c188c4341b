//! Hostile and careless requests over HTTP: each gets its status and its error code, and no handler runs.

mod access;
mod bodies;
mod duplicate_names;
pub(crate) mod guard;
mod headers;
mod request_state;
mod scopes;
mod sessions;
mod shares;
mod streams;
mod tasks;
mod tokens;
mod visibility;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tsugite::prelude::*;
use tsugite_testkit::http::Response;

const MODERN: &str = "2026-07-28";
const OLD: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// A counter of calls.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Notifies when a handler has finished or was dropped.
struct Stops(Arc<Notify>);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A tool that counts its calls.
fn counting(name: &str, count: &Count) -> Tool {
    let count = count.clone();
    Tool::new(name).handler(move || {
        count.add();
        async { "ran" }
    })
}

/// A server with one tool, `ran`, that is counted.
fn counted() -> (Server, Count) {
    let count = Count::default();
    (Server::new("s", "1").tool(counting("ran", &count)), count)
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn call(name: &str, arguments: Value) -> Value {
    request(7, "tools/call", json!({"name": name, "arguments": arguments}))
}

fn notice(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// The status and the error code of a response.
#[track_caller]
fn refused(response: &Response) -> (u16, i64) {
    (response.status, response.error_code().unwrap_or_else(|| panic!("no error in {response:?}")))
}

/// The text of a tool's result.
#[track_caller]
fn text(response: &Response) -> String {
    assert_eq!(response.status, 200, "{response:?}");
    result_text(&response.json())
}

#[track_caller]
fn result_text(message: &Value) -> String {
    message["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {message}"))
        .to_owned()
}
