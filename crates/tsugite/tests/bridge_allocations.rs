//! Counts the allocations of a call across a bridge.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, and so do its own helpers")]

use std::alloc::System;

use alloc_tracker::{Allocator, Session};
use serde::Deserialize;
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite::transport::memory;

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::system();

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}"#;

#[tokio::test]
async fn bridged_call_allocates_only_what_it_uses() {
    let echo = Tool::new("echo").handler(|Args(echo): Args<Echo>| async move { echo.text });
    let bridge = Bridge::to(Client::in_process(&Server::new("s", "1").tool(echo)));
    let mut wire = memory::connect(&bridge.server()).unwrap();
    for line in [INITIALIZE, CALL] {
        wire.send(line);
        assert!(wire.next().await.contains("result"));
    }
    let session = Session::new();
    let operation = session.operation("work");
    let span = operation.measure_thread();
    wire.send(CALL);
    assert!(wire.next().await.contains("hello"));
    drop(span);
    let report = session.to_report();
    let (_, work) = report.operations().next().unwrap();
    // Those of both servers and of the client between them.
    let (count, bytes) = (work.total_allocations_count(), work.total_bytes_allocated());
    assert!(count <= 50 && bytes <= 10_000, "{count} allocations, {bytes} bytes");
}
