//! Counts the allocations of a call, which must not grow with the number of tools.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, and so do its own helpers")]

use std::alloc::System;

use alloc_tracker::{Allocator, Session};
use serde::Deserialize;
use tsugite::prelude::*;
use tsugite::transport::memory;

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::system();

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

/// A server with `tools` tools, one of which echoes.
fn server(tools: usize) -> Server {
    let echo = Tool::new("echo").handler(|Args(echo): Args<Echo>| async move { echo.text });
    (1..tools).fold(Server::new("s", "1").tool(echo), |server, number| {
        server.tool(Tool::new(format!("tool_{number}")).description("One of many.").handler(|| async { "x" }))
    })
}

/// The allocations for serving `line` after warm-up, including the output buffer.
async fn cost(server: &Server, line: &str) -> u64 {
    let mut wire = memory::connect(server).unwrap();
    wire.send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#);
    wire.next().await;
    wire.send(line);
    wire.next().await;
    let session = Session::new();
    let operation = session.operation("work");
    {
        let _span = operation.measure_thread();
        wire.send(line);
    }
    assert!(wire.next().await.contains("result"));
    let report = session.to_report();
    report.operations().next().unwrap().1.total_allocations_count()
}

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}"#;

#[tokio::test]
async fn call_allocations_do_not_grow_with_the_tools() {
    let alone = cost(&server(1), CALL).await;
    // The argument, the future of the handler, the result with its one block, and the output buffer as it grows.
    assert!(alone <= 8, "{alone}");
    assert_eq!(cost(&server(1_000), CALL).await, alone);
}

#[tokio::test]
async fn long_tool_list_is_copied_not_encoded_again() {
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let few = cost(&server(1), list).await;
    let many = cost(&server(1_000), list).await;
    // Two more allocations: a larger buffer grows, and again for the newline.
    assert!(many <= few + 2 && many <= 6, "{few} for one tool, {many} for a thousand");
}
