//! HTTP+SSE, the transport of 2024-11-05.

use std::collections::HashSet;

use serde_json::{Value, json};
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Connection, Request, TestServer, initialize_request, open_session};

use super::{call, feature_server, send, stream, with_http, within};

fn connect() -> Request {
    Request::new("GET").path("/sse").header("Accept", "text/event-stream")
}

fn post(endpoint: &str, message: &Value) -> Request {
    Request::new("POST").path(endpoint).header("Content-Type", "application/json").body(message.to_string())
}

/// Connects and returns the endpoint to post to.
async fn connected(serving: &TestServer) -> (Connection, String) {
    let mut connection = stream(serving, connect()).await;
    let first = within(connection.next_event()).await.unwrap();
    assert_eq!(first.event.as_deref(), Some("endpoint"), "{first:?}");
    (connection, first.data)
}

#[tokio::test]
async fn stream_names_its_endpoint_then_carries_every_message() {
    // HSSE-001, HSSE-002; HSSE-004: a POST is only acknowledged.
    let serving = TestServer::start(&with_http(Http::new().http_sse())).await;
    let (mut connection, endpoint) = connected(&serving).await;
    assert!(endpoint.starts_with('/'), "{endpoint}");
    let requests =
        [initialize_request("2024-11-05", json!({})), call(1, "echo"), call(2, "steps"), call(3, "hides")];
    let mut heard = Vec::new();
    for request in &requests {
        let accepted = send(&serving, post(&endpoint, request)).await;
        assert_eq!(accepted.status, 202, "{accepted:?}");
        assert!(!accepted.body.contains("jsonrpc"), "{accepted:?}");
        loop {
            let event = within(connection.next_event()).await.unwrap();
            assert_eq!(event.event.as_deref(), Some("message"), "{event:?}");
            let message = event.json();
            let is_answer = message["id"] == request["id"];
            heard.push(message);
            if is_answer {
                break;
            }
        }
    }
    assert_eq!(heard[0]["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(heard[1]["result"]["content"][0]["text"], "hello");
    assert!(heard.iter().any(|message| message["method"] == "notifications/progress"), "{heard:?}");
}

#[tokio::test]
async fn endpoint_leads_only_to_its_own_stream() {
    // HSSE-014
    let serving = TestServer::start(&with_http(Http::new().http_sse())).await;
    let (mut first, to_first) = connected(&serving).await;
    let (mut second, to_second) = connected(&serving).await;
    let ids: HashSet<_> = [&to_first, &to_second].into_iter().collect();
    assert_eq!(ids.len(), 2);
    for (endpoint, name) in [(&to_first, "first"), (&to_second, "second")] {
        let mut opening = initialize_request("2024-11-05", json!({}));
        opening["id"] = json!(name);
        assert_eq!(send(&serving, post(endpoint, &opening)).await.status, 202);
    }
    assert_eq!(within(first.next_message()).await.unwrap()["id"], "first");
    assert_eq!(within(second.next_message()).await.unwrap()["id"], "second");
    let guess = to_first.replace(|letter: char| letter.is_ascii_digit(), "x");
    for unknown in ["/messages", "/messages?sessionId=", "/messages?sessionId=1", &format!("{guess}x")] {
        let refused = send(&serving, post(unknown, &call(1, "echo"))).await;
        assert!((400..500).contains(&refused.status), "{unknown} {refused:?}");
    }
    // A closed stream is unknown, too.
    drop(first);
    let gone = async { while send(&serving, post(&to_first, &call(1, "echo"))).await.status != 404 {} };
    within(gone).await;
}

#[tokio::test]
async fn foreign_origin_reaches_neither_stream_nor_endpoint() {
    // HSSE-005
    let serving = TestServer::start(&with_http(Http::new().http_sse())).await;
    let (_connection, endpoint) = connected(&serving).await;
    let message = initialize_request("2024-11-05", json!({}));
    for origin in ["https://evil.example", "http://localhost.evil.example", "null"] {
        for request in [connect(), post(&endpoint, &message)] {
            let refused = send(&serving, request.header("Origin", origin)).await;
            assert_eq!(refused.status, 403, "{refused:?}");
        }
    }
    for request in [post(&endpoint, &message), post(&endpoint, &message).header("Origin", "http://localhost")]
    {
        assert_eq!(send(&serving, request).await.status, 202);
    }
}

#[tokio::test]
async fn http_sse_is_served_if_enabled() {
    // HSSE-007; HSSE-012: only if enabled.
    let both = TestServer::start(&with_http(Http::new().http_sse())).await;
    let (_connection, endpoint) = connected(&both).await;
    assert_eq!(send(&both, post(&endpoint, &initialize_request("2024-11-05", json!({})))).await.status, 202);
    let session = open_session(&both, "2025-11-25", json!({})).await;
    assert_eq!(send(&both, Request::post(&call(1, "echo")).session(&session)).await.status, 200);
    assert_eq!(send(&both, Request::stateless(call(1, "echo"))).await.status, 200);

    let only = TestServer::start(&feature_server().server).await;
    assert_eq!(send(&only, connect()).await.status, 404);
    assert_eq!(send(&only, post(&endpoint, &call(1, "echo"))).await.status, 404);
}

#[tokio::test]
async fn bare_discover_is_answered_before_and_after_the_handshake() {
    let serving = TestServer::start(&with_http(Http::new().http_sse())).await;
    let discover = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method});
    let full = send(&serving, Request::stateless(discover("server/discover"))).await.json();
    assert!(full["result"]["supportedVersions"].is_array(), "{full}");
    let (mut connection, endpoint) = connected(&serving).await;
    for opens in [false, true] {
        if opens {
            send(&serving, post(&endpoint, &initialize_request("2024-11-05", json!({})))).await;
            assert!(within(connection.next_message()).await.unwrap()["result"].is_object());
        }
        assert_eq!(send(&serving, post(&endpoint, &discover("mcp/discover"))).await.status, 202);
        assert_eq!(within(connection.next_message()).await.unwrap()["result"], full["result"]);
    }
}

#[tokio::test]
async fn bare_discover_is_answered_without_sessions() {
    let serving = TestServer::start(&with_http(Http::new().sessions(false))).await;
    let discover = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method});
    let full = send(&serving, Request::stateless(discover("server/discover"))).await.json();
    let bare = send(&serving, Request::post(&discover("mcp/discover"))).await;
    assert_eq!((bare.status, bare.header("mcp-session-id")), (200, None));
    assert!(full["result"]["supportedVersions"].is_array(), "{full}");
    assert_eq!(bare.json()["result"], full["result"]);
}
