//! Counts the allocations of a request over HTTP, which must not grow with the number of tools or sessions.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and so do its own helpers"
)]

use std::alloc::System;
use std::future::poll_fn;
use std::pin::Pin;

use alloc_tracker::{Allocator, Session};
use http::{Request, Response};
use http_body::Body;
use serde::Deserialize;
use tower_service::Service;
use tsugite::prelude::*;
use tsugite::transport::http::{HttpBody, HttpService};

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

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}"#;
const STATELESS_CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

fn post(body: &str, headers: &[(&str, &str)]) -> Request<String> {
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    headers
        .iter()
        .fold(request, |request, (name, value)| request.header(*name, *value))
        .body(body.to_owned())
        .unwrap()
}

async fn opened(service: &mut HttpService) -> String {
    let response = service.call(post(INITIALIZE, &[])).await.unwrap();
    response.headers().get("mcp-session-id").unwrap().to_str().unwrap().to_owned()
}

async fn text(response: Response<HttpBody>) -> String {
    let mut body = response.into_body();
    let mut text = String::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
    }
    text
}

/// The allocations of a call after warm-up: in a session, and stateless.
async fn costs(tools: usize, sessions: usize) -> (u64, u64) {
    let mut service = server(tools).http_service().unwrap();
    for _ in 0..sessions {
        opened(&mut service).await;
    }
    let id = opened(&mut service).await;
    let session = cost(&mut service, CALL, &[("mcp-session-id", &id)]).await;
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
    let stateless = cost(&mut service, STATELESS_CALL, &headers).await;
    (session, stateless)
}

async fn cost(service: &mut HttpService, body: &str, headers: &[(&str, &str)]) -> u64 {
    for _ in 0..2 {
        let answer = text(service.call(post(body, headers)).await.unwrap()).await;
        assert!(answer.contains("hello"), "{answer}");
    }
    let request = post(body, headers);
    let session = Session::new();
    let operation = session.operation("work");
    let response = {
        let _span = operation.measure_thread();
        service.call(request).await.unwrap()
    };
    assert!(text(response).await.contains("hello"));
    let report = session.to_report();
    report.operations().next().unwrap().1.total_allocations_count()
}

#[tokio::test]
async fn call_allocations_do_not_grow_with_tools_or_sessions() {
    let _alone = ALONE.lock().await;
    let (session, stateless) = costs(1, 0).await;
    assert!(session <= 16 && stateless <= 16, "{session} in a session, {stateless} without");
    assert_eq!(costs(1_000, 0).await, (session, stateless));
    assert_eq!(costs(1, 10_000).await, (session, stateless));
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn expired_sessions_release_their_memory() {
    let _alone = ALONE.lock().await;
    let mut service = server(1).http_service().unwrap();
    let mut seen = Vec::new();
    for _ in 0..5 {
        for _ in 0..10_000 {
            opened(&mut service).await;
        }
        seen.push(resident());
        // Longer than the idle timeout of a session plus the sweep interval.
        tokio::time::sleep(std::time::Duration::from_secs(3_600)).await;
    }
    // Ten thousand sessions take some 9 MiB, and 40,000 were opened since the first measurement.
    assert!(seen[4].saturating_sub(seen[0]) < 9_000, "KiB after each round: {seen:?}");
}

/// The resident memory of this process, in KiB.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Memory is counted for one test at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
