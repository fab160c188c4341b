//! One caller cannot use up what others need: its share of requests, handlers, sessions, streams and memory.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tsugite::prelude::*;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Connection, Request, Response, TestServer, initialize_request, open_session};

use super::request;

const GREEDY: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

/// Arguments of any size.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code, reason = "only its size matters")]
struct Fill {
    #[serde(default)]
    text: String,
}

/// `echo` is done in its first poll, `wait` when the gate opens, `ask` when the client answers.
fn server(http: Http) -> (Server, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    let wait = Tool::new("wait").handler(move |Args(_): Args<Fill>| {
        let gate = opened.clone();
        async move {
            drop(gate.acquire().await);
            "waited"
        }
    });
    let ask = Tool::new("ask").handler(|cx: Context| async move {
        let roots = cx.roots().await?;
        Ok::<_, HandlerError>(format!("{} roots", roots.len()))
    });
    let echo = Tool::new("echo").handler(|| async { "hello" });
    (Server::new("s", "1").tool(wait).tool(ask).tool(echo).http(http), gate)
}

fn call(tool: &str, arguments: Value) -> Request {
    Request::stateless(request(1, "tools/call", json!({"name": tool, "arguments": arguments})))
}

async fn send_from(source: [u8; 4], serving: &TestServer, request: Request) -> Response {
    Connection::connect_from(source, serving.address).await.send_and_read(request).await
}

/// Starts a call whose response is not awaited.
async fn start(source: [u8; 4], serving: &TestServer, request: &Request) -> Connection {
    let mut connection = Connection::connect_from(source, serving.address).await;
    connection.write_request(request).await;
    connection
}

/// Sends `echo` until the server has dispatched all earlier requests of other connections.
async fn settle(serving: &TestServer) {
    for _ in 0..20 {
        assert_eq!(send_from([127, 0, 0, 9], serving, call("echo", json!({}))).await.status, 200);
    }
}

/// A refusal that clients may repeat: it has no id, and says when to come back.
fn assert_refused(response: &Response, status: u16) {
    assert_eq!(response.status, status, "{response:?}");
    assert_eq!(response.header("retry-after"), Some("1"), "{response:?}");
    assert_eq!(response.json().get("id"), None, "{response:?}");
}

#[tokio::test]
async fn caller_over_its_share_of_requests_gets_429() {
    let (server, _gate) = server(Http::new().max_pending_requests(8));
    let serving = TestServer::start(&server).await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(start(GREEDY, &serving, &call("wait", json!({}))).await);
    }
    settle(&serving).await;
    assert_refused(&send_from(GREEDY, &serving, call("wait", json!({}))).await, 429);
    for _ in 0..4 {
        waiting.push(start(OTHER, &serving, &call("wait", json!({}))).await);
    }
    // All are taken now.
    let mut refused = None;
    for _ in 0..50 {
        refused = Some(send_from([127, 0, 0, 3], &serving, call("echo", json!({}))).await);
        if refused.as_ref().is_some_and(|response| response.status != 200) {
            break;
        }
    }
    assert_refused(&refused.unwrap(), 503);
    drop(waiting);
    // A call that waits for nothing more makes room.
    for _ in 0..200 {
        if send_from(GREEDY, &serving, call("echo", json!({}))).await.status == 200 {
            return;
        }
    }
    panic!("nothing was released");
}

#[tokio::test]
async fn handler_that_is_done_at_once_needs_no_permit() {
    let (server, gate) = server(Http::new().max_concurrent_handlers(2).caller_share_percent(100));
    let serving = TestServer::start(&server).await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(start(GREEDY, &serving, &call("wait", json!({}))).await);
    }
    settle(&serving).await;
    assert_eq!(send_from(OTHER, &serving, call("echo", json!({}))).await.status, 200);
    gate.close();
    for mut connection in waiting {
        let response = connection.read_head().await.unwrap();
        assert_eq!(response.status, 200);
    }
}

#[tokio::test]
async fn open_question_holds_no_permit() {
    let (server, gate) = server(Http::new().max_concurrent_handlers(1).caller_share_percent(100));
    let serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", json!({"roots": {}})).await;
    let mut asking = serving.connect().await;
    let ask = request(1, "tools/call", json!({"name": "ask", "arguments": {}}));
    asking.send(Request::post(&ask).session(&session)).await;
    let question = loop {
        let message = asking.next_message().await.unwrap();
        if message["method"] == "roots/list" {
            break message;
        }
    };
    // The only permit is free while the client answers.
    let mut waiting = start(OTHER, &serving, &call("wait", json!({}))).await;
    // It is pending after its first poll, so that it needs the permit.
    settle(&serving).await;
    gate.add_permits(1);
    let response = tokio::time::timeout(Duration::from_secs(30), waiting.read_head()).await;
    assert_eq!(response.unwrap().unwrap().status, 200);
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}});
    assert_eq!(serving.send(Request::post(&answer).session(&session)).await.status, 202);
    let result = asking.next_message().await.unwrap();
    assert_eq!(result["result"]["content"][0]["text"], "0 roots", "{result}");
}

#[tokio::test]
async fn caller_has_a_share_of_sessions_and_streams() {
    let (server, _gate) = server(Http::new().max_sessions(4).max_streams(2));
    let serving = TestServer::start(&server).await;
    let open = || Request::post(&initialize_request("2025-11-25", json!({})));
    let first = send_from(GREEDY, &serving, open()).await;
    assert_eq!(send_from(GREEDY, &serving, open()).await.status, 200);
    assert_refused(&send_from(GREEDY, &serving, open()).await, 429);
    let other = send_from(OTHER, &serving, open()).await;
    let id = |response: &Response| response.header("mcp-session-id").unwrap().to_owned();
    let mut stream = Connection::connect_from(GREEDY, serving.address).await;
    assert_eq!(stream.send(Request::get_stream(&id(&first))).await.status, 200);
    assert_refused(&send_from(GREEDY, &serving, Request::get_stream(&id(&first))).await, 429);
    let mut second = Connection::connect_from(OTHER, serving.address).await;
    assert_eq!(second.send(Request::get_stream(&id(&other))).await.status, 200);
}

#[tokio::test]
async fn waiting_requests_have_a_budget_of_bytes() {
    let (server, _gate) = server(Http::new().max_held_bytes(8 << 20));
    let serving = TestServer::start(&server).await;
    let large = call("wait", json!({"text": "x".repeat(1 << 20)}));
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(start(GREEDY, &serving, &large).await);
    }
    settle(&serving).await;
    assert_refused(&send_from(GREEDY, &serving, large.clone()).await, 429);
    assert_eq!(send_from(GREEDY, &serving, call("echo", json!({}))).await.status, 200);
    waiting.push(start(OTHER, &serving, &large).await);
    settle(&serving).await;
}

#[tokio::test]
async fn session_keeps_little_of_a_large_initialize() {
    let (server, _gate) = server(Http::new().max_held_bytes(16 << 20));
    let serving = TestServer::start(&server).await;
    let mut large = initialize_request("2025-11-25", json!({}));
    large["params"]["_meta"] = json!({"example.com/text": "x".repeat(3 << 20)});
    // What the session does not need is not kept, so many of them fit.
    for _ in 0..20 {
        assert_eq!(serving.send(Request::post(&large)).await.status, 200);
    }
    let mut long = initialize_request("2025-11-25", json!({}));
    long["params"]["clientInfo"]["title"] = "x".repeat(17 << 10).into();
    let refused = serving.send(Request::post(&long)).await;
    assert_eq!(refused.error_code(), Some(-32602), "{refused:?}");
    assert!(refused.body.contains("16384"), "{refused:?}");
}

#[tokio::test]
async fn subscriptions_have_a_limit_of_bytes() {
    let template = Resource::template("note://{name}").handler(|| async { "text" });
    let (server, _gate) = server(Http::new());
    let server = server.resource(template).max_subscription_bytes(16 << 10);
    let serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let mut statuses = Vec::new();
    for number in 0..4 {
        let uri = format!("note://{number}{}", "x".repeat(6 << 10));
        let subscribe = request(number, "resources/subscribe", json!({"uri": uri}));
        let response = serving.send(Request::post(&subscribe).session(&session)).await;
        statuses.push(response.json().get("error").is_none());
    }
    assert_eq!(statuses, [true, true, false, false]);
    let uris: Vec<_> = (0..4).map(|number| format!("note://{number}{}", "x".repeat(6 << 10))).collect();
    let listen =
        request(9, "subscriptions/listen", json!({"notifications": {"resourceSubscriptions": uris}}));
    let refused = serving.send(Request::stateless(listen)).await;
    assert_eq!(refused.error_code(), Some(-32600), "{refused:?}");
}

#[tokio::test]
async fn calls_of_clients_that_hung_up_are_bounded() {
    let (server, _gate) = server(Http::new().max_detached_requests(4));
    let serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    for id in 0..40 {
        let wait = request(id, "tools/call", json!({"name": "wait", "arguments": {}}));
        let connection = start(GREEDY, &serving, &Request::post(&wait).session(&session)).await;
        settle_once(&serving).await;
        drop(connection);
    }
    settle(&serving).await;
    // Only the share of the caller goes on: another request may use the ids of the others again.
    let mut in_use = 0;
    for id in 0..40 {
        let echo = request(id, "tools/call", json!({"name": "echo", "arguments": {}}));
        let response = serving.send(Request::post(&echo).session(&session)).await;
        in_use += usize::from(response.json().get("error").is_some());
    }
    assert!(in_use <= 2, "{in_use}");
}

async fn settle_once(serving: &TestServer) {
    assert_eq!(send_from([127, 0, 0, 9], serving, call("echo", json!({}))).await.status, 200);
}

#[tokio::test]
async fn caller_has_a_share_of_connections() {
    let (server, _gate) = server(Http::new().max_connections(8));
    let serving = TestServer::start(&server).await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(Connection::connect_from(GREEDY, serving.address).await);
    }
    // The fifth is disconnected at once.
    assert!(Connection::connect_from(GREEDY, serving.address).await.read_head().await.is_none());
    assert_eq!(send_from(OTHER, &serving, call("echo", json!({}))).await.status, 200);
    drop(silent);
}

#[cfg(unix)]
#[tokio::test]
async fn process_with_few_file_descriptors_serves_other_callers() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let mut child = Command::new("/bin/sh")
        .args(["-c", "ulimit -n 64; exec \"$0\" --http", env!("CARGO_BIN_EXE_fixture")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().parse().unwrap();
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(Connection::connect_from(GREEDY, address).await);
    }
    let list = Request::stateless(request(1, "tools/list", json!({})));
    let response = Connection::connect_from(OTHER, address).await.send_and_read(list).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(response.status, 200, "{response:?}");
}

#[tokio::test(start_paused = true)]
async fn call_without_progress_ends_after_the_timeout() {
    let stuck = Tool::new("stuck").handler(|| async {
        std::future::pending::<()>().await;
        "never"
    });
    let busy = Tool::new("busy").handler(|cx: Context| async move {
        for step in 1..=5 {
            tokio::time::sleep(Duration::from_secs(400)).await;
            cx.progress(step).await;
        }
        "done"
    });
    let patient = Tool::new("patient").no_timeout().handler(|| async {
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        "done"
    });
    let server = Server::new("s", "1").tool(stuck).tool(busy).tool(patient);
    for revision in [Revision::V2025_11_25, Revision::NEWEST] {
        let long = Duration::from_secs(7_200);
        let client =
            Client::in_process(&server).revision(revision).timeout(long).total_timeout(long).await.unwrap();
        let started = tokio::time::Instant::now();
        let error = client.call::<String>("stuck", json!({})).await.unwrap_err();
        assert!(error.to_string().contains("no progress for 600s"), "{error}");
        assert_eq!(started.elapsed().as_secs(), 600);
        assert_eq!(client.call::<String>("busy", json!({})).await.unwrap(), "done");
        assert_eq!(client.call::<String>("patient", json!({})).await.unwrap(), "done");
    }
}

/// The resident memory of this process in bytes.
#[cfg(target_os = "linux")]
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() << 10
}

/// The bound that SECURITY.md documents: twice the budget, and 64 KiB for each connection.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_of_a_thousand_slow_and_dead_peers_is_bounded() {
    use tokio::io::AsyncWriteExt;

    const BUDGET: usize = 32 << 20;
    const PEERS: usize = 1_000;
    let (server, _gate) = server(Http::new().max_held_bytes(BUDGET));
    let serving = TestServer::start(&server).await;
    settle(&serving).await;
    let before = resident_bytes();
    let mut peers = Vec::new();
    let half = vec![b' '; 1 << 20];
    for number in 0..PEERS {
        let source = [127, 0, 1, u8::try_from(number % 50).unwrap() + 1];
        let mut peer = Connection::connect_from(source, serving.address).await;
        match number % 3 {
            // A body that never ends, of a peer that does not read.
            0 => {
                let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                            Accept: application/json, text/event-stream\r\nContent-Length: 4000000\r\n\r\n";
                peer.socket().write_all(head.as_bytes()).await.unwrap();
                let _ = tokio::time::timeout(Duration::from_secs(5), peer.socket().write_all(&half)).await;
            }
            // A call that waits.
            1 => {
                let large = call("wait", json!({"text": "x".repeat(256 << 10)}));
                let _ =
                    tokio::time::timeout(Duration::from_secs(5), peer.socket().write_all(&large.to_bytes()))
                        .await;
            }
            // A session that is never used.
            _ => {
                let open = Request::post(&initialize_request("2025-11-25", json!({})));
                let _ =
                    tokio::time::timeout(Duration::from_secs(5), peer.socket().write_all(&open.to_bytes()))
                        .await;
            }
        }
        peers.push(peer);
    }
    // Let the server handle what has arrived. A caller of its own is still served, or told to come back.
    for _ in 0..20 {
        let status = send_from([127, 0, 2, 1], &serving, call("echo", json!({}))).await.status;
        assert!([200, 503].contains(&status), "{status}");
    }
    let grown = resident_bytes().saturating_sub(before);
    let bound = 2 * BUDGET + PEERS * (64 << 10);
    assert!(grown < bound, "{} MiB, the bound is {} MiB", grown >> 20, bound >> 20);
    drop(peers);
}
